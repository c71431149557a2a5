import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { LOCAL_NAMES, localCertificate } from '../../src/admission/localca.ts';
import { certificateFiles, leafOf, type Pair } from '../../src/admission/tls.ts';
import { type Running, reviewOf, send, serve } from './serving.ts';

const DAY = 24 * 3_600_000;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waywarden-tls-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A pair of another CA, with that CA. */
async function another(name: string): Promise<{ readonly pair: Pair; readonly ca: string }> {
  const { pair, caFile = '' } = await localCertificate(join(folder, name));
  return { pair, ca: await readFile(caFile, 'utf8') };
}

/** The certificate that a new handshake gets. */
function served(port: number, ca: string, servername = 'localhost'): Promise<X509Certificate> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca, servername }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) reject(new Error('no certificate'));
      else resolve(certificate);
    });
    socket.once('error', reject);
  });
}

async function eventually(what: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    if (await what()) return;
    await sleep(20);
  }
  throw new Error('it did not happen within two seconds');
}

async function written(where: string, { cert, key }: Pair): Promise<readonly [string, string]> {
  await mkdir(where, { recursive: true });
  await writeFile(join(where, 'tls.crt'), cert);
  await writeFile(join(where, 'tls.key'), key);
  return [join(where, 'tls.crt'), join(where, 'tls.key')];
}

test('without files a CA and a leaf are made: EC P-256, sha256, all names, within the life of the CA, keys private', async () => {
  const made = join(folder, 'made');
  const { pair, caFile = '' } = await localCertificate(made);
  const ca = new X509Certificate(await readFile(caFile));
  const leaf = new X509Certificate(pair.cert);
  expect(leaf.publicKey.asymmetricKeyType).toBe('ec');
  expect(leaf.publicKey.asymmetricKeyDetails?.namedCurve).toBe('prime256v1');
  expect(ca.ca).toBe(true);
  expect(leaf.ca).toBe(false);
  expect(leaf.verify(ca.publicKey)).toBe(true);
  for (const name of LOCAL_NAMES)
    expect(leaf.subjectAltName, name).toContain(name === '::1' ? '0:0:0:0:0:0:0:1' : name);
  expect(leaf.validFromDate >= ca.validFromDate).toBe(true);
  expect(leaf.validToDate <= ca.validToDate).toBe(true);
  for (const file of ['ca.key', 'tls.key']) expect((await stat(join(made, file))).mode & 0o777).toBe(0o600);
  expect((await readdir(made)).sort()).toEqual(['ca.crt', 'ca.key', 'tls.crt', 'tls.key']);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { encoding: 'utf8' });
  expect(openssl('verify', '-purpose', 'sslserver', '-CAfile', caFile, join(made, 'tls.crt'))).toContain(': OK');
  expect(openssl('x509', '-in', join(made, 'tls.crt'), '-noout', '-text')).toContain('ecdsa-with-SHA256');
});

test('they are used again while they are valid, and made private again', async () => {
  const again = join(folder, 'again');
  const first = await localCertificate(again);
  await chmod(join(again, 'tls.key'), 0o644);
  const second = await localCertificate(again);
  expect(second.pair).toEqual(first.pair);
  expect((await stat(join(again, 'tls.key'))).mode & 0o777).toBe(0o600);
});

test('a leaf about to expire is remade by the same CA, and the CA only when it would end before a new leaf', async () => {
  const old = join(folder, 'old');
  const first = await localCertificate(old);
  const ca = await readFile(join(old, 'ca.crt'), 'utf8');
  const in340Days = () => Date.now() + 340 * DAY;
  const second = await localCertificate(old, { now: in340Days });
  expect(second.pair.cert).not.toBe(first.pair.cert);
  expect(await readFile(join(old, 'ca.crt'), 'utf8')).toBe(ca);
  const third = await localCertificate(old, { now: () => Date.now() + 6 * 365 * DAY });
  expect(await readFile(join(old, 'ca.crt'), 'utf8')).not.toBe(ca);
  const remade = new X509Certificate(await readFile(join(old, 'ca.crt')));
  expect(new X509Certificate(third.pair.cert).verify(remade.publicKey)).toBe(true);
});

test('files that do not fit together, lack a name or are no PEM are remade', async () => {
  const broken = join(folder, 'broken');
  const first = await localCertificate(broken);
  await writeFile(join(broken, 'tls.key'), (await another('stranger')).pair.key);
  const second = await localCertificate(broken);
  expect(second.pair.cert).not.toBe(first.pair.cert);
  await writeFile(join(broken, 'ca.crt'), 'nonsense');
  const third = await localCertificate(broken);
  expect(leafOf(third.pair).verify(new X509Certificate(await readFile(join(broken, 'ca.crt'))).publicKey)).toBe(true);
  const fourth = await localCertificate(broken, { names: ['guard.example.test', '10.1.2.3'] });
  expect(leafOf(fourth.pair).checkHost('guard.example.test')).toBe('guard.example.test');
});

test('several that start at once in one folder end with one CA', async () => {
  const shared = join(folder, 'shared');
  const sources = await Promise.all([1, 2, 3, 4].map(() => localCertificate(shared)));
  expect(new Set(sources.map(({ pair }) => pair.cert)).size).toBe(1);
});

test('files that are no pair stop the start, with a reason', async () => {
  const one = await another('one');
  const two = await another('two');
  const [cert, key] = await written(join(folder, 'mismatch'), { cert: one.pair.cert, key: two.pair.key });
  await expect(certificateFiles(cert, key)).rejects.toThrow('the private key belongs to another certificate');
  await writeFile(key, 'no key');
  await expect(certificateFiles(cert, key)).rejects.toThrow('the private key is not PEM');
  await expect(certificateFiles(join(folder, 'nowhere'), key)).rejects.toThrow('ENOENT');
});

async function serveFiles(files: readonly [string, string]): Promise<Running> {
  return serve({ certificate: await certificateFiles(files[0], files[1], { every: 20 }) });
}

test('new files are served to new handshakes; connections that stand are kept', async () => {
  const before = await another('before');
  const after = await another('after');
  const files = await written(join(folder, 'plain'), before.pair);
  await using guard = await serveFiles(files);
  const kept = await new Promise<TLSSocket>((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: guard.port, ca: before.ca }, () => resolve(socket));
    socket.once('error', reject);
  });
  await written(join(folder, 'plain'), after.pair);
  await eventually(async () =>
    served(guard.port, after.ca).then(
      () => true,
      () => false,
    ),
  );
  expect((await served(guard.port, after.ca)).fingerprint256).toBe(leafOf(after.pair).fingerprint256);
  const answer = new Promise<string>((resolve, reject) => {
    kept.once('data', data => resolve(data.toString()));
    kept.once('close', () => reject(new Error('closed')));
  });
  const body = JSON.stringify(reviewOf({ uid: 'kept' }));
  kept.write(
    `POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  expect(await answer).toContain('"uid":"kept"');
  kept.destroy();
  const { text } = await guard.health('/metrics');
  expect(text).toContain('waywarden_reloads_total{what="certificate",result="ok"} 1');
});

test('a half-written or mismatched pair keeps the old one, says so once, and is taken when it is whole', async () => {
  const before = await another('half-before');
  const after = await another('half-after');
  const [certFile, keyFile] = await written(join(folder, 'half'), before.pair);
  await using guard = await serveFiles([certFile, keyFile]);
  const broken: readonly (readonly [string, string])[] = [
    [certFile, after.pair.cert.slice(0, 200)],
    [certFile, ''],
    [certFile, after.pair.cert],
  ];
  const complaints = () => guard.lines.filter(({ msg }) => msg === 'the old certificate is kept');
  for (const [file, content] of broken) {
    const already = complaints().length;
    await writeFile(file, content);
    if (content !== '') await eventually(async () => complaints().length > already);
    expect((await served(guard.port, before.ca)).fingerprint256).toBe(leafOf(before.pair).fingerprint256);
  }
  const said = complaints().length;
  await sleep(200);
  expect(complaints().length).toBe(said);
  expect(complaints().at(-1)?.['reason']).toContain('belongs to another certificate');
  await rm(keyFile);
  await eventually(async () => complaints().length > said);
  expect((await served(guard.port, before.ca)).fingerprint256).toBe(leafOf(before.pair).fingerprint256);
  await writeFile(keyFile, after.pair.key);
  await eventually(async () =>
    served(guard.port, after.ca).then(
      () => true,
      () => false,
    ),
  );
});

test('a symlink that is swapped as the kubelet swaps it is followed', async () => {
  const before = await another('swap-before');
  const after = await another('swap-after');
  const mount = join(folder, 'mount');
  await written(join(mount, '..2026_01'), before.pair);
  await symlink('..2026_01', join(mount, '..data'));
  for (const file of ['tls.crt', 'tls.key']) await symlink(join('..data', file), join(mount, file));
  await using guard = await serveFiles([join(mount, 'tls.crt'), join(mount, 'tls.key')]);
  expect((await served(guard.port, before.ca)).fingerprint256).toBe(leafOf(before.pair).fingerprint256);
  // AtomicWriter: a new folder, a new link, a rename over the old link, and the old folder goes
  await written(join(mount, '..2026_02'), after.pair);
  await symlink('..2026_02', join(mount, '..data_tmp'));
  await rename(join(mount, '..data_tmp'), join(mount, '..data'));
  await rm(join(mount, '..2026_01'), { recursive: true });
  await eventually(async () =>
    served(guard.port, after.ca).then(
      () => true,
      () => false,
    ),
  );
  expect(guard.lines.filter(({ msg }) => msg === 'the old certificate is kept')).toEqual([]);
});

test('reviews go on without a fault while certificates change', async () => {
  const pairs = [await another('turn-1'), await another('turn-2')] as const;
  const where = join(folder, 'turns');
  await using guard = await serveFiles(await written(where, pairs[0].pair));
  const ca = pairs.map(pair => pair.ca).join('\n');
  const body = JSON.stringify(reviewOf());
  let going = true;
  const asking = (async () => {
    let answered = 0;
    while (going) {
      const answer = await send(guard.port, '/validate', { ca, body, headers: { 'content-type': 'application/json' } });
      expect(answer.status).toBe(200);
      answered += 1;
    }
    return answered;
  })();
  for (let turn = 1; turn <= 6; turn++) {
    await written(where, pairs[turn % 2 === 0 ? 0 : 1].pair);
    await sleep(60);
  }
  going = false;
  expect(await asking).toBeGreaterThan(10);
});

test('the time until the certificate expires is a figure', async () => {
  await using guard = await serve();
  const { text } = await guard.health('/metrics');
  const seconds = Number(/^waywarden_certificate_expiry_seconds (\d+)$/m.exec(text)?.[1]);
  expect(seconds).toBeGreaterThan(364 * 24 * 3600);
  expect(seconds).toBeLessThanOrEqual(365 * 24 * 3600);
});

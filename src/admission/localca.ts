// A CA and a certificate of our own, for runs that nobody gave one. They are kept in a folder and used again while they are valid.
import { randomBytes, X509Certificate } from 'node:crypto';
import { chmod, mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CertificateSource, expiryOf, leafOf, type Pair } from './tls.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const CA_LIFE = 5 * 365 * DAY;
const LEAF_LIFE = 365 * DAY;
/** A leaf is remade when less than this is left of it. */
const RENEWED_AT = 30 * DAY;

/** Where a local run and the Service of a default installation are found. */
export const LOCAL_NAMES: readonly string[] = [
  'localhost',
  '127.0.0.1',
  '::1',
  'waywarden',
  'waywarden.waywarden',
  'waywarden.waywarden.svc',
  'waywarden.waywarden.svc.cluster.local',
];

export interface LocalOptions {
  /** DNS names and IP addresses. */
  readonly names?: readonly string[];
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

const FILES = { caCert: 'ca.crt', caKey: 'ca.key', cert: 'tls.crt', key: 'tls.key' } as const;

/** The local CA and its leaf in `folder`: made, or used again. */
export async function localCertificate(folder: string, options: LocalOptions = {}): Promise<CertificateSource> {
  const { names = LOCAL_NAMES, now = Date.now } = options;
  let pair = await ensured(folder, names, now());
  return {
    pair,
    caFile: join(folder, FILES.caCert),
    follow(found) {
      const timer = setInterval(() => {
        if (!expiring(leafOf(pair), now())) return;
        ensured(folder, names, now()).then(
          next => {
            pair = next;
            found({ pair });
          },
          (error: unknown) => found({ broken: `the local certificate cannot be renewed: ${String(error)}` }),
        );
      }, HOUR);
      timer.unref();
      return () => clearInterval(timer);
    },
  };
}

function expiring(certificate: X509Certificate, now: number): boolean {
  return Date.parse(certificate.validFrom) > now || expiryOf(certificate).getTime() - now < RENEWED_AT;
}

async function ensured(folder: string, names: readonly string[], now: number): Promise<Pair> {
  await mkdir(folder, { recursive: true });
  return alone(join(folder, '.lock'), async () => {
    const ca = await kept(folder, FILES.caCert, FILES.caKey);
    const leaf = await kept(folder, FILES.cert, FILES.key);
    if (ca !== undefined && leaf !== undefined && usable(ca, leaf, names, now)) return leaf;
    // a CA that would end before a new leaf is remade with it
    const lasting = ca !== undefined && expiryOf(new X509Certificate(ca.cert)).getTime() - now > LEAF_LIFE;
    const issuer = ca !== undefined && lasting ? ca : await makeCa(now);
    const made = await makeLeaf(issuer, names, now);
    if (issuer !== ca) await keep(folder, FILES.caCert, FILES.caKey, issuer);
    await keep(folder, FILES.cert, FILES.key, made);
    return made;
  });
}

function usable(ca: Pair, leaf: Pair, names: readonly string[], now: number): boolean {
  const authority = new X509Certificate(ca.cert);
  const certificate = leafOf(leaf);
  return (
    certificate.verify(authority.publicKey) &&
    expiryOf(certificate) <= expiryOf(authority) &&
    !expiring(certificate, now) &&
    names.every(name => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined)
  );
}

/** A pair of files; undefined where there is none that fits together. Private keys are made private again. */
async function kept(folder: string, certFile: string, keyFile: string): Promise<Pair | undefined> {
  try {
    const pair = {
      cert: await readFile(join(folder, certFile), 'utf8'),
      key: await readFile(join(folder, keyFile), 'utf8'),
    };
    leafOf(pair);
    await chmod(join(folder, keyFile), 0o600);
    return pair;
  } catch {
    return undefined;
  }
}

async function keep(folder: string, certFile: string, keyFile: string, { cert, key }: Pair): Promise<void> {
  await replace(join(folder, keyFile), key, 0o600);
  await replace(join(folder, certFile), cert, 0o644);
}

async function replace(file: string, content: string, mode: number): Promise<void> {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  await writeFile(draft, content, { mode });
  await rename(draft, file);
}

/** One process at a time: two that start together would mix their files. */
async function alone<T>(lock: string, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      await (await open(lock, 'wx')).close();
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const since = await stat(lock).then(
        ({ mtimeMs }) => mtimeMs,
        () => Date.now(),
      );
      // left behind by a process that was killed
      if (Date.now() - since > 10_000) await rm(lock, { force: true });
      await sleep(20);
    }
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

const EC = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;

/** selfsigned takes a while to load, and a run with files of its own never needs it. */
async function generate(...args: Parameters<typeof import('selfsigned')['generate']>): Promise<Pair> {
  const selfsigned = await import('selfsigned');
  const made = await selfsigned.generate(...args);
  return { cert: made.cert, key: made.private };
}

function makeCa(now: number): Promise<Pair> {
  // a name of its own, so that a CA of yesterday in somebody's trust store is not taken for this one
  const name = `waywarden local CA ${randomBytes(4).toString('hex')}`;
  return generate([{ name: 'commonName', value: name }], {
    ...EC,
    notBeforeDate: new Date(now - HOUR),
    notAfterDate: new Date(now + CA_LIFE),
    extensions: [
      { name: 'basicConstraints', cA: true, pathLenConstraint: 0, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
}

function makeLeaf(ca: Pair, names: readonly string[], now: number): Promise<Pair> {
  const authority = new X509Certificate(ca.cert);
  return generate([{ name: 'commonName', value: 'waywarden' }], {
    ...EC,
    ca,
    notBeforeDate: new Date(Math.max(now - HOUR, Date.parse(authority.validFrom))),
    notAfterDate: new Date(Math.min(now + LEAF_LIFE, expiryOf(authority).getTime())),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: names.map(name => (isIP(name) === 0 ? { type: 2, value: name } : { type: 7, ip: name })),
      },
    ],
  });
}

import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { generate } from 'selfsigned';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { caFacts } from '../../src/mesh/cacerts.ts';
import { parseCertificates } from '../../src/mesh/certificates.ts';
import { isSignedBy, maySignLists, parseRevocationList } from '../../src/mesh/crl.ts';
import { elementAt, elementsOf, objectIdentifier } from '../../src/mesh/der.ts';
import { project } from '../../src/mesh/kinds.ts';

type Files = Readonly<Record<string, string>>;

function filesOf(name: string): Files {
  const source = readFileSync(new URL(`../../policies/ca-bundle/cases/${name}.yaml`, import.meta.url), 'utf8');
  return (parse(source) as { readonly input: { readonly stringData: Files } }).input.stringData;
}

const complete = filesOf('crl-of-every-ca');
const der = (pem: string) => Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64');

describe('the facts of a plugged-in CA', () => {
  test('are the chain from the signing certificate to the root, and nothing wrong', () => {
    const facts = caFacts(complete);
    expect(facts).toMatchObject({ layout: 'istio', missing: [] });
    expect(facts?.chain.map(({ subject }) => subject)).toEqual(['Example Intermediate', 'Example Root']);
    expect(facts?.fault).toBeUndefined();
    expect(facts?.crlFault).toBeUndefined();
  });
  test('do not depend on the order of the chain, or on comments around the blocks', () => {
    const chain = complete['cert-chain.pem'] ?? '';
    const [first = '', second = ''] = chain.split(/(?<=-----END CERTIFICATE-----)\n/);
    const turned = { ...complete, 'cert-chain.pem': `# the root\n${second}\n# and the other\n${first}\n` };
    expect(caFacts(turned)).toEqual(caFacts(complete));
  });
  test('tell a key that begins with parameters', () => {
    const key = `-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n${complete['ca-key.pem']}`;
    expect(caFacts({ ...complete, 'ca-key.pem': key })?.fault).toMatch(/begins with EC PARAMETERS/);
  });
  test('tell a list that somebody changed', () => {
    const lists = complete['ca-crl.pem'] ?? '';
    const [block = ''] = lists.split(/(?<=-----END X509 CRL-----)\n/);
    const bytes = Buffer.from(der(block));
    bytes[40] = (bytes[40] ?? 0) ^ 1;
    const changed = `-----BEGIN X509 CRL-----\n${bytes.toString('base64')}\n-----END X509 CRL-----\n`;
    expect(caFacts({ ...complete, 'ca-crl.pem': lists.replace(block, changed) })?.crlFault).toBeDefined();
  });
  test('hold no key, whichever way the Secret brings it', () => {
    const key = complete['ca-key.pem'] ?? '';
    const body = key.split('\n')[1] ?? '';
    expect(body.length).toBeGreaterThan(40);
    const data = Object.fromEntries(
      Object.entries(complete).map(([name, pem]) => [name, Buffer.from(pem).toString('base64')]),
    );
    const metadata = { name: 'cacerts', namespace: 'istio-system' };
    for (const object of [
      { metadata, data },
      { metadata, stringData: complete },
    ]) {
      const projected = JSON.stringify(project('Secret', 'istio-system', object));
      expect(projected).toContain('Example Root');
      expect(projected).not.toContain(body);
      expect(projected).not.toContain(Buffer.from(key).toString('base64').slice(0, 40));
    }
  });
  test('are nothing for Secrets of another name', () => {
    const projected = project('Secret', 'web', { metadata: { name: 'tls', namespace: 'web' }, stringData: complete });
    expect(projected).toMatchObject({ files: [] });
  });
  test('are total over every text', () => {
    const piece = fc.oneof(
      fc.string(),
      fc.constantFrom(...Object.values(complete)),
      fc.constant('-----BEGIN CERTIFICATE-----'),
    );
    const file = fc.array(piece, { maxLength: 4 }).map(parts => parts.join('\n'));
    const name = fc.constantFrom(
      'ca-cert.pem',
      'ca-key.pem',
      'root-cert.pem',
      'cert-chain.pem',
      'ca-crl.pem',
      'tls.crt',
      'tls.key',
      'ca.crt',
    );
    fc.assert(
      fc.property(fc.dictionary(name, file), files => void caFacts(files)),
      { numRuns: 300 },
    );
  });
});

describe('DER', () => {
  test('names object identifiers', () => {
    const element = elementAt(Buffer.from('0603551d0f', 'hex'));
    expect(element && objectIdentifier(element)).toBe('2.5.29.15');
    const long = elementAt(Buffer.from('06092a864886f70d01010b', 'hex'));
    expect(long && objectIdentifier(long)).toBe('1.2.840.113549.1.1.11');
  });
  test.each(['', '30', '3080', '30ff', '3005aa', '1f0100', '308500000000ff'])('%s is none', hex =>
    expect(elementAt(Buffer.from(hex, 'hex'))).toBeUndefined(),
  );
  test('is total over every sequence of bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), bytes => {
        const buffer = Buffer.from(bytes);
        elementsOf(buffer);
        parseRevocationList(buffer);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('a revocation list', () => {
  const [list] = (complete['ca-crl.pem'] ?? '')
    .split(/(?<=-----END X509 CRL-----)\n/)
    .map(pem => parseRevocationList(der(pem)));
  const [intermediate, root] = parseCertificates(complete['cert-chain.pem'] ?? '') ?? [];
  test('is of the CA that signed it', () => {
    if (list === undefined || intermediate === undefined || root === undefined) return expect.fail('the case has them');
    expect(isSignedBy(list, intermediate)).toBe(true);
    expect(isSignedBy(list, root)).toBe(false);
    expect(isSignedBy({ ...list, digest: undefined }, intermediate)).toBeUndefined();
    expect(maySignLists(root)).toBe(true);
  });
  test('may not be signed by a CA without cRLSign', () => {
    const [without] = parseCertificates(filesOf('crl-without-crl-sign')['ca-cert.pem'] ?? '') ?? [];
    expect(without && maySignLists(without)).toBe(false);
  });
});

test('certificates that all sign each other are given up on in time', async () => {
  // one key and one name, many serial numbers: every certificate leads to every other, and none to the root
  const attributes = [{ name: 'commonName', value: 'Round and Round' }];
  const extensions = [{ name: 'basicConstraints' as const, cA: true }];
  const first = await generate(attributes, { keyType: 'ec', extensions });
  const keyPair = { publicKey: first.public, privateKey: first.private };
  const made = [first.cert];
  for (let index = 0; index < 14; index += 1)
    made.push((await generate(attributes, { keyType: 'ec', keyPair, extensions })).cert);
  expect(new Set(made).size).toBe(15);
  const started = performance.now();
  const facts = caFacts({
    'ca-cert.pem': first.cert,
    'ca-key.pem': first.private,
    'root-cert.pem': complete['root-cert.pem'] ?? '',
    'cert-chain.pem': made.join('\n'),
  });
  expect(performance.now() - started).toBeLessThan(3000);
  // the search was not finished, so that nothing is said of where the chain leads
  expect(facts?.fault).toBeUndefined();
});

// Certificates are made here: a CA, and leaves that it signs. EC P-256 and SHA-256, which every TLS library takes.
import { randomBytes, X509Certificate } from 'node:crypto';
import type { Pair } from '../tls.ts';

const EC = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;
const MINUTE = 60_000;

/** When a certificate is made, and for how long: both in milliseconds, `now` since 1970. */
export interface Term {
  readonly now: number;
  readonly life: number;
}

/** Clocks differ: a certificate holds from a little before it was made. */
function beginning({ now, life }: Term): number {
  return now - Math.min(5 * MINUTE, life / 10);
}

/** selfsigned takes a while to load, and whoever has files never needs it. */
async function generate(...args: Parameters<typeof import('selfsigned')['generate']>): Promise<Pair> {
  const selfsigned = await import('selfsigned');
  const { cert, private: key } = await selfsigned.generate(...args);
  return { cert: withNewline(cert), key: withNewline(key) };
}

const withNewline = (pem: string) => `${pem.replaceAll('\r\n', '\n').trimEnd()}\n`;

/** A new CA. Each has a name of its own: in a bundle of two, verifiers look for the issuer by its name first. */
export function issueAuthority(term: Term): Promise<Pair> {
  return generate([{ name: 'commonName', value: `waywarden CA ${randomBytes(4).toString('hex')}` }], {
    ...EC,
    notBeforeDate: new Date(beginning(term)),
    notAfterDate: new Date(term.now + term.life),
    extensions: [
      { name: 'basicConstraints', cA: true, pathLenConstraint: 0, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
}

/** A serving certificate for these DNS names. It never outlives its CA. */
export function issueLeaf(authority: Pair, names: readonly string[], term: Term): Promise<Pair> {
  const { validFromDate, validToDate } = new X509Certificate(authority.cert);
  return generate([{ name: 'commonName', value: 'waywarden' }], {
    ...EC,
    ca: authority,
    notBeforeDate: new Date(Math.max(beginning(term), validFromDate.getTime())),
    notAfterDate: new Date(Math.min(term.now + term.life, validToDate.getTime())),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      { name: 'subjectAltName', altNames: names.map(value => ({ type: 2 as const, value })) },
    ],
  });
}

// Certificate revocation lists (RFC 5280 section 5): who signed them.
import { verify, type X509Certificate } from 'node:crypto';
import {
  BIT_STRING,
  elementAt,
  elementsOf,
  OBJECT_IDENTIFIER,
  OCTET_STRING,
  objectIdentifier,
  SEQUENCE,
  wholeBits,
} from './der.ts';

export interface RevocationList {
  /** The signed part. */
  readonly signed: Buffer;
  readonly signature: Buffer;
  /** The digest, for {@link verify}; null for Ed25519, undefined for an algorithm that is not known here. */
  readonly digest: string | null | undefined;
}

const DIGESTS: Readonly<Record<string, string | null>> = {
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
  '1.3.101.112': null,
};

/** A list in DER; undefined where it is none. */
export function parseRevocationList(der: Buffer): RevocationList | undefined {
  const whole = elementAt(der);
  const parts = whole?.tag === SEQUENCE ? elementsOf(whole.content) : undefined;
  const [list, algorithm, bits] = parts ?? [];
  if (list?.tag !== SEQUENCE || algorithm?.tag !== SEQUENCE || bits?.tag !== BIT_STRING) return undefined;
  const [identifier] = elementsOf(algorithm.content) ?? [];
  const signature = wholeBits(bits);
  if (identifier?.tag !== OBJECT_IDENTIFIER || signature === undefined) return undefined;
  return { signed: list.whole, signature, digest: DIGESTS[objectIdentifier(identifier)] };
}

/** Whether this certificate's key signed the list; undefined where the algorithm is not known here. */
export function isSignedBy(
  { signed, signature, digest }: RevocationList,
  issuer: X509Certificate,
): boolean | undefined {
  if (digest === undefined) return undefined;
  try {
    return verify(digest, signed, issuer.publicKey, signature);
  } catch {
    return false;
  }
}

const KEY_USAGE = '2.5.29.15';
const CRL_SIGN = 6;

/** Whether a certificate's key usage lets it sign lists: true too where it has no such extension (crypto/x509 CheckSignatureFrom). */
export function maySignLists(certificate: X509Certificate): boolean {
  const whole = elementAt(certificate.raw);
  const [body] = whole === undefined ? [] : (elementsOf(whole.content) ?? []);
  // extensions stand in the element with the context tag 3
  const extensions = body === undefined ? undefined : elementsOf(body.content)?.find(({ tag }) => tag === 0xa3);
  const list = extensions === undefined ? undefined : elementAt(extensions.content);
  for (const extension of (list === undefined ? undefined : elementsOf(list.content)) ?? []) {
    const fields = elementsOf(extension.content) ?? [];
    const [identifier] = fields;
    const value = fields.find(({ tag }) => tag === OCTET_STRING);
    if (identifier === undefined || value === undefined || objectIdentifier(identifier) !== KEY_USAGE) continue;
    const bits = elementAt(value.content)?.content;
    // the first byte counts unused bits; bit 0 is the highest of the next
    return bits !== undefined && ((bits[1] ?? 0) & (0x80 >> CRL_SIGN)) !== 0;
  }
  return true;
}

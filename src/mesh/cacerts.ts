// The CA that somebody plugs into istiod: the Secret `cacerts`, read as istiod reads the files that it is mounted as
// (pilot/pkg/bootstrap/istio_ca.go, security/pkg/pki/util/keycertbundle.go). Only facts are kept, never a key.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isSignedBy, maySignLists, parseRevocationList } from './crl.ts';

/** The file names of the two layouts. */
export const ISTIO_FILES = ['ca-cert.pem', 'ca-key.pem', 'root-cert.pem', 'cert-chain.pem'] as const;
export const TLS_FILES = ['tls.crt', 'tls.key', 'ca.crt'] as const;
export const CRL_FILE = 'ca-crl.pem';
/** Marks a Secret that istiod made itself. */
export const GENERATED = 'istio-generated';

export interface CaFacts {
  /** The layout that istiod goes by: `tls` where there is a tls.crt. */
  readonly layout: 'istio' | 'tls';
  /** Files of that layout that are missing. */
  readonly missing: readonly string[];
  /** Why istiod refuses a complete set whatever the time, as a clause. */
  readonly fault?: string;
  /** The certificates from the signing one to the root, with their times in milliseconds since 1970. */
  readonly chain: readonly { readonly subject: string; readonly notBefore: number; readonly notAfter: number }[];
  /** What is wrong with the revocation lists, as a clause; undefined where there are none, or nothing is. */
  readonly crlFault?: string;
}

const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----([\s\S]*?)-----END \1-----/g;
/** More certificates than anybody has; a bundle with more is not searched any further. */
const ENOUGH = 64;
const DEPTH = 8;
/** Signatures to verify for one Secret at most: certificates that all sign each other would take for ever. */
const VERIFICATIONS = 400;

interface PemBlock {
  readonly type: string;
  readonly der: Buffer;
  readonly text: string;
}

function blocksOf(pem: string): readonly PemBlock[] {
  return [...pem.slice(0, 1_000_000).matchAll(BLOCK)].slice(0, ENOUGH).map(([text, type = '', body = '']) => ({
    type,
    der: Buffer.from(body, 'base64'),
    text,
  }));
}

function certificate({ der }: PemBlock): X509Certificate | undefined {
  try {
    return new X509Certificate(der);
  } catch {
    return undefined;
  }
}

/** As x509.CertPool.AppendCertsFromPEM: what is no certificate is left out. */
function pool(pem: string): readonly X509Certificate[] {
  return blocksOf(pem).flatMap(block => (block.type === 'CERTIFICATE' ? (certificate(block) ?? []) : []));
}

/** Verifications that are left. */
type Budget = { left: number };

function issued(issuer: X509Certificate, subject: X509Certificate, budget: Budget): boolean {
  if (budget.left <= 0) return false;
  try {
    if (!issuer.ca || !subject.checkIssued(issuer)) return false;
    budget.left -= 1;
    return subject.verify(issuer.publicKey);
  } catch {
    return false;
  }
}

const until = (certificates: readonly X509Certificate[]) =>
  Math.min(...certificates.map(one => Date.parse(one.validTo)));

/** The longest-lived way from a certificate to a root; undefined where there is none. */
function pathTo(
  roots: readonly X509Certificate[],
  intermediates: readonly X509Certificate[],
  way: readonly X509Certificate[],
  budget: Budget,
): readonly X509Certificate[] | undefined {
  const last = way.at(-1);
  if (last === undefined || way.length > DEPTH) return undefined;
  if (roots.some(root => root.raw.equals(last.raw))) return way;
  let best: readonly X509Certificate[] | undefined;
  const consider = (found: readonly X509Certificate[] | undefined) => {
    if (found !== undefined && (best === undefined || until(found) > until(best))) best = found;
  };
  for (const root of roots) if (issued(root, last, budget)) consider([...way, root]);
  for (const next of intermediates) {
    if (!way.some(one => one.raw.equals(next.raw)) && issued(next, last, budget))
      consider(pathTo(roots, intermediates, [...way, next], budget));
  }
  return best;
}

const KEY_BLOCKS = new Set(['RSA PRIVATE KEY', 'EC PRIVATE KEY', 'PRIVATE KEY']);

/** What is wrong with the key, as a clause. */
function keyFault(pem: string, name: string, signing: X509Certificate): string | undefined {
  const [first] = blocksOf(pem);
  if (first === undefined) return `${name} holds no private key`;
  // istiod looks at the first block alone, which openssl ecparam makes one of parameters
  if (!KEY_BLOCKS.has(first.type)) return `${name} begins with ${first.type}, which istiod does not read`;
  try {
    return signing.checkPrivateKey(createPrivateKey(first.text))
      ? undefined
      : `${name} is not the key of the certificate`;
  } catch {
    return `${name} holds no key that can be read`;
  }
}

function common({ subject }: X509Certificate): string {
  const name = /(?:^|\n)CN=([^\n]*)/.exec(subject)?.[1] ?? subject.replaceAll('\n', ', ');
  return name.length > 40 ? `${name.slice(0, 39)}…` : name;
}

/** Every CA in the chain file needs a list that it signed, and may sign (Envoy refuses all traffic of a chain otherwise). */
function crlFault(crl: string, chain: readonly X509Certificate[]): string | undefined {
  if (crl === '') return undefined;
  const lists = blocksOf(crl).map(({ der }) => parseRevocationList(der));
  if (lists.length === 0) return `${CRL_FILE} holds no list in PEM`;
  const read = lists.filter(list => list !== undefined);
  if (read.length < lists.length) return `${CRL_FILE} holds something that is no revocation list`;
  for (const signer of chain) {
    const signed = read.map(list => isSignedBy(list, signer));
    if (signed.includes(undefined)) continue;
    if (!signed.includes(true)) return `${CRL_FILE} has no list of ${common(signer)}`;
    if (!maySignLists(signer)) return `${common(signer)} may not sign lists (no cRLSign in its key usage)`;
  }
  return undefined;
}

/** The facts of a Secret's files, in text. undefined where it has none of the known ones. */
export function caFacts(files: Readonly<Record<string, string>>): CaFacts | undefined {
  const has = (file: string) => files[file] !== undefined;
  if (![...ISTIO_FILES, ...TLS_FILES].some(has)) return undefined;
  const tls = has('tls.crt');
  const layout = tls ? 'tls' : 'istio';
  const wanted: readonly string[] = tls ? TLS_FILES : ISTIO_FILES;
  const missing = wanted.filter(file => !has(file));
  // tls.key and ca.crt without a tls.crt are not looked at
  if (!tls && !ISTIO_FILES.some(has))
    return { layout: 'tls', missing: TLS_FILES.filter(file => !has(file)), chain: [] };
  if (missing.length > 0) return { layout, missing, chain: [] };
  const file = (name: string) => files[name] ?? '';
  const names = tls
    ? { cert: 'tls.crt', key: 'tls.key', root: 'ca.crt' }
    : { cert: 'ca-cert.pem', key: 'ca-key.pem', root: 'root-cert.pem' };
  const chainText = tls ? `${file('tls.crt')}\n${file('ca.crt')}` : file('cert-chain.pem');
  const complete = { layout, missing, chain: [] } as const;
  const [block] = blocksOf(file(names.cert));
  const signing = block === undefined ? undefined : certificate(block);
  if (signing === undefined) return { ...complete, fault: `${names.cert} holds no certificate that can be read` };
  const roots = pool(file(names.root));
  if (roots.length === 0) return { ...complete, fault: `${names.root} holds no certificate that can be read` };
  const budget = { left: VERIFICATIONS };
  const way = pathTo(roots, pool(chainText), [signing], budget);
  const chain = (way ?? [signing]).map(one => ({
    subject: common(one),
    notBefore: Date.parse(one.validFrom),
    notAfter: Date.parse(one.validTo),
  }));
  const fault =
    way === undefined && budget.left > 0
      ? `${names.cert} does not lead to a certificate in ${names.root}`
      : (keyFault(file(names.key), names.key, signing) ??
        (signing.ca ? undefined : `${names.cert} is no CA certificate`));
  const lists = tls ? undefined : crlFault(file(CRL_FILE), pool(chainText));
  return {
    layout,
    missing,
    chain,
    ...(fault === undefined ? {} : { fault }),
    ...(lists === undefined ? {} : { crlFault: lists }),
  };
}

// Certificates: pairs, and the sources they come from. A source gives one pair at the start and hands over each later one, so
// that files, the local CA and (in a cluster) a Secret are all served through the same `swap`.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';

/** A certificate (with its chain) and its private key, both PEM. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** What became of a pair that a source has found. */
export type Found = { readonly pair: Pair } | { readonly broken: string };

export interface CertificateSource {
  readonly pair: Pair;
  /** The file with the CA to trust, where it is known. */
  readonly caFile?: string;
  /** Reports pairs that come later, and those that could not be used; the caller keeps what it has then. Returns how to stop. */
  follow(found: (found: Found) => void): () => void;
}

/** The leaf of a pair. Throws, with a reason in one line, where it is none. */
export function leafOf({ cert, key }: Pair): X509Certificate {
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(cert);
  } catch {
    throw new Error('the certificate is not PEM');
  }
  let matching: boolean;
  try {
    matching = leaf.checkPrivateKey(createPrivateKey(key));
  } catch {
    throw new Error('the private key is not PEM');
  }
  if (!matching) throw new Error('the private key belongs to another certificate');
  return leaf;
}

/** The last moment at which a certificate is valid. (`validToDate` is not in every Node 22.) */
export function expiryOf({ validTo }: X509Certificate): Date {
  return new Date(validTo);
}

export interface FileSourceOptions {
  /** Milliseconds between two looks. Looking is two `stat`: it follows every kind of symlink, which watching does not. */
  readonly every?: number;
}

async function lookAt(...files: readonly string[]): Promise<string> {
  const stats = await Promise.all(files.map(file => stat(file, { bigint: true })));
  return stats.map(({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats) => [dev, ino, size, mtimeNs, ctimeNs]).join(' ');
}

async function readPair(certFile: string, keyFile: string): Promise<Pair> {
  const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')]);
  const pair = { cert, key };
  leafOf(pair);
  return pair;
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Files that somebody else writes, such as a mounted Secret. Rejects where they are no pair at the start. */
export async function certificateFiles(
  certFile: string,
  keyFile: string,
  { every = 1000 }: FileSourceOptions = {},
): Promise<CertificateSource> {
  let seen = await lookAt(certFile, keyFile);
  let pair: Pair;
  try {
    pair = await readPair(certFile, keyFile);
  } catch (error) {
    throw new Error(`${certFile} and ${keyFile} cannot be served: ${reasonOf(error)}`);
  }
  const first = pair;
  return {
    pair: first,
    follow(found) {
      let busy = false;
      let complaint = '';
      async function look(): Promise<void> {
        try {
          const now = await lookAt(certFile, keyFile);
          if (now === seen && complaint === '') return;
          const next = await readPair(certFile, keyFile);
          seen = now;
          complaint = '';
          if (next.cert === pair.cert && next.key === pair.key) return;
          pair = next;
          found({ pair });
        } catch (error) {
          // half written, mismatched or gone: looked at again until it is whole, and said once
          const reason = `${certFile} and ${keyFile} have changed and cannot be served: ${reasonOf(error)}`;
          if (reason !== complaint) found({ broken: reason });
          complaint = reason;
        }
      }
      const timer = setInterval(() => {
        if (busy) return;
        busy = true;
        void look().finally(() => {
          busy = false;
        });
      }, every);
      timer.unref();
      return () => clearInterval(timer);
    },
  };
}

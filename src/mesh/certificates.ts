// CA certificates in ConfigMaps, read as istiod and Envoy read them.
import { X509Certificate } from 'node:crypto';
import type { ConfigMap } from './kinds/cluster.ts';

/** The key that istiod reads: `cacert` goes before `ca.crt` (pilot/pkg/credentials/kube ExtractRootFromString). */
const KEYS = ['cacert', 'ca.crt'] as const;
const BLOCK = /-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE)-----([\s\S]*?)-----END \1-----/g;
const AT_MOST = 1_000_000;

export interface CaBundle {
  readonly key?: (typeof KEYS)[number];
  readonly certificates: number;
  /** Why Envoy cannot load it, as a clause; undefined where it can. */
  readonly fault?: string;
}

/** The certificates of a text in PEM; what stands outside of the blocks is a comment. Undefined where one of them is none. */
export function parseCertificates(pem: string): readonly X509Certificate[] | undefined {
  try {
    return [...pem.matchAll(BLOCK)].map(([block]) => new X509Certificate(block));
  } catch {
    return undefined;
  }
}

function read(configMap: ConfigMap): CaBundle {
  const key = KEYS.find(candidate => (configMap.data[candidate] ?? '') !== '');
  if (key === undefined) return { certificates: 0, fault: 'has neither cacert nor ca.crt in its data' };
  const pem = configMap.data[key] ?? '';
  if (pem.length > AT_MOST) return { key, certificates: 0 };
  const certificates = parseCertificates(pem);
  if (certificates === undefined) return { key, certificates: 0, fault: `has a ${key} that is no certificate` };
  if (certificates.length === 0) return { key, certificates: 0, fault: `has a ${key} without a certificate in PEM` };
  return { key, certificates: certificates.length };
}

const known = new WeakMap<ConfigMap, CaBundle>();

/** The CA that a ConfigMap holds for istiod; read once for each stored state of it. */
export function caBundleOf(configMap: ConfigMap): CaBundle {
  let found = known.get(configMap);
  if (found === undefined) {
    found = read(configMap);
    known.set(configMap, found);
  }
  return found;
}

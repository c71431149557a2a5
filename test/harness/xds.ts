import { binary } from './binaries.ts';
import { runOrThrow } from './process.ts';

export interface ProxyIdentity {
  type: 'waypoint' | 'router' | 'sidecar';
  /** Those of a pod that exists: istiod finds what the proxy is for by them. */
  ip: string;
  pod: string;
  namespace: string;
  labels?: Record<string, string>;
}

/** What came for each type as it was asked for: `{ 'LDS': […], 'RDS=http.8080': […] }`. */
export type XdsAnswer = Record<string, Record<string, unknown>[]>;

/** Asks istiod's plaintext gRPC port as a proxy would. Types: LDS, CDS, RDS=NAME,…, EDS=CLUSTER,…, or a full type URL. */
export async function askXds(address: string, proxy: ProxyIdentity, types: string[]): Promise<XdsAnswer> {
  const { type, ip, pod, namespace, labels = {} } = proxy;
  const metadata = { LABELS: labels, NAMESPACE: namespace, CLUSTER_ID: 'Kubernetes' };
  const { stdout } = await runOrThrow(await binary('xds'), [
    `-istiod=${address}`,
    `-node=${type}~${ip}~${pod}.${namespace}~${namespace}.svc.cluster.local`,
    `-metadata=${JSON.stringify(metadata)}`,
    ...types,
  ]);
  return JSON.parse(stdout) as XdsAnswer;
}

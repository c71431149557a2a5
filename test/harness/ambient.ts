import type { KubeObject } from './api.ts';
import type { Pod } from './podstatus.ts';

/** What istio-cni writes on a pod whose traffic it sends to ztunnel, and what istiod takes as proof of it. */
export const redirection = 'ambient.istio.io/redirection';
const mode = 'istio.io/dataplane-mode';

/**
 * Whether istio-cni of 1.31 with its default values enrols the pod
 * (cni/pkg/util/enablement_selector.go; charts/istio-cni/values.yaml, ambient.enablementSelectors and excludeNamespaces).
 */
export function isEnrolled(pod: Pod, namespaceLabels: KubeObject['metadata']['labels'] = {}): boolean {
  if (pod.spec.hostNetwork || pod.metadata.namespace === 'kube-system') return false;
  if (pod.metadata.annotations?.['sidecar.istio.io/status'] !== undefined) return false;
  const own = pod.metadata.labels?.[mode];
  return own === 'ambient' || (namespaceLabels[mode] === 'ambient' && own !== 'none');
}

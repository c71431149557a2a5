// What a projection refers to. The store keeps these turned around, so that a Service finds the policies that target it and
// a Gateway the namespaces that name it as their waypoint, without a search.
import { type GroupKind, refKey } from '../kube/kind.ts';
import { type BackendTlsPolicy, GATEWAY, ROUTE_KINDS, type Route } from './kinds/gateways.ts';
import type { InferencePool, PoolReferrer } from './kinds/inference.ts';
import type { Meta } from './kinds/meta.ts';
import type { Attachment } from './kinds/security.ts';
import { WORKLOAD_KINDS, type Workload } from './kinds/workloads.ts';

/** The key of one thing that is referred to: an object, or a role such as `component/istiod`. */
export type ReferenceKey = string;

/** Objects that play a part of Istio's own: `component/istiod`, `component/ztunnel`, `component/istio-cni`. */
export function componentKey(component: 'istiod' | 'ztunnel' | 'istio-cni' | 'gateway'): ReferenceKey {
  return `component/${component}`;
}

const WORKLOADS: ReadonlySet<GroupKind> = new Set(WORKLOAD_KINDS);
const ROUTES: ReadonlySet<GroupKind> = new Set(ROUTE_KINDS);

function waypointNamed(labels: Meta['labels'], own: string): readonly ReferenceKey[] {
  const name = labels['istio.io/use-waypoint'];
  if (name === undefined || name === 'none') return [];
  return [refKey({ kind: GATEWAY, namespace: labels['istio.io/use-waypoint-namespace'] ?? own, name })];
}

/** All that a projection refers to. Total, and the same for equal projections. */
export function referencesOf(object: Meta): readonly ReferenceKey[] {
  const keys: ReferenceKey[] = [];
  const own = object.kind === 'Namespace' ? object.name : object.namespace;
  keys.push(...waypointNamed(object.labels, own));
  if (WORKLOADS.has(object.kind)) {
    const { template, component } = object as Workload;
    if (object.kind !== 'Pod') keys.push(...waypointNamed(template.labels, own));
    if (component !== undefined) keys.push(componentKey(component));
    return keys;
  }
  if (ROUTES.has(object.kind)) {
    const { parents, rules } = object as Route;
    for (const parent of parents) keys.push(refKey(parent));
    for (const { backends, mirrors } of rules)
      for (const backend of [...backends, ...mirrors]) keys.push(refKey(backend));
    return keys;
  }
  const targets = (object as Meta & Partial<Pick<Attachment, 'targets'> & Pick<BackendTlsPolicy, 'certificateRefs'>>)
    .targets;
  if (targets !== undefined) for (const target of targets) keys.push(refKey(target));
  const certificates = (object as Partial<BackendTlsPolicy>).certificateRefs;
  if (certificates !== undefined) for (const certificate of certificates) keys.push(refKey(certificate));
  const { picker } = object as Partial<InferencePool>;
  if (picker !== undefined) keys.push(refKey({ kind: picker.kind, namespace: object.namespace, name: picker.name }));
  const { pool } = object as Partial<PoolReferrer>;
  if (pool !== undefined) keys.push(refKey({ kind: pool.kind, namespace: object.namespace, name: pool.name }));
  return keys;
}

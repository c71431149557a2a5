// What a projection refers to. The store keeps these turned around, so that a Service finds the policies that target it and
// a Gateway the namespaces that name it as their waypoint, without a search.
import { type GroupKind, refKey } from '../kube/kind.ts';
import { DESTINATION_RULE, type DestinationRule, fullHost } from './kinds/destinationrules.ts';
import {
  type BackendTlsPolicy,
  GATEWAY,
  type Gateway,
  ISTIO_GATEWAY,
  ROUTE_KINDS,
  type Route,
} from './kinds/gateways.ts';
import type { InferencePool, PoolReferrer } from './kinds/inference.ts';
import type { Meta } from './kinds/meta.ts';
import { VIRTUAL_SERVICE, type VirtualService } from './kinds/routing.ts';
import type { HorizontalPodAutoscaler } from './kinds/scaling.ts';
import { type Attachment, AUTHORIZATION_POLICY } from './kinds/security.ts';
import { SERVICE_ENTRY, type ServiceEntry } from './kinds/services.ts';
import { WORKLOADS, type Workload } from './kinds/workloads.ts';

/** The key of one thing that is referred to: an object, a role such as `component/istiod`, or a host. */
export type ReferenceKey = string;

const SERVICE_HOST = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.(?!clusterset\.local$)|$)/;

/**
 * A host of a ServiceEntry or a DestinationRule. The host of a Kubernetes Service is the Service, whatever the cluster's domain is
 * called; `clusterset.local` is another domain's (Multi-Cluster Services).
 */
export function hostKey(host: string): ReferenceKey {
  const [, name, namespace] = SERVICE_HOST.exec(host) ?? [];
  return name === undefined || namespace === undefined
    ? `host/${host.toLowerCase()}`
    : refKey({ kind: 'Service', namespace, name });
}

/** VirtualServices by which gateways send traffic to a host. */
export function destinationKey(host: string): ReferenceKey {
  return `destination/${hostKey(host)}`;
}

/** AuthorizationPolicies that have `istio.io/dry-run`, as an annotation or a label. */
export const DRY_RUN_KEY: ReferenceKey = 'istio.io/dry-run';

/** ConfigMaps with defaults for the Gateways of a class (`gateway.istio.io/defaults-for-class`). */
export function classDefaultsKey(className: string): ReferenceKey {
  return `class-defaults/${className}`;
}

/** Objects that play a part of Istio's own: `component/istiod`, `component/ztunnel`, `component/istio-cni`. */
export function componentKey(component: 'istiod' | 'ztunnel' | 'istio-cni' | 'gateway'): ReferenceKey {
  return `component/${component}`;
}

const DRY_RUN = 'istio.io/dry-run';
const ROUTES: ReadonlySet<GroupKind> = new Set(ROUTE_KINDS);

function waypointNamed(labels: Meta['labels'], own: string): readonly ReferenceKey[] {
  const keys: ReferenceKey[] = [];
  for (const label of ['istio.io/use-waypoint', 'istio.io/use-waypoint-canary']) {
    const name = labels[label];
    if (name === undefined || name === 'none') continue;
    keys.push(refKey({ kind: GATEWAY, namespace: labels[`${label}-namespace`] ?? own, name }));
  }
  return keys;
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
  if (object.kind === GATEWAY) {
    const { parameters } = object as Gateway;
    if (parameters !== undefined) keys.push(refKey({ kind: 'ConfigMap', namespace: own, name: parameters }));
  }
  const { target } = object as Partial<HorizontalPodAutoscaler>;
  if (target !== undefined) keys.push(refKey(target));
  const { hosts } = object as Partial<ServiceEntry>;
  if (object.kind === SERVICE_ENTRY && hosts !== undefined) keys.push(...new Set(hosts.map(hostKey)));
  if (object.kind === DESTINATION_RULE) keys.push(hostKey(fullHost((object as DestinationRule).host, own)));
  if (object.kind === VIRTUAL_SERVICE) {
    const { hosts: named, gateways, destinations } = object as VirtualService;
    if (gateways.some(gateway => gateway !== 'mesh'))
      for (const host of destinations) keys.push(destinationKey(fullHost(host, own)));
    for (const host of new Set(named)) keys.push(hostKey(fullHost(host, own)));
    for (const gateway of gateways) {
      const slash = gateway.indexOf('/');
      const [namespace, name] = slash < 0 ? [own, gateway] : [gateway.slice(0, slash), gateway.slice(slash + 1)];
      // the name may be meant for either kind; only Istio's own is found
      if (gateway !== 'mesh') for (const kind of [GATEWAY, ISTIO_GATEWAY]) keys.push(refKey({ kind, namespace, name }));
    }
  }
  if (object.kind === AUTHORIZATION_POLICY && (object.annotations[DRY_RUN] ?? object.labels[DRY_RUN]) !== undefined)
    keys.push(DRY_RUN_KEY);
  const className = object.kind === 'ConfigMap' ? object.labels['gateway.istio.io/defaults-for-class'] : undefined;
  if (className !== undefined) keys.push(classDefaultsKey(className));
  return keys;
}

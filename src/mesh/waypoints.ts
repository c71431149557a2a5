// Which waypoint serves a Service, ServiceEntry or workload, and why none does. Follows istiod's ambient index
// (pilot/pkg/serviceregistry/ambient/{waypoints,services}.go from 1.30, kube/controller/ambient before; the same rules from 1.26 on).
import { at, list, text } from '../kube/json.ts';
import { type ObjectRef, refKey } from '../kube/kind.ts';
import { labelSelector, type StringMap, selects } from '../kube/labels.ts';
import { ambient, MANAGED } from './enrolment.ts';
import { GATEWAY, GATEWAY_CLASS, type Gateway, type Listener } from './kinds/gateways.ts';
import type { Meta } from './kinds/meta.ts';
import { SERVICE_ENTRY, type Service, type ServiceEntry } from './kinds/services.ts';
import { WORKLOADS, type Workload } from './kinds/workloads.ts';
import { managedAs } from './managed.ts';
import { isTerminating, type Mesh } from './mesh.ts';
import { atLeast, type ControlPlane, discovers, flag, parseBool } from './releases.ts';

export const USE_WAYPOINT = 'istio.io/use-waypoint';
export const USE_WAYPOINT_NAMESPACE = 'istio.io/use-waypoint-namespace';
export const CANARY = 'istio.io/use-waypoint-canary';
export const CANARY_NAMESPACE = 'istio.io/use-waypoint-canary-namespace';
export const CANARY_WEIGHT = 'istio.io/use-waypoint-canary-weight';
export const WAYPOINT_FOR = 'istio.io/waypoint-for';
export const INGRESS_USE_WAYPOINT = 'istio.io/ingress-use-waypoint';
const INBOUND_BINDING = 'ambient.istio.io/waypoint-inbound-binding';
const AUTO_ALLOCATE = 'networking.istio.io/enable-autoallocate-ip';

/** What a waypoint is asked to take: traffic to a Service's address, or to a pod's own. */
export type TrafficType = 'service' | 'workload';

/**
 * `bound`: the waypoint takes the traffic. `none`: no label names one. `opted-out`: the object says `none`. `pending`: a waypoint
 * is named that is not there, or has no address yet. `never`: the label names what no Gateway can be called. `refused`: the
 * waypoint does not accept this namespace. `wrong-traffic-type`: it takes the other kind of traffic. `unknown`: the state does
 * not tell.
 */
export type BindingState =
  | 'bound'
  | 'none'
  | 'opted-out'
  | 'pending'
  | 'never'
  | 'refused'
  | 'wrong-traffic-type'
  | 'unknown';

/** Reasons of the condition `istio.io/WaypointBound` (pilot/pkg/model/service.go). */
export type BindingReason =
  | 'WaypointIsNotReady'
  | 'AttachmentDenied'
  | 'UnsupportedTrafficType'
  | 'CrossNamespaceWaypointForbidden';

export interface Binding {
  readonly state: BindingState;
  /** The Gateway that is named, there or not; undefined where none is. */
  readonly waypoint?: ObjectRef;
  /** The same, where it is there. */
  readonly gateway?: Gateway;
  /** The object whose label decided: the object itself or its Namespace. */
  readonly namedBy?: ObjectRef;
  /** The reason that istiod would give for not binding. */
  readonly reason?: BindingReason;
  /** Why it is so, as a clause: 'Gateway infra/shared takes its own namespace only'. */
  readonly why: string;
  /** False where the waypoint has no address yet, whatever else is wrong with it. */
  readonly ready: boolean;
  /** False where a part is not known here, or control planes would decide it differently. */
  readonly certain: boolean;
}

const NOT_READY = { reason: 'WaypointIsNotReady', ready: false } as const;

/** The labels by which an object names its waypoint: of its pods where it is a workload. */
export function bindingLabels(object: Meta): StringMap {
  return WORKLOADS.has(object.kind) ? (object as Workload).template.labels : object.labels;
}

/** The namespace that an object stands in; a Namespace stands in itself. */
export function consumerNamespace(object: Pick<Meta, 'kind' | 'namespace' | 'name'>): string {
  return object.kind === 'Namespace' ? object.name : object.namespace;
}

/** True for what a Gateway can be called: a DNS subdomain. `use-waypoint` with anything else can never be bound. */
export function isGatewayName(name: string): boolean {
  return name.length <= 253 && /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/.test(name);
}

/** The Gateway that labels name, with the namespace they stand in; 'none' where they opt out, undefined where they name nothing. */
export function namedWaypoint(
  labels: StringMap,
  own: string,
  key: string = USE_WAYPOINT,
  namespaceKey: string = USE_WAYPOINT_NAMESPACE,
): ObjectRef | 'none' | undefined {
  const name = labels[key];
  if (name === undefined) return undefined;
  return name === 'none' ? 'none' : { kind: GATEWAY, namespace: labels[namespaceKey] ?? own, name };
}

/** `ambient.istio.io/waypoint-inbound-binding`: the Gateway's goes before its class's. It makes another proxy a waypoint. */
function inboundBinding(mesh: Mesh, gateway: Gateway): string | undefined {
  return (
    gateway.annotations[INBOUND_BINDING] ?? mesh.get(GATEWAY_CLASS, '', gateway.className)?.annotations[INBOUND_BINDING]
  );
}

/** True for a Gateway that is made a waypoint by an inbound binding, of whatever class it is. */
export function hasInboundBinding(mesh: Mesh, gateway: Gateway): boolean {
  return inboundBinding(mesh, gateway) !== undefined;
}

function boundListener(gateway: Gateway, binding: string | undefined): Listener | undefined {
  const [protocol, port, ...rest] = (binding ?? '').split('/');
  if ((protocol !== 'NONE' && protocol !== 'PROXY') || rest.length > 0) return undefined;
  const number = /^\d+$/.test(port ?? '') ? Number(port) : 0;
  if (number !== 0) return gateway.listeners.find(listener => listener.port === number);
  return protocol === 'PROXY' ? gateway.listeners.find(listener => listener.protocol === 'istio.io/PROXY') : undefined;
}

/** The listener whose `allowedRoutes` decide who may bind: the bound one, else HBONE on 15008; a second HBONE listener does not count (I§12). */
export function waypointListener(mesh: Mesh, gateway: Gateway): Listener | undefined {
  return (
    boundListener(gateway, inboundBinding(mesh, gateway)) ??
    gateway.listeners.find(listener => listener.protocol === 'HBONE' && listener.port === 15008)
  );
}

/** True where ztunnel can reach a Gateway as a waypoint: an HBONE listener on 15008, or an inbound binding of its own. */
export function speaksHbone(mesh: Mesh, gateway: Gateway): boolean {
  return waypointListener(mesh, gateway) !== undefined || inboundBinding(mesh, gateway) !== undefined;
}

/** `istio.io/waypoint-for`: the Gateway's label goes before its class's; `service` without either. */
export function waypointFor(mesh: Mesh, gateway: Gateway): string {
  return (
    gateway.labels[WAYPOINT_FOR] ?? mesh.get(GATEWAY_CLASS, '', gateway.className)?.labels[WAYPOINT_FOR] ?? 'service'
  );
}

/** Whether a Gateway takes bindings from a namespace, by the `allowedRoutes` of its listener on the labels of that namespace. */
export function allowsNamespace(
  mesh: Mesh,
  gateway: Gateway,
  namespace: string,
): { readonly allowed: boolean | 'unknown'; readonly why: string } {
  const listener = waypointListener(mesh, gateway);
  const name = `Gateway ${gateway.namespace}/${gateway.name}`;
  const from = listener?.from ?? 'Same';
  if (from === 'All') return { allowed: true, why: `${name} takes every namespace` };
  if (from !== 'Selector') {
    // what its other listeners allow does not count
    const because = speaksHbone(mesh, gateway) ? `allowedRoutes from: ${from}` : 'it has no HBONE listener on 15008';
    return { allowed: gateway.namespace === namespace, why: `${name} takes its own namespace only (${because})` };
  }
  const labels = mesh.get('Namespace', '', namespace)?.labels;
  const why = `the allowedRoutes selector of ${name} does not select namespace ${namespace}`;
  // a selector that is missing selects nothing
  if (listener?.selector === undefined) return { allowed: false, why };
  if (labels === undefined) return { allowed: 'unknown', why: `the labels of namespace ${namespace} are not known` };
  return { allowed: selects(listener.selector, labels), why };
}

/** What to do where a Gateway does not take a namespace, as a clause: a listener makes no waypoint of an ingress Gateway. */
export function allowingFix(mesh: Mesh, gateway: Gateway): string {
  const name = `${gateway.namespace}/${gateway.name}`;
  if (speaksHbone(mesh, gateway)) return `let allowedRoutes of ${name} take this namespace (from: All, or a Selector)`;
  return managedAs(mesh, gateway.className) === 'waypoint'
    ? `give ${name} a listener HBONE on 15008 with allowedRoutes from: All (or a Selector)`
    : `name a Gateway of class istio-waypoint in ${USE_WAYPOINT}`;
}

/** What MeshConfig `serviceEntryVisibility` (1.31) gives the ServiceEntries of a namespace, for one control plane. */
function visibility(mesh: Mesh, plane: ControlPlane, namespace: string): string {
  if (atLeast(plane.release, '1.31') === false) return 'PUBLIC';
  const settings = at(plane.meshConfig, 'serviceEntryVisibility');
  const labels = mesh.get('Namespace', '', namespace)?.labels ?? {};
  for (const policy of list(at(settings, 'policies'))) {
    const matches = list(at(policy, 'matchingRules')).every(rule => {
      const selector = labelSelector(at(rule, 'namespaceSelector'));
      return selector !== undefined && selects(selector, labels);
    });
    if (matches) return text(at(policy, 'visibility')) ?? 'PUBLIC';
  }
  return text(at(settings, 'defaultVisibility')) ?? 'PUBLIC';
}

/** Whether control planes forbid a ServiceEntry to use a waypoint elsewhere: all of them, some, or none. */
function crossNamespaceForbidden(mesh: Mesh, namespace: string): 'all' | 'some' | 'none' {
  const planes = mesh.fact(ambient).controlPlanes;
  const forbidding = planes.filter(plane => visibility(mesh, plane, namespace) === 'NAMESPACE').length;
  return forbidding === 0 ? 'none' : forbidding === planes.length ? 'all' : 'some';
}

/** Waypoints and east-west gateways have no waypoint of their own (fetchWaypointForService). */
function isGatewayItself(labels: StringMap): boolean {
  return labels[MANAGED] === 'istio.io-mesh-controller' || labels[MANAGED] === 'istio.io-eastwest-controller';
}

/** True where no control plane that serves ambient mode watches a namespace: what stands there does not exist for them (I§13). */
function undiscovered(mesh: Mesh, namespace: string): boolean {
  const planes = mesh.fact(ambient).controlPlanes;
  return planes.length > 0 && planes.every(plane => discovers(mesh, plane, namespace) === false);
}

/** How an object in a namespace fares with the waypoint that a label names. */
export function attach(
  mesh: Mesh,
  waypoint: ObjectRef,
  object: Pick<Meta, 'kind' | 'namespace' | 'name'>,
  traffic: TrafficType,
): Omit<Binding, 'namedBy'> {
  const namespace = consumerNamespace(object);
  const name = `Gateway ${waypoint.namespace}/${waypoint.name}`;
  if (!isGatewayName(waypoint.name) || !isGatewayName(waypoint.namespace)) {
    const why = `no Gateway can be called '${waypoint.namespace}/${waypoint.name}'`;
    return { state: 'never', waypoint, why, certain: true, ...NOT_READY };
  }
  const gateway = mesh.find(GATEWAY, waypoint.namespace, waypoint.name);
  if (gateway === 'unknown') {
    return {
      state: 'unknown',
      waypoint,
      why: `whether ${name} exists is not known here`,
      certain: false,
      ready: false,
    };
  }
  if (gateway === 'absent') {
    return { state: 'pending', waypoint, why: `${name} does not exist`, certain: true, ...NOT_READY };
  }
  if (isTerminating(mesh, gateway.namespace)) {
    return { state: 'pending', waypoint, why: `${name} goes with its namespace`, certain: true, ...NOT_READY };
  }
  const ready = gateway.addresses > 0;
  const found = { waypoint, gateway, ready } as const;
  const notReady = ready ? {} : NOT_READY;
  if (undiscovered(mesh, gateway.namespace)) {
    const why = `the discoverySelectors of istiod leave namespace ${gateway.namespace} out`;
    return { ...found, state: 'refused', why, certain: true, ...NOT_READY };
  }
  const { allowed, why } = allowsNamespace(mesh, gateway, namespace);
  if (allowed === 'unknown') return { ...found, state: 'unknown', why, certain: false };
  if (!allowed) return { ...found, state: 'refused', reason: 'AttachmentDenied', why, certain: true, ...notReady };
  const takes = waypointFor(mesh, gateway);
  if (takes !== 'all' && takes !== traffic) {
    return {
      ...found,
      state: 'wrong-traffic-type',
      reason: 'UnsupportedTrafficType',
      why: `${name} takes ${takes === 'service' || takes === 'workload' ? `${takes} traffic only` : `no traffic (${WAYPOINT_FOR}: ${takes})`}`,
      certain: true,
      ...notReady,
    };
  }
  let certain = true;
  if (object.kind === SERVICE_ENTRY && gateway.namespace !== namespace) {
    const forbidden = crossNamespaceForbidden(mesh, namespace);
    if (forbidden === 'all') {
      return {
        ...found,
        state: 'refused',
        reason: 'CrossNamespaceWaypointForbidden',
        why: `serviceEntryVisibility keeps the ServiceEntries of namespace ${namespace} to themselves`,
        certain: true,
        ...notReady,
      };
    }
    certain = forbidden === 'none';
  }
  return ready
    ? { ...found, state: 'bound', why: `${name} takes its traffic`, certain }
    : { ...found, state: 'pending', why: `${name} has no address yet`, certain, ...NOT_READY };
}

const UNNAMED = { ready: false, certain: true } as const;

/** True for a Service that ambient mode does not know: its label names no waypoint, and it gets no condition (services.go; tried). */
export function isExternalName(object: Meta): boolean {
  return object.kind === 'Service' && (object as Service).type === 'ExternalName';
}

/**
 * The waypoint of a Service, ServiceEntry, WorkloadEntry or workload (by its template), or of whatever inherits it from a
 * Namespace. The object's own label goes before its Namespace's, also where it names nothing that is there: there is no falling
 * back. A waypoint counts by its address alone, so any Gateway that has one is taken for a waypoint (see `speaksHbone`).
 */
export function waypointOf(mesh: Mesh, object: Meta, traffic: TrafficType): Binding {
  const labels = bindingLabels(object);
  if (isGatewayItself(labels)) return { state: 'none', why: 'it is a gateway of Istio itself', ...UNNAMED };
  if (mesh.fact(ambient).state === 'off') return { state: 'none', why: mesh.fact(ambient).why, ...UNNAMED };
  if (isExternalName(object)) return { state: 'none', why: 'it is of type ExternalName', ...UNNAMED };
  const namespace = consumerNamespace(object);
  // istiod knows nothing of what stands there, so that no label counts (I§13; tried)
  if (undiscovered(mesh, namespace)) {
    return { state: 'none', why: `the discoverySelectors of istiod leave namespace ${namespace} out`, ...UNNAMED };
  }
  const self = { kind: object.kind, namespace: object.namespace, name: object.name };
  const own = namedWaypoint(labels, namespace);
  if (own === 'none') return { state: 'opted-out', why: `it has ${USE_WAYPOINT}: none`, namedBy: self, ...UNNAMED };
  if (own !== undefined) return { ...attach(mesh, own, object, traffic), namedBy: self };
  if (object.kind === 'Namespace') return { state: 'none', why: `it has no ${USE_WAYPOINT} label`, ...UNNAMED };
  const holder = mesh.get('Namespace', '', namespace);
  if (holder === undefined) {
    const why = `the labels of namespace ${namespace} are not known`;
    return { state: 'unknown', why, ready: false, certain: false };
  }
  const inherited = namedWaypoint(holder.labels, namespace);
  if (inherited === undefined || inherited === 'none') {
    const why = `neither it nor its namespace has an ${USE_WAYPOINT} label${inherited === 'none' ? ' that names a waypoint' : ''}`;
    return { state: 'none', why, ...UNNAMED };
  }
  const binding = {
    ...attach(mesh, inherited, object, traffic),
    namedBy: { kind: 'Namespace', namespace: '', name: namespace },
  };
  // inherited by a workload, the other type is no error: the waypoint is for Services (fetchWaypointForWorkload)
  if (binding.state === 'wrong-traffic-type' && traffic === 'workload') {
    const { reason: _, ...rest } = binding;
    return { ...rest, state: 'none' };
  }
  return binding;
}

/** The objects whose labels name a Gateway as their waypoint: Namespaces, Services, ServiceEntries, WorkloadEntries and workloads. */
export function* namersOf(mesh: Mesh, gateway: Pick<ObjectRef, 'namespace' | 'name'>): Iterable<Meta> {
  for (const object of mesh.referring(refKey({ kind: GATEWAY, namespace: gateway.namespace, name: gateway.name }))) {
    const labels = bindingLabels(object);
    const own = consumerNamespace(object);
    const names = (found: ObjectRef | 'none' | undefined) =>
      found !== undefined && found !== 'none' && found.namespace === gateway.namespace && found.name === gateway.name;
    if (names(namedWaypoint(labels, own)) || names(namedWaypoint(labels, own, CANARY, CANARY_NAMESPACE))) yield object;
  }
}

/**
 * The Services and ServiceEntries that could be bound to a Gateway: those that name it, and those in Namespaces that do. Each
 * comes with its binding, which need not be `bound` nor to this Gateway.
 */
export function* candidatesOf(
  mesh: Mesh,
  gateway: Pick<ObjectRef, 'namespace' | 'name'>,
): Iterable<{ readonly object: Service | ServiceEntry; readonly binding: Binding }> {
  const seen = new Set<string>();
  for (const namer of namersOf(mesh, gateway)) {
    const found =
      namer.kind === 'Namespace'
        ? servicesIn(mesh, namer.name)
        : namer.kind === 'Service' || namer.kind === SERVICE_ENTRY
          ? [namer as Service | ServiceEntry]
          : [];
    for (const object of found) {
      const key = refKey(object);
      if (seen.has(key)) continue;
      seen.add(key);
      yield { object, binding: waypointOf(mesh, object, 'service') };
    }
  }
}

/** Services and ServiceEntries of a namespace. */
export function* servicesIn(mesh: Mesh, namespace: string): Iterable<Service | ServiceEntry> {
  yield* mesh.list('Service', namespace);
  yield* mesh.list(SERVICE_ENTRY, namespace);
}

/** True where a binding is to this Gateway. */
export function isBoundTo(binding: Binding, gateway: Pick<ObjectRef, 'namespace' | 'name'>): boolean {
  return (
    binding.state === 'bound' &&
    binding.waypoint?.namespace === gateway.namespace &&
    binding.waypoint.name === gateway.name
  );
}

/** The Services that select a workload's pods. */
export function* servicesOf(mesh: Mesh, workload: Workload): Iterable<Service> {
  for (const service of mesh.list('Service', workload.namespace)) {
    let empty = true;
    let selected = true;
    for (const key in service.selector) {
      empty = false;
      if (workload.template.labels[key] !== service.selector[key]) {
        selected = false;
        break;
      }
    }
    if (!empty && selected) yield service;
  }
}

/**
 * Whether a Service or ServiceEntry has an address by which ztunnel knows it. Without one its status says bound, and no traffic
 * ever goes to the waypoint (I§13; tried with istiod 1.30 and 1.31).
 */
export function hasAddress(
  mesh: Mesh,
  target: Service | ServiceEntry,
): {
  readonly has: boolean;
  /** What the target is or has, as a predicate: 'it is headless (clusterIP: None)'. */
  readonly why: string;
  readonly certain: boolean;
} {
  if (target.kind === 'Service') {
    const service = target as Service;
    if (service.type === 'ExternalName') return { has: false, why: 'it is of type ExternalName', certain: true };
    if (service.headless) return { has: false, why: 'it is headless (clusterIP: None)', certain: true };
    return { has: true, why: 'it has a cluster IP', certain: true };
  }
  const entry = target as ServiceEntry;
  if (entry.addresses.length > 0) return { has: true, why: 'it has addresses', certain: true };
  if (entry.resolution === 'NONE') {
    return { has: false, why: 'it has resolution NONE and no addresses', certain: true };
  }
  // istiod gives wildcards addresses for DYNAMIC_DNS alone (constructServiceEntries; tried)
  if (entry.resolution !== 'DYNAMIC_DNS' && entry.hosts.length > 0 && entry.hosts.every(host => host.startsWith('*'))) {
    return { has: false, why: 'a wildcard host gets no address from istiod', certain: true };
  }
  if (entry.labels[AUTO_ALLOCATE]?.toLowerCase() === 'false') {
    return { has: false, why: `it has no addresses and ${AUTO_ALLOCATE}: false`, certain: true };
  }
  // pilot/pkg/networking/serviceentry/ip_autoallocation.go
  const planes = mesh.fact(ambient).controlPlanes;
  const off = planes.filter(plane => !flag(plane, 'PILOT_ENABLE_IP_AUTOALLOCATE', true)).length;
  if (off === 0) return { has: true, why: 'it gets an address from istiod', certain: true };
  return {
    has: false,
    why: 'it has no addresses, and istiod gives none (PILOT_ENABLE_IP_AUTOALLOCATE)',
    certain: off === planes.length,
  };
}

/**
 * Whether Istio's gateways send a Service's traffic through its waypoint: the label of the Service goes before its Namespace's
 * (ParseBool on both, tried), and a control plane may have the feature off.
 */
export function ingressUsesWaypoint(mesh: Mesh, object: Service | ServiceEntry): boolean {
  const label =
    object.labels[INGRESS_USE_WAYPOINT] ?? mesh.get('Namespace', '', object.namespace)?.labels[INGRESS_USE_WAYPOINT];
  const planes = mesh.fact(ambient).controlPlanes;
  return (
    label !== undefined &&
    parseBool(label) === true &&
    (planes.length === 0 || planes.some(plane => flag(plane, 'ENABLE_INGRESS_WAYPOINT_ROUTING', true)))
  );
}

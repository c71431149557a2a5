// The Services and ServiceEntries that mesh routing is about, who enforces at their pods, and what their waypoint makes of it.
import { type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { ambient, enforcerOf, enrolsByDefault, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { injectsByDefault } from '../../src/mesh/injection.ts';
import { SERVICE_ENTRY, type Service, type ServiceEntry } from '../../src/mesh/kinds/services.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { type Binding, hasAddress, isExternalName, waypointOf } from '../../src/mesh/waypoints.ts';

export type Destination = Service | ServiceEntry;

/** What a route names as its backend for a host of a ServiceEntry. */
export const HOSTNAME = 'Hostname.networking.istio.io';

/** The Services and ServiceEntries with a host. */
export function* withHost(mesh: Mesh, host: string): Iterable<Destination> {
  const key = hostKey(host);
  const match = /^Service\/([^/]*)\/([^/]*)$/.exec(key);
  const service = match === null ? undefined : mesh.get('Service', match[1] ?? '', match[2] ?? '');
  if (service !== undefined) yield service;
  yield* mesh.referring(key, SERVICE_ENTRY);
}

/** Pods that are looked at for one Service: they rarely differ in who enforces at them. */
const ENOUGH = 50;

/** Workloads of a namespace that are looked at for a proxy; of more nobody here says that there is none. */
const MANY = 1000;

/**
 * Whether a workload of a namespace has a sidecar, or is a gateway where those count too. `unknown` where one may have it. What is
 * injected as it comes has them, also where nothing runs yet or any more.
 */
export function hasProxies(mesh: Mesh, namespace: string, gateways: boolean): boolean | 'unknown' {
  if (injectsByDefault(mesh, namespace) === true) return true;
  let unknown = false;
  let count = 0;
  for (const workload of mesh.workloads({}, namespace)) {
    if (judgedByOwner(mesh, workload)) continue;
    const { by } = enforcerOf(mesh, workload);
    if (by === 'sidecar' || (gateways && by === 'gateway')) return true;
    if (by === 'unknown') unknown = true;
    count += 1;
    if (count >= MANY) return 'unknown';
  }
  return unknown ? 'unknown' : false;
}

/**
 * An external host has no pods: its clients decide. They are ambient where its namespace is and has no proxy of its own, or where
 * it names a waypoint. What stands for a Kubernetes Service's host is judged as the Service; who is behind an internal one nobody
 * can say.
 */
function capturedExternal(mesh: Mesh, entry: ServiceEntry): 'all' | 'some' | 'none' {
  if (entry.location === 'MESH_INTERNAL' || mesh.fact(ambient).state !== 'on') return 'none';
  if (entry.hosts.some(host => hostKey(host).startsWith('Service/'))) return 'none';
  if (enrolsByDefault(mesh, entry.namespace) !== true && waypointOf(mesh, entry, 'service').waypoint === undefined) {
    return 'none';
  }
  return hasProxies(mesh, entry.namespace, true) === false ? 'all' : 'some';
}

/**
 * Whether ztunnel captures the pods behind a destination. `all` where none of them has a proxy of its own; `none` also where there
 * are no pods, because then nobody can say. Of an external host it is the clients that count.
 */
export function captured(mesh: Mesh, destination: Destination): 'all' | 'some' | 'none' | 'unknown' {
  if (mesh.fact(ambient).state === 'off') return 'none';
  const labels = 'selector' in destination ? destination.selector : destination.workloadSelector?.matchLabels;
  if (labels === undefined && destination.kind === SERVICE_ENTRY) {
    return capturedExternal(mesh, destination as ServiceEntry);
  }
  if (labels === undefined || Object.keys(labels).length === 0) return 'none';
  let here = 0;
  let elsewhere = 0;
  let unknown = 0;
  for (const workload of mesh.workloads(labels, destination.namespace)) {
    if (judgedByOwner(mesh, workload)) continue;
    const { by } = enforcerOf(mesh, workload);
    if (by === 'ztunnel') here += 1;
    else if (by === 'unknown') unknown += 1;
    else elsewhere += 1;
    if (here + elsewhere + unknown >= ENOUGH) break;
  }
  if (here > 0) return elsewhere > 0 ? 'some' : 'all';
  return unknown > 0 && elsewhere === 0 ? 'unknown' : 'none';
}

/** What stands in the way of a waypoint's applying L7 configuration to a destination. */
export type Obstacle =
  | {
      readonly is: 'no-waypoint' | 'wrong-traffic-type' | 'target-without-address';
      readonly why: string;
      readonly binding: Binding;
    }
  | { readonly is: 'nothing'; readonly binding: Binding };

/**
 * The obstacle, for a destination that is captured. A waypoint that is only promised is none: waypoint-binding speaks of it.
 */
export function obstacle(mesh: Mesh, destination: Destination): Obstacle {
  const binding = waypointOf(mesh, destination, 'service');
  if (isExternalName(destination)) {
    return { is: 'target-without-address', why: hasAddress(mesh, destination).why, binding };
  }
  switch (binding.state) {
    case 'none':
    case 'opted-out':
    case 'never':
    case 'refused':
      return { is: 'no-waypoint', why: binding.why, binding };
    case 'wrong-traffic-type':
      return { is: 'wrong-traffic-type', why: binding.why, binding };
    case 'bound': {
      const address = hasAddress(mesh, destination);
      return address.has ? { is: 'nothing', binding } : { is: 'target-without-address', why: address.why, binding };
    }
    default:
      return { is: 'nothing', binding };
  }
}

/** Evidence for an obstacle: the destination, whose label names the waypoint, and the Gateway that is named. */
export function evidenceFor(destination: Destination, { namedBy, waypoint }: Binding): readonly ObjectRef[] {
  const refs = [
    ref(destination),
    ...(namedBy === undefined ? [] : [namedBy]),
    ...(waypoint === undefined ? [] : [waypoint]),
  ];
  return [...new Map(refs.map(one => [refKey(one), one])).values()];
}

// Which routes and attached configuration another object's change may concern.
import { type ChangeContext, PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { ambient, cniSettings } from '../../src/mesh/enrolment.ts';
import { DESTINATION_RULE, fullHost } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, GATEWAY_CLASS, ISTIO_GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { VIRTUAL_SERVICE } from '../../src/mesh/kinds/routing.ts';
import { SERVICE_ENTRY, type ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Kind } from '../../src/mesh/kinds.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { rootNamespaces } from '../../src/mesh/releases.ts';
import {
  bindingLabels,
  CANARY,
  CANARY_NAMESPACE,
  consumerNamespace,
  namedWaypoint,
  namersOf,
  servicesIn,
  servicesOf,
  USE_WAYPOINT,
  USE_WAYPOINT_NAMESPACE,
} from '../../src/mesh/waypoints.ts';
import { type Destination, HOSTNAME } from './destinations.ts';

const WAYPOINT_LABELS = [
  [USE_WAYPOINT, USE_WAYPOINT_NAMESPACE],
  [CANARY, CANARY_NAMESPACE],
] as const;

type Step = ObjectRef | typeof PAUSE;

/** Where subjects are looked for. (Generators that close over it would be kept until the next major collection: see difference.ts.) */
interface Within {
  readonly mesh: Mesh;
  readonly subjects: readonly Kind[];
}

function* referring(within: Within, key: string): Iterable<Step> {
  for (const object of within.mesh.referring(key)) if (within.subjects.includes(object.kind as Kind)) yield object;
}

function* inNamespace(within: Within, where: string): Iterable<Step> {
  let steps = 0;
  for (const subject of within.subjects) {
    for (const object of within.mesh.list(subject, where)) {
      steps += 1;
      if (steps % 50 === 0) yield PAUSE;
      yield object;
    }
  }
}

/** Those that select in every namespace. */
function* inRoots(within: Within, except: string): Iterable<Step> {
  for (const root of within.mesh.fact(rootNamespaces)) if (root !== except) yield* inNamespace(within, root);
}

function* of(within: Within, destination: Destination): Iterable<Step> {
  yield* referring(within, refKey(destination));
  if (destination.kind !== SERVICE_ENTRY) return;
  for (const host of (destination as ServiceEntry).hosts) yield* referring(within, hostKey(host));
}

function* around(within: Within, where: string): Iterable<Step> {
  yield* inNamespace(within, where);
  let steps = 0;
  for (const destination of servicesIn(within.mesh, where)) {
    steps += 1;
    if (steps % 50 === 0) yield PAUSE;
    yield* of(within, destination);
  }
  yield* inRoots(within, where);
}

/** Those whose exportTo names a namespace: clients there may apply them. */
function* exportedTo(within: Within, where: string): Iterable<Step> {
  let steps = 0;
  for (const kind of [VIRTUAL_SERVICE, DESTINATION_RULE] as const) {
    if (!within.subjects.includes(kind)) continue;
    for (const object of within.mesh.list(kind)) {
      steps += 1;
      if (steps % 50 === 0) yield PAUSE;
      if (object.exportTo.includes(where)) yield object;
    }
  }
}

/** Those that target a waypoint which some object names: what uses it decides whether a Telemetry there holds for anything. */
function* atWaypointsOf(within: Within, object: Meta): Iterable<Step> {
  for (const [key, namespaceKey] of WAYPOINT_LABELS) {
    const named = namedWaypoint(bindingLabels(object), consumerNamespace(object), key, namespaceKey);
    if (named !== undefined && named !== 'none') yield* referring(within, refKey(named));
  }
}

/** Those that a Gateway applies, or those who use it as their waypoint. */
function* atGateway(within: Within, gateway: ObjectRef): Iterable<Step> {
  yield* referring(within, refKey(gateway));
  for (const namer of namersOf(within.mesh, gateway)) {
    if (namer.kind === 'Namespace') yield* around(within, namer.name);
    else if (namer.kind === 'Service' || namer.kind === SERVICE_ENTRY) {
      yield* of(within, namer as Destination);
      yield* inNamespace(within, namer.namespace);
    }
  }
}

/** Names the subjects of one Mesh that a change concerns. */
function* concerned(mesh: Mesh, change: Change, subjects: readonly Kind[]): Iterable<Step> {
  const { kind, namespace, name } = change.ref;
  const within: Within = { mesh, subjects };

  if (kind === 'Namespace') {
    yield* around(within, name);
    yield* exportedTo(within, name);
    // its labels, by discoverySelectors, and its end decide about the waypoints in it
    for (const gateway of mesh.list(GATEWAY, name)) yield* atGateway(within, ref(gateway));
    for (const object of [change.before, change.after]) if (object !== undefined) yield* atWaypointsOf(within, object);
  } else if (kind === 'Service' || kind === SERVICE_ENTRY) {
    for (const object of [change.before, change.after]) {
      if (object === undefined) continue;
      yield* of(within, object as Destination);
      yield* atWaypointsOf(within, object);
    }
    yield* inNamespace(within, namespace);
    yield* inRoots(within, namespace);
  } else if (WORKLOADS.has(kind)) {
    yield* inNamespace(within, namespace);
    for (const object of [change.before, change.after]) {
      if (object === undefined) continue;
      for (const service of servicesOf(mesh, object as Workload)) yield* of(within, service);
    }
    for (const entry of mesh.list(SERVICE_ENTRY, namespace)) yield* of(within, entry);
    yield* exportedTo(within, namespace);
    yield* inRoots(within, namespace);
  } else if (kind === GATEWAY) {
    yield* around(within, namespace);
    yield* atGateway(within, change.ref);
  } else if (kind === ISTIO_GATEWAY) {
    yield* referring(within, refKey(change.ref));
    // one anywhere tells that there is an ingress, which applies DestinationRules
    yield* mesh.list(DESTINATION_RULE);
  } else if (subjects.includes(kind as Kind)) {
    // routes of a gateway and VirtualServices tell whether a gateway applies a DestinationRule
    for (const object of [change.before, change.after]) {
      if (object === undefined) continue;
      const { rules, hosts } = object as {
        rules?: readonly { backends?: readonly ObjectRef[] }[];
        hosts?: readonly string[];
      };
      for (const { backends } of rules ?? [])
        for (const backend of backends ?? []) {
          yield* referring(within, refKey(backend));
          if (backend.kind === HOSTNAME) yield* referring(within, hostKey(backend.name));
        }
      for (const host of hosts ?? []) yield* referring(within, hostKey(fullHost(host, namespace)));
    }
  }
}

export function* affectedBy(change: Change, { before, after }: ChangeContext, kinds: readonly Kind[]): Iterable<Step> {
  // of most of these kinds a cluster has none
  const subjects = kinds.filter(kind => after.some(kind));
  if (subjects.length === 0) return;
  const component = [change.before, change.after].some(
    object => (object as Workload | undefined)?.component !== undefined,
  );
  const facts =
    before.fact(ambient) !== after.fact(ambient) ||
    before.fact(cniSettings) !== after.fact(cniSettings) ||
    touchesControlPlane(change) ||
    component ||
    change.ref.kind === GATEWAY_CLASS;
  if (facts) for (const kind of subjects) yield* after.list(kind);
  // where the changed object was tells more than where it is: its Services, its references
  if (change.before !== undefined) yield* concerned(before, change, subjects);
  if (change.after !== undefined) yield* concerned(after, change, subjects);
}

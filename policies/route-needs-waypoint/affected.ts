// Which routes and attached configuration another object's change may concern.
import { type ChangeContext, PAUSE } from '../../src/engine/policy.ts';
import { type GroupKind, type ObjectRef, refKey } from '../../src/kube/kind.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { ambient, cniSettings } from '../../src/mesh/enrolment.ts';
import { DESTINATION_RULE, fullHost } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../src/mesh/kinds/gateways.ts';
import type { ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { WORKLOAD_KINDS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Kind } from '../../src/mesh/kinds.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { rootNamespaces } from '../../src/mesh/releases.ts';
import { namersOf, servicesIn, servicesOf } from '../../src/mesh/waypoints.ts';
import { type Destination, ref, SERVICE_ENTRY } from './destinations.ts';

type Step = ObjectRef | typeof PAUSE;
const WORKLOADS: ReadonlySet<GroupKind> = new Set(WORKLOAD_KINDS);
const ISTIO_GATEWAY = 'Gateway.networking.istio.io';

/** Names the subjects of one Mesh that a change concerns. */
function* concerned(mesh: Mesh, change: Change, subjects: readonly Kind[]): Iterable<Step> {
  const { kind, namespace, name } = change.ref;

  function* referring(key: string): Iterable<Step> {
    for (const object of mesh.referring(key)) if (subjects.includes(object.kind as Kind)) yield ref(object);
  }
  function* inNamespace(where: string): Iterable<Step> {
    let steps = 0;
    for (const subject of subjects) {
      for (const object of mesh.list(subject, where)) {
        steps += 1;
        if (steps % 50 === 0) yield PAUSE;
        yield ref(object);
      }
    }
  }
  /** Those that select in every namespace. */
  function* inRoots(except: string): Iterable<Step> {
    for (const root of mesh.fact(rootNamespaces)) if (root !== except) yield* inNamespace(root);
  }
  function* of(destination: Destination): Iterable<Step> {
    yield* referring(refKey(destination));
    if (destination.kind !== SERVICE_ENTRY) return;
    for (const host of (destination as ServiceEntry).hosts) yield* referring(hostKey(host));
  }
  function* around(where: string): Iterable<Step> {
    yield* inNamespace(where);
    let steps = 0;
    for (const destination of servicesIn(mesh, where)) {
      steps += 1;
      if (steps % 50 === 0) yield PAUSE;
      yield* of(destination);
    }
    yield* inRoots(where);
  }

  if (kind === 'Namespace') yield* around(name);
  else if (kind === 'Service' || kind === SERVICE_ENTRY) {
    for (const object of [change.before, change.after]) if (object !== undefined) yield* of(object as Destination);
    yield* inNamespace(namespace);
    yield* inRoots(namespace);
  } else if (WORKLOADS.has(kind)) {
    yield* inNamespace(namespace);
    for (const object of [change.before, change.after]) {
      if (object === undefined) continue;
      for (const service of servicesOf(mesh, object as Workload)) yield* of(service);
    }
    for (const entry of mesh.list(SERVICE_ENTRY, namespace)) if (entry.workloadSelector !== undefined) yield* of(entry);
    yield* inRoots(namespace);
  } else if (kind === GATEWAY) {
    yield* referring(refKey(change.ref));
    yield* around(namespace);
    for (const namer of namersOf(mesh, change.ref)) {
      if (namer.kind === 'Namespace') yield* around(namer.name);
      else if (namer.kind === 'Service' || namer.kind === SERVICE_ENTRY) {
        yield* of(namer as Destination);
        yield* inNamespace(namer.namespace);
      }
    }
    yield* inRoots(namespace);
  } else if (kind === ISTIO_GATEWAY) {
    yield* referring(refKey(change.ref));
    // one anywhere tells that there is an ingress, which applies DestinationRules
    for (const rule of mesh.list(DESTINATION_RULE)) yield ref(rule);
  } else if (subjects.includes(kind as Kind)) {
    // routes of a gateway and VirtualServices tell whether a gateway applies a DestinationRule
    for (const object of [change.before, change.after]) {
      if (object === undefined) continue;
      const { rules, hosts } = object as {
        rules?: readonly { backends?: readonly ObjectRef[] }[];
        hosts?: readonly string[];
      };
      for (const { backends } of rules ?? []) for (const backend of backends ?? []) yield* referring(refKey(backend));
      for (const host of hosts ?? []) yield* referring(hostKey(fullHost(host, namespace)));
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
  if (facts) for (const kind of subjects) for (const object of after.list(kind)) yield ref(object);
  // where the changed object was tells more than where it is: its Services, its references
  if (change.before !== undefined) yield* concerned(before, change, subjects);
  if (change.after !== undefined) yield* concerned(after, change, subjects);
}

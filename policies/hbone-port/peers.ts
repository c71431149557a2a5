// Who the peers of a rule are: inside the mesh, outside of it, or nobody knows.
import { PAUSE } from '../../src/engine/policy.ts';
import { contains, overlap, parseBlock } from '../../src/kube/addresses.ts';
import { type ObjectRef, ref } from '../../src/kube/kind.ts';
import { NO_STRINGS, selects } from '../../src/kube/labels.ts';
import { type Enforcer, type Enrolment, enforcerOf, enrolsByDefault, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { NAME_LABEL } from '../../src/mesh/kinds/cluster.ts';
import type { IpBlock, NetworkPolicyPeer } from '../../src/mesh/kinds/network.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { selectsAll } from '../../src/mesh/networkpolicy.ts';

/** Who enforces at pods as far as it can be said: 'nobody' also where nobody knows, then not certain. */
export function enforcerAt({ by, likely }: Enrolment): { readonly by: Enforcer; readonly certain: boolean } {
  return by === 'unknown' ? { by: likely ?? 'nobody', certain: false } : { by, certain: true };
}

const blocks = (...cidrs: readonly string[]) => cidrs.flatMap(cidr => parseBlock(cidr) ?? []);
/** Where pods of nearly every cluster have their addresses. */
const PRIVATE = blocks('10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7');
const SHARED = blocks('100.64.0.0/10');

/** Whether a block of addresses means everybody, may mean pods, or is the world outside. */
export function reachOf({ cidr, except }: IpBlock): 'everybody' | 'perhaps' | 'outside' {
  const block = parseBlock(cidr);
  if (block === undefined) return 'outside';
  if (block.prefix === 0 && except.length === 0) return 'everybody';
  const holes = blocks(...except);
  const left = (range: ReturnType<typeof blocks>[number]) =>
    overlap(block, range) && !holes.some(hole => contains(hole, range) || contains(hole, block));
  return PRIVATE.some(left) || SHARED.some(range => contains(range, block) && left(range)) ? 'perhaps' : 'outside';
}

/** True for a peer that is every pod of the cluster. */
export function isEveryPod({ ipBlock, namespaceSelector, podSelector }: NetworkPolicyPeer): boolean {
  return (
    ipBlock === undefined &&
    namespaceSelector !== undefined &&
    selectsAll(namespaceSelector) &&
    (podSelector === undefined || selectsAll(podSelector))
  );
}

/** The namespaces that a peer of a policy in `own` speaks of. A name that is not known here comes too. */
function* namespacesOf(
  mesh: Mesh,
  { namespaceSelector }: NetworkPolicyPeer,
  own: string,
): Iterable<{ readonly name: string; readonly known: boolean } | typeof PAUSE> {
  if (namespaceSelector === undefined) {
    yield { name: own, known: mesh.get('Namespace', '', own) !== undefined };
    return;
  }
  const name = namespaceSelector.matchLabels[NAME_LABEL];
  if (name !== undefined) {
    const found = mesh.get('Namespace', '', name);
    if (found === undefined) yield { name, known: false };
    else if (selects(namespaceSelector, found.labels)) yield { name, known: true };
    return;
  }
  let count = 0;
  for (const found of mesh.list('Namespace')) {
    count += 1;
    if (count % 100 === 0) yield PAUSE;
    if (selects(namespaceSelector, found.labels)) yield { name: found.name, known: true };
  }
}

/** The workloads that are a peer of a policy in `own`. */
export function* podsOf(mesh: Mesh, peer: NetworkPolicyPeer, own: string): Iterable<Workload | typeof PAUSE> {
  if (peer.ipBlock !== undefined) return;
  let count = 0;
  for (const namespace of namespacesOf(mesh, peer, own)) {
    if (namespace === PAUSE) {
      yield PAUSE;
      continue;
    }
    for (const workload of mesh.workloads(peer.podSelector?.matchLabels ?? NO_STRINGS, namespace.name)) {
      count += 1;
      if (count % 50 === 0) yield PAUSE;
      if (peer.podSelector !== undefined && !selects(peer.podSelector, workload.template.labels)) continue;
      if (!judgedByOwner(mesh, workload)) yield workload;
    }
  }
}

export interface Membership {
  readonly state: 'mesh' | 'outside' | 'unknown';
  /** An object that shows it. */
  readonly at?: ObjectRef;
}

/** Whether somebody of a peer is in the mesh, as `counts` has it; pods to come count by their namespace. */
export function* membershipOf(
  mesh: Mesh,
  peer: NetworkPolicyPeer,
  own: string,
  counts: (by: Enforcer) => boolean,
): Generator<typeof PAUSE, Membership> {
  let unknown = true;
  let expected: ObjectRef | undefined;
  for (const namespace of namespacesOf(mesh, peer, own)) {
    if (namespace === PAUSE) {
      yield PAUSE;
      continue;
    }
    // istio-cni leaves some namespaces alone, known or not
    if (namespace.known || enrolsByDefault(mesh, namespace.name) === false) unknown = false;
    let empty = true;
    for (const workload of mesh.workloads(peer.podSelector?.matchLabels ?? NO_STRINGS, namespace.name)) {
      if (peer.podSelector !== undefined && !selects(peer.podSelector, workload.template.labels)) continue;
      empty = false;
      if (judgedByOwner(mesh, workload)) continue;
      if (counts(enforcerAt(enforcerOf(mesh, workload)).by)) return { state: 'mesh', at: ref(workload) };
    }
    if (empty && namespace.known && enrolsByDefault(mesh, namespace.name) === true) {
      expected ??= { kind: 'Namespace', namespace: '', name: namespace.name };
    }
  }
  if (expected !== undefined) return { state: 'mesh', at: expected };
  return { state: unknown ? 'unknown' : 'outside' };
}

/** A namespace that enrols its pods in ambient mode, the first that is found. */
export function* someAmbientNamespace(mesh: Mesh): Generator<typeof PAUSE, ObjectRef | undefined> {
  let count = 0;
  for (const { name } of mesh.list('Namespace')) {
    count += 1;
    if (count % 100 === 0) yield PAUSE;
    if (enrolsByDefault(mesh, name) === true) return { kind: 'Namespace', namespace: '', name };
  }
  return undefined;
}

/** A peer as a part of a key: the same for the same selectors. */
export function keyOf({ ipBlock, namespaceSelector, podSelector }: NetworkPolicyPeer): string {
  return JSON.stringify([ipBlock, namespaceSelector, podSelector]);
}

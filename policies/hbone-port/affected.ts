// Which NetworkPolicies another object's change concerns.

import { type ChangeContext, PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref } from '../../src/kube/kind.ts';
import { type LabelSelector, NO_STRINGS, type StringMap, selects } from '../../src/kube/labels.ts';
import { alters } from '../../src/mesh/changes.ts';
import { ambient, cniSettings, enrolsByDefault, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { NAME_LABEL, WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { NETWORK_POLICY, type NetworkPolicy, type NetworkPolicyRule } from '../../src/mesh/kinds/network.ts';
import { AUTHORIZATION_POLICY } from '../../src/mesh/kinds/security.ts';
import { WORKLOAD_KINDS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Change, Fact, Mesh } from '../../src/mesh/mesh.ts';
import { ruleHasPort, selectsAll } from '../../src/mesh/networkpolicy.ts';
import { controlPlanes, rootNamespaces } from '../../src/mesh/releases.ts';
import { candidatesOf, isGatewayName, namersOf } from '../../src/mesh/waypoints.ts';
import { CILIUM_POLICY, cilium } from './ingress.ts';
import { isEveryPod } from './peers.ts';
import { HBONE } from './pods.ts';

const WORKLOADS: readonly string[] = WORKLOAD_KINDS;

interface Mention {
  readonly policy: ObjectRef;
  readonly namespaces: LabelSelector;
  readonly pods?: LabelSelector;
}

interface Mentions {
  /** By the name of the one namespace that a selector asks for. */
  readonly named: ReadonlyMap<string, readonly Mention[]>;
  /** By selector: policies tend to use the same few. */
  readonly others: readonly { readonly namespaces: LabelSelector; readonly mentions: readonly Mention[] }[];
}

/**
 * The rules of a policy for which it matters who a peer is: those that let in and leave 15008 out, and all that let out, since a
 * waypoint may stand before the peer. Names of ports count as something else.
 */
function* asking(policy: NetworkPolicy): Iterable<NetworkPolicyRule> {
  const numbers = (rule: NetworkPolicyRule) => rule.ports.filter(({ port }) => typeof port !== 'string');
  const opens = (rule: NetworkPolicyRule) => ruleHasPort({ peers: [], ports: numbers(rule) }, HBONE, undefined);
  for (const rule of policy.ingress ?? []) {
    if (rule.ports.length > 0 && (numbers(rule).length === 0 || !opens(rule))) yield rule;
  }
  yield* policy.egress ?? [];
}

/** The policies for which pods of other namespaces matter. Those that mean every pod of the cluster ask nothing of any. */
const mentions: Fact<Mentions> = {
  name: 'networkPolicyMentions',
  compute(mesh) {
    const named = new Map<string, Mention[]>();
    const others = new Map<string, { namespaces: LabelSelector; mentions: Mention[] }>();
    for (const policy of mesh.list(NETWORK_POLICY)) {
      for (const { peers } of asking(policy)) {
        for (const peer of peers) {
          const { namespaceSelector: namespaces, podSelector: pods } = peer;
          if (namespaces === undefined || isEveryPod(peer)) continue;
          const mention: Mention = { policy: ref(policy), namespaces, ...(pods === undefined ? {} : { pods }) };
          const name = namespaces.matchLabels[NAME_LABEL];
          if (name !== undefined) named.set(name, [...(named.get(name) ?? []), mention]);
          else {
            const key = JSON.stringify(namespaces);
            const group = others.get(key);
            if (group === undefined) others.set(key, { namespaces, mentions: [mention] });
            else group.mentions.push(mention);
          }
        }
      }
    }
    return { named, others: [...others.values()] };
  },
};

/** The policies that may mean pods with one of these sets of labels in a namespace with one of those; without labels any pod of it. */
function* meaning(
  mesh: Mesh,
  namespace: string,
  namespaceLabels: readonly StringMap[],
  pods?: readonly StringMap[],
): Iterable<ObjectRef> {
  const { named, others } = mesh.fact(mentions);
  const meant = (selector: LabelSelector | undefined) =>
    selector === undefined || pods === undefined || pods.some(labels => selects(selector, labels));
  for (const { policy, pods: wanted } of named.get(namespace) ?? []) if (meant(wanted)) yield policy;
  for (const group of others) {
    if (!selectsAll(group.namespaces) && !namespaceLabels.some(labels => selects(group.namespaces, labels))) continue;
    for (const { policy, pods: wanted } of group.mentions) if (meant(wanted)) yield policy;
  }
}

function* all(mesh: Mesh): Iterable<ObjectRef | typeof PAUSE> {
  let count = 0;
  for (const policy of mesh.list(NETWORK_POLICY)) {
    count += 1;
    if (count % 50 === 0) yield PAUSE;
    yield ref(policy);
  }
}

/** The policies of a namespace, and those that speak of it. */
function* around(mesh: Mesh, namespace: string, labels: readonly StringMap[], pods?: readonly StringMap[]) {
  for (const policy of mesh.list(NETWORK_POLICY, namespace)) yield ref(policy);
  yield* meaning(mesh, namespace, labels, pods);
}

function labelsOf(mesh: Mesh, namespace: string): StringMap {
  return mesh.get('Namespace', '', namespace)?.labels ?? NO_STRINGS;
}

/** True where no namespace but one enrols pods: whether it does decides for the whole cluster. */
function isOnlyAmbient(mesh: Mesh, namespace: string): boolean {
  for (const { name } of mesh.list('Namespace')) {
    if (name !== namespace && enrolsByDefault(mesh, name) === true) return false;
  }
  return true;
}

function altersParts({ ref: { kind, name } }: Change, before: Mesh, after: Mesh): boolean {
  return (
    kind === WEBHOOKS ||
    kind === GATEWAY_CLASS ||
    kind === CILIUM_POLICY ||
    (kind === 'ConfigMap' && name.startsWith('istio')) ||
    alters({ before, after }, controlPlanes, cilium, cniSettings) ||
    before.fact(ambient).state !== after.fact(ambient).state
  );
}

export function* affected(change: Change, { before, after }: ChangeContext): Iterable<ObjectRef | typeof PAUSE> {
  const { kind, namespace, name } = change.ref;
  if (kind === AUTHORIZATION_POLICY) {
    // no policy is a part of the mesh
    if (after.fact(rootNamespaces).includes(namespace)) yield* all(after);
    else for (const policy of after.list(NETWORK_POLICY, namespace)) yield ref(policy);
  } else if (altersParts(change, before, after)) {
    yield* all(after);
  } else if (kind === NETWORK_POLICY) {
    for (const policy of after.list(NETWORK_POLICY, namespace)) yield ref(policy);
  } else if (WORKLOADS.includes(kind)) {
    const changed = [change.before, change.after].flatMap(object => (object === undefined ? [] : [object as Workload]));
    // what is known of its owner, in whose place nobody looks at it
    if (changed.every(workload => judgedByOwner(before, workload) && judgedByOwner(after, workload))) return;
    const pods = changed.map(workload => workload.template.labels);
    // the pods of a workload that goes or comes may have other labels than its template
    yield* around(after, namespace, [labelsOf(after, namespace)], kind === 'Pod' ? pods : undefined);
    // pods of a waypoint are whom policies of other namespaces must let in
    const gateways = new Set(pods.flatMap(labels => labels['gateway.networking.k8s.io/gateway-name'] ?? []));
    for (const gateway of gateways) yield* ofWaypoint(after, namespace, gateway);
  } else if (kind === 'Service') {
    yield* around(after, namespace, [labelsOf(after, namespace)]);
  } else if (kind === 'Namespace') {
    if (
      enrolsByDefault(before, name) !== enrolsByDefault(after, name) &&
      (isOnlyAmbient(after, name) || isOnlyAmbient(before, name))
    ) {
      yield* all(after);
      return;
    }
    const labels = [change.before, change.after].flatMap(object => (object === undefined ? [] : [object.labels]));
    // a Namespace that nobody had described may be meant by any selector
    yield* around(after, name, change.before === undefined ? [...labels, NO_STRINGS] : labels);
    if (change.before === undefined || change.after === undefined) {
      for (const group of after.fact(mentions).others) for (const { policy } of group.mentions) yield policy;
    }
    // its labels decide whether a waypoint serves it, and whether policies elsewhere let its waypoints in
    for (const gateway of after.list(GATEWAY, name)) yield* ofWaypoint(after, name, gateway.name);
  } else if (kind === GATEWAY) {
    yield* around(after, namespace, [labelsOf(after, namespace)]);
    if (isGatewayName(name)) for (const mesh of [before, after]) yield* ofWaypoint(after, namespace, name, mesh);
  }
}

/** The policies around whatever may be bound to a waypoint. */
function* ofWaypoint(
  mesh: Mesh,
  namespace: string,
  name: string,
  bindings: Mesh = mesh,
): Iterable<ObjectRef | typeof PAUSE> {
  const namespaces = new Set<string>();
  for (const { object } of candidatesOf(bindings, { namespace, name })) namespaces.add(object.namespace);
  for (const namer of namersOf(bindings, { namespace, name })) namespaces.add(ownOf(namer));
  for (const one of namespaces) {
    yield* around(mesh, one, [labelsOf(mesh, one)]);
    yield PAUSE;
  }
}

const ownOf = (object: Meta) => (object.kind === 'Namespace' ? object.name : object.namespace);

// What NetworkPolicies let through (networking.k8s.io/v1): the union of all that select a pod, in each direction. A pod that none
// selects is open. Nothing is known of what a CNI does beyond that.

import { contains, parseAddress, parseBlock } from '../kube/addresses.ts';
import { type LabelSelector, type StringMap, selects } from '../kube/labels.ts';
import { NAME_LABEL } from './kinds/cluster.ts';
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule } from './kinds/network.ts';
import { NETWORK_POLICY } from './kinds/network.ts';
import type { ContainerPort } from './kinds/workloads.ts';
import type { Mesh } from './mesh.ts';

export type Direction = 'ingress' | 'egress';
export type Answer = 'yes' | 'no' | 'unknown';

/** A pod as NetworkPolicies see it. */
export interface PodEnd {
  readonly namespace: string;
  readonly labels: StringMap;
  /** undefined where the Namespace is not known. */
  readonly namespaceLabels?: StringMap;
  /** Its declared ports, for rules that name them. */
  readonly ports: readonly ContainerPort[];
  /** Its addresses where they are known. */
  readonly addresses?: readonly string[];
}

/** The other end of a connection: a pod, or an address outside. */
export type End = PodEnd | { readonly addresses: readonly string[] };

export interface Packet {
  readonly direction: Direction;
  /** The pod whose policies are asked. */
  readonly pod: PodEnd;
  /** Who sends (ingress) or receives (egress). */
  readonly other: End;
  readonly protocol: string;
  /** The port at which it arrives. */
  readonly port: number;
}

const isPod = (end: End): end is PodEnd => 'labels' in end;

function either(answers: Iterable<Answer>): Answer {
  let best: Answer = 'no';
  for (const answer of answers) {
    if (answer === 'yes') return 'yes';
    if (answer === 'unknown') best = 'unknown';
  }
  return best;
}

/** The policies of a namespace that are about one direction of the traffic of pods with these labels. */
export function selecting(
  policies: Iterable<NetworkPolicy>,
  pod: Pick<PodEnd, 'namespace' | 'labels'>,
  direction: Direction,
): readonly NetworkPolicy[] {
  const found: NetworkPolicy[] = [];
  for (const policy of policies) {
    if (
      policy.namespace === pod.namespace &&
      policy[direction] !== undefined &&
      selects(policy.podSelector, pod.labels)
    ) {
      found.push(policy);
    }
  }
  return found;
}

/** Whether one entry of `ports` is about a port; names are those of the container ports of the pod that receives. */
export function portMatches(
  { protocol, port, endPort }: NetworkPolicyPort,
  asked: { readonly protocol: string; readonly port: number },
  receiver: Pick<PodEnd, 'ports'> | undefined,
): boolean {
  if (protocol !== asked.protocol) return false;
  if (port === undefined) return true;
  if (typeof port === 'number') return asked.port >= port && asked.port <= (endPort ?? port);
  return (
    receiver?.ports.some(
      ({ name, number, protocol: theirs }) => name === port && number === asked.port && theirs === protocol,
    ) ?? false
  );
}

/** Whether a rule is about a port: it lists none, or one that matches. */
export function ruleHasPort(
  rule: NetworkPolicyRule,
  asked: { readonly protocol: string; readonly port: number },
  receiver: Pick<PodEnd, 'ports'> | undefined,
): boolean {
  return rule.ports.length === 0 || rule.ports.some(port => portMatches(port, asked, receiver));
}

function inBlock({ cidr, except }: NonNullable<NetworkPolicyPeer['ipBlock']>, addresses: readonly string[]): boolean {
  const block = parseBlock(cidr);
  if (block === undefined) return false;
  return addresses.some(text => {
    const address = parseAddress(text);
    return (
      address !== undefined &&
      contains(block, address) &&
      !except.some(excluded => {
        const hole = parseBlock(excluded);
        return hole !== undefined && contains(hole, address);
      })
    );
  });
}

/** Whether a peer of a policy in `namespace` is this end. A pod whose addresses are not known may or may not be in a block. */
export function peerMatches(peer: NetworkPolicyPeer, namespace: string, end: End): Answer {
  if (peer.ipBlock !== undefined) {
    if (end.addresses === undefined) return 'unknown';
    return inBlock(peer.ipBlock, end.addresses) ? 'yes' : 'no';
  }
  if (!isPod(end) || (peer.namespaceSelector === undefined && peer.podSelector === undefined)) return 'no';
  if (peer.podSelector !== undefined && !selects(peer.podSelector, end.labels)) return 'no';
  if (peer.namespaceSelector === undefined) return end.namespace === namespace ? 'yes' : 'no';
  if (selectsAll(peer.namespaceSelector)) return 'yes';
  if (end.namespaceLabels === undefined) return named(peer.namespaceSelector, end.namespace);
  return selects(peer.namespaceSelector, end.namespaceLabels) ? 'yes' : 'no';
}

/** True for a selector without requirements. */
export function selectsAll({ matchLabels, matchExpressions }: LabelSelector): boolean {
  for (const _ in matchLabels) return false;
  return matchExpressions.length === 0;
}

/** What a namespace's name alone tells of a selector, where its labels are not known. */
function named({ matchLabels, matchExpressions }: LabelSelector, namespace: string): Answer {
  const name = matchLabels[NAME_LABEL];
  if (name !== undefined && name !== namespace) return 'no';
  return name !== undefined && Object.keys(matchLabels).length === 1 && matchExpressions.length === 0
    ? 'yes'
    : 'unknown';
}

function* answers(applying: readonly NetworkPolicy[], packet: Packet, receiver: PodEnd | undefined): Iterable<Answer> {
  for (const policy of applying) {
    for (const rule of policy[packet.direction] ?? []) {
      if (!ruleHasPort(rule, packet, receiver)) continue;
      if (rule.peers.length === 0) yield 'yes';
      for (const peer of rule.peers) yield peerMatches(peer, policy.namespace, packet.other);
    }
  }
}

/** Whether the policies let a packet through: those that do not select its pod have no say. */
export function admits(policies: Iterable<NetworkPolicy>, packet: Packet): Answer {
  const { direction, pod, other } = packet;
  const applying = selecting(policies, pod, direction);
  if (applying.length === 0) return 'yes';
  const receiver = direction === 'ingress' ? pod : isPod(other) ? other : undefined;
  return either(answers(applying, packet, receiver));
}

/** Somebody whom the policies let in (or out to) at a port: everybody, or a peer of a policy. */
export interface Grant {
  readonly policy: NetworkPolicy;
  /** undefined for everybody. */
  readonly peer?: NetworkPolicyPeer;
}

/**
 * Whom the policies that select a pod admit at one port, the union over all of them; 'everybody' where none selects it. Names of
 * ports in egress rules are the other pod's, so that they grant nothing here.
 */
export function grantsAt(
  policies: Iterable<NetworkPolicy>,
  pod: PodEnd,
  direction: Direction,
  asked: { readonly protocol: string; readonly port: number },
): readonly Grant[] | 'everybody' {
  const applying = selecting(policies, pod, direction);
  if (applying.length === 0) return 'everybody';
  const grants: Grant[] = [];
  for (const policy of applying) {
    for (const rule of policy[direction] ?? []) {
      if (!ruleHasPort(rule, asked, direction === 'ingress' ? pod : undefined)) continue;
      if (rule.peers.length === 0) return 'everybody';
      for (const peer of rule.peers) grants.push({ policy, peer });
    }
  }
  return grants;
}

/** True where everything that the first selector selects is selected by the second: each requirement of the second is one of the first. */
function narrower(first: LabelSelector, second: LabelSelector): boolean {
  for (const key in second.matchLabels) if (first.matchLabels[key] !== second.matchLabels[key]) return false;
  return second.matchExpressions.every(wanted =>
    first.matchExpressions.some(
      has =>
        has.key === wanted.key &&
        has.operator === wanted.operator &&
        has.values.length === wanted.values.length &&
        has.values.every(value => wanted.values.includes(value)),
    ),
  );
}

/** True where every pod that is `peer` (of a policy in `namespace`) is granted. False may also mean that it cannot be told by the selectors alone. */
export function covered(peer: NetworkPolicyPeer, namespace: string, grants: readonly Grant[]): boolean {
  return grants.some(grant => {
    const wide = grant.peer;
    if (wide === undefined) return true;
    if (wide.ipBlock !== undefined || peer.ipBlock !== undefined) return false;
    if (wide.podSelector !== undefined && !narrower(peer.podSelector ?? EVERYTHING, wide.podSelector)) return false;
    if (wide.namespaceSelector === undefined) {
      return (
        wide.podSelector !== undefined && peer.namespaceSelector === undefined && namespace === grant.policy.namespace
      );
    }
    if (peer.namespaceSelector !== undefined) return narrower(peer.namespaceSelector, wide.namespaceSelector);
    return selectsAll(wide.namespaceSelector);
  });
}

const EVERYTHING: LabelSelector = Object.freeze({
  matchLabels: Object.freeze({}),
  matchExpressions: Object.freeze([]),
});

/** The pods of a workload as NetworkPolicies see them. */
export function podEnd(
  mesh: Mesh,
  pods: {
    readonly namespace: string;
    readonly template: {
      readonly labels: StringMap;
      readonly containers: readonly { readonly ports: readonly ContainerPort[] }[];
      readonly initContainers: readonly { readonly ports: readonly ContainerPort[] }[];
    };
  },
): PodEnd {
  const { namespace, template } = pods;
  const namespaceLabels = mesh.get('Namespace', '', namespace)?.labels;
  return {
    namespace,
    labels: template.labels,
    ...(namespaceLabels === undefined ? {} : { namespaceLabels }),
    ports: [...template.initContainers, ...template.containers].flatMap(container => container.ports),
  };
}

/** The NetworkPolicies of a namespace. */
export function policiesIn(mesh: Mesh, namespace: string): readonly NetworkPolicy[] {
  return [...mesh.list(NETWORK_POLICY, namespace)];
}

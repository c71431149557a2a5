// What comes in to the pods that a policy selects.
import { PAUSE, type Report } from '../../src/engine/policy.ts';
import { ref, refKey } from '../../src/kube/kind.ts';
import { matchesLabels } from '../../src/kube/labels.ts';
import { ambient, enforcerOf, GATEWAY_NAME } from '../../src/mesh/enrolment.ts';
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyRule } from '../../src/mesh/kinds/network.ts';
import { AUTHORIZATION_POLICY } from '../../src/mesh/kinds/security.ts';
import type { Fact, Mesh } from '../../src/mesh/mesh.ts';
import {
  admits,
  covered,
  type Grant,
  podEnd,
  policiesIn,
  ruleHasPort,
  selecting,
  selectsAll,
} from '../../src/mesh/networkpolicy.ts';
import { rootNamespaces } from '../../src/mesh/releases.ts';
import { enforcerAt, isEveryPod, keyOf, membershipOf, podsOf, reachOf, someAmbientNamespace } from './peers.ts';
import { applicationRules, HBONE, hboneGrants, type Selected, tcpRules, waypointBefore, waypointEnd } from './pods.ts';

export type Finding =
  | 'ingress-blocked'
  | 'egress-blocked'
  | 'waypoint-blocked'
  | 'default-deny'
  | 'probes-blocked'
  | 'sidecar-destination'
  | 'open-to-every-peer';

export interface Options {
  /** Addresses from which istio-cni lets the kubelet probe captured pods, IPv4 and IPv6. */
  readonly probeAddresses: readonly string[];
  /** Where probes are judged: where Cilium enforces NetworkPolicies, everywhere, nowhere. */
  readonly probes: 'cilium' | 'always' | 'never';
}

export type Found = Generator<Report<Finding> | typeof PAUSE>;

const EVERYBODY: NetworkPolicyPeer = Object.freeze({});

/** The peers of a rule; one that stands for everybody where it has none. */
function peersOf(rule: NetworkPolicyRule): readonly NetworkPolicyPeer[] {
  return rule.peers.length === 0 ? [EVERYBODY] : rule.peers;
}

const isEverybody = (peer: NetworkPolicyPeer) =>
  peer === EVERYBODY || isEveryPod(peer) || (peer.ipBlock !== undefined && reachOf(peer.ipBlock) === 'everybody');

/** Whether a rule lets somebody of the mesh in, so that closing 15008 takes something away from him. */
function* asksForMesh(
  mesh: Mesh,
  rules: readonly NetworkPolicyRule[],
  own: string,
): Generator<typeof PAUSE, 'yes' | 'perhaps' | 'no'> {
  let perhaps = false;
  for (const rule of rules) {
    for (const peer of peersOf(rule)) {
      if (isEverybody(peer)) return 'yes';
      if (peer.ipBlock !== undefined) {
        if (reachOf(peer.ipBlock) === 'perhaps') perhaps = true;
        continue;
      }
      const { state } = yield* membershipOf(mesh, peer, own, by => by !== 'nobody');
      if (state === 'mesh') return 'yes';
      if (state === 'unknown') perhaps = true;
    }
  }
  return perhaps ? 'perhaps' : 'no';
}

function* blocked(policy: NetworkPolicy, pod: Selected, mesh: Mesh, grants: readonly Grant[]): Found {
  const rules = applicationRules(policy.ingress ?? [], 'ingress', pod.end);
  if (rules.length === 0) return;
  if (grants.length === 0) {
    const asked = yield* asksForMesh(mesh, rules, policy.namespace);
    if (asked === 'no') return;
    yield {
      finding: 'ingress-blocked',
      key: 'ingress',
      effect:
        'no policy lets HBONE (TCP 15008) in to the ambient pods it selects: the mesh cannot reach them on any port',
      fix: 'add TCP 15008 to spec.ingress, from the same peers; keep the other ports for clients outside the mesh',
      evidence: [pod.at],
      certain: pod.certain && asked === 'yes',
      path: '/spec/ingress',
    };
    return;
  }
  for (const rule of rules) {
    for (const peer of rule.peers) {
      if (peer.ipBlock !== undefined || isEveryPod(peer) || covered(peer, policy.namespace, grants)) continue;
      for (const client of podsOf(mesh, peer, policy.namespace)) {
        if (client === PAUSE) {
          yield PAUSE;
          continue;
        }
        const enforcer = enforcerAt(enforcerOf(mesh, client));
        if (enforcer.by === 'nobody') continue;
        const packet = { direction: 'ingress', pod: pod.end, other: podEnd(mesh, client), ...HBONE } as const;
        yield PAUSE;
        if (admits(policiesIn(mesh, policy.namespace), packet) !== 'no') continue;
        yield {
          finding: 'ingress-blocked',
          key: `ingress ${keyOf(peer)}`,
          effect: `it lets ${client.name} in on ports that the mesh does not use: HBONE (TCP 15008) stays closed to it`,
          fix: 'add TCP 15008 to the ports of that rule',
          evidence: [pod.at, ref(client)],
          certain: pod.certain && enforcer.certain,
          path: '/spec/ingress',
        };
        break;
      }
    }
  }
}

/** Whether something is let in over TCP at all: a policy that isolates on purpose blocks nobody by mistake. */
function opensTcp(policy: NetworkPolicy): boolean {
  return (policy.ingress ?? []).some(
    rule => rule.ports.length === 0 || rule.ports.some(({ protocol }) => protocol === 'TCP'),
  );
}

function* behindWaypoint(
  policy: NetworkPolicy,
  pod: Selected,
  mesh: Mesh,
): Generator<Report<Finding> | typeof PAUSE, boolean> {
  const waypoint = pod.workload === undefined ? undefined : waypointBefore(mesh, pod.workload);
  if (waypoint === undefined) return false;
  const packet = { direction: 'ingress', pod: pod.end, other: waypointEnd(mesh, waypoint.gateway), ...HBONE } as const;
  const answer = admits(policiesIn(mesh, policy.namespace), packet);
  if (answer === 'yes') return true;
  if (answer === 'no' && opensTcp(policy)) {
    const { namespace, name } = waypoint.gateway;
    yield {
      finding: 'waypoint-blocked',
      key: refKey(waypoint.gateway),
      effect: `it keeps waypoint ${namespace}/${name} out, through which mesh clients reach the pods it selects`,
      fix: `let pods with gateway.networking.k8s.io/gateway-name: ${name}${namespace === policy.namespace ? '' : ` of namespace ${namespace}`} in on TCP 15008`,
      evidence: [pod.at, ref(waypoint.gateway)],
      certain: pod.certain && waypoint.certain,
      path: '/spec/ingress',
    };
  }
  return false;
}

const CILIUM_NAMESPACES = ['kube-system', 'cilium', 'cilium-system'];
export const CILIUM_POLICY = 'CiliumClusterwideNetworkPolicy.cilium.io';

/** Whether Cilium enforces NetworkPolicies here: it alone is known to hold them against the kubelet's probes (I§10). */
export const cilium: Fact<boolean> = {
  name: 'cilium',
  compute(mesh) {
    for (const namespace of CILIUM_NAMESPACES) {
      for (const _ of mesh.workloads({ 'k8s-app': 'cilium' }, namespace)) return true;
    }
    return false;
  },
};

/** Whether a cluster-wide policy of Cilium speaks of the address of probes, as Istio's documentation has it. */
const probesAllowed: Fact<readonly string[]> = {
  name: 'ciliumProbes',
  compute: mesh => [...mesh.list(CILIUM_POLICY)].map(({ spec }) => JSON.stringify(spec ?? '')),
};

function* probes(policy: NetworkPolicy, pod: Selected, mesh: Mesh, options: Options): Found {
  if (pod.workload === undefined || options.probes === 'never') return;
  const containers = [...pod.workload.template.initContainers, ...pod.workload.template.containers];
  if (containers.every(container => container.probes.length === 0)) return;
  if (options.probes === 'cilium' && !mesh.fact(cilium)) return;
  if (mesh.fact(probesAllowed).some(spec => options.probeAddresses.some(address => spec.includes(address)))) return;
  const policies = policiesIn(mesh, policy.namespace);
  for (const container of containers) {
    for (const probe of container.probes) {
      const port = typeof probe === 'number' ? probe : container.ports.find(({ name }) => name === probe)?.number;
      if (port === undefined) continue;
      const open = options.probeAddresses.some(
        address =>
          admits(policies, {
            direction: 'ingress',
            pod: pod.end,
            other: { addresses: [address] },
            protocol: 'TCP',
            port,
          }) !== 'no',
      );
      if (open) continue;
      yield {
        finding: 'probes-blocked',
        key: 'probes',
        effect: `probes of the pods it selects fail: they come from ${options.probeAddresses[0] ?? ''}, which no policy lets in`,
        fix: `let ipBlock ${options.probeAddresses.map(address => `${address}/${address.includes(':') ? 128 : 32}`).join(' and ')} in`,
        evidence: [pod.at],
        because: options.probes === 'cilium' ? 'Cilium holds policies against the kubelet too' : `port ${port}`,
        path: '/spec/ingress',
      };
      return;
    }
  }
}

/** Whether an AuthorizationPolicy says who may do what at these pods. */
function isAuthorized(mesh: Mesh, pod: Selected): boolean {
  const holds = (namespace: string, everywhere: boolean) => {
    for (const { action, targets, selector } of mesh.list(AUTHORIZATION_POLICY, namespace)) {
      if (targets.length > 0 || (action !== 'ALLOW' && action !== 'DENY')) continue;
      if (selector === undefined) return true;
      if (selector.matchLabels !== undefined && matchesLabels(selector.matchLabels, pod.end.labels)) return true;
      if (everywhere && selector.matchLabels === undefined) continue;
    }
    return false;
  };
  return holds(pod.end.namespace, false) || mesh.fact(rootNamespaces).some(root => holds(root, true));
}

/** True for a policy that opens 15008 to everybody beside ports that it opens to some. */
export function opensHboneToAll({ ingress }: NetworkPolicy): boolean {
  return (ingress ?? []).some(
    rule => rule.peers.length === 0 && rule.ports.length > 0 && ruleHasPort(rule, HBONE, undefined),
  );
}

function* everyPeer(policy: NetworkPolicy, pod: Selected, mesh: Mesh): Found {
  if (!opensHboneToAll(policy)) return;
  const rules = applicationRules(policy.ingress ?? [], 'ingress', pod.end);
  const limited = rules.filter(rule => rule.peers.length > 0 && !rule.peers.some(isEverybody));
  if (limited.length === 0 || limited.length < rules.length || isAuthorized(mesh, pod)) return;
  yield {
    finding: 'open-to-every-peer',
    key: 'ingress',
    effect:
      'TCP 15008 is open to everybody: any mesh client reaches every port of the pods, whatever its other rules limit',
    fix: 'repeat the peers of the other rules on the rule for 15008, and limit ports with an AuthorizationPolicy',
    evidence: [pod.at],
    path: '/spec/ingress',
  };
}

function* sidecar(policy: NetworkPolicy, pod: Selected, mesh: Mesh): Found {
  if (mesh.fact(ambient).state !== 'on') return;
  for (const rule of applicationRules(policy.ingress ?? [], 'ingress', pod.end)) {
    for (const peer of peersOf(rule)) {
      if (peer.ipBlock !== undefined && reachOf(peer.ipBlock) !== 'everybody') continue;
      const at = isEverybody(peer)
        ? yield* someAmbientNamespace(mesh)
        : (yield* membershipOf(mesh, peer, policy.namespace, by => by === 'ztunnel')).at;
      if (at === undefined) continue;
      yield {
        finding: 'sidecar-destination',
        key: 'ingress',
        effect: 'clients in ambient mode call these sidecar pods by HBONE (TCP 15008), which no policy lets in',
        fix: 'add TCP 15008 to spec.ingress, from the same peers',
        evidence: [pod.at, at],
        certain: false,
        path: '/spec/ingress',
      };
      return;
    }
  }
}

/** True for a policy that is about gateways by name: nobody isolates a waypoint on purpose, which has no clients without HBONE. */
function asksForGateway({ podSelector: { matchLabels, matchExpressions } }: NetworkPolicy): boolean {
  return (
    matchLabels[GATEWAY_NAME] !== undefined ||
    matchExpressions.some(({ key, operator }) => key === GATEWAY_NAME && (operator === 'In' || operator === 'Exists'))
  );
}

/**
 * Whether a policy closes 15008 of a waypoint: it opens ports of an application; ports of Istio's agents, or, being about the
 * waypoint, none at all (`policyTypes` left out imply Ingress), unless a default deny closes it already, of which that was said.
 */
function closesWaypoint(
  policy: NetworkPolicy,
  rules: readonly NetworkPolicyRule[],
  { end }: Selected,
  mesh: Mesh,
): boolean {
  if (applicationRules(rules, 'ingress', end).length > 0) return true;
  if (rules.length === 0 ? !asksForGateway(policy) : tcpRules(rules, 'ingress', end).length === 0) return false;
  return selecting(policiesIn(mesh, policy.namespace), end, 'ingress').every(
    other => other.ingress?.length !== 0 || asksForGateway(other),
  );
}

/** What a policy does to the traffic that comes in to one workload that it selects. */
export function* ingress(policy: NetworkPolicy, pod: Selected, mesh: Mesh, options: Options): Found {
  if (policy.ingress === undefined) return;
  const grants = hboneGrants(mesh, pod.end, 'ingress');
  const closed = grants !== 'everybody' && grants.length === 0;
  if (pod.by === 'ztunnel' || pod.by === 'waypoint') {
    if (closed && policy.ingress.length === 0 && selectsAll(policy.podSelector)) {
      yield {
        finding: 'default-deny',
        key: 'ingress',
        effect: 'it closes HBONE (TCP 15008) and probes too: the mesh cannot reach the pods of this namespace',
        fix: `follow it with policies that let TCP 15008 in, and ipBlock ${options.probeAddresses.map(address => `${address}/${address.includes(':') ? 128 : 32}`).join(' and ')}`,
        evidence: [pod.at],
        path: '/spec',
      };
    }
  }
  if (pod.by === 'waypoint') {
    if (closed && closesWaypoint(policy, policy.ingress, pod, mesh)) {
      yield {
        finding: 'waypoint-blocked',
        key: 'ingress',
        effect:
          'no policy lets HBONE (TCP 15008) in to the waypoint that it selects: what is bound to it is unreachable',
        fix: 'add TCP 15008 to spec.ingress, from every client of the waypoint',
        evidence: [pod.at],
        certain: pod.certain,
        path: '/spec/ingress',
      };
    }
  } else if (pod.by === 'sidecar') {
    if (closed) yield* sidecar(policy, pod, mesh);
  } else if (pod.by === 'ztunnel') {
    yield* probes(policy, pod, mesh, options);
    yield* everyPeer(policy, pod, mesh);
    if (grants === 'everybody') return;
    if (closed) yield* blocked(policy, pod, mesh, grants);
    else if (!(yield* behindWaypoint(policy, pod, mesh))) yield* blocked(policy, pod, mesh, grants);
  }
}

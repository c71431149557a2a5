// What goes out from the pods that a policy selects.
import { PAUSE } from '../../src/engine/policy.ts';
import { ref, refKey } from '../../src/kube/kind.ts';
import { ambient, enforcerOf } from '../../src/mesh/enrolment.ts';
import { GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyRule } from '../../src/mesh/kinds/network.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { admits, podEnd, policiesIn, ruleHasPort, selectsAll } from '../../src/mesh/networkpolicy.ts';
import type { Found } from './ingress.ts';
import { enforcerAt, isEveryPod, keyOf, membershipOf, podsOf } from './peers.ts';
import { applicationRules, HBONE, hboneGrants, type Selected, serves, waypointBefore, waypointEnd } from './pods.ts';

const HBONE_OUT =
  'add TCP 15008 to the ports of that rule; where a waypoint stands before those pods, let TCP 15008 out to its pods too';

/** A destination that a policy lets its pods call, and that HBONE does not get to. */
function* cutOff(
  policy: NetworkPolicy,
  pod: Selected,
  mesh: Mesh,
  target: Workload,
  key: string,
  about: NetworkPolicyRule,
): Found {
  const enforcer = enforcerAt(enforcerOf(mesh, target));
  if (enforcer.by !== 'ztunnel') return;
  const captured = pod.by === 'ztunnel';
  const waypoint = waypointBefore(mesh, target);
  // sidecars go past waypoints, gateways as well unless they are told otherwise
  if (!captured && waypoint !== undefined) return;
  const other = waypoint === undefined ? podEnd(mesh, target) : waypointEnd(mesh, waypoint.gateway);
  // it goes through all rules of all policies, for each rule
  yield PAUSE;
  const answer = admits(policiesIn(mesh, policy.namespace), { direction: 'egress', pod: pod.end, other, ...HBONE });
  if (answer !== 'no') return;
  // whether sidecars and gateways speak HBONE is a setting of theirs (ENABLE_HBONE, on where ambient is)
  const certain = pod.certain && enforcer.certain && captured;
  if (waypoint !== undefined) {
    const { namespace, name } = waypoint.gateway;
    yield {
      finding: 'waypoint-blocked',
      key: `egress ${refKey(waypoint.gateway)}`,
      effect: `it keeps its pods from waypoint ${namespace}/${name}, through which they reach ${target.name}`,
      fix: `let them out to pods with gateway.networking.k8s.io/gateway-name: ${name}${namespace === policy.namespace ? '' : ` of namespace ${namespace}`} on TCP 15008`,
      evidence: [pod.at, ref(target), ref(waypoint.gateway)],
      certain: certain && waypoint.certain,
      path: '/spec/egress',
    };
  } else if (about.ports.length > 0) {
    yield {
      finding: 'egress-blocked',
      key,
      effect: `it lets its pods call ${target.name} on ports that the mesh does not use: HBONE (TCP 15008) to it stays closed`,
      fix: HBONE_OUT,
      evidence: [pod.at, ref(target)],
      certain,
      path: '/spec/egress',
    };
  }
}

function* toPeer(
  policy: NetworkPolicy,
  pod: Selected,
  mesh: Mesh,
  rule: NetworkPolicyRule,
  peer: NetworkPolicyPeer,
  closed: boolean,
): Found {
  const key = `egress ${keyOf(peer)}`;
  let empty = true;
  for (const target of podsOf(mesh, peer, policy.namespace)) {
    if (target === PAUSE) {
      yield PAUSE;
      continue;
    }
    empty = false;
    let found = false;
    for (const report of cutOff(policy, pod, mesh, target, key, rule)) {
      yield report;
      found ||= report !== PAUSE;
    }
    if (found) return;
  }
  if (!empty || !closed || applicationRules([rule], 'egress', pod.end).length === 0) return;
  const { state, at } = yield* membershipOf(mesh, peer, policy.namespace, () => true);
  if (state === 'outside' || (state === 'unknown' && pod.by !== 'ztunnel')) return;
  yield {
    finding: 'egress-blocked',
    key,
    effect:
      'HBONE (TCP 15008) stays closed to the pods that it lets its own call: in ambient mode they are unreachable',
    fix: HBONE_OUT,
    evidence: [pod.at, ...(at === undefined ? [] : [at])],
    certain: false,
    path: '/spec/egress',
  };
}

/** Destinations of its own namespace that a rule for everybody means by one of its ports. */
function* toEverybody(policy: NetworkPolicy, pod: Selected, mesh: Mesh, rule: NetworkPolicyRule): Found {
  let count = 0;
  for (const target of mesh.workloads({}, policy.namespace)) {
    count += 1;
    if (count % 50 === 0) yield PAUSE;
    if (refKey(target) === refKey(pod.at) || !serves(mesh, target, rule)) continue;
    let found = false;
    for (const report of cutOff(policy, pod, mesh, target, 'egress', rule)) {
      yield report;
      found ||= report !== PAUSE;
    }
    if (found) return;
  }
}

/** Whether there is a waypoint, ready, that the policies do not let a pod out to: most of the time none, and no peer needs a look. */
function* missesWaypoint(mesh: Mesh, pod: Selected): Generator<typeof PAUSE, boolean> {
  const policies = policiesIn(mesh, pod.end.namespace);
  for (const gateway of mesh.list(GATEWAY)) {
    const as = managedAs(mesh, gateway.className);
    if (gateway.addresses === 0 || as === 'ingress' || as === 'east-west') continue;
    const other = waypointEnd(mesh, gateway);
    yield PAUSE;
    if (admits(policies, { direction: 'egress', pod: pod.end, other, ...HBONE }) === 'no') return true;
  }
  return false;
}

/** What a policy does to the traffic that goes out from one workload that it selects. */
export function* egress(policy: NetworkPolicy, pod: Selected, mesh: Mesh): Found {
  if (policy.egress === undefined || pod.by === 'nobody') return;
  const grants = hboneGrants(mesh, pod.end, 'egress');
  if (grants === 'everybody') return;
  const closed = grants.length === 0;
  const client = pod.by === 'sidecar' || pod.by === 'gateway';
  if (client && mesh.fact(ambient).state !== 'on') return;
  if (!client && closed && policy.egress.length === 0 && selectsAll(policy.podSelector)) {
    yield {
      finding: 'default-deny',
      key: 'egress',
      effect: 'it closes HBONE (TCP 15008) too: the pods of this namespace cannot call the mesh',
      fix: 'follow it with policies that let TCP 15008 out, to other pods and to their waypoints',
      evidence: [pod.at],
      path: '/spec',
    };
    return;
  }
  if (pod.by === 'waypoint') {
    if (!closed || applicationRules(policy.egress, 'egress', pod.end).length === 0) return;
    yield {
      finding: 'waypoint-blocked',
      key: 'egress',
      effect:
        'no policy lets HBONE (TCP 15008) out of the waypoint that it selects: it cannot reach what is bound to it',
      fix: 'add TCP 15008 to spec.egress, to every pod that the waypoint serves',
      evidence: [pod.at],
      certain: pod.certain,
      path: '/spec/egress',
    };
    return;
  }
  let misses: boolean | undefined;
  for (const rule of policy.egress) {
    const everybody = rule.peers.length === 0 || rule.peers.some(isEveryPod);
    if (everybody) {
      if (applicationRules([rule], 'egress', pod.end).length > 0) yield* toEverybody(policy, pod, mesh, rule);
      continue;
    }
    if (rule.ports.length > 0 && applicationRules([rule], 'egress', pod.end).length === 0) {
      // one that opens 15008 to the pods alone keeps from the waypoint before them
      if (client || !ruleHasPort(rule, HBONE, undefined)) continue;
      misses ??= yield* missesWaypoint(mesh, pod);
      if (!misses) continue;
    }
    for (const peer of rule.peers) {
      if (peer.ipBlock === undefined) yield* toPeer(policy, pod, mesh, rule, peer, closed);
    }
  }
}

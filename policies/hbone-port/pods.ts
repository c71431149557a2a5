// The pods that a NetworkPolicy selects, with what the policies together leave open to them.
import { PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref } from '../../src/kube/kind.ts';
import { selects } from '../../src/kube/labels.ts';
import { type Enforcer, enforcerOf, GATEWAY_NAME, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { GATEWAY, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import type { NetworkPolicy, NetworkPolicyRule } from '../../src/mesh/kinds/network.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { managedAs, waypointPodLabels } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import {
  type Direction,
  type Grant,
  grantsAt,
  type PodEnd,
  podEnd,
  policiesIn,
  ruleHasPort,
} from '../../src/mesh/networkpolicy.ts';
import { servicesOf, waypointOf } from '../../src/mesh/waypoints.ts';
import { enforcerAt } from './peers.ts';

/** The port on which ztunnel, waypoints and sidecars take each other's traffic. */
export const HBONE = Object.freeze({ protocol: 'TCP', port: 15008 });
/** Ports of Istio's own agents, which no mesh traffic uses: metrics, health, XDS. */
const AGENTS = new Set([15020, 15021, 15090, 15010, 15012, 15014, 15017]);
const DNS = 53;

export interface Selected {
  readonly at: ObjectRef;
  /** undefined for the pods of a waypoint that nobody has described yet. */
  readonly workload?: Workload;
  readonly end: PodEnd;
  readonly by: Enforcer;
  readonly certain: boolean;
}

/** The pods of a waypoint, as they are or as istiod will make them. */
export function waypointEnd(mesh: Mesh, gateway: Gateway): PodEnd {
  for (const workload of mesh.workloads({ [GATEWAY_NAME]: gateway.name }, gateway.namespace)) {
    if (!judgedByOwner(mesh, workload)) return podEnd(mesh, workload);
  }
  return podEnd(mesh, {
    namespace: gateway.namespace,
    template: { labels: waypointPodLabels(gateway), containers: [], initContainers: [] },
  });
}

/** The workloads that a policy selects, waypoints that are not deployed yet among them. */
export function* selectedBy(mesh: Mesh, policy: NetworkPolicy): Iterable<Selected | typeof PAUSE> {
  let count = 0;
  for (const workload of mesh.workloads(policy.podSelector.matchLabels, policy.namespace)) {
    count += 1;
    if (count % 50 === 0) yield PAUSE;
    if (!selects(policy.podSelector, workload.template.labels) || judgedByOwner(mesh, workload)) continue;
    const { by, certain } = enforcerAt(enforcerOf(mesh, workload));
    yield { at: ref(workload), workload, end: podEnd(mesh, workload), by, certain };
  }
  for (const gateway of mesh.list(GATEWAY, policy.namespace)) {
    if (managedAs(mesh, gateway.className) !== 'waypoint') continue;
    let deployed = false;
    for (const _ of mesh.workloads({ [GATEWAY_NAME]: gateway.name }, gateway.namespace)) deployed = true;
    if (deployed) continue;
    const end = waypointEnd(mesh, gateway);
    if (selects(policy.podSelector, end.labels)) yield { at: ref(gateway), end, by: 'waypoint', certain: true };
  }
}

/** Whom the policies of the namespace together let in or out at 15008. */
export function hboneGrants(mesh: Mesh, end: PodEnd, direction: Direction): readonly Grant[] | 'everybody' {
  return grantsAt(policiesIn(mesh, end.namespace), end, direction, HBONE);
}

/** The rules that open ports over TCP, and not 15008. */
export function tcpRules(
  rules: readonly NetworkPolicyRule[],
  direction: Direction,
  pod: PodEnd,
  counts: (port: number) => boolean = () => true,
): readonly NetworkPolicyRule[] {
  return rules.filter(rule => {
    if (rule.ports.length === 0 || ruleHasPort(rule, HBONE, direction === 'ingress' ? pod : undefined)) return false;
    return rule.ports.some(({ protocol, port, endPort }) => {
      if (protocol !== 'TCP' || port === undefined) return false;
      if (typeof port === 'number') return endPort !== undefined || counts(port);
      // a name that the pod does not have opens nothing
      return (
        direction === 'egress' || pod.ports.some(({ name, protocol: theirs }) => name === port && theirs === 'TCP')
      );
    });
  });
}

/** The rules that open ports of an application over TCP and not 15008. */
export function applicationRules(
  rules: readonly NetworkPolicyRule[],
  direction: Direction,
  pod: PodEnd,
): readonly NetworkPolicyRule[] {
  return tcpRules(rules, direction, pod, port => !(AGENTS.has(port) || (direction === 'egress' && port === DNS)));
}

/** The waypoint through which mesh clients reach a workload by its Services, or by its pods' addresses. */
export function waypointBefore(
  mesh: Mesh,
  workload: Workload,
): { readonly gateway: Gateway; readonly certain: boolean } | undefined {
  for (const service of servicesOf(mesh, workload)) {
    const { state, gateway, certain } = waypointOf(mesh, service, 'service');
    if (state === 'bound' && gateway !== undefined) return { gateway, certain };
  }
  const { state, gateway, certain } = waypointOf(mesh, workload, 'workload');
  return state === 'bound' && gateway !== undefined ? { gateway, certain } : undefined;
}

/** Whether a workload listens on one of the ports of a rule, by its containers or by a Service that leads to it. */
export function serves(mesh: Mesh, workload: Workload, rule: NetworkPolicyRule): boolean {
  const end = podEnd(mesh, workload);
  const numbers = new Set(end.ports.filter(({ protocol }) => protocol === 'TCP').map(({ number }) => number));
  for (const service of servicesOf(mesh, workload)) {
    for (const { port, targetPort, protocol } of service.ports) {
      if (protocol === 'TCP' && typeof targetPort !== 'string') numbers.add(targetPort ?? port);
    }
  }
  return [...numbers].some(
    port => !AGENTS.has(port) && port !== DNS && ruleHasPort(rule, { protocol: 'TCP', port }, end),
  );
}

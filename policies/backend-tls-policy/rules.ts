// DestinationRules that take the place of a BackendTLSPolicy (I§7, I§13; tried with istiod 1.30 and 1.31).
import { type GroupKind, type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { enforcerOf } from '../../src/mesh/enrolment.ts';
import { DESTINATION_RULE, type DestinationRule, fullHost } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, type Gateway, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { SERVICE_ENTRY, type Service, type ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { ordinaryPod } from '../../src/mesh/ordinary.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { atLeast, type ControlPlane } from '../../src/mesh/releases.ts';
import { waypointOf } from '../../src/mesh/waypoints.ts';

export type Backend = Service | ServiceEntry;

const ROUTES: ReadonlySet<GroupKind> = new Set(ROUTE_KINDS);

/** The hosts by which a target is called. */
export function hostsOf(target: Backend): readonly string[] {
  return target.kind === SERVICE_ENTRY
    ? (target as ServiceEntry).hosts
    : [`${target.name}.${target.namespace}.svc.cluster.local`];
}

/** The wildcards that cover a host. */
function wildcards(host: string): readonly string[] {
  // no name of the DNS is longer, and every dot makes another wildcard
  if (host.length > 253) return [];
  const parts = host.split('.');
  return parts.slice(1).map((_, index) => `*.${parts.slice(index + 1).join('.')}`);
}

/** The Gateways whose routes lead to a target, with what Istio makes of their class. */
export function gatewaysTo(mesh: Mesh, target: ObjectRef): readonly { gateway: Gateway; istio: boolean }[] {
  const found = new Map<string, { gateway: Gateway; istio: boolean }>();
  for (const object of mesh.referring(refKey(target))) {
    if (!ROUTES.has(object.kind)) continue;
    for (const parent of (object as Route).parents) {
      if (parent.kind !== GATEWAY) continue;
      const gateway = mesh.get(GATEWAY, parent.namespace, parent.name);
      if (gateway === undefined) continue;
      found.set(refKey(gateway), { gateway, istio: managedAs(mesh, gateway.className) !== 'none' });
    }
  }
  return [...found.values()];
}

/** Some workload of a namespace whose own proxy calls others; undefined where there is none. */
function envoyIn(mesh: Mesh, namespace: string): ObjectRef | undefined {
  for (const workload of mesh.workloads({}, namespace)) {
    const { by } = enforcerOf(mesh, workload);
    if (by === 'sidecar' || by === 'gateway') return ref(workload);
  }
  return enforcerOf(mesh, ordinaryPod(namespace)).by === 'sidecar'
    ? { kind: 'Namespace', namespace: '', name: namespace }
    : undefined;
}

export interface Override {
  readonly rule: DestinationRule;
  /** Who reads the rule instead of the policy: a Gateway, a workload, a waypoint; undefined in the target's own namespace. */
  readonly client?: ObjectRef;
  /** True where the rule brings TLS of its own. */
  readonly keepsTls: boolean;
  readonly certain: boolean;
}

const originates = (mode: string | undefined) => mode === 'SIMPLE' || mode === 'MUTUAL';

/** Ports of a target, of its section only where one is named. */
function portsOf(target: Backend, section: string | undefined): readonly number[] {
  const ports =
    target.kind === SERVICE_ENTRY
      ? (target as ServiceEntry).ports.map(({ name, number }) => ({ name, number }))
      : (target as Service).ports.map(({ name, port }) => ({ name, number: port }));
  return ports.filter(({ name }) => section === undefined || name === section).map(({ number }) => number);
}

/** Whether a rule in the target's own namespace wins in its scope, as 1.31 decides it. */
function winsAtHome(rule: DestinationRule, ports: readonly number[], section: string | undefined): boolean {
  if (section !== undefined)
    return rule.ports.some(({ port, tlsMode }) => ports.includes(port) && tlsMode !== undefined);
  return rule.tlsMode !== undefined || rule.ports.some(({ port }) => ports.includes(port));
}

/** The DestinationRules that replace a policy for a target (or for one of its ports, by name). */
export function* overridesOf(
  mesh: Mesh,
  target: Backend,
  section: string | undefined,
  planes: readonly ControlPlane[],
): Iterable<Override> {
  const roots = new Set(planes.map(plane => plane.rootNamespace));
  const newer = planes.filter(plane => atLeast(plane.release, '1.31') === true).length;
  const ports = portsOf(target, section);
  const gateways = new Map<string, ObjectRef>();
  for (const { gateway, istio } of gatewaysTo(mesh, target)) {
    if (istio) gateways.set(gateway.namespace, ref(gateway));
  }
  const seen = new Set<string>();
  for (const host of hostsOf(target)) {
    for (const name of [host, ...wildcards(host)]) {
      for (const rule of mesh.referring(hostKey(name), DESTINATION_RULE)) {
        if (seen.has(refKey(rule)) || hostKey(fullHost(rule.host, rule.namespace)) !== hostKey(name)) continue;
        seen.add(refKey(rule));
        const exact = name === host;
        const covered = ports.length > 0 && ports.every(port => originates(tlsAt(rule, port)));
        const keepsTls = covered || originates(rule.tlsMode);
        if (rule.namespace === target.namespace) {
          if (!exact || newer === 0 || !winsAtHome(rule, ports, section)) continue;
          yield { rule, keepsTls, certain: newer === planes.length && !rule.selective };
          continue;
        }
        if (keepsTls || roots.has(rule.namespace)) continue;
        const gateway = gateways.get(rule.namespace);
        const certain = exact && !rule.selective;
        if (gateway !== undefined) {
          yield { rule, client: gateway, keepsTls, certain };
          continue;
        }
        const envoy = envoyIn(mesh, rule.namespace);
        if (envoy !== undefined) {
          yield { rule, client: envoy, keepsTls, certain };
          continue;
        }
        const binding = waypointOf(mesh, target, 'service');
        if (newer > 0 && binding.state === 'bound' && binding.waypoint?.namespace === rule.namespace) {
          yield { rule, client: binding.waypoint, keepsTls, certain: certain && newer === planes.length };
        }
      }
    }
  }
}

function tlsAt(rule: DestinationRule, port: number): string | undefined {
  const own = rule.ports.find(settings => settings.port === port);
  return own === undefined ? rule.tlsMode : own.tlsMode;
}

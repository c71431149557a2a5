// Whether a waypoint takes the traffic of a target, and the findings that it does not.
import { type ObjectRef, ref, spoken } from '../../src/kube/kind.ts';
import { ambient, enforcerOf, judgedByOwner } from '../../src/mesh/enrolment.ts';
import type { Gateway } from '../../src/mesh/kinds/gateways.ts';
import type { TargetRef } from '../../src/mesh/kinds/security.ts';
import type { Service, ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { allowingFix, type Binding, speaksHbone, waypointOf } from '../../src/mesh/waypoints.ts';
import type { Found } from './findings.ts';
import { keyOf, WAYPOINT_CLASS } from './shape.ts';

/** True where ambient mode is known well enough to say that a Service has no waypoint. */
export function isAmbientKnown(mesh: Mesh): boolean {
  const { state, controlPlanes: serving } = mesh.fact(ambient);
  return state !== 'unknown' || serving.length > 0;
}

/** True where all that stands behind a Service has a proxy of its own, which ignores targetRefs. */
export function onlySidecars(mesh: Mesh, target: Service | ServiceEntry): boolean {
  if (target.kind !== 'Service' || Object.keys((target as Service).selector).length === 0) return false;
  let any = false;
  for (const workload of mesh.workloads((target as Service).selector, target.namespace)) {
    if (judgedByOwner(mesh, workload)) continue;
    if (enforcerOf(mesh, workload).by !== 'sidecar') return false;
    any = true;
  }
  return any;
}

/** A Gateway that Istio runs and that ztunnel cannot use as a waypoint: bound by its address, and unreachable. */
export function isNoWaypoint(mesh: Mesh, gateway: Gateway | undefined): boolean {
  if (gateway === undefined || speaksHbone(mesh, gateway)) return false;
  const as = managedAs(mesh, gateway.className);
  return as !== 'none' && as !== 'unknown';
}

/** True where a binding is one, and to something that enforces policies. */
export function enforced(mesh: Mesh, { state, gateway }: Binding): boolean {
  return state === 'bound' && !isNoWaypoint(mesh, gateway);
}

interface Unbound {
  readonly effect: string;
  readonly fix: string;
  readonly because?: string;
}

function unboundBecause(mesh: Mesh, name: string, binding: Binding): Unbound {
  const waypoint = binding.waypoint === undefined ? '' : `${binding.waypoint.namespace}/${binding.waypoint.name}`;
  const because = binding.reason === undefined ? {} : { because: `istiod will say ${binding.reason}` };
  const nowhere = 'this policy is enforced nowhere';
  if (isNoWaypoint(mesh, binding.gateway) && (binding.state === 'bound' || binding.state === 'pending')) {
    return {
      effect: `Gateway ${waypoint} has no HBONE listener on 15008 and is no waypoint: ${nowhere}`,
      fix: `name a waypoint in istio.io/use-waypoint: a Gateway of class ${WAYPOINT_CLASS}`,
    };
  }
  switch (binding.state) {
    case 'opted-out':
      return {
        effect: `${name} opts out of waypoints (istio.io/use-waypoint: none): ${nowhere}`,
        fix: `remove the label from ${name}, or name a waypoint in it`,
      };
    case 'never':
      return {
        effect: `istio.io/use-waypoint names no Gateway that could exist ('${binding.waypoint?.name ?? ''}'): ${nowhere}`,
        fix: 'write the name of a waypoint Gateway into istio.io/use-waypoint',
        ...because,
      };
    case 'refused':
      return {
        effect: `${binding.why}: ${nowhere}`,
        fix:
          binding.reason === 'AttachmentDenied' && binding.gateway !== undefined
            ? allowingFix(mesh, binding.gateway)
            : 'name a waypoint of this namespace in istio.io/use-waypoint',
        ...because,
      };
    case 'wrong-traffic-type':
      return {
        effect: `${binding.why}: ${nowhere}`,
        fix: `label Gateway ${waypoint} istio.io/waypoint-for: service (or all)`,
        ...because,
      };
    default:
      return {
        effect: `no waypoint takes the traffic of ${name}: ${nowhere}`,
        fix: `first label it or its namespace istio.io/use-waypoint with the name of a waypoint`,
        ...because,
      };
  }
}

/** Objects that a binding rests on. */
export function bindingEvidence(mesh: Mesh, target: ObjectRef, binding: Binding): readonly ObjectRef[] {
  const namespace = mesh.get('Namespace', '', target.namespace);
  return [
    ref(target),
    ...(binding.namedBy?.kind === 'Namespace' || binding.state === 'none'
      ? namespace === undefined
        ? []
        : [ref(namespace)]
      : []),
    ...(binding.waypoint === undefined ? [] : [binding.waypoint]),
  ];
}

export function withoutWaypoint(
  mesh: Mesh,
  target: TargetRef,
  index: number,
  binding: Binding,
  said: Unbound = unboundBecause(mesh, spoken(ref(target)), binding),
): Found {
  return {
    finding: 'target-without-waypoint',
    key: keyOf(target),
    ...said,
    evidence: bindingEvidence(mesh, target, binding),
    certain: binding.certain && isAmbientKnown(mesh),
    path: `/spec/targetRefs/${index}`,
  };
}

export function pending(
  mesh: Mesh,
  target: TargetRef,
  index: number,
  binding: Binding,
  kind: 'Service' | 'ServiceEntry.networking.istio.io',
): Found {
  const waypoint = binding.waypoint === undefined ? '' : `${binding.waypoint.namespace}/${binding.waypoint.name}`;
  return {
    finding: 'waypoint-pending',
    key: keyOf(target),
    effect: `${binding.why}: nothing enforces this policy until then`,
    fix:
      binding.gateway === undefined
        ? `create Gateway ${waypoint} (class ${WAYPOINT_CLASS}), or correct istio.io/use-waypoint`
        : `wait for Gateway ${waypoint} to be programmed, or see why it is not`,
    evidence: bindingEvidence(mesh, target, binding),
    because: `istiod will say ${binding.reason ?? 'WaypointIsNotReady'}`,
    path: `/spec/targetRefs/${index}`,
    lost: {
      instead: withoutWaypoint(mesh, target, index, binding, {
        effect: `${spoken(ref(target))} loses its waypoint, and nothing enforces this policy: ${binding.why}`,
        fix: `keep Gateway ${waypoint}, or first create it and wait until it has an address`,
      }),
      held: before => {
        const was = before.get(kind, target.namespace, target.name);
        return was !== undefined && enforced(before, waypointOf(before, was, 'service'));
      },
    },
  };
}

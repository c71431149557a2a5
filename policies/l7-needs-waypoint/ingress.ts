// Gateways that send traffic to a target past its waypoint.
import { type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { GATEWAY, ISTIO_GATEWAY, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { VIRTUAL_SERVICE } from '../../src/mesh/kinds/routing.ts';
import type { TargetRef } from '../../src/mesh/kinds/security.ts';
import type { Service, ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { destinationKey } from '../../src/mesh/references.ts';
import { INGRESS_USE_WAYPOINT, ingressUsesWaypoint } from '../../src/mesh/waypoints.ts';
import type { Found } from './findings.ts';
import { keyOf } from './shape.ts';

/** The routes by which a Gateway of Istio's sends traffic to a Service, with the Gateway. */
function* throughRoutes(mesh: Mesh, target: Service | ServiceEntry): Iterable<readonly [ObjectRef, ObjectRef]> {
  const key = refKey(target);
  for (const object of mesh.referring(key)) {
    if (!ROUTE_KINDS.includes(object.kind)) continue;
    const route = object as Route;
    if (!route.rules.some(rule => rule.backends.some(backend => backend.weight > 0 && refKey(backend) === key)))
      continue;
    for (const parent of route.parents) {
      if (parent.kind !== GATEWAY) continue;
      const gateway = mesh.get(GATEWAY, parent.namespace, parent.name);
      if (gateway !== undefined && managedAs(mesh, gateway.className) === 'ingress') yield [ref(gateway), ref(route)];
    }
  }
}

/** The same for Istio's own Gateways, by VirtualServices. */
function* throughVirtualServices(
  mesh: Mesh,
  target: Service | ServiceEntry,
): Iterable<readonly [ObjectRef, ObjectRef]> {
  const hosts =
    target.kind === 'Service'
      ? [`${target.name}.${target.namespace}.svc.cluster.local`]
      : (target as ServiceEntry).hosts;
  for (const host of hosts) {
    for (const route of mesh.referring(destinationKey(host), VIRTUAL_SERVICE)) {
      for (const name of route.gateways) {
        const slash = name.indexOf('/');
        const [namespace, own] = slash < 0 ? [route.namespace, name] : [name.slice(0, slash), name.slice(slash + 1)];
        const gateway = name === 'mesh' ? undefined : mesh.get(ISTIO_GATEWAY, namespace, own);
        if (gateway !== undefined) yield [ref(gateway), ref(route)];
      }
    }
  }
}

/** A gateway that sends traffic to a Service, and what tells it to. */
function ingressTo(mesh: Mesh, target: Service | ServiceEntry): readonly [ObjectRef, ObjectRef] | undefined {
  for (const found of throughRoutes(mesh, target)) return found;
  for (const found of throughVirtualServices(mesh, target)) return found;
  return undefined;
}

/** The finding that a gateway goes past the waypoint of a target; undefined where none does. */
export function bypassed(
  mesh: Mesh,
  target: TargetRef,
  index: number,
  service: Service | ServiceEntry,
): Found | undefined {
  if (ingressUsesWaypoint(mesh, service)) return undefined;
  const through = ingressTo(mesh, service);
  if (through === undefined) return undefined;
  const [gateway, route] = through;
  return {
    finding: 'ingress-bypasses-waypoint',
    key: keyOf(target),
    about: `${keyOf(target)} ingress`,
    effect: `Gateway ${gateway.namespace}/${gateway.name} goes past the waypoint: this policy does not see what comes that way`,
    fix: `label the Service ${INGRESS_USE_WAYPOINT}: "true", or guard the Gateway too`,
    evidence: [ref(service), gateway, route],
    path: `/spec/targetRefs/${index}`,
  };
}

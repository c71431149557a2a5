// Policies with targetRefs: only waypoints and Gateway API gateways apply them (pilot/pkg/model/policyattachment.go), each target
// on conditions of its own. Never judged by the status: istiod says bound where nothing is enforced (I§1c, I§12, I§13).
import type { CheckContext } from '../../src/engine/policy.ts';
import { type ObjectRef, refKey, splitGroupKind, spoken } from '../../src/kube/kind.ts';
import { ambient, enforcerOf, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { GATEWAY, GATEWAY_CLASS, type Gateway, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { VIRTUAL_SERVICE } from '../../src/mesh/kinds/routing.ts';
import type { AuthorizationPolicy, TargetRef } from '../../src/mesh/kinds/security.ts';
import type { Service, ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { destinationKey } from '../../src/mesh/references.ts';
import {
  type Binding,
  hasAddress,
  INGRESS_USE_WAYPOINT,
  ingressUsesWaypoint,
  speaksHbone,
  waypointOf,
} from '../../src/mesh/waypoints.ts';
import { appliedTo, closedBehindClass, closedBehindGateway, closedPorts } from './closed.ts';
import { type Found, ref, type Search } from './findings.ts';
import { isRoot, type Owners } from './owners.ts';
import { asksAnother, twoProviders, unknownProvider } from './providers.ts';

const ISTIO_GATEWAY = 'Gateway.networking.istio.io';
const SERVICE_ENTRY = 'ServiceEntry.networking.istio.io';
const WAYPOINT_CLASS = 'istio-waypoint';

function keyOf(target: ObjectRef): string {
  return `${target.kind} ${target.name}`;
}

function cannotBind(target: TargetRef, index: number, effect: string, fix: string, rest: Partial<Found> = {}): Found {
  return {
    finding: 'target-cannot-bind',
    key: keyOf(target),
    effect,
    fix,
    evidence: [],
    path: `/spec/targetRefs/${index}`,
    ...rest,
  };
}

/** What the object alone shows: the CRD and istiod's own webhook refuse most of it, with fewer words. */
function malformed(target: TargetRef, index: number): Found | undefined {
  const { group, kind } = splitGroupKind(target.kind);
  if (target.namespaceWritten) {
    const effect =
      kind === 'Gateway'
        ? 'a Gateway of another namespace is never bound by targetRefs: this policy matches nothing'
        : 'a targetRef with a namespace is never bound: this policy matches nothing';
    const fix =
      kind === 'Gateway'
        ? 'target the Service, whose waypoint may stand elsewhere, or put the policy beside the Gateway'
        : 'remove namespace: targets stand in the namespace of the policy';
    return cannotBind(target, index, effect, fix, { path: `/spec/targetRefs/${index}/namespace` });
  }
  const right: Readonly<Record<string, string>> = {
    Service: '""',
    ServiceEntry: 'networking.istio.io',
    Gateway: 'gateway.networking.k8s.io',
    GatewayClass: 'gateway.networking.k8s.io',
  };
  const wanted = Object.hasOwn(right, kind) ? right[kind] : undefined;
  if (wanted === undefined) {
    return cannotBind(
      target,
      index,
      `no policy is ever bound to a ${kind}: this target matches nothing`,
      'target a Service, a ServiceEntry, a Gateway or GatewayClass istio-waypoint',
    );
  }
  if (group !== (wanted === '""' ? '' : wanted)) {
    return cannotBind(
      target,
      index,
      `group '${group}' has no ${kind} that a policy can be bound to: this target matches nothing`,
      `set group: ${wanted}`,
      { path: `/spec/targetRefs/${index}/group` },
    );
  }
  return undefined;
}

function notFound(target: TargetRef, index: number): Found {
  return {
    finding: 'target-not-found',
    key: keyOf(target),
    effect: `${spoken(ref(target))} does not exist: nothing is enforced until it does`,
    fix: 'correct the name, or apply the target too',
    evidence: [ref(target)],
    path: `/spec/targetRefs/${index}/name`,
  };
}

/** True where ambient mode is known well enough to say that a Service has no waypoint. */
function isAmbientKnown(mesh: Mesh): boolean {
  const { state, controlPlanes: serving } = mesh.fact(ambient);
  return state !== 'unknown' || serving.length > 0;
}

/** True where all that stands behind a Service has a proxy of its own, which ignores targetRefs. */
function onlySidecars(mesh: Mesh, target: Service | ServiceEntry): boolean {
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
function isNoWaypoint(mesh: Mesh, gateway: Gateway | undefined): boolean {
  if (gateway === undefined || speaksHbone(mesh, gateway)) return false;
  const as = managedAs(mesh, gateway.className);
  return as !== 'none' && as !== 'unknown';
}

function enforced(mesh: Mesh, { state, gateway }: Binding): boolean {
  return state === 'bound' && !isNoWaypoint(mesh, gateway);
}

interface Unbound {
  readonly effect: string;
  readonly fix: string;
  readonly because?: string;
}

function unboundBecause(mesh: Mesh, name: string, binding: Binding): Unbound {
  const waypoint = binding.waypoint === undefined ? '' : `${binding.waypoint.namespace}/${binding.waypoint.name}`;
  const because = binding.reason === undefined ? {} : { because: `istiod: ${binding.reason}` };
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
          binding.reason === 'AttachmentDenied'
            ? `set allowedRoutes.namespaces.from of ${waypoint} to All, or to a Selector for this namespace`
            : 'name a waypoint of this namespace in istio.io/use-waypoint',
        ...because,
      };
    case 'wrong-traffic-type':
      return {
        effect: `${binding.why}: no waypoint takes the traffic of ${name}, and ${nowhere}`,
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
function bindingEvidence(mesh: Mesh, target: ObjectRef, binding: Binding): readonly ObjectRef[] {
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

function withoutWaypoint(
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

function pending(
  mesh: Mesh,
  target: TargetRef,
  index: number,
  binding: Binding,
  kind: 'Service' | typeof SERVICE_ENTRY,
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
    because: `istiod: ${binding.reason ?? 'WaypointIsNotReady'}`,
    path: `/spec/targetRefs/${index}`,
    lost: {
      instead: withoutWaypoint(mesh, target, index, binding, {
        effect: `this takes its working waypoint away from ${spoken(ref(target))}: ${binding.why}, nothing enforces the policy`,
        fix: `first create Gateway ${waypoint} and wait until it has an address`,
      }),
      held: before => {
        const was = before.get(kind, target.namespace, target.name);
        return was !== undefined && enforced(before, waypointOf(before, was, 'service'));
      },
    },
  };
}

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

function bypassed(mesh: Mesh, target: TargetRef, index: number, service: Service | ServiceEntry): Found | undefined {
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

function* checkService(
  policy: AuthorizationPolicy,
  target: TargetRef,
  index: number,
  owners: Owners,
  { mesh, skipped }: CheckContext<unknown>,
): Search {
  const kind = target.kind === 'Service' ? 'Service' : SERVICE_ENTRY;
  const found = mesh.find(kind, target.namespace, target.name);
  if (found === 'unknown') {
    skipped(`whether ${spoken(ref(target))} has a waypoint`);
    return;
  }
  if (found === 'absent') {
    yield notFound(target, index);
    return;
  }
  const service = found as Service | ServiceEntry;
  const name = spoken(ref(service));
  const served = mesh.fact(ambient);
  if (served.state === 'off') {
    yield cannotBind(
      target,
      index,
      `only a waypoint applies a policy to ${name}, and there is no ambient mode here: nothing is enforced`,
      'use a selector: sidecars and classic gateways apply nothing that has targetRefs',
      { evidence: [ref(service)], because: served.why },
    );
    return;
  }
  const binding = waypointOf(mesh, service, 'service');
  if ((binding.state === 'none' || binding.state === 'opted-out') && onlySidecars(mesh, service)) {
    yield cannotBind(
      target,
      index,
      `the pods of ${name} have sidecars, which apply nothing that has targetRefs: nothing is enforced`,
      'use a selector with the labels of the pods',
      { evidence: bindingEvidence(mesh, service, binding), certain: isAmbientKnown(mesh) },
    );
    return;
  }
  const address = hasAddress(mesh, service);
  if (!address.has) {
    yield {
      finding: 'target-without-address',
      key: keyOf(target),
      effect: `no traffic to ${name} goes to a waypoint, and nothing enforces this policy: ${address.why}`,
      fix:
        service.kind === 'Service'
          ? 'target a Service of these pods that has a cluster IP'
          : 'give the ServiceEntry addresses, or resolution DNS without that label',
      evidence: [ref(service)],
      because: `the status of ${name} may say bound`,
      certain: address.certain && isAmbientKnown(mesh),
      path: `/spec/targetRefs/${index}`,
    };
    return;
  }
  if (binding.state === 'unknown') {
    skipped(`whether ${name} has a waypoint (${binding.why})`);
    return;
  }
  if (binding.state === 'pending' && !isNoWaypoint(mesh, binding.gateway)) {
    yield pending(mesh, target, index, binding, kind);
    return;
  }
  if (!enforced(mesh, binding)) {
    yield withoutWaypoint(mesh, target, index, binding);
    return;
  }
  const waypoint = binding.waypoint === undefined ? [] : [binding.waypoint];
  const provider = unknownProvider(policy, owners, waypoint, true);
  if (provider !== undefined) yield provider;
  if (binding.gateway !== undefined) {
    for (const other of policy.action === 'CUSTOM' ? appliedTo(mesh, owners, service, binding.gateway) : []) {
      const several = asksAnother(policy, other)
        ? twoProviders(policy, owners, other, ref(binding.gateway), true)
        : undefined;
      if (several !== undefined) yield several;
    }
    yield* closedPorts(mesh, policy, owners, service, binding.gateway);
  }
  const ingress = bypassed(mesh, target, index, service);
  if (ingress !== undefined) yield ingress;
}

function* checkGateway(
  policy: AuthorizationPolicy,
  target: TargetRef,
  index: number,
  owners: Owners,
  { mesh, skipped }: CheckContext<unknown>,
): Search {
  const gateway = mesh.find(GATEWAY, target.namespace, target.name);
  if (gateway === 'unknown') {
    skipped(`what ${spoken(ref(target))} is`);
    return;
  }
  if (gateway === 'absent') {
    yield notFound(target, index);
    return;
  }
  const as = managedAs(mesh, gateway.className);
  if (as === 'unknown') return;
  if (as === 'none') {
    const gatewayClass = mesh.get(GATEWAY_CLASS, '', gateway.className);
    yield cannotBind(
      target,
      index,
      `no controller of Istio runs ${spoken(ref(gateway))} (class ${gateway.className}): Istio enforces nothing there`,
      'target a Gateway that Istio runs, or a Service that has a waypoint',
      { action: 'warn', evidence: [ref(gateway), ...(gatewayClass === undefined ? [] : [ref(gatewayClass)])] },
    );
    return;
  }
  if (as === 'waypoint' && mesh.fact(ambient).state === 'off') {
    yield cannotBind(
      target,
      index,
      `${spoken(ref(gateway))} is a waypoint, and there is no ambient mode here: nothing is enforced`,
      'use a selector: sidecars apply nothing that has targetRefs',
      { evidence: [ref(gateway)], because: mesh.fact(ambient).why },
    );
    return;
  }
  const provider = unknownProvider(policy, owners, [ref(gateway)], true);
  if (as !== 'waypoint') {
    if (provider !== undefined) yield provider;
    return;
  }
  if (gateway.addresses === 0) {
    yield {
      finding: 'waypoint-pending',
      key: keyOf(target),
      effect: `waypoint ${gateway.namespace}/${gateway.name} has no address yet: nothing is enforced until then`,
      fix: 'wait for the Gateway to be programmed, or see why it is not',
      evidence: [ref(gateway)],
      because: 'istiod: WaypointIsNotReady',
      path: `/spec/targetRefs/${index}`,
    };
    return;
  }
  if (provider !== undefined) yield provider;
  yield* closedBehindGateway(mesh, policy, owners, gateway);
}

function* checkClass(
  policy: AuthorizationPolicy,
  target: TargetRef,
  index: number,
  owners: Owners,
  { mesh }: CheckContext<unknown>,
): Search {
  if (target.name !== WAYPOINT_CLASS) {
    yield cannotBind(
      target,
      index,
      `policies bind to GatewayClass ${WAYPOINT_CLASS} only: none of these rules is enforced, whatever the status says`,
      `set name: ${WAYPOINT_CLASS}, or target a Gateway or Service`,
    );
    return;
  }
  const root = isRoot(mesh, owners, policy.namespace);
  const planes = owners.ambient.length > 0 ? owners.ambient : owners.all;
  if (root === 'none') {
    yield cannotBind(
      target,
      index,
      'a GatewayClass can only be targeted from the root namespace: none of these rules is enforced',
      `target the Gateway or the Services, or move the policy to ${planes[0]?.rootNamespace ?? 'istio-system'}`,
      {
        certain: planes.length > 0,
        ...(planes[0] === undefined ? {} : { because: `the root namespace is ${planes[0].rootNamespace}` }),
      },
    );
    return;
  }
  if (mesh.fact(ambient).state === 'off') {
    yield cannotBind(
      target,
      index,
      'only waypoints have this class, and there is no ambient mode here: nothing is enforced',
      'use a selector: sidecars apply nothing that has targetRefs',
      { because: mesh.fact(ambient).why },
    );
    return;
  }
  yield* closedBehindClass(mesh, policy, owners);
}

/** Judges a policy that has targetRefs. At `mutate` only what the CRD is about to refuse. */
export function* checkTargets(policy: AuthorizationPolicy, owners: Owners, context: CheckContext<unknown>): Search {
  const seen = new Set<string>();
  for (const [index, target] of policy.targets.entries()) {
    const wrong = malformed(target, index);
    if (wrong !== undefined) {
      yield wrong;
      continue;
    }
    if (context.stage === 'mutate' || seen.has(refKey(target))) continue;
    seen.add(refKey(target));
    if (target.kind === GATEWAY) yield* checkGateway(policy, target, index, owners, context);
    else if (target.kind === GATEWAY_CLASS) yield* checkClass(policy, target, index, owners, context);
    else yield* checkService(policy, target, index, owners, context);
  }
}

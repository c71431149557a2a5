// Policies with targetRefs: only waypoints and Gateway API gateways apply them (pilot/pkg/model/policyattachment.go), each target
// on conditions of its own. Never judged by the status: istiod says bound where nothing is enforced (I§1c, I§12, I§13).
import { type CheckContext, PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey, spoken } from '../../src/kube/kind.ts';
import { ambient } from '../../src/mesh/enrolment.ts';
import { GATEWAY, GATEWAY_CLASS, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { AuthorizationPolicy, TargetRef } from '../../src/mesh/kinds/security.ts';
import { SERVICE_ENTRY, type Service, type ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { hasAddress, isGatewayName, namedWaypoint, servicesIn, waypointOf } from '../../src/mesh/waypoints.ts';
import {
  bindingEvidence,
  enforced,
  isAmbientKnown,
  isNoWaypoint,
  onlySidecars,
  pending,
  withoutWaypoint,
} from './binding.ts';
import { appliedTo, closedBehindClass, closedBehindGateway, closedPorts } from './closed.ts';
import type { Found, Search } from './findings.ts';
import { bypassed } from './ingress.ts';
import { isRoot, type Owners } from './owners.ts';
import { asksAnother, twoProviders, unaskedProvider } from './providers.ts';
import { cannotBind, keyOf, malformed, notFound, WAYPOINT_CLASS } from './shape.ts';

/** What comes of the provider of a CUSTOM policy at a Gateway, asked for a Service there or for all that it takes. */
function* providersAt(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  target: ObjectRef,
  gateway: Gateway,
): Iterable<Found> {
  if (policy.action !== 'CUSTOM') return;
  const provider = unaskedProvider(mesh, policy, owners, [ref(gateway)], true);
  if (provider !== undefined) yield provider;
  const isWaypoint = managedAs(mesh, gateway.className) === 'waypoint';
  for (const other of appliedTo(mesh, owners, target, gateway)) {
    // a policy for all waypoints is none for another gateway
    const applies = isWaypoint || other.targets.every(({ kind }) => kind !== GATEWAY_CLASS);
    const several =
      applies && asksAnother(policy, other) ? twoProviders(policy, owners, other, ref(gateway), true) : undefined;
    if (several !== undefined) yield several;
  }
}

/** The same for a policy that every waypoint applies: what goes wrong at the first of them. */
function* providersBehindClass(mesh: Mesh, policy: AuthorizationPolicy, owners: Owners): Search {
  for (const gateway of mesh.list(GATEWAY)) {
    yield PAUSE;
    if (gateway.className !== WAYPOINT_CLASS || gateway.addresses === 0) continue;
    const found = [...providersAt(mesh, policy, owners, gateway, gateway)];
    yield* found;
    if (found.length > 0) return;
  }
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
      effect: `no traffic to ${name} goes through a waypoint, this policy holds nowhere`,
      fix:
        service.kind === 'Service'
          ? 'target a Service of these pods that has a cluster IP'
          : 'give the ServiceEntry addresses, or plain hosts, resolution DNS and no opt-out label',
      evidence: [ref(service)],
      because: `${address.why}, whatever its status says`,
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
  if (binding.gateway !== undefined) {
    yield* providersAt(mesh, policy, owners, service, binding.gateway);
    yield* closedPorts(mesh, policy, owners, service, binding.gateway);
  }
  const ingress = bypassed(mesh, target, index, service);
  if (ingress !== undefined) yield ingress;
}

/** The finding that the Gateway which is meant stands elsewhere: the waypoint of this name that the namespace or its Services use. */
function elsewhere(mesh: Mesh, target: TargetRef, index: number): Found | undefined {
  const { namespace, name } = target;
  const holder = mesh.get('Namespace', '', namespace);
  const named = (object: Meta) => {
    const waypoint = namedWaypoint(object.labels, namespace);
    const other = waypoint !== undefined && waypoint !== 'none' && waypoint.namespace !== namespace;
    return other && waypoint.name === name && isGatewayName(waypoint.namespace) ? waypoint : undefined;
  };
  let namer: Meta | undefined = holder !== undefined && named(holder) !== undefined ? holder : undefined;
  if (namer === undefined) {
    for (const service of servicesIn(mesh, namespace)) {
      if (named(service) === undefined) continue;
      namer = service;
      break;
    }
  }
  const waypoint = namer === undefined ? undefined : named(namer);
  if (namer === undefined || waypoint === undefined) return undefined;
  const found = cannotBind(
    target,
    index,
    `the waypoint ${name} stands in ${waypoint.namespace}, and targets are looked for in ${namespace}: no rule is enforced`,
    `target the Services that it serves, or put the policy into ${waypoint.namespace}`,
    { evidence: [ref(namer), waypoint, ref(target)], path: `/spec/targetRefs/${index}/name` },
  );
  // a label or a Gateway that comes later makes a policy that was bound to nothing no worse
  return { ...found, lost: { instead: { ...found, action: 'warn' }, held: () => true } };
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
    yield elsewhere(mesh, target, index) ?? notFound(target, index);
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
  if (as !== 'waypoint') {
    yield* providersAt(mesh, policy, owners, gateway, gateway);
    return;
  }
  if (gateway.addresses === 0) {
    yield {
      finding: 'waypoint-pending',
      key: keyOf(target),
      effect: `waypoint ${gateway.namespace}/${gateway.name} has no address yet: nothing is enforced until then`,
      fix: 'wait for the Gateway to be programmed, or see why it is not',
      evidence: [ref(gateway)],
      because: 'istiod will say WaypointIsNotReady',
      path: `/spec/targetRefs/${index}`,
    };
    return;
  }
  yield* providersAt(mesh, policy, owners, gateway, gateway);
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
  if (policy.action === 'CUSTOM') yield* providersBehindClass(mesh, policy, owners);
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

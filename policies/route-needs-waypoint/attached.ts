// Kinds that attach by selector or targetRefs. A waypoint applies those with targetRefs; ztunnel reads none of them.

import { PAUSE, type Report } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey, splitGroupKind, spoken } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { ambient, enforcerOf, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { GATEWAY, GATEWAY_CLASS, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import {
  type AttachedConfig,
  ENVOY_FILTER,
  REQUEST_AUTHENTICATION,
  SIDECAR,
  TELEMETRY,
} from '../../src/mesh/kinds/routing.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { atLeast, rootNamespaces } from '../../src/mesh/releases.ts';
import { servicesIn, servicesOf, waypointOf } from '../../src/mesh/waypoints.ts';
import { captured, type Destination, evidenceFor, obstacle } from './destinations.ts';
import type { Id } from './policy.ts';
import { foreignWaypoint, unknownProviders } from './telemetry.ts';

/** Workloads that are looked at for one subject. */
const ENOUGH = 200;

function* untargeted(mesh: Mesh, subject: AttachedConfig): Iterable<Report<Id> | typeof PAUSE> {
  const { kind } = splitGroupKind(subject.kind);
  const root = mesh.fact(rootNamespaces).includes(subject.namespace);
  const labels = subject.selector?.matchLabels;
  const selective = labels !== undefined && Object.keys(labels).length > 0;
  // mesh-wide in the root namespace: it is for every sidecar and gateway, whatever else there is
  if (root && !selective) return;
  let withoutProxy: Workload | undefined;
  let withProxy = false;
  let waypoint: Workload | undefined;
  let behindWaypoint = false;
  let count = 0;
  for (const workload of mesh.workloads(labels ?? {}, root ? undefined : subject.namespace)) {
    if (judgedByOwner(mesh, workload)) continue;
    count += 1;
    if (count % 50 === 0) yield PAUSE;
    if (count > ENOUGH) break;
    const { by } = enforcerOf(mesh, workload);
    if (by === 'ztunnel') {
      if (!behindWaypoint)
        for (const service of servicesOf(mesh, workload))
          behindWaypoint ||= waypointOf(mesh, service, 'service').state === 'bound';
      withoutProxy ??= workload;
    } else if (by === 'sidecar' || by === 'gateway') withProxy = true;
    // a waypoint applies of all that has no target a Telemetry of its namespace alone (I§2; tried with istiod 1.31)
    else if (by === 'waypoint') waypoint ??= workload;
    else if (by === 'unknown') return;
  }
  if (withoutProxy === undefined) {
    const refused = subject.kind !== TELEMETRY && subject.kind !== SIDECAR;
    if (selective && refused && waypoint !== undefined && !withProxy) yield onWaypoint(subject, waypoint);
    return;
  }
  // of a token that nobody checks every workload matters; of the others those that have a proxy may be who it is for
  if (withProxy && subject.kind !== REQUEST_AUTHENTICATION) return;
  const namespace = { kind: 'Namespace', namespace: '', name: withoutProxy.namespace };
  if (subject.kind === SIDECAR) {
    yield {
      finding: 'no-effect-in-ambient',
      key: `namespace ${namespace.name}`,
      effect: 'a Sidecar has no effect in ambient mode: ztunnel and waypoints do not read it',
      fix: 'remove it; in ambient mode exportTo and waypoints limit what is seen',
      evidence: [namespace],
    };
    return;
  }
  const lost =
    subject.kind === REQUEST_AUTHENTICATION
      ? subject.requiresToken
        ? 'its rule that a token is required does not hold'
        : 'tokens are not validated'
      : 'it has no effect';
  yield behindWaypoint
    ? {
        finding: 'selector-ignored',
        key: `namespace ${namespace.name}`,
        about: `namespace ${namespace.name}`,
        effect: `ztunnel reads no ${kind} and a waypoint wants targetRefs: ${lost} on ambient workloads of ${namespace.name}`,
        fix: 'use targetRefs with the Service or the waypoint Gateway instead of a selector',
        evidence: [namespace],
        path: pointer('spec', subject.selector === undefined ? '' : 'selector').replace(/\/$/, ''),
      }
    : {
        finding: 'no-waypoint',
        key: `namespace ${namespace.name}`,
        about: `namespace ${namespace.name}`,
        effect: `ztunnel reads no ${kind} and there is no waypoint: ${lost} on ambient workloads of ${namespace.name}`,
        fix: `deploy a waypoint and use targetRefs with the Service`,
        evidence: [namespace],
      };
}

/** What selects the pods of a waypoint, which asks for targetRefs. */
function onWaypoint(subject: AttachedConfig, waypoint: Workload): Report<Id> {
  const { kind } = splitGroupKind(subject.kind);
  return {
    finding: 'selector-ignored',
    key: `waypoint ${waypoint.namespace}`,
    effect: `a waypoint applies no ${kind} that comes by selector: ${
      subject.kind === REQUEST_AUTHENTICATION ? 'tokens are not validated there' : 'it has no effect there'
    }`,
    fix: 'replace the selector by targetRefs: the waypoint Gateway, or the Services behind it',
    evidence: [ref(waypoint)],
    path: pointer('spec', subject.kind === ENVOY_FILTER ? 'workloadSelector' : 'selector'),
  };
}

/** A target means a Gateway of the subject's own namespace; the waypoint of that name that serves it may stand in another. */
function* elsewhere(mesh: Mesh, subject: AttachedConfig, target: ObjectRef, path: string): Iterable<Report<Id>> {
  let meant: Gateway | undefined;
  let count = 0;
  const namespace = mesh.get('Namespace', '', subject.namespace);
  for (const user of [...(namespace === undefined ? [] : [namespace]), ...servicesIn(mesh, subject.namespace)]) {
    count += 1;
    if (count > ENOUGH) break;
    const { gateway } = waypointOf(mesh, user, 'service');
    if (gateway?.name !== target.name || managedAs(mesh, gateway.className) !== 'waypoint') continue;
    if (meant === undefined || gateway.namespace < meant.namespace) meant = gateway;
  }
  if (meant === undefined) return;
  const { kind } = splitGroupKind(subject.kind);
  yield {
    finding: 'out-of-reach',
    key: refKey(target),
    effect: `a target is a Gateway of its own namespace: waypoint ${meant.namespace}/${meant.name} does not apply this ${kind}`,
    fix:
      subject.kind === ENVOY_FILTER
        ? `move it to namespace ${meant.namespace}`
        : `target the Services here, or move it to namespace ${meant.namespace}`,
    evidence: [ref(meant), target],
    path,
  };
}

function* targeted(mesh: Mesh, subject: AttachedConfig): Iterable<Report<Id>> {
  const { kind } = splitGroupKind(subject.kind);
  const plural = subject.targets.length > 0 ? 'targetRefs' : 'targetRef';
  for (const [index, target] of subject.targets.entries()) {
    const path = pointer('spec', plural, index);
    const name = spoken(target);
    const key = refKey(target);
    const isService = target.kind === 'Service' || target.kind === SERVICE_ENTRY;
    if (subject.kind === ENVOY_FILTER && isService) {
      yield {
        finding: 'target-kind-never-attaches',
        key,
        effect: `an EnvoyFilter never attaches to ${name}: a waypoint looks for its Gateway or its class only`,
        fix: 'target the waypoint Gateway (kind: Gateway) in its own namespace',
        evidence: [ref(target)],
        path,
      };
      continue;
    }
    if (subject.kind === TELEMETRY && target.kind === GATEWAY_CLASS) {
      yield {
        finding: 'target-ignored',
        key,
        effect: `a Telemetry with ${name} as its target applies to nothing`,
        fix: 'target the Gateway or the Service, or leave targetRefs out in the root namespace',
        evidence: [ref(target)],
        path,
      };
      continue;
    }
    if (target.kind === GATEWAY && mesh.get(GATEWAY, target.namespace, target.name) === undefined) {
      yield* elsewhere(mesh, subject, target, path);
      continue;
    }
    if (subject.kind === ENVOY_FILTER) {
      const gateway = target.kind === GATEWAY ? mesh.get(GATEWAY, target.namespace, target.name) : undefined;
      const className = target.kind === GATEWAY_CLASS ? target.name : gateway?.className;
      const onWaypoint = className !== undefined && managedAs(mesh, className) === 'waypoint';
      if (onWaypoint && subject.contexts.length > 0 && subject.contexts.every(context => context === 'GATEWAY')) {
        yield {
          finding: 'context-never-matches',
          key,
          effect: `context GATEWAY never matches at a waypoint: this EnvoyFilter changes nothing at ${name}`,
          fix: 'use context: SIDECAR_INBOUND, or none',
          evidence: [ref(target)],
          path: pointer('spec', 'configPatches'),
        };
      }
      continue;
    }
    if (subject.kind === TELEMETRY && target.kind === GATEWAY) yield* foreignWaypoint(mesh, target, path);
    if (!isService) continue;
    const destination: Destination | undefined =
      target.kind === 'Service'
        ? mesh.get('Service', target.namespace, target.name)
        : mesh.get(SERVICE_ENTRY, target.namespace, target.name);
    if (destination === undefined) continue;
    yield* behind(mesh, destination, kind, path);
  }
}

/** What a waypoint makes of a targeted Service or ServiceEntry; only a waypoint honours such a target. */
function* behind(mesh: Mesh, destination: Destination, kind: string, path: string): Iterable<Report<Id>> {
  const found = obstacle(mesh, destination);
  if (found.is === 'nothing' || captured(mesh, destination) === 'unknown') return;
  const common = {
    key: refKey(destination),
    about: refKey(destination),
    evidence: evidenceFor(destination, found.binding),
    because: found.why,
    path,
  };
  const name = spoken(destination);
  switch (found.is) {
    case 'no-waypoint':
      yield {
        ...common,
        finding: 'no-waypoint',
        effect: `this ${kind} has no effect: only a waypoint honours a target, and ${name} has none`,
        fix: 'label the Service or its namespace istio.io/use-waypoint, with a waypoint that accepts it',
      };
      break;
    case 'wrong-traffic-type':
      yield {
        ...common,
        finding: 'wrong-traffic-type',
        effect: `this ${kind} has no effect: the waypoint of ${name} does not take Service traffic`,
        fix: 'set istio.io/waypoint-for: service (or all) on the waypoint Gateway',
      };
      break;
    default:
      yield {
        ...common,
        finding: 'target-without-address',
        effect: `this ${kind} has no effect: ${name} has no address by which ztunnel takes the waypoint`,
        fix: 'target a ClusterIP Service of the same pods',
      };
  }
}

/** A Telemetry of a Service's namespace reaches a waypoint that stands elsewhere since 1.30.3 and 1.31 only (I§2). */
function reachesForeignWaypoint(mesh: Mesh): boolean {
  const planes = mesh.fact(ambient).controlPlanes;
  return planes.some(({ release }) => release === undefined || atLeast(release, '1.30.3') !== false);
}

/** A Telemetry without a target: a waypoint that stands in its namespace applies it. */
function* telemetry(mesh: Mesh, subject: AttachedConfig): Iterable<Report<Id> | typeof PAUSE> {
  if (subject.selector === undefined) {
    for (const gateway of mesh.list(GATEWAY, subject.namespace))
      if (managedAs(mesh, gateway.className) === 'waypoint') return;
    for (const service of mesh.list('Service', subject.namespace)) {
      if (waypointOf(mesh, service, 'service').state === 'bound' && reachesForeignWaypoint(mesh)) return;
    }
  }
  yield* untargeted(mesh, subject);
}

export function* attachedReports(mesh: Mesh, subject: AttachedConfig): Iterable<Report<Id> | typeof PAUSE> {
  if (subject.kind === TELEMETRY) yield* unknownProviders(mesh, subject);
  if (mesh.fact(ambient).state === 'off') return;
  if (subject.targets.length > 0) yield* targeted(mesh, subject);
  else if (subject.kind === TELEMETRY) yield* telemetry(mesh, subject);
  else yield* untargeted(mesh, subject);
}

// Labels that name a waypoint, and what becomes of them.

import * as z from 'zod';
import { type CheckContext, definePolicy, PAUSE, type Report } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, spoken } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { ambient, enforcerOf, enrolsByDefault, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import { templatePath, WORKLOAD_KINDS, WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { atLeast } from '../../src/mesh/releases.ts';
import {
  allowingFix,
  attach,
  type Binding,
  bindingLabels,
  CANARY,
  CANARY_NAMESPACE,
  CANARY_WEIGHT,
  consumerNamespace,
  hasInboundBinding,
  namedWaypoint,
  servicesIn,
  speaksHbone,
  type TrafficType,
  USE_WAYPOINT,
  USE_WAYPOINT_NAMESPACE,
  WAYPOINT_FOR,
  waypointOf,
} from '../../src/mesh/waypoints.ts';
import { affected } from './affected.ts';

const WORKLOAD_ENTRY = 'WorkloadEntry.networking.istio.io';
const SEEN = ['validate', 'files', 'audit'] as const;

type Id =
  | 'waypoint-not-found'
  | 'waypoint-not-ready'
  | 'attachment-refused'
  | 'wrong-traffic-type'
  | 'not-a-waypoint'
  | 'outside-ambient'
  | 'canary-invalid';
type Found = Report<Id>;
type Search = Iterable<Found | typeof PAUSE>;

/** By label, then by kind: there are a few of them, and they are asked for in every review. */
const labelPaths = new Map<string, Map<string, string>>();

/** JSON pointer to a label of the object, or of its pods where it is a workload. */
function labelPath({ kind }: Meta, label: string): string {
  const known = labelPaths.get(label) ?? new Map<string, string>();
  labelPaths.set(label, known);
  let path = known.get(kind);
  if (path === undefined) {
    path = pointer(...(WORKLOADS.has(kind) ? templatePath(kind) : []), 'metadata', 'labels', label);
    known.set(kind, path);
  }
  return path;
}

function trafficOf(subject: Meta): TrafficType {
  return WORKLOADS.has(subject.kind) || subject.kind === WORKLOAD_ENTRY ? 'workload' : 'service';
}

/** What happens to traffic for want of the waypoint: an object's own label never falls back to its Namespace's. */
function direct(mesh: Mesh, subject: Meta, waypoint: ObjectRef): string {
  if (subject.kind === 'Namespace') return 'traffic goes direct, past its policies and routes';
  const labels = mesh.get('Namespace', '', subject.namespace)?.labels;
  const inherited = labels?.[USE_WAYPOINT];
  const namespace = labels?.[USE_WAYPOINT_NAMESPACE] ?? subject.namespace;
  if (inherited === waypoint.name && namespace === waypoint.namespace)
    return 'traffic goes direct, past its policies and routes';
  return inherited === undefined || inherited === 'none'
    ? 'traffic goes direct'
    : `traffic goes direct, not through ${inherited}, which its namespace names`;
}

function notThere(mesh: Mesh, subject: Meta, binding: Binding, waypoint: ObjectRef): Found {
  const name = `${waypoint.namespace}/${waypoint.name}`;
  const common = {
    finding: 'waypoint-not-found',
    key: name,
    evidence: [waypoint],
    path: labelPath(subject, USE_WAYPOINT),
    ...(binding.reason === undefined ? {} : { because: `istiod will say ${binding.reason}` }),
  } as const;
  if (binding.state === 'never') {
    return {
      ...common,
      effect: `no Gateway can be called '${waypoint.name}': ${direct(mesh, subject, waypoint)}`,
      fix: `name a waypoint in ${USE_WAYPOINT}, or none to opt out`,
    };
  }
  return {
    ...common,
    effect: `waypoint ${binding.why.replace(/^Gateway /, '')}: ${direct(mesh, subject, waypoint)}`,
    fix: `create Gateway ${name} with class istio-waypoint, or correct ${USE_WAYPOINT}`,
  };
}

/** The finding of one label that names a waypoint; undefined where all is well or nobody knows. */
function bindingFinding(mesh: Mesh, subject: Meta, binding: Binding): Found | undefined {
  const { waypoint, gateway, state, certain, why } = binding;
  if (waypoint === undefined) return undefined;
  if (state === 'never' || gateway === undefined) {
    return state === 'unknown' ? undefined : notThere(mesh, subject, binding, waypoint);
  }
  const name = `${waypoint.namespace}/${waypoint.name}`;
  const holder = mesh.get('Namespace', '', consumerNamespace(subject));
  const common = {
    key: name,
    evidence: [waypoint],
    path: labelPath(subject, USE_WAYPOINT),
    ...(binding.reason === undefined ? {} : { because: `istiod will say ${binding.reason}` }),
  } as const;
  if (state === 'refused') {
    return {
      finding: 'attachment-refused',
      ...common,
      effect: `${why}: ${direct(mesh, subject, waypoint)}`,
      fix: binding.reason === 'AttachmentDenied' ? allowingFix(mesh, gateway) : 'name a waypoint of its own namespace',
      evidence: [waypoint, ...(holder === undefined ? [] : [ref(holder)])],
      certain,
    };
  }
  const as = managedAs(mesh, gateway.className);
  if (as !== 'unknown' && (state === 'bound' || state === 'pending')) {
    const gatewayClass = mesh.get(GATEWAY_CLASS, '', gateway.className);
    const evidence = [waypoint, ...(gatewayClass === undefined ? [] : [ref(gatewayClass)])];
    if (as !== 'none' && !speaksHbone(mesh, gateway)) {
      return {
        finding: 'not-a-waypoint',
        ...common,
        because: `class ${gateway.className}`,
        evidence,
        effect: `Gateway ${name} has no HBONE listener on 15008: ambient clients cannot reach what names it as waypoint`,
        // a listener makes no waypoint of an ingress Gateway
        fix:
          as === 'waypoint'
            ? `name a waypoint in ${USE_WAYPOINT}, or give ${name} a listener HBONE on 15008`
            : `name a Gateway of class istio-waypoint in ${USE_WAYPOINT}`,
        certain,
      };
    }
    // with an inbound binding its author has made another product's proxy a waypoint on purpose
    if (as === 'none' && !hasInboundBinding(mesh, gateway)) {
      return {
        finding: 'not-a-waypoint',
        ...common,
        because: `class ${gateway.className}`,
        evidence,
        effect: `no controller of Istio runs Gateway ${name}: it is bound as waypoint once it has an address, HBONE or not`,
        fix: `name a Gateway of class istio-waypoint in ${USE_WAYPOINT}`,
        action: 'warn',
      };
    }
  }
  if (state === 'wrong-traffic-type') {
    const traffic = trafficOf(subject);
    return {
      finding: 'wrong-traffic-type',
      ...common,
      effect: `${why}: ${traffic} traffic goes direct`,
      fix: `label Gateway ${name} ${WAYPOINT_FOR}: ${traffic} (or all)`,
    };
  }
  if (state === 'pending') {
    return {
      finding: 'waypoint-not-ready',
      ...common,
      effect: `waypoint ${name} has no address yet: ${direct(mesh, subject, waypoint)}`,
      fix: `wait for Gateway ${name} to be programmed, or see why it is not`,
    };
  }
  return undefined;
}

/** True where a Namespace has something that inherits its waypoint as a Service. */
function* inheritsAsService(mesh: Mesh, namespace: string): Generator<typeof PAUSE, boolean> {
  let steps = 0;
  for (const service of servicesIn(mesh, namespace)) {
    steps += 1;
    if (steps % 50 === 0) yield PAUSE;
    if (service.labels[USE_WAYPOINT] === undefined && waypointOf(mesh, service, 'service').waypoint !== undefined) {
      return true;
    }
  }
  return false;
}

/** A Namespace that names a waypoint and is not in ambient mode, with nothing in it that uses the waypoint all the same. */
function* outsideAmbient(mesh: Mesh, namespace: Meta): Search {
  if (enrolsByDefault(mesh, namespace.name) !== false) return;
  for (const _ of mesh.list(SERVICE_ENTRY, namespace.name)) return;
  let steps = 0;
  for (const workload of mesh.workloads({}, namespace.name)) {
    steps += 1;
    if (steps % 50 === 0) yield PAUSE;
    const { by, likely } = enforcerOf(mesh, workload);
    if (by === 'ztunnel' || likely === 'ztunnel') return;
  }
  yield {
    finding: 'outside-ambient',
    key: 'ambient',
    effect: `it names a waypoint and is not in ambient mode: only ambient clients elsewhere go through the waypoint`,
    fix: `label the Namespace istio.io/dataplane-mode: ambient, or remove ${USE_WAYPOINT}`,
    evidence: [],
    because: mesh.fact(ambient).state === 'off' ? mesh.fact(ambient).why : 'nothing in it is captured by ztunnel',
    path: labelPath(namespace, USE_WAYPOINT),
  };
}

/** The weight of a canary: of the object, else of the Namespace where the waypoint itself comes from there. */
function canaryWeight(mesh: Mesh, subject: Meta): string | undefined {
  const own = subject.annotations[CANARY_WEIGHT];
  if (own !== undefined || subject.kind === 'Namespace' || subject.labels[USE_WAYPOINT] !== undefined) return own;
  return mesh.get('Namespace', '', subject.namespace)?.annotations[CANARY_WEIGHT];
}

/** True where no label names the waypoint of a Service, ServiceEntry or Namespace. */
function namesNone(mesh: Mesh, subject: Meta): boolean {
  if (subject.labels[USE_WAYPOINT] !== undefined) return false;
  if (subject.kind === 'Namespace') return true;
  const holder = mesh.get('Namespace', '', subject.namespace);
  return holder !== undefined && holder.labels[USE_WAYPOINT] === undefined;
}

/** A canary beside no waypoint. That of a Namespace goes with the Namespace's own waypoint only, whatever its Services name (tried). */
function lonelyCanary(subject: Meta, canary: ObjectRef): Found {
  const name = `${canary.namespace}/${canary.name}`;
  const beside = subject.kind === 'Namespace' ? 'the Namespace names no waypoint itself' : 'no label names a waypoint';
  return {
    finding: 'canary-invalid',
    key: `${name} alone`,
    about: `canary ${name}`,
    effect: `canary waypoint ${name} gets no traffic: ${beside} beside which it could be tried`,
    fix: `label ${subject.kind === 'Namespace' ? 'the Namespace' : 'it or its Namespace'} ${USE_WAYPOINT} with the name of the waypoint`,
    evidence: [canary],
    because: 'istiod says nothing of it',
    path: labelPath(subject, CANARY),
  };
}

/**
 * A canary that istiod passes over: the binding stays as it was, with a message (1.31; I§12). Only Services and ServiceEntries,
 * and Namespaces for theirs, have one.
 */
function canaryFinding(mesh: Mesh, subject: Meta): Found | undefined {
  if (trafficOf(subject) === 'workload' || subject.labels[CANARY] === undefined) return undefined;
  const planes = mesh.fact(ambient).controlPlanes;
  if (planes.length === 0 || !planes.every(plane => atLeast(plane.release, '1.31') === true)) return undefined;
  const primary = waypointOf(mesh, subject, 'service');
  const namespace = consumerNamespace(subject);
  const canary = namedWaypoint(subject.labels, namespace, CANARY, CANARY_NAMESPACE);
  // '' and none are no canary at all
  if (canary === undefined || canary === 'none' || canary.name === '') return undefined;
  if (primary.state === 'none' && namesNone(mesh, subject)) return lonelyCanary(subject, canary);
  // a waypoint that does not work is what has to be said first
  if (primary.state !== 'bound' || primary.waypoint === undefined) return undefined;
  const name = `${canary.namespace}/${canary.name}`;
  const report = (why: string, fix: string, reason: string, certain = true): Found => ({
    finding: 'canary-invalid',
    key: `${name} ${reason}`,
    about: `canary ${name}`,
    effect: `canary waypoint ${name} gets no traffic: ${why}`,
    fix,
    evidence: [canary],
    because: `the condition WaypointBound stays True, with a message (${reason})`,
    certain,
    path: labelPath(subject, CANARY),
  });
  if (canary.namespace === primary.waypoint.namespace && canary.name === primary.waypoint.name) {
    return report('it is the waypoint itself', `name another Gateway in ${CANARY}`, 'CanarySameAsPrimary');
  }
  const weight = canaryWeight(mesh, subject);
  if (weight !== undefined && !(/^[+-]?\d{1,9}$/.test(weight) && Number(weight) >= 0 && Number(weight) <= 100)) {
    return report(
      `${CANARY_WEIGHT} is no number from 0 to 100`,
      `write a whole number from 0 to 100 into the annotation ${CANARY_WEIGHT}`,
      'CanaryInvalidWeight',
    );
  }
  const binding = attach(mesh, canary, subject, 'service');
  if (binding.state === 'bound' || binding.state === 'unknown') return undefined;
  return report(
    binding.why,
    `name a waypoint that is ready and takes this namespace in ${CANARY}`,
    binding.reason ?? 'WaypointIsNotReady',
    binding.certain,
  );
}

function* check(subject: Meta, { mesh, skipped }: CheckContext<unknown>): Search {
  const labels = bindingLabels(subject);
  if (labels[USE_WAYPOINT] === undefined && labels[CANARY] === undefined) return;
  if (WORKLOADS.has(subject.kind) && judgedByOwner(mesh, subject as Workload)) return;
  const named = namedWaypoint(labels, consumerNamespace(subject));
  if (named !== undefined && named !== 'none') {
    const binding = waypointOf(mesh, subject, trafficOf(subject));
    if (binding.state === 'unknown')
      skipped(`whether ${spoken(ref(subject))} has the waypoint that it names (${binding.why})`);
    const found = bindingFinding(mesh, subject, binding);
    if (found !== undefined && (found.finding !== 'wrong-traffic-type' || subject.kind !== 'Namespace')) yield found;
    else if (found !== undefined && (yield* inheritsAsService(mesh, subject.name))) yield found;
    if (subject.kind === 'Namespace') yield* outsideAmbient(mesh, subject);
  }
  const canary = canaryFinding(mesh, subject);
  if (canary !== undefined) yield canary;
}

export const waypointBinding = definePolicy<Record<string, never>, Id>({
  id: 'waypoint-binding',
  title: 'Labels that name a waypoint which does not take the traffic',
  subjects: ['Namespace', 'Service', SERVICE_ENTRY, WORKLOAD_ENTRY, ...WORKLOAD_KINDS],
  reads: [GATEWAY, GATEWAY_CLASS, 'ConfigMap', 'MutatingWebhookConfiguration.admissionregistration.k8s.io'],
  findings: {
    'waypoint-not-found': { action: 'warn', seen: SEEN, doc: 'the waypoint that a label names does not exist' },
    'waypoint-not-ready': { action: 'warn', seen: SEEN, doc: 'the waypoint that a label names has no address yet' },
    'attachment-refused': {
      action: 'deny',
      seen: SEEN,
      doc: 'the waypoint does not take bindings of this namespace, so that traffic goes past it',
    },
    'wrong-traffic-type': {
      action: 'warn',
      seen: SEEN,
      doc: 'the waypoint takes the other kind of traffic (istio.io/waypoint-for)',
    },
    'not-a-waypoint': {
      action: 'deny',
      seen: SEEN,
      doc: 'the Gateway that a label names is no waypoint: bound by its address, and unreachable',
    },
    'outside-ambient': { action: 'warn', seen: SEEN, doc: 'a Namespace that names a waypoint without ambient mode' },
    'canary-invalid': {
      action: 'warn',
      since: '1.31',
      seen: SEEN,
      doc: 'a canary waypoint that istiod passes over',
    },
  },
  options: z.strictObject({}),
  check,
  affected,
});

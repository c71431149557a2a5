// L7 configuration that has no Envoy to run on: ztunnel reads none of it, a waypoint only what reaches it.

import * as z from 'zod';
import { definePolicy, type FindingSpec } from '../../src/engine/policy.ts';
import { DESTINATION_RULE } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, GATEWAY_CLASS, type Route } from '../../src/mesh/kinds/gateways.ts';
import {
  type AttachedConfig,
  ENVOY_FILTER,
  REQUEST_AUTHENTICATION,
  SIDECAR,
  TELEMETRY,
  TRAFFIC_EXTENSION,
  VIRTUAL_SERVICE,
  WASM_PLUGIN,
} from '../../src/mesh/kinds/routing.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import { WORKLOAD_KINDS } from '../../src/mesh/kinds/workloads.ts';
import { isKind, isOf } from '../../src/mesh/kinds.ts';
import { affectedBy } from './affected.ts';
import { attachedReports } from './attached.ts';
import { destinationRuleReports, routeReports, virtualServiceReports } from './routes.ts';

const ROUTES = ['HTTPRoute', 'GRPCRoute', 'TCPRoute', 'TLSRoute'].map(kind => `${kind}.gateway.networking.k8s.io`);
const ATTACHED = [REQUEST_AUTHENTICATION, WASM_PLUGIN, TRAFFIC_EXTENSION, ENVOY_FILTER, TELEMETRY, SIDECAR];
const SUBJECTS = [VIRTUAL_SERVICE, DESTINATION_RULE, ...ROUTES, ...ATTACHED];

const SUBJECT_KINDS = SUBJECTS.filter(isKind);

const warns = (doc: string): FindingSpec => ({ action: 'warn', seen: ['validate', 'files', 'audit'], doc });

const findings = {
  'no-waypoint': warns('L7 configuration of ambient workloads that no waypoint serves'),
  'selector-ignored': warns('a selector, where a waypoint wants targetRefs'),
  'parent-is-waypoint': warns('a route on the waypoint Gateway itself'),
  'parent-not-a-service': warns('a Service as parent without its group'),
  'parent-port-unknown': warns('a parent port that the Service has not'),
  'section-name-ignored': warns('a sectionName on a Service parent'),
  'out-of-reach': warns('a route in a namespace, or with an exportTo, that the waypoint does not see'),
  'source-match-dropped': warns('a match on the source, which a waypoint drops'),
  'gateway-is-gateway-api': warns('a VirtualService that names a Gateway API Gateway'),
  'context-never-matches': warns('an EnvoyFilter for context GATEWAY at a waypoint'),
  'target-ignored': warns('a Telemetry target that nothing applies'),
  'provider-unknown': warns('a Telemetry that asks a provider which MeshConfig does not define'),
  'target-without-address': warns('a target without an address, which never reaches its waypoint'),
  'target-kind-never-attaches': warns('an EnvoyFilter with a Service as its target'),
  'wrong-traffic-type': warns('a waypoint that does not take Service traffic'),
  'no-effect-in-ambient': warns('a Sidecar in ambient mode'),
} as const satisfies Record<string, FindingSpec>;

export type Id = keyof typeof findings;

export const routeNeedsWaypoint = definePolicy<object, Id>({
  id: 'route-needs-waypoint',
  title: 'L7 routes and filters have a waypoint to run on',
  subjects: SUBJECTS,
  reads: [
    'Namespace',
    'Service',
    SERVICE_ENTRY,
    GATEWAY,
    GATEWAY_CLASS,
    'Gateway.networking.istio.io',
    'ConfigMap',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
    ...WORKLOAD_KINDS,
  ],
  findings,
  options: z.object({}).strict(),
  *check(subject, { mesh }) {
    if (isOf(subject, VIRTUAL_SERVICE)) yield* virtualServiceReports(mesh, subject);
    else if (isOf(subject, DESTINATION_RULE)) yield* destinationRuleReports(mesh, subject);
    else if (ROUTES.includes(subject.kind)) yield* routeReports(mesh, subject as Route);
    else yield* attachedReports(mesh, subject as AttachedConfig);
  },
  affected: (change, context) => affectedBy(change, context, SUBJECT_KINDS),
});

// Which BackendTLSPolicies another object's change concerns.

import { type GroupKind, type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { alters } from '../../src/mesh/changes.ts';
import { ambient, cniSettings } from '../../src/mesh/enrolment.ts';
import { CRD, WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { DESTINATION_RULE, type DestinationRule, fullHost } from '../../src/mesh/kinds/destinationrules.ts';
import {
  type BackendTlsPolicy,
  GATEWAY,
  GATEWAY_CLASS,
  ISTIO_GATEWAY,
  ROUTE_KINDS,
  type Route,
} from '../../src/mesh/kinds/gateways.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import { WORKLOADS } from '../../src/mesh/kinds/workloads.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { controlPlanes } from '../../src/mesh/releases.ts';
import { candidatesOf } from '../../src/mesh/waypoints.ts';

const BACKEND_TLS_POLICY = 'BackendTLSPolicy.gateway.networking.k8s.io';

const ROUTES: ReadonlySet<GroupKind> = new Set(ROUTE_KINDS);

function onTarget(mesh: Mesh, target: ObjectRef): Iterable<ObjectRef> {
  return mesh.referring(refKey(target), BACKEND_TLS_POLICY);
}

/** The policies whose targets a DestinationRule can be for. */
function* underRule(mesh: Mesh, rule: DestinationRule): Iterable<ObjectRef> {
  const host = fullHost(rule.host, rule.namespace);
  if (host.startsWith('*')) {
    yield* mesh.list(BACKEND_TLS_POLICY);
    return;
  }
  const key = hostKey(host);
  yield* mesh.referring(key, BACKEND_TLS_POLICY);
  for (const entry of mesh.referring(key, SERVICE_ENTRY)) yield* onTarget(mesh, entry);
}

function* underRoute(mesh: Mesh, route: Route | undefined): Iterable<ObjectRef> {
  for (const { backends, mirrors } of route?.rules ?? []) {
    for (const backend of [...backends, ...mirrors]) yield* onTarget(mesh, backend);
  }
}

function isEmpty(objects: Iterable<unknown>): boolean {
  for (const _ of objects) return false;
  return true;
}

/** The policies on whatever a Gateway of `mesh` sends to, or serves as a waypoint. */
function* atGateway(mesh: Mesh, after: Mesh, gateway: ObjectRef) {
  for (const object of mesh.referring(refKey(gateway))) {
    if (ROUTES.has(object.kind)) yield* underRoute(after, object as Route);
  }
  for (const { object } of candidatesOf(mesh, gateway)) yield* onTarget(after, object);
}

export function* affected(change: Change, { before, after }: { before: Mesh; after: Mesh }): Iterable<ObjectRef> {
  if (isEmpty(after.list(BACKEND_TLS_POLICY))) return;
  const { kind, namespace, name } = change.ref;
  const everywhere =
    kind === GATEWAY_CLASS ||
    kind === WEBHOOKS ||
    kind === ISTIO_GATEWAY ||
    kind === CRD ||
    (kind === 'ConfigMap' && name.startsWith('istio')) ||
    alters({ before, after }, controlPlanes, cniSettings) ||
    before.fact(ambient).state !== after.fact(ambient).state;
  if (everywhere) {
    yield* after.list(BACKEND_TLS_POLICY);
    return;
  }
  const own = kind === 'Namespace' ? name : namespace;
  if (kind === 'ConfigMap' || kind === 'Service' || kind === SERVICE_ENTRY) yield* onTarget(after, change.ref);
  else if (kind === BACKEND_TLS_POLICY) {
    for (const object of [change.before, change.after]) {
      for (const target of (object as BackendTlsPolicy | undefined)?.targets ?? []) yield* onTarget(after, target);
    }
  } else if (kind === DESTINATION_RULE) {
    for (const object of [change.before, change.after]) {
      if (object !== undefined) yield* underRule(after, object as DestinationRule);
    }
  } else if (ROUTES.has(kind)) {
    for (const object of [change.before, change.after]) yield* underRoute(after, object as Route | undefined);
  } else if (kind === 'Namespace' || kind === GATEWAY || WORKLOADS.has(kind)) {
    if (kind === 'Namespace') yield* after.list(BACKEND_TLS_POLICY, name);
    // whether proxies of their own call from a namespace decides whether its rules count
    for (const rule of after.list(DESTINATION_RULE, own)) yield* underRule(after, rule);
    for (const mesh of [before, after]) {
      if (kind === GATEWAY) yield* atGateway(mesh, after, change.ref);
      // its labels, by discoverySelectors, and its end decide about the waypoints in it
      if (kind === 'Namespace')
        for (const gateway of mesh.list(GATEWAY, name)) yield* atGateway(mesh, after, ref(gateway));
    }
  }
}

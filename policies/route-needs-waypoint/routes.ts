// Mesh routes: VirtualServices, DestinationRules, and Gateway API routes of a Service.

import type { Report } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey, splitGroupKind, spoken } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { ambient } from '../../src/mesh/enrolment.ts';
import { routesTo } from '../../src/mesh/implementations.ts';
import { type DestinationRule, fullHost } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, ISTIO_GATEWAY, type ParentRef, type Route } from '../../src/mesh/kinds/gateways.ts';
import type { VirtualService } from '../../src/mesh/kinds/routing.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { atLeast, rootNamespaces } from '../../src/mesh/releases.ts';
import { captured, type Destination, evidenceFor, HOSTNAME, hasProxies, obstacle, withHost } from './destinations.ts';
import type { Id } from './policy.ts';

/** What stands in the way at a captured destination, as a report. `what` is the thing that has no effect. */
function* obstructed(mesh: Mesh, destination: Destination, what: string, path: string): Iterable<Report<Id>> {
  const found = obstacle(mesh, destination);
  if (found.is === 'nothing') return;
  const name = `${destination.namespace}/${destination.name}`;
  const evidence = evidenceFor(destination, found.binding);
  const common = { key: refKey(destination), about: refKey(destination), evidence, because: found.why, path };
  if (found.is === 'no-waypoint') {
    yield {
      ...common,
      finding: 'no-waypoint',
      effect: `${what} has no effect on traffic of ambient clients to ${name}: it has no waypoint`,
      fix: `label the ${splitGroupKind(destination.kind).kind} or its namespace istio.io/use-waypoint, with a waypoint that accepts it`,
    };
  } else if (found.is === 'wrong-traffic-type') {
    yield {
      ...common,
      finding: 'wrong-traffic-type',
      effect: `${what} has no effect on traffic to ${name}: its waypoint does not take Service traffic`,
      fix: 'set istio.io/waypoint-for: service (or all) on the waypoint Gateway',
    };
  } else {
    yield {
      ...common,
      finding: 'target-without-address',
      effect: `${what} never sees traffic to ${name}: it has no address by which ztunnel takes the waypoint`,
      fix: 'give it a cluster IP or addresses, or route to a ClusterIP Service of the same pods',
    };
  }
}

/** Whether an `exportTo` reaches a namespace. None at all is every namespace (meshConfig can say otherwise). */
function exported(exportTo: readonly string[], own: string, namespace: string): boolean {
  return (
    exportTo.length === 0 || exportTo.some(to => to === '*' || to === namespace || (to === '.' && own === namespace))
  );
}

/**
 * True where clients with proxies of their own apply what stands away from its destination: in its own namespace, or in one that
 * its exportTo names (tried with istiod 1.31: VirtualService, DestinationRule and HTTPRoute).
 */
function usedByClients(
  mesh: Mesh,
  subject: { readonly namespace: string; readonly exportTo?: readonly string[] },
  destination: Destination,
  gateways: boolean,
): boolean {
  const { namespace, exportTo = [] } = subject;
  if (namespace === destination.namespace) return false;
  if (exported(exportTo, namespace, namespace) && hasProxies(mesh, namespace, gateways) !== false) return true;
  return exportTo.some(
    to => /^[a-z0-9]/.test(to) && to !== destination.namespace && hasProxies(mesh, to, gateways) !== false,
  );
}

/** True where a VirtualService names a Gateway API Gateway that no Istio Gateway of that name hides. */
function* gatewayApiNames(mesh: Mesh, { gateways, namespace }: VirtualService): Iterable<Report<Id>> {
  for (const [index, written] of gateways.entries()) {
    if (written === 'mesh') continue;
    const slash = written.indexOf('/');
    const named =
      slash < 0 ? { namespace, name: written } : { namespace: written.slice(0, slash), name: written.slice(slash + 1) };
    const other = mesh.get(GATEWAY, named.namespace, named.name);
    if (other === undefined || mesh.get(ISTIO_GATEWAY, named.namespace, named.name) !== undefined) continue;
    yield {
      finding: 'gateway-is-gateway-api',
      key: `gateway ${named.namespace}/${named.name}`,
      effect: `gateways names the Gateway API Gateway ${named.namespace}/${named.name}: this VirtualService never attaches to it`,
      fix: 'use an HTTPRoute with that Gateway as parentRef, or an Istio Gateway',
      evidence: [ref(other)],
      path: pointer('spec', 'gateways', index),
    };
  }
}

export function* virtualServiceReports(mesh: Mesh, subject: VirtualService): Iterable<Report<Id>> {
  yield* gatewayApiNames(mesh, subject);
  if (!subject.gateways.includes('mesh') || mesh.fact(ambient).state === 'off') return;
  for (const [index, host] of subject.hosts.entries()) {
    const path = pointer('spec', 'hosts', index);
    for (const destination of withHost(mesh, fullHost(host, subject.namespace))) {
      if (captured(mesh, destination) !== 'all' || usedByClients(mesh, subject, destination, false)) continue;
      yield* obstructed(mesh, destination, 'this VirtualService', path);
      const { binding, is } = obstacle(mesh, destination);
      if (is !== 'nothing' || binding.gateway === undefined) continue;
      yield* unreached(subject, destination, binding.gateway, 'VirtualService', path);
      if (subject.matchesSource) {
        yield {
          finding: 'source-match-dropped',
          key: 'source',
          effect:
            'rules that match sourceLabels or sourceNamespace are dropped at the waypoint: their traffic takes the others',
          fix: 'match headers instead, or deny by source with an AuthorizationPolicy',
          evidence: evidenceFor(destination, binding),
          path: pointer('spec', 'http'),
        };
      }
    }
  }
}

/** Mesh routing that the waypoint never looks at: it reads its own namespace and the Service's, and what is exported to it (tried). */
function* unreached(
  subject: VirtualService | DestinationRule,
  destination: Destination,
  waypoint: ObjectRef,
  kind: string,
  path: string,
): Iterable<Report<Id>> {
  const near = subject.namespace === destination.namespace || subject.namespace === waypoint.namespace;
  const visible = exported(subject.exportTo, subject.namespace, waypoint.namespace);
  if (near && visible) return;
  const away = near
    ? `exportTo leaves out namespace ${waypoint.namespace}, where the waypoint is`
    : `a waypoint reads no ${kind} of namespace ${subject.namespace}`;
  yield {
    finding: 'out-of-reach',
    key: refKey(destination),
    about: refKey(destination),
    effect: `this ${kind} has no effect on traffic to ${destination.namespace}/${destination.name}: ${away}`,
    fix: near
      ? `add ${waypoint.namespace} to exportTo`
      : `move it to namespace ${[...new Set([destination.namespace, waypoint.namespace])].join(' or ')}`,
    evidence: [ref(destination), ref(waypoint)],
    path: near ? pointer('spec', 'exportTo') : path,
  };
}

/** True where a gateway of Istio's sends traffic to a destination, and so applies its DestinationRules. */
function behindGateway(mesh: Mesh, destination: Destination, host: string): boolean {
  for (const route of routesTo(mesh, ref(destination)))
    if (route.parents.some(({ kind }) => kind === GATEWAY)) return true;
  // an egress gateway's route names the host of a ServiceEntry
  for (const route of routesTo(mesh, { kind: HOSTNAME, namespace: destination.namespace, name: host }))
    if (route.parents.some(({ kind }) => kind === GATEWAY)) return true;
  for (const object of mesh.referring(hostKey(host), 'VirtualService.networking.istio.io')) {
    if (object.gateways.some(gateway => gateway !== 'mesh')) return true;
  }
  // a VirtualService of an ingress names its own hosts, and the Service as a destination only
  for (const _ of mesh.list(ISTIO_GATEWAY)) return true;
  return false;
}

export function* destinationRuleReports(mesh: Mesh, subject: DestinationRule): Iterable<Report<Id>> {
  if (mesh.fact(ambient).state === 'off' || subject.selective) return;
  const host = fullHost(subject.host, subject.namespace);
  const roots = mesh.fact(rootNamespaces);
  for (const destination of withHost(mesh, host)) {
    if (captured(mesh, destination) !== 'all' || behindGateway(mesh, destination, host)) continue;
    if (usedByClients(mesh, subject, destination, true)) continue;
    yield* obstructed(mesh, destination, 'this DestinationRule', pointer('spec', 'host'));
    const { binding, is } = obstacle(mesh, destination);
    if (is !== 'nothing' || binding.gateway === undefined || roots.includes(subject.namespace)) continue;
    // where it stands elsewhere a client's own sidecar may apply it; exportTo is 1.31's (I§13)
    const planes = mesh.fact(ambient).controlPlanes;
    const reads = planes.length > 0 && planes.every(plane => atLeast(plane.release, '1.31') === true);
    const near = subject.namespace === destination.namespace || subject.namespace === binding.gateway.namespace;
    if (near && reads)
      yield* unreached(subject, destination, binding.gateway, 'DestinationRule', pointer('spec', 'host'));
  }
}

const GATEWAY_API = 'gateway.networking.k8s.io';

/** A parent that only looks like a Service: without `group: ""` it is a kind of the Gateway API, which has no Service. */
function mistakenKind(parent: ParentRef): 'Service' | 'ServiceEntry' | undefined {
  const { group, kind } = splitGroupKind(parent.kind);
  const wanted = kind === 'Service' ? '' : kind === 'ServiceEntry' ? 'networking.istio.io' : undefined;
  // the API server writes the default into a group that nobody gave, before it asks a webhook
  return wanted !== undefined && group !== wanted && (!parent.groupWritten || group === GATEWAY_API)
    ? (kind as 'Service' | 'ServiceEntry')
    : undefined;
}

function destinationOf(mesh: Mesh, parent: ParentRef): Destination | undefined {
  if (parent.kind === 'Service') return mesh.get('Service', parent.namespace, parent.name);
  return parent.kind === SERVICE_ENTRY ? mesh.get(SERVICE_ENTRY, parent.namespace, parent.name) : undefined;
}

const portsOf = (destination: Destination): readonly number[] =>
  'clusterIP' in destination || destination.kind === 'Service'
    ? (destination.ports as readonly { readonly port: number }[]).map(({ port }) => port)
    : (destination.ports as readonly { readonly number: number }[]).map(({ number }) => number);

export function* routeReports(mesh: Mesh, subject: Route): Iterable<Report<Id>> {
  const kind = splitGroupKind(subject.kind).kind;
  for (const [index, parent] of subject.parents.entries()) {
    const path = pointer('spec', 'parentRefs', index);
    const named = `${parent.namespace}/${parent.name}`;
    const mistaken = mistakenKind(parent);
    if (mistaken !== undefined) {
      const group = mistaken === 'Service' ? '""' : 'networking.istio.io';
      yield {
        finding: 'parent-not-a-service',
        key: `parent ${mistaken} ${named}`,
        effect: `without group the parent ${named} is no ${mistaken}: this ${kind} has no effect and gets no status`,
        fix: `write group: ${group} in parentRefs[${index}]`,
        evidence: [
          { kind: mistaken === 'Service' ? 'Service' : SERVICE_ENTRY, namespace: parent.namespace, name: parent.name },
        ],
        path,
      };
      continue;
    }
    if (parent.kind === GATEWAY) {
      const gateway = mesh.get(GATEWAY, parent.namespace, parent.name);
      if (gateway === undefined || managedAs(mesh, gateway.className) !== 'waypoint') continue;
      yield {
        finding: 'parent-is-waypoint',
        key: `parent ${named}`,
        effect: `the parent ${named} is a waypoint: routes attach to the Services behind it, this ${kind} has no effect`,
        fix: 'make the Service the parent: group: "", kind: Service',
        evidence: [ref(gateway)],
        path,
      };
      continue;
    }
    const destination = destinationOf(mesh, parent);
    if (destination !== undefined) yield* parentReports(mesh, subject, kind, parent, destination, path);
  }
}

function* parentReports(
  mesh: Mesh,
  subject: Route,
  kind: string,
  parent: ParentRef,
  destination: Destination,
  path: string,
): Iterable<Report<Id>> {
  const name = spoken(destination);
  const key = refKey(destination);
  const { port, sectionName } = parent;
  if (port !== undefined && !portsOf(destination).includes(port)) {
    yield {
      finding: 'parent-port-unknown',
      key: `${key} ${port}`,
      effect: `${name} has no port ${port}: this ${kind} has no effect, whatever its status says`,
      fix: `use one of its ports (${portsOf(destination).join(', ') || 'it has none'}), not the targetPort`,
      evidence: [ref(destination)],
      path: `${path}/port`,
    };
    return;
  }
  if (sectionName !== undefined) {
    yield {
      finding: 'section-name-ignored',
      key: `${key} ${sectionName}`,
      effect: `sectionName ${sectionName} is ignored for a ${splitGroupKind(destination.kind).kind}: this ${kind} holds for all of its HTTP ports`,
      fix: 'use port in the parentRef instead of sectionName',
      evidence: [ref(destination)],
      path: `${path}/sectionName`,
    };
  }
  if (captured(mesh, destination) !== 'all' || usedByClients(mesh, subject, destination, false)) return;
  yield* obstructed(mesh, destination, `this ${kind}`, path);
  const { binding, is } = obstacle(mesh, destination);
  const waypoint = binding.gateway;
  if (is !== 'nothing' || waypoint === undefined) return;
  if (subject.namespace === destination.namespace || subject.namespace === waypoint.namespace) return;
  yield {
    finding: 'out-of-reach',
    key,
    about: key,
    effect: `a waypoint reads no routes of a client's namespace: this ${kind} has no effect on traffic to ${name}`,
    fix: `move it to namespace ${destination.namespace}`,
    evidence: [ref(destination), ref(waypoint)],
    path,
  };
}

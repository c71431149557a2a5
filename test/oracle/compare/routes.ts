// Routes and what else a waypoint takes its orders from: whether the mark that each carries shows up there.
import { at, records, text } from '../../../src/kube/json.ts';
import { type ObjectRef, refKey } from '../../../src/kube/kind.ts';
import { type DestinationRule, fullHost } from '../../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, ROUTE_KINDS, type Route } from '../../../src/mesh/kinds/gateways.ts';
import type { AttachedConfig, VirtualService } from '../../../src/mesh/kinds/routing.ts';
import type { Service, ServiceEntry } from '../../../src/mesh/kinds/services.ts';
import { isKind } from '../../../src/mesh/kinds.ts';
import { managedAs } from '../../../src/mesh/managed.ts';
import type { Mesh } from '../../../src/mesh/mesh.ts';
import { hostKey } from '../../../src/mesh/references.ts';
import { controlPlanes, discovers, ownersOf } from '../../../src/mesh/releases.ts';
import { hasAddress, isExternalName, waypointOf } from '../../../src/mesh/waypoints.ts';
import type { Manifest } from '../../harness/objects.ts';
import { takesWaypoint, waypointIn } from '../observe.ts';
import type { Chain } from '../waypoints.ts';
import { markOf } from '../words/routes.ts';
import { type Answered, type Asked, type Comparison, hostsOf, reportsBy, storedAs } from './common.ts';
import { isCaptured } from './ztunnel.ts';

type Destination = Service | ServiceEntry;

/** What can make a gateway send traffic to a Service. */
const ROUTES = [...ROUTE_KINDS, 'VirtualService.networking.istio.io'] as const;
type Report = ReturnType<typeof reportsBy>[number];

/** Findings that say that a destination's waypoint does nothing for the subject. Others speak of a part of it. */
const INERT = [
  'no-waypoint',
  'wrong-traffic-type',
  'target-without-address',
  'out-of-reach',
  'source-match-dropped',
  'selector-ignored',
  'parent-port-unknown',
  'parent-not-a-service',
  'parent-is-waypoint',
];

/** By what a route is known again in what a waypoint receives: its mark, else a timeout or weight of its own. */
function markIn(object: Manifest): RegExp | undefined {
  const { kind, metadata } = object;
  const own = markOf(kind, metadata.namespace ?? '', metadata.name);
  const text = JSON.stringify(object['spec']);
  if (text.includes(own)) return new RegExp(`"${own}"`);
  const timeout = /"(?:timeout|request)":"(\d+s)"/.exec(text)?.[1];
  if (timeout !== undefined) return new RegExp(`"timeout":"${timeout}"`);
  const weight = /"weight":(\d+)\b/.exec(text)?.[1];
  return weight === undefined ? undefined : new RegExp(`"weight":${weight}\\b`);
}

/** Filter chains of a destination's waypoint that are for it, where ztunnel takes that waypoint. */
function chainsOf({ mesh, seen }: Asked, destination: ObjectRef): readonly Chain[] {
  return hostsOf(mesh, destination).flatMap(host => {
    const entry = seen.services.get(`${destination.namespace}/${host}`);
    if (entry === undefined || text(at(entry, 'name')) !== destination.name || !takesWaypoint(seen, entry)) return [];
    return (seen.waypoints.get(waypointIn(entry) ?? '')?.chains ?? []).filter(chain => chain.host === host);
  });
}

/** True where findings about a destination are to be expected at all: its pods are ztunnel's, all of them, and nobody waits for a waypoint. */
function isJudged({ mesh, seen }: Asked, destination: Destination): boolean {
  const binding = waypointOf(mesh, destination, 'service');
  if (binding.state === 'pending' || binding.state === 'unknown') return false;
  const hosts = hostsOf(mesh, destination);
  const entries = hosts.flatMap(host => seen.services.get(`${destination.namespace}/${host}`) ?? []);
  // a host that another entry has is the other's
  if (entries.some(entry => text(at(entry, 'name')) !== destination.name)) return false;
  // a Gateway that is no waypoint is waypoint-binding's to report
  if (
    binding.state === 'bound' &&
    hasAddress(mesh, destination).has &&
    !entries.some(entry => takesWaypoint(seen, entry))
  ) {
    return false;
  }
  if (destination.kind !== 'Service') return false;
  const behind = [...seen.workloads.values()].filter(workload => {
    const services = at(workload, 'services') as Readonly<Record<string, unknown>> | undefined;
    return hosts.some(host => services?.[`${destination.namespace}/${host}`] !== undefined);
  });
  return behind.length > 0 && behind.every(isCaptured);
}

function about(reports: readonly Report[], key: string): boolean {
  return reports.some(one => INERT.includes(one.finding) && (one.key.startsWith(key) || one.about === key));
}

/** True where pods with sidecars stand beside the subject: they apply what it says of a destination elsewhere (tried). */
function hasOwnClients({ seen, ref }: Asked, destination: Destination): boolean {
  if (ref.namespace === destination.namespace) return false;
  return [...seen.workloads.values()].some(
    workload => text(at(workload, 'namespace')) === ref.namespace && at(workload, 'nativeTunnel') === true,
  );
}

function* effect(
  asked: Asked,
  destination: Destination,
  reports: readonly Report[],
  shows: (chain: Chain) => boolean,
): Iterable<Answered> {
  if (!isJudged(asked, destination)) return;
  const inert =
    about(reports, refKey(destination)) || reports.some(({ finding }) => finding === 'source-match-dropped');
  if (!inert && hasOwnClients(asked, destination)) return;
  yield ['takes effect', String(!inert), String(chainsOf(asked, destination).some(shows))];
}

function destinationOf(mesh: Mesh, { kind, namespace, name }: ObjectRef): Destination | undefined {
  if (kind === 'Service') return mesh.get('Service', namespace, name);
  return mesh.get('ServiceEntry.networking.istio.io', namespace, name);
}

/** True where a parent, or the waypoint that a destination names, belongs to another product. */
function isForeign(mesh: Mesh, destination: Destination | undefined, parent: ObjectRef | undefined): boolean {
  const gateway =
    destination !== undefined
      ? waypointOf(mesh, destination, 'service').gateway
      : mesh.get(GATEWAY, parent?.namespace ?? '', parent?.name ?? '');
  return gateway !== undefined && managedAs(mesh, gateway.className) === 'none';
}

/**
 * True where a route is of a kind that the destination's ports speak, or the waypoint has nothing for them at all: of a TCPRoute for
 * HTTP ports, or the reverse, no policy says anything.
 */
function suits(asked: Asked, destination: Destination, port: number | undefined): boolean {
  const tcp = asked.object.kind === 'TCPRoute';
  const chains = chainsOf(asked, destination);
  return chains.length === 0 || !chains.some(one => port === undefined || one.port === port)
    ? true
    : chains.some(one => one.http !== tcp && (port === undefined || one.port === port));
}

export const route: Comparison = function* (asked) {
  const { mesh, object, ref, seen, refused } = asked;
  const subject = asked.subject as Route;
  if (refused !== undefined) return;
  const reports = reportsBy(mesh, 'route-needs-waypoint', subject);
  const owned = ownersOf(mesh, subject).length > 0;
  const answered = records(at(storedAs(asked), 'status', 'parents')).length > 0;
  // conditions of Gateway API kinds are written by the control plane of the object's revision, which without a label of its own is its
  // namespace's (pkg/revisions/tag_watcher.go IsMine)
  const revision = mesh.get('Namespace', '', ref.namespace)?.labels['istio.io/rev'] ?? 'default';
  const [parent, ...others] = records(at(object, 'spec', 'parentRefs'));
  if (others.length === 0 && owned && revision === 'default') {
    const namespace = text(parent?.['namespace']) ?? ref.namespace;
    const kind = parent?.['group'] === '' ? 'Service' : parent?.['group'] === undefined ? 'Gateway' : 'ServiceEntry';
    const [only] = subject.parents;
    const destination = only === undefined ? undefined : destinationOf(mesh, only);
    const watched = mesh.fact(controlPlanes).some(plane => discovers(mesh, plane, namespace) !== false);
    // istiod answers only of parents that it knows, and not where a waypoint of another product is named
    if (
      watched &&
      seen.stored.has(`${kind}/${namespace}/${text(parent?.['name'])}`) &&
      !isForeign(mesh, destination, only)
    ) {
      const has = (finding: string) => reports.some(one => one.finding === finding);
      yield ['has a status', String(!has('parent-not-a-service') && !has('parent-is-waypoint')), String(answered)];
    }
  }
  // where its backend is not there, the route answers with an error instead
  const backend = mesh.get('Service', ref.namespace, 'web');
  if (backend === undefined || isExternalName(backend) || object.kind === 'TLSRoute') return;
  if (!owned) return;
  const mark = markIn(object);
  if (mark === undefined) return;
  for (const one of subject.parents) {
    const destination = destinationOf(mesh, one);
    if (destination === undefined || !suits(asked, destination, one.port)) continue;
    yield* effect(asked, destination, reports, chain => mark.test(chain.text));
  }
};

/** Destinations of a host, and whether another object of the kind has it too: one of them wins, which is not asked here. */
function ofHost(mesh: Mesh, host: string): readonly Destination[] {
  const match = /^Service\/([^/]*)\/([^/]*)$/.exec(hostKey(host));
  const service = match === null ? undefined : mesh.get('Service', match[1] ?? '', match[2] ?? '');
  return service === undefined ? [] : [service];
}

export const virtualService: Comparison = function* (asked) {
  const { mesh, ref, refused } = asked;
  const subject = asked.subject as VirtualService;
  if (refused !== undefined || !subject.gateways.includes('mesh') || ownersOf(mesh, subject).length === 0) return;
  const reports = reportsBy(mesh, 'route-needs-waypoint', subject);
  const mark = markIn(asked.object);
  if (mark === undefined) return;
  for (const host of subject.hosts.map(one => fullHost(one, ref.namespace))) {
    const rivals = [...mesh.list('VirtualService.networking.istio.io')].filter(
      other => other !== subject && other.hosts.some(one => fullHost(one, other.namespace) === host),
    );
    if (rivals.length > 0) continue;
    for (const destination of ofHost(mesh, host))
      yield* effect(asked, destination, reports, chain => mark.test(chain.text));
  }
};

export const destinationRule: Comparison = function* (asked) {
  const { mesh, ref, refused, seen } = asked;
  const subject = asked.subject as DestinationRule;
  if (refused !== undefined || ownersOf(mesh, subject).length === 0) return;
  const wanted = text(at(asked.object, 'spec', 'trafficPolicy', 'connectionPool', 'tcp', 'connectTimeout'));
  if (wanted === undefined) return;
  const reports = reportsBy(mesh, 'route-needs-waypoint', subject);
  const host = fullHost(subject.host, ref.namespace);
  const rivals = [...mesh.list('DestinationRule.networking.istio.io')].filter(
    other => other !== subject && fullHost(other.host, other.namespace) === host,
  );
  if (rivals.length > 0) return;
  for (const destination of ofHost(mesh, host)) {
    if (!isJudged(asked, destination)) continue;
    const entry = seen.services.get(`${destination.namespace}/${host}`);
    const waypoint = takesWaypoint(seen, entry) ? seen.waypoints.get(waypointIn(entry) ?? '') : undefined;
    const applied = [...(waypoint?.timeouts ?? [])].some(
      ([name, timeout]) => name.endsWith(`|${host}`) && timeout === wanted,
    );
    const inert = about(reports, refKey(destination));
    // where it stands elsewhere a sidecar may be whom it is for, and a gateway applies it too: nothing is said then
    const near = ref.namespace === destination.namespace || inert;
    const routed = ROUTES.some(kind => isKind(kind) && [...mesh.list(kind)].length > 0);
    if (near && (inert || applied || !routed)) yield ['takes effect', String(!inert), String(applied)];
  }
};

/** RequestAuthentications: whether a waypoint knows the issuer. */
export const requestAuthentication: Comparison = function* (asked) {
  const { mesh, refused, seen } = asked;
  const subject = asked.subject as AttachedConfig;
  if (refused !== undefined || ownersOf(mesh, subject).length === 0) return;
  const mark = `"${text(records(at(asked.object, 'spec', 'jwtRules'))[0]?.['issuer'])}"`;
  const reports = reportsBy(mesh, 'route-needs-waypoint', subject);
  if (subject.targets.length === 0) {
    const anywhere = [...seen.waypoints].some(
      ([name, { chains }]) =>
        mesh.get('Namespace', '', name.split('/')[0] ?? '') !== undefined &&
        chains.some(chain => chain.text.includes(mark)),
    );
    yield ['at a waypoint by selector', 'false', String(anywhere)];
    return;
  }
  for (const target of subject.targets) {
    const destination = destinationOf(mesh, target);
    if (destination !== undefined)
      yield* effect(asked, destination, reports, chain => chain.http && chain.text.includes(mark));
  }
};

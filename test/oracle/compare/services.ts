// Services and ServiceEntries: their waypoint, the reason for none, their address, and what else befalls an entry.
import { at, list, record, records, text } from '../../../src/kube/json.ts';
import type { Service, ServiceEntry } from '../../../src/mesh/kinds/services.ts';
import { managedAs } from '../../../src/mesh/managed.ts';
import { ownersOf } from '../../../src/mesh/releases.ts';
import { CANARY, hasAddress, ingressUsesWaypoint, USE_WAYPOINT, waypointOf } from '../../../src/mesh/waypoints.ts';
import { conditionOf, takesWaypoint, waypointIn } from '../observe.ts';
import { type Answered, type Asked, type Comparison, findingsOn, reportsBy, storedAs, together } from './common.ts';

const REASONS: Readonly<Record<string, readonly string[]>> = {
  WaypointIsNotReady: ['waypoint-not-found', 'waypoint-not-ready', 'attachment-refused', 'wrong-traffic-type'],
  AttachmentDenied: ['attachment-refused'],
  CrossNamespaceWaypointForbidden: ['attachment-refused'],
  UnsupportedTrafficType: ['wrong-traffic-type'],
};
const CAN_REACH = ['waypoint-not-found', 'waypoint-not-ready', 'attachment-refused', 'wrong-traffic-type'];

function* bound(asked: Asked, entry: unknown): Iterable<Answered> {
  const { mesh, subject, seen } = asked;
  const binding = waypointOf(mesh, subject, 'service');
  const said = binding.state === 'bound' ? `${binding.waypoint?.namespace}/${binding.waypoint?.name}` : 'none';
  if (entry !== undefined) yield ['waypoint', said, waypointIn(entry) ?? 'none'];
  const condition = conditionOf(storedAs(asked), 'istio.io/WaypointBound');
  const is = condition === undefined ? 'no condition' : condition.status === 'True' ? 'True' : condition.reason;
  yield ['reason', binding.state === 'bound' ? 'True' : (binding.reason ?? 'no condition'), is];
  if (condition?.status === 'True') {
    const ingress = ingressUsesWaypoint(mesh, subject as Service);
    yield [
      'through it from gateways',
      String(ingress),
      String(condition.message.includes('will traverse the waypoint')),
    ];
    if (subject.labels[CANARY] !== undefined) {
      const refused = findingsOn(mesh, 'waypoint-binding', subject).has('canary-invalid');
      yield ['canary refused', String(refused), String(condition.message.includes('Canary waypoint not attached'))];
    }
  }
  if (subject.labels[USE_WAYPOINT] === undefined) return;
  const found = findingsOn(mesh, 'waypoint-binding', subject);
  const foreign = binding.gateway !== undefined && managedAs(mesh, binding.gateway.className) === 'none';
  if (foreign || subject.labels[USE_WAYPOINT] === 'none') return;
  // of a waypoint that is not there yet the model says already what will come of it
  const expected = REASONS[is] ?? [];
  // a Gateway that is no waypoint is said to be none, ready or not
  const claims = [...found].filter(id => CAN_REACH.includes(id));
  const agree =
    expected.length === 0
      ? claims.length === 0
      : claims.some(id => expected.includes(id)) || found.has('not-a-waypoint');
  yield ['waypoint-binding', agree ? is : together(found, 'no finding'), is];
  if (entry !== undefined && condition?.status === 'True' && hasAddress(mesh, subject as Service).has) {
    yield ['reachable', String(!found.has('not-a-waypoint')), String(takesWaypoint(seen, entry))];
  }
}

export const service: Comparison = function* (asked) {
  const { mesh, subject, seen, ref, refused } = asked;
  if (refused !== undefined) return;
  const found = seen.services.get(`${ref.namespace}/${ref.name}.${ref.namespace}.svc.cluster.local`);
  // ambient mode knows no ExternalName, so a ServiceEntry may have the host
  const entry = text(at(found, 'name')) === ref.name ? found : undefined;
  yield* bound(asked, entry);
  if (entry !== undefined && ownersOf(mesh, subject).length > 0) {
    const address = records(at(entry, 'addresses')).length > 0;
    yield ['address', String(hasAddress(mesh, subject as Service).has), String(address)];
  }
};

/** Whether something stands behind a host of an entry, as ztunnel would find it. */
function hasEndpoints({ seen, ref }: Asked, host: string): boolean {
  return seen.endpoints.some(one => record(at(one, 'services'))?.[`${ref.namespace}/${host}`] !== undefined);
}

export const serviceEntry: Comparison = function* (asked) {
  const { mesh, object, subject, seen, ref, refused } = asked;
  const entry = subject as ServiceEntry;
  const found = reportsBy(mesh, 'service-entry', entry);
  const has = (finding: string) => found.some(one => one.finding === finding);
  const dynamic = entry.resolution === 'DYNAMIC_DNS';
  if (refused !== undefined) {
    // of all that istiod's webhook refuses only this is a policy's, which does not speak where no istiod reads the entry
    if (ownersOf(mesh, entry).length > 0 && dynamic && entry.ports.length > 0)
      yield ['accepted', String(!has('dynamic-dns-invalid')), 'false'];
    return;
  }
  if (ownersOf(mesh, entry).length === 0) return;
  const [host = ''] = entry.hosts;
  const sent = seen.services.get(`${ref.namespace}/${host}`);
  // of two entries for a host ztunnel gets one
  const mine = sent !== undefined && text(at(sent, 'name')) === ref.name;
  if (mine || sent === undefined) yield* bound(asked, sent);
  if (dynamic && waypointOf(mesh, entry, 'service').state !== 'bound') {
    const invalid = found.filter(one => one.finding === 'dynamic-dns-invalid' && one.path !== '/spec/location');
    yield ['accepted', String(invalid.length === 0), 'true'];
  }
  const twice = found.filter(one => one.finding === 'host-twice').map(({ key }) => key);
  for (const one of entry.hosts) {
    const received = seen.services.get(`${ref.namespace}/${one}`);
    if (entry.ports.length === 0 || received === undefined) continue;
    const lost = text(at(received, 'name')) !== ref.name;
    yield ['host taken by another', String(twice.includes(one)), String(lost)];
  }
  if (!mine) return;
  const address = entry.hosts.some(
    one => records(at(seen.services.get(`${ref.namespace}/${one}`), 'addresses')).length > 0,
  );
  yield ['address', String(hasAddress(mesh, entry).has), String(address)];
  if (entry.resolution === 'STATIC' && entry.ports.length > 0) {
    const empty = !hasEndpoints(asked, host);
    // a selector that selects nothing now may select something later
    const selects = Object.keys(entry.workloadSelector?.matchLabels ?? {}).length > 0;
    if (!selects) yield ['endpoints', has('no-endpoints') ? 'none' : 'some', empty ? 'none' : 'some'];
  }
  const wild = list(at(object, 'spec', 'hosts')).some(one => String(one).startsWith('*'));
  if (dynamic && wild) {
    const missing = conditionOf(storedAs(asked), 'istio.io/WaypointMissing')?.status === 'True';
    const unbound = waypointOf(mesh, entry, 'service').state;
    // a waypoint that is named and not there is waypoint-binding's to report, and sidecars resolve such hosts themselves
    if (unbound === 'none' || unbound === 'opted-out' || unbound === 'bound') {
      if (has('dynamic-dns-needs-waypoint') || unbound === 'bound')
        yield ['WaypointMissing', String(has('dynamic-dns-needs-waypoint')), String(missing)];
    }
  }
};

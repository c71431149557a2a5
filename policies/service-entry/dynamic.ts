// `resolution: DYNAMIC_DNS`: wildcard hosts that a proxy resolves as they are asked for (I§4).
import { enforcerOf } from '../../src/mesh/enrolment.ts';
import type { ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { ordinaryPod } from '../../src/mesh/ordinary.ts';
import { atLeast, flag } from '../../src/mesh/releases.ts';
import { waypointOf } from '../../src/mesh/waypoints.ts';

import { DYNAMIC, deployments, type Found, type Situation } from './situation.ts';

/** What istiod's validation takes (pkg/config/validation; HTTPS is not among them). */
const TAKEN: ReadonlySet<string> = new Set(['HTTP', 'HTTP2', 'GRPC', 'TLS']);

function invalidDynamic(entry: ServiceEntry): readonly { what: string; fix: string; path: string }[] {
  const found: { what: string; fix: string; path: string }[] = [];
  const plain = entry.hosts.find(host => !host.startsWith('*'));
  if (plain !== undefined) {
    found.push({
      what: `host ${plain} is no wildcard`,
      fix: 'use resolution DNS for plain hosts, or write *.DOMAIN',
      path: '/spec/hosts',
    });
  }
  if (entry.addresses.length > 0)
    found.push({ what: 'it has addresses', fix: 'remove spec.addresses', path: '/spec/addresses' });
  if (entry.endpoints > 0)
    found.push({ what: 'it has endpoints', fix: 'remove spec.endpoints', path: '/spec/endpoints' });
  const other = entry.ports.find(port => !TAKEN.has(port.protocol));
  if (other !== undefined) {
    found.push({
      what: `port ${other.number} is ${other.protocol || 'of no protocol'}, and not HTTP, HTTP2, GRPC or TLS`,
      fix: 'use HTTP or TLS ports',
      path: '/spec/ports',
    });
  }
  return found;
}

/** What istiod refuses of such an entry, and what the waypoint cannot do with it. */
export function* dynamicDns({ entry, mesh, serving, owners }: Situation): Found {
  if (entry.resolution !== DYNAMIC) return;
  const checked = owners.length > 0 && owners.every(plane => atLeast(plane.release, '1.30') === true);
  for (const { what, fix, path } of invalidDynamic(entry)) {
    yield {
      finding: 'dynamic-dns-invalid',
      key: path,
      effect: `${what}: resolution DYNAMIC_DNS does not allow it, istiod refuses or ignores this entry`,
      fix,
      evidence: [],
      because: 'istiod checks it from 1.30 on',
      certain: checked,
      path,
    };
  }
  if (serving.length === 0) return;
  const binding = waypointOf(mesh, entry, 'service');
  if (binding.state === 'unknown') return;
  if (binding.state === 'none' || binding.state === 'opted-out' || binding.state === 'never') {
    // the namespace's own clients are sidecars, which resolve such hosts themselves from 1.30 on
    if (enforcerOf(mesh, ordinaryPod(entry.namespace)).by === 'sidecar') return;
    yield {
      finding: 'dynamic-dns-needs-waypoint',
      key: 'waypoint',
      effect: 'ambient clients cannot use this entry: only a waypoint resolves DYNAMIC_DNS hosts, and it names none',
      fix: 'label it istio.io/use-waypoint with a waypoint of its namespace',
      evidence: deployments(serving),
      because: binding.why,
      path: '/spec/resolution',
    };
    return;
  }
  const bound = binding.state === 'bound';
  const evidence = binding.waypoint === undefined ? [] : [binding.waypoint];
  if (entry.location === 'MESH_INTERNAL') {
    yield {
      finding: 'dynamic-dns-invalid',
      key: '/spec/location',
      effect:
        'the waypoint builds nothing for DYNAMIC_DNS with MESH_INTERNAL: its hosts are unreachable for ambient clients',
      fix: 'set location: MESH_EXTERNAL',
      evidence,
      certain: bound && checked,
      path: '/spec/location',
    };
  }
  for (const port of entry.ports) {
    const tls = port.protocol === 'TLS' || port.protocol === 'HTTPS';
    const off = serving.filter(
      plane =>
        !flag(plane, 'ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS', false) || atLeast(plane.release, '1.29') === false,
    );
    if (port.protocol !== 'GRPC' && port.protocol !== 'HTTP2' && !(tls && off.length > 0)) continue;
    yield {
      finding: 'dynamic-dns-protocol',
      key: String(port.number),
      effect: `the waypoint resolves no ${port.protocol} port of DYNAMIC_DNS: requests to port ${port.number} fail`,
      fix: tls
        ? 'set ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS=true on istiod (1.29 or later), or use an HTTP port'
        : `declare port ${port.number} as HTTP`,
      evidence: [...evidence, ...(tls ? deployments(off) : [])],
      certain: bound && (!tls || off.length === serving.length),
      path: '/spec/ports',
    };
  }
}

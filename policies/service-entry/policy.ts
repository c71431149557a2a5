import * as z from 'zod';
import { type CheckContext, definePolicy, PAUSE } from '../../src/engine/policy.ts';
import { at } from '../../src/kube/json.ts';
import { ref, refKey } from '../../src/kube/kind.ts';
import { ambient, enforcerOf, enrolsByDefault } from '../../src/mesh/enrolment.ts';
import { WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { AUTHORIZATION_POLICY } from '../../src/mesh/kinds/security.ts';
import { SERVICE_ENTRY, type ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import { ordinaryPod } from '../../src/mesh/ordinary.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { atLeast, controlPlanes, flag, ownersOf, servesAmbient, ztunnels } from '../../src/mesh/releases.ts';
import { hasAddress, isExternalName, waypointOf } from '../../src/mesh/waypoints.ts';
import { affected } from './affected.ts';
import { racing, ranges } from './ambient.ts';
import { dynamicDns } from './dynamic.ts';
import { differ, isOlder, meet, portsMissingIn, visibleTo } from './hosts.ts';
import { DYNAMIC, deployments, type Found, type Situation } from './situation.ts';

const SEEN = ['validate', 'files', 'audit'] as const;

/** `resolution: NONE` with addresses: from 1.28 on ztunnel passes such traffic through. */
function* passthrough({ entry, mesh, serving }: Situation): Found {
  if (entry.resolution !== 'NONE' || entry.addresses.length === 0 || serving.length === 0) return;
  const old = serving.filter(plane => atLeast(plane.release, '1.28') === false);
  if (old.length > 0) {
    yield {
      finding: 'none-before-1.28',
      key: 'resolution',
      effect:
        'ambient clients cannot reach its addresses: before 1.28 resolution NONE has no endpoints in ambient mode',
      fix: 'upgrade istiod and ztunnel to 1.28 or later, or use resolution STATIC with endpoints',
      evidence: deployments(old),
      because: `istiod ${old[0]?.release?.text ?? ''}`,
      path: '/spec/resolution',
    };
    return;
  }
  if (!serving.some(plane => atLeast(plane.release, '1.28') === true)) return;
  const agents = mesh.fact(ztunnels).filter(agent => atLeast(agent.release, '1.28') === false);
  if (agents.length === 0) return;
  yield {
    finding: 'passthrough-not-understood',
    key: 'resolution',
    effect:
      'a ztunnel before 1.28 refuses this entry: its clients pass it by, and a waypoint is not used, until ztunnel is upgraded',
    fix: 'finish the rollout of ztunnel to 1.28 or later first, or use resolution STATIC with endpoints',
    evidence: agents.slice(0, 3).map(agent => ref(agent.workload)),
    because: `ztunnel ${agents[0]?.release?.text ?? ''} knows no passthrough`,
    path: '/spec/resolution',
  };
}

function* sharedHosts({ entry, mesh, serving, owners }: Situation): Found {
  const picks = owners.filter(
    plane => atLeast(plane.release, '1.30') === true && flag(plane, 'PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE', true),
  );
  if (serving.length === 0 && picks.length === 0) return;
  const seen = new Set<string>();
  let count = 0;
  for (const host of entry.hosts) {
    count += 1;
    if (count % 50 === 0) yield PAUSE;
    const key = hostKey(host);
    const service = key.startsWith('Service/')
      ? mesh.object({ kind: 'Service', namespace: key.split('/')[1] ?? '', name: key.split('/')[2] ?? '' })
      : undefined;
    if (service !== undefined && !isExternalName(service) && serving.length > 0) {
      yield {
        finding: service.namespace === entry.namespace ? 'host-twice' : 'same-host-elsewhere',
        key: host,
        effect: `${host} is a Kubernetes Service: ztunnel ignores this entry for it, sidecars and waypoints send to both`,
        fix: 'give the entry a host of its own, or remove it',
        evidence: [ref(service)],
        action: 'warn',
        path: '/spec/hosts',
      };
    }
    for (const other of mesh.referring(key, SERVICE_ENTRY)) {
      if (refKey(other) === refKey(entry) || seen.has(`${host} ${refKey(other)}`)) continue;
      if (!other.hosts.some(theirs => theirs.toLowerCase() === host.toLowerCase()) || isOlder(entry, other)) continue;
      seen.add(`${host} ${refKey(other)}`);
      if (other.namespace === entry.namespace) {
        if (serving.length === 0) continue;
        const lost = portsMissingIn(entry, other);
        const captured = enforcerOf(mesh, ordinaryPod(entry.namespace)).by === 'ztunnel';
        yield {
          finding: 'host-twice',
          key: host,
          effect:
            lost.length > 0
              ? `ztunnel takes only the older of two entries for ${host}: port ${lost.join(', ')} is unreachable for ambient clients`
              : `ztunnel takes only the older of two entries for ${host}: ambient clients get nothing of this one`,
          fix: 'put all ports and endpoints of the host into one ServiceEntry',
          evidence: [ref(other)],
          ...(lost.length > 0 ? {} : { action: 'warn' as const }),
          certain: captured,
          path: '/spec/hosts',
        };
      } else if (picks.length > 0 && meet(entry, other) && differ(entry, other)) {
        yield {
          finding: 'same-host-elsewhere',
          key: `${host} ${other.namespace}`,
          effect: `clients that see both entries for ${host} use the older one, that of namespace ${other.namespace}`,
          fix: 'limit exportTo of both, or keep one entry for the host',
          evidence: [ref(other), ...deployments(picks)],
          because: 'from 1.30 on the older wins, not the first in the alphabet',
          path: '/spec/hosts',
        };
      }
    }
  }
}

function* withoutAddress({ entry, mesh, serving }: Situation): Found {
  if (serving.length === 0 || entry.resolution === DYNAMIC) return;
  const address = hasAddress(mesh, entry);
  if (address.has) return;
  const binding = waypointOf(mesh, entry, 'service');
  if (binding.state !== 'bound' && binding.state !== 'pending') return;
  const policies = [...mesh.referring(refKey(entry), AUTHORIZATION_POLICY)];
  // inherited from the namespace and not asked for by anybody: nothing is lost
  if (policies.length === 0 && binding.namedBy?.kind !== SERVICE_ENTRY) return;
  yield {
    finding: 'no-address-for-waypoint',
    key: 'address',
    effect:
      policies.length > 0
        ? 'traffic to its hosts never goes to the waypoint, for want of an address: policies that target it enforce nothing'
        : 'traffic to its hosts never goes to the waypoint, for want of an address, although its status says bound',
    fix:
      entry.resolution === 'NONE'
        ? 'give it spec.addresses, or resolution DNS or STATIC'
        : entry.hosts.every(host => host.startsWith('*'))
          ? 'give it spec.addresses, or hosts without a wildcard'
          : 'give it spec.addresses, or remove networking.istio.io/enable-autoallocate-ip: "false"',
    evidence: [...(binding.waypoint === undefined ? [] : [binding.waypoint]), ...policies.slice(0, 3).map(ref)],
    because: address.why,
    certain: address.certain && binding.certain,
    ...(policies.length > 0 ? {} : { action: 'warn' as const }),
    path: '/spec/resolution',
  };
}

function* endpoints({ entry, serving }: Situation): Found {
  if (entry.ports.length === 0) {
    yield {
      finding: 'no-endpoints',
      key: 'ports',
      effect: 'it has no ports: nothing can be sent to its hosts',
      fix: 'list the ports under spec.ports',
      evidence: [],
      path: '/spec/ports',
    };
  } else if (entry.resolution === 'STATIC' && entry.endpoints === 0) {
    if (entry.workloadSelector === undefined) {
      yield {
        finding: 'no-endpoints',
        key: 'endpoints',
        effect: 'resolution STATIC without endpoints: whatever is sent to its hosts goes nowhere',
        fix: 'list spec.endpoints, set spec.workloadSelector, or use resolution DNS',
        evidence: [],
        path: '/spec/endpoints',
      };
    } else if (serving.length > 0 && Object.keys(entry.workloadSelector.matchLabels).length === 0) {
      yield {
        finding: 'no-endpoints',
        key: 'workloadSelector',
        effect: 'an empty workloadSelector selects no pod in ambient mode: what is sent to its hosts goes nowhere',
        fix: 'write spec.workloadSelector.labels, or list spec.endpoints',
        evidence: [],
        action: 'warn',
        path: '/spec/workloadSelector',
      };
    }
  }
}

function* exported({ entry, mesh, serving }: Situation): Found {
  const seers = visibleTo(entry);
  if (serving.length === 0 || seers === 'all') return;
  // MeshConfig of 1.31 can make ambient mode keep to the namespace
  if (serving.some(plane => at(plane.meshConfig, 'serviceEntryVisibility') !== undefined)) return;
  let count = 0;
  for (const { name } of mesh.list('Namespace')) {
    count += 1;
    if (count % 200 === 0) yield PAUSE;
    if (seers.has(name) || enrolsByDefault(mesh, name) !== true) continue;
    yield {
      finding: 'exported-anyway',
      key: 'exportTo',
      effect: 'ambient mode ignores exportTo of ServiceEntries: ambient clients of every namespace use this entry',
      fix: 'remove exportTo, or rely on AuthorizationPolicies and NetworkPolicies to keep others out',
      evidence: [{ kind: 'Namespace', namespace: '', name }],
      path: '/spec/exportTo',
    };
    return;
  }
}

function* check(entry: ServiceEntry, { mesh }: CheckContext<unknown>): Found {
  const owners = ownersOf(mesh, entry);
  // an entry that no control plane here takes for its own is release-skew's to report
  if (owners.length === 0 && mesh.fact(controlPlanes).length > 0) return;
  const serving = mesh.fact(ambient).state === 'on' ? owners.filter(servesAmbient) : [];
  const situation: Situation = { entry, mesh, serving, owners };
  yield* endpoints(situation);
  yield* passthrough(situation);
  yield* dynamicDns(situation);
  yield* sharedHosts(situation);
  yield* withoutAddress(situation);
  yield* exported(situation);
  yield* ranges(situation);
  yield* racing(situation);
}

export const serviceEntryPolicy = definePolicy({
  id: 'service-entry',
  title: 'ServiceEntries that ambient mode, an older ztunnel or another entry of the same host makes useless',
  subjects: [SERVICE_ENTRY],
  reads: [
    SERVICE_ENTRY,
    'Service',
    'Namespace',
    'ConfigMap',
    GATEWAY,
    GATEWAY_CLASS,
    AUTHORIZATION_POLICY,
    WEBHOOKS,
    'Deployment.apps',
    'DaemonSet.apps',
    'Pod',
  ],
  findings: {
    'passthrough-not-understood': {
      action: 'warn',
      since: '1.28',
      seen: SEEN,
      doc: 'resolution NONE that a ztunnel before 1.28 refuses',
    },
    'none-before-1.28': {
      action: 'warn',
      until: '1.27',
      seen: SEEN,
      doc: 'resolution NONE with addresses, which ambient clients cannot reach before 1.28',
    },
    'dynamic-dns-needs-waypoint': {
      action: 'warn',
      since: '1.28',
      seen: SEEN,
      doc: 'resolution DYNAMIC_DNS without a waypoint, the only one to resolve it in ambient mode',
    },
    'dynamic-dns-protocol': {
      action: 'deny',
      since: '1.28',
      seen: SEEN,
      doc: 'a port of a DYNAMIC_DNS entry whose protocol the waypoint does not resolve',
    },
    'dynamic-dns-invalid': {
      action: 'deny',
      since: '1.28',
      seen: SEEN,
      doc: 'hosts, addresses, endpoints, ports or a location that DYNAMIC_DNS does not allow',
    },
    'same-host-elsewhere': {
      action: 'warn',
      seen: SEEN,
      doc: 'another object has the same host, and clients use that one',
    },
    'host-twice': {
      action: 'deny',
      seen: SEEN,
      doc: 'two entries of one namespace for one host, of which ztunnel takes the older only',
    },
    'no-address-for-waypoint': {
      action: 'deny',
      seen: SEEN,
      doc: 'bound to a waypoint, and without an address by which ztunnel could send traffic there',
    },
    'no-endpoints': {
      action: 'deny',
      seen: SEEN,
      doc: 'an entry without ports, or STATIC without endpoints: traffic goes nowhere',
      objectAlone: true,
    },
    'exported-anyway': {
      action: 'warn',
      seen: SEEN,
      doc: 'exportTo, which ambient mode ignores',
    },
    'range-before-1.30': {
      action: 'warn',
      until: '1.29',
      seen: SEEN,
      doc: 'a range of addresses, which ambient mode does not take before 1.30',
    },
    'racing-needs-waypoint': {
      action: 'warn',
      seen: SEEN,
      doc: 'istio.io/connect-strategy without the waypoint that would follow it',
    },
  },
  options: z.strictObject({}),
  *check(subject: Meta, context): Found {
    if (isOf(subject, SERVICE_ENTRY)) yield* check(subject, context);
  },
  affected,
});

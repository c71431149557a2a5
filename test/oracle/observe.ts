// What istiod made of the meshes: what ztunnel and waypoints would receive, conditions, and where the proxy was injected.
import { setTimeout as sleep } from 'node:timers/promises';
import { at, number, records, text } from '../../src/kube/json.ts';
import type { Api } from '../harness/api.ts';
import type { Istiod } from '../harness/istio.ts';
import type { Manifest } from '../harness/objects.ts';
import type { Watched } from './watched.ts';
import { askWaypoints, isWaypointPod, type Waypoint } from './waypoints.ts';

export interface Observation {
  /** Policies as ztunnel receives them, by `namespace/name`. */
  readonly policies: ReadonlyMap<string, unknown>;
  /** Services and ServiceEntries' hosts, by `namespace/hostname`. */
  readonly services: ReadonlyMap<string, unknown>;
  /** Pods, by `namespace/name`. */
  readonly workloads: ReadonlyMap<string, unknown>;
  /** All that has an address: pods, and endpoints of ServiceEntries. */
  readonly endpoints: readonly unknown[];
  /** Stored objects by `Kind/namespace/name`. */
  readonly stored: ReadonlyMap<string, Manifest>;
  /** Waypoints that run, by `namespace/name` of their Gateway. */
  readonly waypoints: ReadonlyMap<string, Waypoint>;
}

/** Milliseconds without a change after which the picture counts as finished. */
const QUIET = 1200;
/** How long gateways without an address, pods that do not run and the rest are waited for. */
const PATIENCE = 15_000;
/** When something that goes on changing is looked at all the same: what differs then is looked at again anyhow. */
const RESTLESS = 150_000;
const AT_MOST = 300_000;

/** istiod lists what it has in another order each time; of other namespaces nobody waits. */
function fingerprint(picture: object, concerns: (namespace: string) => boolean): string {
  const lists = Object.values(picture).filter(Array.isArray);
  return JSON.stringify(
    lists.map(list =>
      list
        .filter(entry => concerns(text(at(entry, 'namespace')) ?? ''))
        .map(entry => JSON.stringify(entry))
        .sort(),
    ),
  );
}

/** What is still on its way: nobody need wait for it longer than a while, for it may never come. */
function unfinished(
  objects: ReadonlyMap<string, Manifest>,
  concerns: (namespace: string) => boolean,
): string | undefined {
  for (const [key, object] of objects) {
    if (!concerns(object.metadata.namespace ?? '') || object.metadata.deletionTimestamp !== undefined) continue;
    if (object.kind === 'Pod' && at(object, 'status', 'podIP') === undefined) return key;
    if (object.kind === 'Gateway') {
      const unclaimed = records(at(object, 'status', 'conditions')).every(one => one['reason'] === 'Pending');
      const ours = object.metadata.labels?.['istio.io/rev'] === undefined;
      if (ours && !unclaimed && records(at(object, 'status', 'addresses')).length === 0) return key;
    }
    if (object.kind === 'Deployment') {
      const failed = records(at(object, 'status', 'conditions')).some(one => one['type'] === 'ReplicaFailure');
      const wanted = number(at(object, 'spec', 'replicas')) ?? 1;
      if (!failed && (number(at(object, 'status', 'availableReplicas')) ?? 0) < wanted) return key;
    }
  }
  return undefined;
}

const TAIL = 'oracle';
let tails = 0;

/** The namespace in which the last objects of each wave stand. */
export const TAIL_NAMESPACE: Manifest = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: TAIL, labels: { 'istio.io/dataplane-mode': 'ambient', 'istio.io/use-waypoint': 'nowhere' } },
};

/**
 * Objects that are sent when all others are there. What istiod says of them it says after what it has to say of the others of their
 * kind, however busy the machine is.
 */
async function sendTail(api: Api, watched: Watched): Promise<() => Promise<boolean>> {
  tails += 1;
  const metadata = { name: `tail-${tails}`, namespace: TAIL };
  const ports = [{ name: 'http', port: 80 }];
  const objects: readonly (readonly [string, unknown])[] = [
    [
      `/api/v1/namespaces/${TAIL}/services`,
      { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: { app: 'x' }, ports } },
    ],
    [
      `/apis/networking.istio.io/v1/namespaces/${TAIL}/serviceentries`,
      {
        apiVersion: 'networking.istio.io/v1',
        kind: 'ServiceEntry',
        metadata,
        spec: {
          hosts: [`${metadata.name}.example.test`],
          resolution: 'DNS',
          ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
        },
      },
    ],
    [
      `/apis/security.istio.io/v1/namespaces/${TAIL}/authorizationpolicies`,
      {
        apiVersion: 'security.istio.io/v1',
        kind: 'AuthorizationPolicy',
        metadata,
        spec: { targetRefs: [{ group: '', kind: 'Service', name: metadata.name }], action: 'ALLOW' },
      },
    ],
  ];
  for (const [path, object] of objects) await api.call('POST', path, object);
  return async () => {
    const kinds = ['Service', 'ServiceEntry', 'AuthorizationPolicy'];
    const stored = kinds.map(kind => watched.objects.get(`${kind}/${TAIL}/${metadata.name}`));
    if (stored.some(object => records(at(object, 'status', 'conditions')).length === 0)) return false;
    for (const [path] of objects) await api.send('DELETE', `${path}/${metadata.name}`);
    return true;
  };
}

/** Waits until istiod has answered all that was sent to some namespaces and nothing changes there any more, then looks. */
export async function observe(
  api: Api,
  watched: Watched,
  istiod: Istiod,
  concerns: (namespace: string) => boolean,
  quiet = QUIET,
): Promise<Observation> {
  const started = Date.now();
  watched.count(concerns);
  const answered = await sendTail(api, watched);
  let done = false;
  let last = '';
  let since = started;
  for (;;) {
    done ||= await answered();
    const picture = await istiod.ambientz();
    const now = fingerprint(picture, concerns);
    if (now !== last) {
      last = now;
      since = Date.now();
    }
    const waited = Date.now() - started;
    const waiting = unfinished(watched.objects, concerns);
    if (waited > AT_MOST) throw new Error(`istiod is not done after ${AT_MOST / 1000} s: ${waiting ?? 'no answer'}`);
    const ready = done && (waited > PATIENCE || waiting === undefined);
    const changed = watched.changed();
    const restless = waited > RESTLESS;
    if (ready && restless) console.error(`not quiet after ${RESTLESS / 1000} s: ${changed.key || 'ambientz'}`);
    if (ready && (restless || Date.now() - Math.max(since, changed.at) >= quiet)) {
      const pods = [...watched.objects.values()].filter(
        object => object.kind === 'Pod' && isWaypointPod(object) && concerns(object.metadata.namespace ?? ''),
      );
      // an empty list is null here
      const byName = (list: readonly unknown[] | null, key: string) =>
        new Map(
          (list ?? []).map(
            entry => [`${text(at(entry, 'namespace')) ?? ''}/${text(at(entry, key)) ?? ''}`, entry] as const,
          ),
        );
      return {
        policies: byName(picture.policies, 'name'),
        services: byName(picture.services, 'hostname'),
        workloads: byName(
          (picture.workloads ?? []).filter(entry => String(at(entry, 'uid')).includes('/Pod/')),
          'name',
        ),
        endpoints: picture.workloads ?? [],
        stored: new Map(watched.objects),
        waypoints: await askWaypoints(istiod, pods),
      };
    }
    await sleep(400);
  }
}

/** The waypoint of a service or workload in ambientz, as `namespace/name`; undefined without one. */
export function waypointIn(entry: unknown): string | undefined {
  const hostname = text(at(entry, 'waypoint', 'hostname', 'hostname'));
  const namespace = text(at(entry, 'waypoint', 'hostname', 'namespace'));
  // an ingress Gateway's Service has the class as a suffix
  return hostname === undefined
    ? undefined
    : `${namespace}/${hostname.split('.')[0]?.replace(/^ingress-istio$/, 'ingress')}`;
}

/** Whether ztunnel sends traffic for a service to its waypoint: it has an address, and the waypoint's own Service a port 15008. */
export function takesWaypoint(seen: Observation, entry: unknown): boolean {
  if (records(at(entry, 'addresses')).length === 0) return false;
  const waypoint = at(entry, 'waypoint', 'hostname');
  if (waypoint === undefined) return false;
  const own = seen.services.get(`${text(at(waypoint, 'namespace'))}/${text(at(waypoint, 'hostname'))}`);
  return records(at(own, 'ports')).some(port => port['servicePort'] === 15008);
}

/** A condition of an object. */
export function conditionOf(
  object: unknown,
  type: string,
): { readonly status: string; readonly reason: string; readonly message: string } | undefined {
  const found = records(at(object, 'status', 'conditions')).find(condition => condition['type'] === type);
  if (found === undefined) return undefined;
  return {
    status: text(found['status']) ?? '',
    reason: text(found['reason']) ?? '',
    message: text(found['message']) ?? '',
  };
}

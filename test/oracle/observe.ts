// What istiod made of the meshes: what ztunnel would receive, conditions, and where the proxy was injected.
import { setTimeout as sleep } from 'node:timers/promises';
import { at, record, records, text } from '../../src/kube/json.ts';
import type { Api } from '../harness/api.ts';
import type { Istiod } from '../harness/istio.ts';
import type { Manifest } from '../harness/objects.ts';

export interface Observation {
  /** Policies as ztunnel receives them, by `namespace/name`. */
  readonly policies: ReadonlyMap<string, unknown>;
  /** Services and ServiceEntries' hosts, by `namespace/hostname`. */
  readonly services: ReadonlyMap<string, unknown>;
  /** Pods, by `namespace/name`. */
  readonly workloads: ReadonlyMap<string, unknown>;
  /** Stored objects by `Kind/namespace/name`. */
  readonly stored: ReadonlyMap<string, Manifest>;
}

const STORED: readonly (readonly [string, string])[] = [
  ['/api/v1/pods', 'Pod'],
  ['/api/v1/services', 'Service'],
  ['/apis/gateway.networking.k8s.io/v1/gateways', 'Gateway'],
  ['/apis/gateway.networking.k8s.io/v1/httproutes', 'HTTPRoute'],
  ['/apis/gateway.networking.k8s.io/v1/grpcroutes', 'GRPCRoute'],
  ['/apis/networking.istio.io/v1/serviceentries', 'ServiceEntry'],
  ['/apis/security.istio.io/v1/authorizationpolicies', 'AuthorizationPolicy'],
];

/** Milliseconds without a change after which the picture counts as finished, and that pass at least. */
const QUIET = 1200;
const AT_LEAST = 2500;
const AT_MOST = 40_000;

async function stored(api: Api): Promise<ReadonlyMap<string, Manifest>> {
  const found = new Map<string, Manifest>();
  const lists = await Promise.all(
    STORED.map(async ([path, kind]) => [kind, (await api.send('GET', path)).body] as const),
  );
  for (const [kind, body] of lists) {
    for (const item of records(at(body, 'items'))) {
      const object = { ...item, kind } as unknown as Manifest;
      found.set(`${kind}/${object.metadata.namespace ?? ''}/${object.metadata.name}`, object);
    }
  }
  return found;
}

/** istiod lists what it has in another order each time. */
function sorted(value: unknown): unknown {
  const lists = Array.isArray(value) ? [value] : Object.values(record(value) ?? {}).filter(Array.isArray);
  return lists.map(list => list.map(entry => JSON.stringify(entry)).sort());
}

/** Only what is compared: enough to see whether istiod is still busy. */
function fingerprint(picture: unknown, objects: ReadonlyMap<string, Manifest>): string {
  const statuses = [...objects].map(([key, object]) => [
    key,
    at(object, 'status', 'conditions'),
    at(object, 'status', 'addresses'),
    at(object, 'status', 'parents'),
  ]);
  return JSON.stringify([sorted(picture), sorted(statuses)]);
}

/** Waits until nothing changes any more, then looks. */
export async function observe(api: Api, istiod: Istiod): Promise<Observation> {
  const started = Date.now();
  let last = '';
  let since = started;
  for (;;) {
    const [picture, objects] = await Promise.all([istiod.ambientz(), stored(api)]);
    const now = fingerprint(picture, objects);
    if (now !== last) {
      last = now;
      since = Date.now();
    }
    if ((Date.now() - since >= QUIET && Date.now() - started >= AT_LEAST) || Date.now() - started > AT_MOST) {
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
        stored: objects,
      };
    }
    await sleep(300);
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

/** Where the proxy of a stored pod is. */
export function proxyIn(pod: unknown): 'native' | 'classic' | 'none' {
  const named = (list: unknown) =>
    records(list).some(container => container['name'] === 'istio-proxy' && container['image'] !== 'auto');
  if (named(at(pod, 'spec', 'initContainers'))) return 'native';
  return named(at(pod, 'spec', 'containers')) ? 'classic' : 'none';
}

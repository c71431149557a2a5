// What waypoints receive from istiod: their listeners and clusters, as Envoy would get them.
import { at, record, records, text } from '../../src/kube/json.ts';
import type { Istiod } from '../harness/istio.ts';
import type { Manifest } from '../harness/objects.ts';

/** One RBAC filter: its action and its policies by the name that istiod gives them (pilot/pkg/security/authz/builder). */
export interface Rbac {
  /** SHADOW: nothing by itself; CUSTOM asks its provider where these match. */
  readonly action: 'ALLOW' | 'DENY' | 'LOG' | 'SHADOW';
  readonly policies: ReadonlyMap<string, unknown>;
}

/** One filter chain of the internal listener. */
export interface Chain {
  /** Host and port of the Service that it is for; undefined for traffic to pods (`direct-http`, `direct-tcp`). */
  readonly host?: string;
  readonly port?: number;
  readonly http: boolean;
  readonly rbac: readonly Rbac[];
  /** All of it, to look for marks in. */
  readonly text: string;
}

export interface Waypoint {
  /** RBAC where the tunnel ends, before any Service is known: that of layered policies. */
  readonly outer: readonly Rbac[];
  readonly chains: readonly Chain[];
  /** `connectTimeout` of clusters by name. */
  readonly timeouts: ReadonlyMap<string, string>;
}

function rbacOf(filter: unknown): readonly Rbac[] {
  const config = at(filter, 'typedConfig');
  if (text(at(config, '@type'))?.endsWith('.RBAC') !== true) return [];
  const found: Rbac[] = [];
  const rules = record(at(config, 'rules'));
  if (rules !== undefined) {
    const action = text(rules['action']) ?? 'ALLOW';
    found.push({
      action: action === 'DENY' || action === 'LOG' ? action : 'ALLOW',
      policies: new Map(Object.entries(record(rules['policies']) ?? {})),
    });
  }
  const shadow = record(at(config, 'shadowRules', 'policies'));
  if (shadow !== undefined) found.push({ action: 'SHADOW', policies: new Map(Object.entries(shadow)) });
  return found;
}

function chainOf(chain: unknown): Chain {
  const [, port, , host] = (text(at(chain, 'name')) ?? '').split('|');
  const filters = records(at(chain, 'filters'));
  const manager = filters.find(filter => String(at(filter, 'typedConfig', '@type')).endsWith('.HttpConnectionManager'));
  const inner = records(at(manager, 'typedConfig', 'httpFilters'));
  return {
    ...(host === undefined ? {} : { host, port: Number(port) }),
    http: manager !== undefined,
    rbac: [...filters, ...inner].flatMap(rbacOf),
    text: JSON.stringify(chain),
  };
}

export const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';
const MANAGED = 'gateway.istio.io/managed';

/** True for a running pod of a waypoint. */
export function isWaypointPod(pod: Manifest): boolean {
  return (
    pod.metadata.labels?.[MANAGED] === 'istio.io-mesh-controller' &&
    pod.metadata.labels[GATEWAY_NAME] !== undefined &&
    at(pod, 'status', 'podIP') !== undefined &&
    pod.metadata.deletionTimestamp === undefined
  );
}

/** What the waypoint of a pod is told. */
export async function askWaypoint(istiod: Istiod, pod: Manifest): Promise<Waypoint> {
  const { LDS = [], CDS = [] } = await istiod.xds(
    {
      type: 'waypoint',
      ip: text(at(pod, 'status', 'podIP')) ?? '',
      pod: pod.metadata.name,
      namespace: pod.metadata.namespace ?? '',
      labels: pod.metadata.labels ?? {},
    },
    'LDS',
    'CDS',
  );
  const internal = LDS.find(listener => listener['name'] === 'main_internal');
  const terminate = LDS.find(listener => listener['name'] === 'connect_terminate');
  return {
    outer: records(at(terminate, 'filterChains')).flatMap(chain => chainOf(chain).rbac),
    chains: records(at(internal, 'filterChains')).map(chainOf),
    timeouts: new Map(CDS.map(cluster => [text(cluster['name']) ?? '', text(cluster['connectTimeout']) ?? ''])),
  };
}

/** Every waypoint of some pods, by `namespace/name` of its Gateway; a few are asked at a time. */
export async function askWaypoints(istiod: Istiod, pods: readonly Manifest[]): Promise<ReadonlyMap<string, Waypoint>> {
  const found = new Map<string, Waypoint>();
  const waiting = pods.values();
  const worker = async () => {
    for (const pod of waiting) {
      const key = `${pod.metadata.namespace}/${pod.metadata.labels?.[GATEWAY_NAME]}`;
      if (!found.has(key)) found.set(key, await askWaypoint(istiod, pod));
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  return found;
}

import type { Manifest } from '../../harness/objects.ts';
import { type Entries, labelled, type Mood, without } from './mood.ts';

/** The header's value by which a route is known again where it takes effect. */
export const markOf = (kind: string, at: string, name: string): string => `mark.${kind}.${at}.${name}`;
/** The weight by which a TCPRoute is known again. */
const MARKED_WEIGHT = 37;

function parent({ random, maybe, a, b }: Mood): Entries {
  return random.pick<Entries>([
    { group: '', kind: 'Service', name: 'web' },
    { group: '', kind: 'Service', name: 'web' },
    { group: '', kind: 'Service', name: 'web', port: 80 },
    without({ group: '', kind: 'Service', name: 'web', port: random.pick([8080, 5432, 9090]) }),
    { kind: 'Service', name: 'web' },
    { name: random.pick(['waypoint', 'shared']) },
    { name: 'ingress', namespace: b },
    { group: '', kind: 'Service', name: 'web', namespace: random.pick([a, b]) },
    without({ group: '', kind: 'Service', name: 'api', sectionName: maybe(0.4, 'http') }),
    { group: 'networking.istio.io', kind: 'ServiceEntry', name: 'partner' },
  ]);
}

export function route(mood: Mood, at: string, name: string): Manifest {
  const { random, maybe } = mood;
  const picked = random.pick(['HTTPRoute', 'HTTPRoute', 'HTTPRoute', 'GRPCRoute', 'TCPRoute', 'TLSRoute']);
  // 1.30 reads TCPRoute in its alpha version and with a flag only
  const kind = picked === 'TCPRoute' && !mood.recent ? 'HTTPRoute' : picked;
  const parents = Array.from({ length: random.chance(0.2) ? 2 : 1 }, () => parent(mood));
  const distinct = [...new Map(parents.map(one => [JSON.stringify([one['kind'], one['name']]), one])).values()];
  const filters = [
    {
      type: 'RequestHeaderModifier',
      requestHeaderModifier: { set: [{ name: `x-${name}`, value: markOf(kind, at, name) }] },
    },
  ];
  const rule: Entries =
    kind === 'HTTPRoute'
      ? { matches: [{ path: { value: `/${name}` } }], filters, backendRefs: [{ name: 'web', port: 80 }] }
      : kind === 'GRPCRoute'
        ? { matches: [{ method: { service: name } }], filters, backendRefs: [{ name: 'web', port: 80 }] }
        : {
            backendRefs: [
              { name: 'web', port: 80, weight: MARKED_WEIGHT },
              { name: 'web', port: 80, weight: 100 - MARKED_WEIGHT },
            ],
          };
  return {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind,
    metadata: { name, namespace: at, labels: labelled({ 'istio.io/rev': maybe(0.04, 'elsewhere') }) },
    spec: without({
      parentRefs: distinct,
      hostnames: kind === 'TLSRoute' ? [`web.${at}.svc.cluster.local`] : undefined,
      rules: [rule],
    }),
  };
}

export function virtualService(mood: Mood, at: string, name: string): Manifest {
  const { random, maybe, a, b } = mood;
  const gateways = random.pick([undefined, undefined, ['mesh'], ['mesh', 'ingress'], ['ingress'], [`${a}/waypoint`]]);
  return {
    apiVersion: 'networking.istio.io/v1',
    kind: 'VirtualService',
    metadata: { name, namespace: at },
    spec: without({
      hosts: [
        random.pick([
          'web',
          'web',
          `web.${a}.svc.cluster.local`,
          `web.${b}.svc.cluster.local`,
          `api.${at}.svc.cluster.local`,
        ]),
      ],
      gateways,
      exportTo: maybe(0.25, [random.pick(['.', '*', a])]),
      http: [
        {
          match: [without({ uri: { prefix: `/${name}` }, sourceLabels: maybe(0.12, { app: 'api' }) })],
          headers: { request: { set: { [`x-${name}`]: markOf('VirtualService', at, name) } } },
          route: [{ destination: { host: 'web' } }],
        },
      ],
    }),
  };
}

/** The connect timeout by which a DestinationRule is known again: seconds with a fraction of its own. */
const timeoutOf = (name: string): string => (name === 'd1' ? '3.217s' : '4.591s');

export function destinationRule({ random, maybe, a, b }: Mood, at: string, name: string): Manifest {
  return {
    apiVersion: 'networking.istio.io/v1',
    kind: 'DestinationRule',
    metadata: { name, namespace: at },
    spec: without({
      host: random.pick(['web', 'web', 'api', `web.${a}.svc.cluster.local`, `web.${b}.svc.cluster.local`]),
      exportTo: maybe(0.25, [random.pick(['.', '*', a])]),
      trafficPolicy: { connectionPool: { tcp: { connectTimeout: timeoutOf(name) } } },
    }),
  };
}

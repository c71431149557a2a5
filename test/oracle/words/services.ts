import type { Manifest } from '../../harness/objects.ts';
import { APPS, type Entries, labelled, type Mood, without } from './mood.ts';

/** Ports of every declaration: by name, by appProtocol, by neither, by number. */
const PORTS: readonly Entries[] = [
  { name: 'tcp-db', port: 5432 },
  { name: 'plain', port: 9000, appProtocol: 'tcp' },
  { name: 'https-x', port: 8443 },
  { name: 'grpc-y', port: 9090, targetPort: 9191 },
  { name: 'redis', port: 6379 },
  { name: 'odd', port: 3306 },
  { name: 'anything', port: 7000, targetPort: 7100 },
  { name: 'mongo-m', port: 27018 },
  { name: 'dns', port: 53, protocol: 'UDP' },
  { name: 'h2c', port: 8082, appProtocol: 'kubernetes.io/h2c' },
  { name: 'wss', port: 8083, appProtocol: 'kubernetes.io/wss' },
  { name: 'upper', port: 8084, appProtocol: 'HTTP' },
  { name: 'http2-z', port: 8085 },
  { name: 'tls-z', port: 8086 },
  { name: 'http-but', port: 8087, appProtocol: 'tcp' },
];

function canary({ random, maybe, recent }: Mood): { readonly labels: Entries; readonly annotations: Entries } {
  if (!recent || !random.chance(0.08)) return { labels: {}, annotations: {} };
  return {
    labels: { 'istio.io/use-waypoint-canary': random.pick(['shared', 'waypoint', 'missing', 'none']) },
    annotations: without({
      'istio.io/use-waypoint-canary-weight': maybe(0.7, random.pick(['0', '20', '100', '101', 'ten'])),
    }),
  };
}

export function service(mood: Mood, at: string, name: string): Manifest {
  const { random, maybe, useWaypoint } = mood;
  const second = canary(mood);
  const type = maybe(0.04, 'ExternalName');
  const app = random.chance(0.8) ? name : random.pick(APPS);
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace: at,
      labels: labelled({
        ...useWaypoint(mood.sound ? 0.25 : 0.4),
        ...second.labels,
        'istio.io/ingress-use-waypoint': maybe(0.12, random.pick(['true', 'false', 'TRUE', 'on'])),
      }),
      annotations: labelled(second.annotations),
    },
    spec:
      type === undefined
        ? without({
            clusterIP: maybe(0.12, 'None'),
            selector: maybe(0.95, { app }),
            ports: [{ name: 'http', port: 80, targetPort: 8080 }, ...random.some(PORTS, 0.12)],
          })
        : { type, externalName: 'elsewhere.example.test', ports: [{ name: 'http', port: 80 }] },
  };
}

const PROTOCOLS = ['HTTP', 'HTTP', 'TLS', 'TCP', 'GRPC', 'HTTP2', 'HTTPS', 'MONGO'];

export function serviceEntry(mood: Mood, at: string, name: string): Manifest {
  const { random, maybe, useWaypoint } = mood;
  const resolution = random.pick(['NONE', 'DNS', 'DNS', 'STATIC', 'STATIC', 'DYNAMIC_DNS', 'DYNAMIC_DNS', undefined]);
  const dynamic = resolution === 'DYNAMIC_DNS';
  const wild = dynamic ? random.chance(0.85) : random.chance(resolution === 'DNS' ? 0.02 : 0.15);
  const own = `${name}.${at}.example.test`;
  const second = canary(mood);
  const ports = [
    { number: 80, name: 'http', protocol: dynamic ? random.pick(['HTTP', 'HTTP', 'GRPC', 'TLS']) : 'HTTP' },
    ...random
      .some([random.pick(PROTOCOLS)], 0.35)
      .map(protocol => ({ number: 9443, name: `${protocol.toLowerCase()}-more`, protocol })),
  ];
  return {
    apiVersion: 'networking.istio.io/v1',
    kind: 'ServiceEntry',
    metadata: {
      name,
      namespace: at,
      labels: labelled({
        ...useWaypoint(mood.sound ? 0.3 : 0.5),
        ...second.labels,
        'networking.istio.io/enable-autoallocate-ip': maybe(0.15, random.pick(['false', 'False', 'true'])),
      }),
      annotations: labelled(second.annotations),
    },
    spec: without({
      // the twin has the same host, and once in a while the host is a Service's
      hosts: [
        wild
          ? `*.${own}`
          : (maybe(0.04, `web.${at}.svc.cluster.local`) ?? (name === 'twin' ? `partner.${at}.example.test` : own)),
        ...random.some([`${wild ? '*.' : ''}more.${own}`], 0.1),
      ],
      addresses: random.chance(dynamic ? 0.08 : 0.3) ? [`240.241.${random.int(250)}.${random.int(250)}`] : undefined,
      location: random.pick(
        dynamic ? ['MESH_EXTERNAL', 'MESH_EXTERNAL', 'MESH_INTERNAL'] : ['MESH_EXTERNAL', 'MESH_INTERNAL'],
      ),
      resolution,
      ports: maybe(0.02, []) ?? ports,
      ...(resolution === 'STATIC'
        ? random.pick<Entries>([
            { endpoints: [{ address: '192.0.2.1' }] },
            { workloadSelector: { labels: { app: random.pick(APPS) } } },
            { workloadSelector: {} },
            {},
          ])
        : dynamic && random.chance(0.05)
          ? { endpoints: [{ address: 'x.example.test' }] }
          : {}),
      exportTo: maybe(0.1, [random.pick(['.', '*'])]),
    }),
  };
}

// Random meshes in namespaces of their own, so that many fit side by side into one cluster.

import { type Random, seeded } from '../generate/random.ts';
import type { Manifest } from '../harness/objects.ts';

/** A mesh: its objects as they are sent, all in namespaces that begin with `prefix`. */
export interface Situation {
  readonly seed: number;
  readonly prefix: string;
  readonly objects: readonly Manifest[];
}

type Entries = Record<string, unknown>;

const without = (entries: Entries): Entries =>
  Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));

/** The words from which meshes are made; `a` and `b` are the two namespaces. */
function vocabulary(random: Random, a: string, b: string) {
  const maybe = <T>(probability: number, value: T): T | undefined => (random.chance(probability) ? value : undefined);
  const namespaces = [a, b];
  const apps = ['web', 'api'];

  const useWaypoint = (probability: number): Entries =>
    random.chance(probability)
      ? without({
          'istio.io/use-waypoint': random.pick([
            'waypoint',
            'waypoint',
            'shared',
            'none',
            'missing',
            'ingress',
            'None',
            '',
          ]),
          'istio.io/use-waypoint-namespace': maybe(0.35, random.pick(namespaces)),
        })
      : {};

  const namespace = (name: string): Manifest => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      labels: without({
        'istio.io/dataplane-mode': maybe(0.75, random.pick(['ambient', 'ambient', 'ambient', 'none', 'Ambient'])),
        'istio-injection': maybe(0.2, random.pick(['enabled', 'disabled'])),
        'istio.io/rev': maybe(0.1, random.pick(['default', 'elsewhere'])),
        team: maybe(0.4, 'a'),
        ...useWaypoint(0.4),
      }) as Record<string, string>,
    },
  });

  const pod = (at: string, name: string): Manifest => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: at,
      labels: without({
        app: random.pick(apps),
        version: maybe(0.4, random.pick(['v1', 'v2'])),
        'istio.io/dataplane-mode': maybe(0.25, random.pick(['none', 'ambient', 'None'])),
        'sidecar.istio.io/inject': maybe(0.25, random.pick(['true', 'false', 'True'])),
        'istio.io/rev': maybe(0.06, random.pick(['default', 'elsewhere'])),
        ...useWaypoint(0.12),
      }) as Record<string, string>,
      annotations: without({
        'sidecar.istio.io/nativeSidecar': maybe(0.2, random.pick(['true', 'false'])),
        'sidecar.istio.io/inject': maybe(0.1, random.pick(['true', 'false'])),
      }) as Record<string, string>,
    },
    spec: without({
      hostNetwork: maybe(0.08, true),
      containers: [
        { name: 'app', image: 'registry.example.test/app:1', ports: [{ containerPort: 8080 }] },
        ...random.some([{ name: 'istio-proxy', image: 'auto' }], 0.08),
      ],
    }),
  });

  const service = (at: string, name: string): Manifest => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: at, labels: useWaypoint(0.4) as Record<string, string> },
    spec: without({
      clusterIP: maybe(0.15, 'None'),
      selector: { app: random.pick(apps) },
      ports: [
        { name: 'http', port: 80, targetPort: 8080 },
        ...random.some(
          [
            { name: 'tcp-db', port: 5432 },
            { name: 'plain', port: 9000, appProtocol: 'tcp' },
          ],
          0.3,
        ),
      ],
    }),
  });

  const gateway = (at: string, name: string): Manifest => {
    const ingress = name === 'ingress';
    const from = random.pick(['Same', 'All', 'Selector', undefined]);
    const listener = without({
      name: 'mesh',
      port: 15008,
      protocol: 'HBONE',
      allowedRoutes:
        from === undefined
          ? undefined
          : {
              namespaces: without({ from, selector: from === 'Selector' ? { matchLabels: { team: 'a' } } : undefined }),
            },
    });
    return {
      apiVersion: 'gateway.networking.k8s.io/v1',
      kind: 'Gateway',
      metadata: {
        name,
        namespace: at,
        labels: without({
          'istio.io/waypoint-for': maybe(0.45, random.pick(['service', 'workload', 'all', 'none', 'services'])),
          'istio.io/rev': maybe(0.05, 'elsewhere'),
        }) as Record<string, string>,
        annotations: ingress ? { 'networking.istio.io/service-type': 'ClusterIP' } : {},
      },
      spec: {
        gatewayClassName: ingress ? 'istio' : 'istio-waypoint',
        listeners: ingress ? [{ name: 'http', port: 80, protocol: 'HTTP' }] : [listener],
      },
    };
  };

  const source = () =>
    random.pick<Entries>([
      { principals: [`cluster.local/ns/${a}/sa/web`] },
      { namespaces: [a] },
      { notNamespaces: [b] },
      { requestPrincipals: ['*'] },
      { namespaces: [a], notRequestPrincipals: ['*'] },
      { ipBlocks: ['10.0.0.0/8'] },
      { remoteIpBlocks: ['192.0.2.0/24'] },
      { serviceAccounts: [`${a}/web`] },
    ]);
  const operation = () =>
    random.pick<Entries>([
      { paths: ['/admin*'] },
      { methods: ['GET'], ports: ['8080'] },
      { ports: ['5432'] },
      { notPorts: ['5432'] },
      { hosts: ['x.example.test'] },
      { notPaths: ['/healthz'] },
    ]);
  const condition = () =>
    random.pick<Entries>([
      { key: 'source.ip', values: ['10.1.0.0/16'] },
      { key: 'destination.port', values: ['8080'] },
      { key: 'source.namespace', notValues: [b] },
      { key: 'source.principal', values: [`cluster.local/ns/${a}/sa/web`] },
      { key: 'connection.sni', values: ['x.example.test'] },
      { key: 'request.headers[x-role]', values: ['admin'] },
      { key: 'request.auth.claims[group]', values: ['x'] },
    ]);
  const several = <T>(make: () => T) => Array.from({ length: 1 + random.int(2) }, make);

  const targetRef = () =>
    random.pick<Entries>([
      { group: '', kind: 'Service', name: random.pick(['web', 'api']) },
      { group: '', kind: 'Service', name: 'web' },
      { kind: 'Service', name: 'web' },
      { group: 'networking.istio.io', kind: 'ServiceEntry', name: 'partner' },
      { group: 'gateway.networking.k8s.io', kind: 'Gateway', name: random.pick(['waypoint', 'shared', 'ingress']) },
    ]);

  const authorizationPolicy = (at: string, name: string): Manifest => {
    const action = random.pick(['ALLOW', 'ALLOW', 'DENY', 'DENY', 'AUDIT', 'CUSTOM', undefined]);
    const rules = Array.from({ length: random.int(3) }, () =>
      without({
        from: maybe(
          0.6,
          several(() => ({ source: source() })),
        ),
        to: maybe(
          0.6,
          several(() => ({ operation: operation() })),
        ),
        when: maybe(0.25, several(condition)),
      }),
    );
    const attach = random.pick<Entries>([
      {},
      { selector: { matchLabels: { app: random.pick(apps) } } },
      { selector: { matchLabels: { app: random.pick(apps) } } },
      { selector: {} },
      { selector: { matchLabels: { version: 'v1' } } },
      { targetRefs: [targetRef()] },
      { targetRefs: [targetRef()] },
    ]);
    return {
      apiVersion: 'security.istio.io/v1',
      kind: 'AuthorizationPolicy',
      metadata: {
        name,
        namespace: at,
        labels: without({ 'istio.io/rev': maybe(0.08, random.pick(['elsewhere', 'default'])) }) as Record<
          string,
          string
        >,
        annotations: without({
          'istio.io/dry-run': action === 'CUSTOM' || action === 'AUDIT' ? undefined : maybe(0.1, 'true'),
        }) as Record<string, string>,
      },
      spec: without({
        ...attach,
        action,
        provider: action === 'CUSTOM' ? { name: 'nobody' } : undefined,
        // istiod's own validation refuses a DENY and a CUSTOM without rules
        rules: rules.length === 0 && (action === 'DENY' || action === 'CUSTOM') ? [{}] : rules,
      }),
    };
  };

  const route = (at: string, name: string): Manifest => ({
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: random.pick(['HTTPRoute', 'GRPCRoute']),
    metadata: { name, namespace: at },
    spec: {
      parentRefs: [
        random.pick<Entries>([
          { group: '', kind: 'Service', name: 'web' },
          { group: '', kind: 'Service', name: 'web', port: 80 },
          { group: '', kind: 'Service', name: 'web', port: 8080 },
          { kind: 'Service', name: 'web' },
          { name: 'waypoint' },
          { name: 'ingress', namespace: b },
          { group: '', kind: 'Service', name: 'web', namespace: a },
        ]),
      ],
      rules: [{ backendRefs: [{ name: 'web', port: 80 }] }],
    },
  });

  const serviceEntry = (at: string, name: string): Manifest => {
    const resolution = random.pick(['NONE', 'DNS', 'STATIC', undefined]);
    return {
      apiVersion: 'networking.istio.io/v1',
      kind: 'ServiceEntry',
      metadata: { name, namespace: at, labels: useWaypoint(0.5) as Record<string, string> },
      spec: without({
        hosts: [`${name}.${at}.example.test`],
        addresses: maybe(0.3, ['240.240.7.9']),
        location: random.pick(['MESH_EXTERNAL', 'MESH_INTERNAL']),
        resolution,
        ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
        endpoints: resolution === 'STATIC' ? [{ address: '192.0.2.1' }] : undefined,
      }),
    };
  };

  return { namespace, pod, service, gateway, authorizationPolicy, route, serviceEntry, namespaces };
}

/** The mesh of a seed. Another prefix gives the same mesh under other names. */
export function situation(seed: number, prefix: string): Situation {
  const random = seeded(seed);
  const a = `${prefix}-a`;
  const b = `${prefix}-b`;
  const words = vocabulary(random, a, b);
  const objects: Manifest[] = [words.namespace(a), words.namespace(b)];
  const kinds = [
    [words.gateway, ['waypoint', 'shared', 'ingress'], 0.45],
    [words.service, ['web', 'api'], 0.7],
    [words.pod, ['web-1', 'web-2', 'api-1'], 0.7],
    [words.authorizationPolicy, ['one', 'two', 'three'], 0.6],
    [words.route, ['r1'], 0.4],
    [words.serviceEntry, ['partner'], 0.35],
  ] as const;
  for (const at of words.namespaces) {
    for (const [make, names, probability] of kinds) {
      for (const name of names) if (random.chance(probability)) objects.push(make(at, name));
    }
  }
  return { seed, prefix, objects };
}

/** The same mesh under another prefix, with only some of its objects: for shrinking. */
export function part(of: Situation, prefix: string, keep: (index: number) => boolean): Situation {
  const whole = situation(of.seed, prefix);
  return { ...whole, objects: whole.objects.filter((_object, index) => keep(index)) };
}

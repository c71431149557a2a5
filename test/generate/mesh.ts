// Random clusters from the model's own vocabulary, as raw Kubernetes objects: what the property tests and the fuzzer judge.
import type { Random } from './random.ts';

export type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [key: string]: unknown };
  readonly [key: string]: unknown;
};

const NAMESPACES = ['shop', 'infra', 'edge', 'istio-system'] as const;
const APPS = ['web', 'api', 'db'] as const;
const WAYPOINTS = ['waypoint', 'shared'] as const;

type Entries = Record<string, unknown>;
const without = (entries: Entries): Entries =>
  Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
const maybe = <T>(random: Random, probability: number, value: T): T | undefined =>
  random.chance(probability) ? value : undefined;

function useWaypoint(random: Random, probability: number): Entries {
  if (!random.chance(probability)) return {};
  return without({
    'istio.io/use-waypoint': random.pick([...WAYPOINTS, ...WAYPOINTS, 'none', 'missing', 'ingress', 'None']),
    'istio.io/use-waypoint-namespace': maybe(random, 0.4, random.pick(['infra', 'shop'])),
  });
}

export function namespace(random: Random, name: string): Manifest {
  const labels = without({
    'kubernetes.io/metadata.name': name,
    'istio.io/dataplane-mode': maybe(random, 0.6, random.pick(['ambient', 'ambient', 'ambient', 'none', 'Ambient'])),
    'istio-injection': maybe(random, 0.2, random.pick(['enabled', 'disabled'])),
    'istio.io/rev': maybe(random, 0.15, random.pick(['default', 'canary', 'stable'])),
    'istio.io/ingress-use-waypoint': maybe(random, 0.2, random.pick(['true', 'false', 'yes'])),
    team: maybe(random, 0.3, random.pick(['a', 'b'])),
    ...useWaypoint(random, 0.4),
  });
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

function podTemplate(random: Random, app: string): Entries {
  const labels = without({
    app,
    version: maybe(random, 0.4, random.pick(['v1', 'v2'])),
    'istio.io/dataplane-mode': maybe(random, 0.2, random.pick(['none', 'ambient'])),
    'sidecar.istio.io/inject': maybe(random, 0.2, random.pick(['true', 'false'])),
    'istio.io/rev': maybe(random, 0.05, 'canary'),
    ...useWaypoint(random, 0.1),
  });
  const annotations = without({
    'sidecar.istio.io/nativeSidecar': maybe(random, 0.1, random.pick(['true', 'false', 'no'])),
    'sidecar.istio.io/status': maybe(random, 0.05, '{"containers":["istio-proxy"],"revision":"default"}'),
    'inject.istio.io/templates': maybe(random, 0.05, random.pick(['gateway', 'sidecar', 'nothing'])),
    'sidecar.istio.io/statsCompression': maybe(random, 0.05, 'true'),
  });
  const proxy = {
    name: 'istio-proxy',
    image: random.pick([
      'auto',
      'docker.io/istio/proxyv2:1.26.3',
      'docker.io/istio/proxyv2:1.31.1',
      'example.test/envoy:v1',
    ]),
  };
  return {
    metadata: { labels, annotations },
    spec: without({
      hostNetwork: maybe(random, 0.08, true),
      containers: [
        {
          name: 'app',
          image: 'example.test/app:1',
          ports: [{ name: 'http', containerPort: random.pick([8080, 9090]) }],
        },
        ...random.some([proxy], 0.08),
      ],
      initContainers: maybe(random, 0.1, [
        random.pick([proxy, { name: 'istio-init', image: 'docker.io/istio/proxyv2:1.31.1' }]),
      ]),
    }),
  };
}

export function workload(random: Random, namespaceName: string, name: string): Manifest {
  const app = random.pick(APPS);
  const template = podTemplate(random, app);
  const kind = random.pick(['Deployment', 'Deployment', 'StatefulSet', 'Job', 'Pod']);
  if (kind === 'Pod') {
    return {
      apiVersion: 'v1',
      kind,
      metadata: { name, namespace: namespaceName, ...(template['metadata'] as Entries) },
      spec: template['spec'],
    };
  }
  return {
    apiVersion: kind === 'Job' ? 'batch/v1' : 'apps/v1',
    kind,
    metadata: { name, namespace: namespaceName },
    spec: { replicas: random.int(3), selector: { matchLabels: { app } }, template },
  };
}

function ports(random: Random): readonly Entries[] {
  return random
    .some(
      [
        { name: 'http', port: 80, targetPort: 8080 },
        { name: 'tcp-db', port: 5432, targetPort: 'http' },
        { name: 'plain', port: 9000, appProtocol: random.pick(['http', 'tcp', 'kubernetes.io/h2c']) },
        { name: 'grpc', port: 9002 },
      ],
      0.6,
    )
    .map(port => ({ protocol: 'TCP', ...port }));
}

export function service(random: Random, namespaceName: string, name: string): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace: namespaceName,
      labels: without({ ...useWaypoint(random, 0.4), 'istio.io/ingress-use-waypoint': maybe(random, 0.2, 'true') }),
    },
    spec: without({
      type: maybe(random, 0.1, 'ExternalName'),
      clusterIP: maybe(random, 0.15, 'None'),
      selector: { app: random.pick(APPS) },
      ports: ports(random),
    }),
  };
}

export function serviceEntry(random: Random, namespaceName: string, name: string): Manifest {
  return {
    apiVersion: 'networking.istio.io/v1',
    kind: 'ServiceEntry',
    metadata: { name, namespace: namespaceName, labels: useWaypoint(random, 0.4) },
    spec: without({
      hosts: [random.pick(['partner.example.test', '*.partner.example.test', 'db.example.test'])],
      addresses: maybe(random, 0.3, ['240.240.0.9']),
      location: maybe(random, 0.6, random.pick(['MESH_EXTERNAL', 'MESH_INTERNAL'])),
      resolution: maybe(random, 0.8, random.pick(['NONE', 'DNS', 'STATIC', 'DYNAMIC_DNS'])),
      ports: [{ number: random.pick([80, 443]), name: 'p', protocol: random.pick(['HTTP', 'TLS', 'TCP']) }],
      endpoints: maybe(random, 0.4, [{ address: '192.0.2.1' }]),
      workloadSelector: maybe(random, 0.15, { labels: { app: random.pick(APPS) } }),
    }),
  };
}

export function waypoint(random: Random, namespaceName: string, name: string): Manifest {
  const from = random.pick(['Same', 'All', 'Selector', undefined]);
  return {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'Gateway',
    metadata: {
      name,
      namespace: namespaceName,
      labels: without({
        'istio.io/waypoint-for': maybe(random, 0.4, random.pick(['service', 'workload', 'all', 'none', 'services'])),
        'istio.io/rev': maybe(random, 0.05, 'canary'),
      }),
    },
    spec: {
      gatewayClassName:
        name === 'ingress' ? 'istio' : random.pick(['istio-waypoint', 'istio-waypoint', 'istio-waypoint', 'other']),
      listeners: [
        name === 'ingress' || random.chance(0.1)
          ? { name: 'http', port: 80, protocol: 'HTTP' }
          : without({
              name: 'mesh',
              port: 15008,
              protocol: 'HBONE',
              allowedRoutes:
                from === undefined
                  ? undefined
                  : {
                      namespaces: without({
                        from,
                        selector: from === 'Selector' ? { matchLabels: { team: 'a' } } : undefined,
                      }),
                    },
            }),
      ],
    },
    status: without({ addresses: maybe(random, 0.75, [{ type: 'IPAddress', value: '10.96.0.7' }]) }),
  };
}

const SOURCES: readonly Entries[] = [
  { principals: ['cluster.local/ns/shop/sa/web'] },
  { namespaces: ['shop'] },
  { requestPrincipals: ['*'] },
  { ipBlocks: ['10.0.0.0/8'], notRequestPrincipals: ['*'] },
  { trustDomains: ['td'] },
];
const OPERATIONS: readonly Entries[] = [
  { paths: ['/admin*'] },
  { methods: ['GET'], ports: ['8080'] },
  { ports: ['5432'] },
  { hosts: ['x.example.test'] },
];
const CONDITIONS: readonly Entries[] = [
  { key: 'source.ip', values: ['10.1.0.0/16'] },
  { key: 'connection.sni', values: ['x'] },
  { key: 'request.headers[x-role]', values: ['admin'] },
];

function targetRef(random: Random): Entries {
  return random.pick<Entries>([
    { group: '', kind: 'Service', name: random.pick(['web', 'api']) },
    { kind: 'Service', name: 'web' },
    { group: 'networking.istio.io', kind: 'ServiceEntry', name: 'partner' },
    { group: 'gateway.networking.k8s.io', kind: 'Gateway', name: random.pick([...WAYPOINTS, 'ingress']) },
    { group: 'gateway.networking.k8s.io', kind: 'GatewayClass', name: random.pick(['istio-waypoint', 'other']) },
  ]);
}

/** `selector`, `targetRefs` or nothing: how Istio's policies attach. */
export function attachment(random: Random): Entries {
  switch (random.int(4)) {
    case 0:
      return {};
    case 1:
      return { targetRefs: [targetRef(random), ...random.some([targetRef(random)], 0.2)] };
    case 2:
      return { selector: { matchLabels: { app: random.pick(APPS) } } };
    default:
      return {
        selector: random.pick<Entries>([
          {},
          { matchLabels: {} },
          { matchLabels: { version: 'v1' } },
          { matchLabels: { 'gateway.networking.k8s.io/gateway-name': 'waypoint' } },
        ]),
      };
  }
}

export function authorizationPolicy(random: Random, namespaceName: string, name: string): Manifest {
  const rules = [1, 2].slice(random.int(3)).map(() =>
    without({
      from: maybe(
        random,
        0.6,
        random.some(SOURCES, 0.3).map(source => ({ source })),
      ),
      to: maybe(
        random,
        0.6,
        random.some(OPERATIONS, 0.3).map(operation => ({ operation })),
      ),
      when: maybe(random, 0.25, random.some(CONDITIONS, 0.4)),
    }),
  );
  const action = random.pick(['ALLOW', 'DENY', 'DENY', 'AUDIT', 'CUSTOM', undefined]);
  return {
    apiVersion: 'security.istio.io/v1',
    kind: 'AuthorizationPolicy',
    metadata: {
      name,
      namespace: namespaceName,
      labels: without({ 'istio.io/rev': maybe(random, 0.08, random.pick(['canary', 'stable', 'default'])) }),
      annotations: without({ 'istio.io/dry-run': maybe(random, 0.15, random.pick(['true', 'false', 'yes'])) }),
    },
    spec: without({
      ...attachment(random),
      action,
      provider: action === 'CUSTOM' ? { name: random.pick(['ext-authz', 'nobody']) } : undefined,
      rules: random.chance(0.9) ? rules : undefined,
    }),
  };
}

export function route(random: Random, namespaceName: string, name: string): Manifest {
  const backend = () =>
    random.pick<Entries>([
      { name: 'web', port: 80 },
      { name: 'api', port: 80, weight: 0 },
      { group: 'inference.networking.k8s.io', kind: 'InferencePool', name: 'pool' },
      { group: 'inference.networking.x-k8s.io', kind: 'InferencePool', name: 'pool' },
    ]);
  const kind = random.pick(['HTTPRoute', 'HTTPRoute', 'GRPCRoute', 'TLSRoute', 'TCPRoute']);
  return {
    apiVersion: `gateway.networking.k8s.io/${kind === 'TCPRoute' ? 'v1alpha2' : 'v1'}`,
    kind,
    metadata: { name, namespace: namespaceName },
    spec: {
      parentRefs: [
        random.pick<Entries>([
          { name: 'ingress', namespace: 'edge' },
          { name: 'waypoint' },
          { group: '', kind: 'Service', name: 'web' },
          { kind: 'Service', name: 'web' },
          { group: '', kind: 'Service', name: 'api', port: 81 },
          { group: '', kind: 'Service', name: 'web', namespace: 'infra' },
        ]),
      ],
      rules: [{ backendRefs: [backend(), ...random.some([backend()], 0.4)] }],
    },
  };
}

export function inferencePool(random: Random, namespaceName: string, name: string): Manifest {
  const old = random.chance(0.3);
  return {
    apiVersion: old ? 'inference.networking.x-k8s.io/v1alpha2' : 'inference.networking.k8s.io/v1',
    kind: 'InferencePool',
    metadata: { name, namespace: namespaceName },
    spec: old
      ? { selector: { app: 'web' }, targetPortNumber: 8000, extensionRef: { name: 'web' } }
      : {
          selector: { matchLabels: { app: 'web' } },
          targetPorts: [{ number: 8000 }],
          endpointPickerRef: without({
            name: random.pick(['web', 'api', 'nobody']),
            port: maybe(random, 0.6, { number: random.pick([80, 9002]) }),
          }),
        },
  };
}

function backendTlsPolicy(random: Random, namespaceName: string, name: string): Manifest {
  return {
    apiVersion: `gateway.networking.k8s.io/${random.pick(['v1', 'v1alpha3'])}`,
    kind: 'BackendTLSPolicy',
    metadata: { name, namespace: namespaceName, creationTimestamp: `2026-01-0${1 + random.int(9)}T00:00:00Z` },
    spec: {
      targetRefs: [
        without({
          group: '',
          kind: 'Service',
          name: random.pick(['web', 'api']),
          sectionName: maybe(random, 0.3, random.pick(['http', 'x'])),
        }),
      ],
      validation: without({
        hostname: 'web.example.test',
        wellKnownCACertificates: maybe(random, 0.4, 'System'),
        caCertificateRefs: maybe(random, 0.6, [{ group: '', kind: random.pick(['ConfigMap', 'Secret']), name: 'ca' }]),
      }),
    },
  };
}

function networkPolicy(random: Random, namespaceName: string, name: string): Manifest {
  const rule = () =>
    without({
      from: maybe(random, 0.5, [
        random.pick<Entries>([
          { podSelector: {} },
          { namespaceSelector: { matchLabels: { team: 'a' } } },
          { ipBlock: { cidr: '0.0.0.0/0' } },
        ]),
      ]),
      ports: maybe(random, 0.6, [
        random.pick<Entries>([{ port: 8080 }, { port: 15008 }, { port: 'http' }, { port: 15000, endPort: 15010 }]),
      ]),
    });
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name, namespace: namespaceName },
    spec: without({
      podSelector: random.pick<Entries>([{}, { matchLabels: { app: 'web' } }, { matchLabels: { version: 'v1' } }]),
      policyTypes: maybe(random, 0.5, random.pick([['Ingress'], ['Egress'], ['Ingress', 'Egress']])),
      ingress: maybe(random, 0.7, random.some([rule(), rule()], 0.5)),
      egress: maybe(random, 0.3, [{ to: [{ podSelector: {} }] }]),
    }),
  };
}

function istioPolicy(random: Random, namespaceName: string, name: string): Manifest {
  const kind = random.pick(['RequestAuthentication', 'PeerAuthentication', 'Telemetry', 'WasmPlugin', 'EnvoyFilter']);
  const group = {
    RequestAuthentication: 'security.istio.io/v1',
    PeerAuthentication: 'security.istio.io/v1',
    Telemetry: 'telemetry.istio.io/v1',
    WasmPlugin: 'extensions.istio.io/v1alpha1',
    EnvoyFilter: 'networking.istio.io/v1alpha3',
  }[kind];
  return {
    apiVersion: group ?? '',
    kind,
    metadata: {
      name,
      namespace: namespaceName,
      labels: without({ 'istio.io/rev': maybe(random, 0.1, random.pick(['canary', 'default'])) }),
    },
    spec: {
      ...attachment(random),
      ...(kind === 'PeerAuthentication'
        ? { mtls: { mode: 'STRICT' }, portLevelMtls: { [random.pick(['80', '8080'])]: { mode: 'STRICT' } } }
        : {}),
      ...(kind === 'Telemetry' ? { accessLogging: [{ providers: [{ name: 'ext-authz' }] }] } : {}),
    },
  };
}

function networking(random: Random, namespaceName: string, name: string): Manifest {
  const host = random.pick([
    'web',
    'web.shop.svc.cluster.local',
    'api.infra.svc.cluster.local',
    '*.shop.svc.cluster.local',
    'partner.example.test',
  ]);
  if (random.chance(0.5)) {
    return {
      apiVersion: 'networking.istio.io/v1',
      kind: 'DestinationRule',
      metadata: { name, namespace: namespaceName },
      spec: without({
        host,
        exportTo: maybe(random, 0.2, ['.']),
        trafficPolicy: random.pick<Entries>([{ tls: { mode: 'SIMPLE' } }, { connectionPool: {} }]),
      }),
    };
  }
  return {
    apiVersion: 'networking.istio.io/v1',
    kind: 'VirtualService',
    metadata: { name, namespace: namespaceName },
    spec: without({
      hosts: [host],
      gateways: maybe(random, 0.4, random.pick([['mesh'], ['edge/ingress', 'mesh'], ['edge/ingress'], ['waypoint']])),
      exportTo: maybe(random, 0.2, ['.']),
      http: [
        { match: random.some([{ sourceLabels: { app: 'web' } }], 0.3), route: [{ destination: { host: 'web' } }] },
      ],
    }),
  };
}

function availability(random: Random, namespaceName: string, name: string): Manifest {
  if (random.chance(0.5)) {
    return {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name, namespace: namespaceName },
      spec: {
        minAvailable: random.pick([1, '50%', '100%']),
        selector: { matchLabels: { 'gateway.networking.k8s.io/gateway-name': random.pick(WAYPOINTS) } },
      },
    };
  }
  return {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name, namespace: namespaceName },
    spec: {
      minReplicas: random.pick([1, 2]),
      maxReplicas: 3,
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: random.pick([...WAYPOINTS, 'web']) },
    },
  };
}

/** Istio itself, in one of the states it is found in. */
export function controlPlane(random: Random): readonly Manifest[] {
  const release = random.pick(['1.27.3', '1.28.1', '1.29.0', '1.30.4', '1.31.1', 'latest']);
  const istiod = (revision: string, tag: string): Manifest => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      name: revision === 'default' ? 'istiod' : `istiod-${revision}`,
      namespace: 'istio-system',
      labels: { app: 'istiod', 'istio.io/rev': revision },
    },
    spec: {
      replicas: 1,
      template: {
        metadata: { labels: { app: 'istiod', 'istio.io/rev': revision } },
        spec: {
          containers: [
            {
              name: 'discovery',
              image: `docker.io/istio/pilot:${tag}`,
              env: [
                ...random.some([{ name: 'PILOT_ENABLE_AMBIENT', value: 'true' }], 0.85),
                ...random.some(
                  [{ name: 'ENABLE_NATIVE_SIDECARS', value: random.pick(['true', 'false', 'auto']) }],
                  0.3,
                ),
                ...random.some(
                  [{ name: 'AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY', value: random.pick(['true', 'false']) }],
                  0.3,
                ),
                ...random.some([{ name: 'ENABLE_GATEWAY_API_INFERENCE_EXTENSION', value: 'true' }], 0.5),
                ...random.some([{ name: 'ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES', value: 'true' }], 0.1),
                ...random.some(
                  [
                    {
                      name: 'PILOT_IGNORE_RESOURCES',
                      value: random.pick(['*.security.istio.io', '*.gateway.networking.k8s.io', '*.istio.io']),
                    },
                  ],
                  0.1,
                ),
                ...random.some([{ name: 'PILOT_ENABLE_ALPHA_GATEWAY_API', value: 'true' }], 0.2),
                ...random.some([{ name: 'METRIC_ROTATION_INTERVAL', value: '1m' }], 0.1),
              ],
            },
          ],
        },
      },
    },
  });
  const agent = (name: string, label: string, container: string, image: string, tag: string): Manifest => ({
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name, namespace: 'istio-system' },
    spec: {
      template: {
        metadata: { labels: { [label]: name } },
        spec: { containers: [{ name: container, image: `docker.io/istio/${image}:${tag}` }] },
      },
    },
  });
  return [
    istiod('default', release),
    ...random.some([istiod('canary', random.pick(['1.30.4', '1.31.1']))], 0.15),
    ...random.some([agent('ztunnel', 'app', 'istio-proxy', 'ztunnel', random.pick([release, '1.28.1']))], 0.85),
    ...random.some([agent('istio-cni-node', 'k8s-app', 'install-cni', 'install-cni', release)], 0.7),
    ...random.some(
      [
        {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { name: 'istio', namespace: 'istio-system' },
          data: {
            mesh: random.pick([
              '{}',
              'extensionProviders: [{name: ext-authz, envoyExtAuthzGrpc: {service: web.infra.svc.cluster.local, port: 80}}]',
              'discoverySelectors: [{matchLabels: {team: a}}]',
              'trustDomain: td',
            ]),
          },
        },
      ],
      0.6,
    ),
    ...random.some(
      [
        {
          apiVersion: 'v1',
          kind: 'Node',
          metadata: { name: 'node-1' },
          status: { nodeInfo: { kubeletVersion: random.pick(['v1.28.3', 'v1.32.1', 'v1.35.0']) } },
        },
        {
          apiVersion: 'v1',
          kind: 'Node',
          metadata: { name: 'node-2' },
          status: { nodeInfo: { kubeletVersion: 'v1.34.0' } },
        },
      ],
      0.5,
    ),
    ...random.some(
      [
        {
          apiVersion: 'gateway.networking.k8s.io/v1',
          kind: 'GatewayClass',
          metadata: { name: 'istio-waypoint', labels: without({ 'istio.io/waypoint-for': maybe(random, 0.2, 'all') }) },
          spec: { controllerName: 'istio.io/mesh-controller' },
        },
        {
          apiVersion: 'gateway.networking.k8s.io/v1',
          kind: 'GatewayClass',
          metadata: { name: 'istio' },
          spec: { controllerName: 'istio.io/gateway-controller' },
        },
        {
          apiVersion: 'gateway.networking.k8s.io/v1',
          kind: 'GatewayClass',
          metadata: { name: 'other' },
          spec: { controllerName: random.pick(['example.test/controller', 'istio.io/mesh-controller']) },
        },
      ],
      0.6,
    ),
    ...random.some(
      [
        crd(random, 'inferencepools', 'InferencePool', 'inference.networking.k8s.io', ['v1']),
        crd(random, 'backendtlspolicies', 'BackendTLSPolicy', 'gateway.networking.k8s.io', ['v1', 'v1alpha3']),
        crd(random, 'tlsroutes', 'TLSRoute', 'gateway.networking.k8s.io', ['v1', 'v1alpha2']),
      ],
      0.5,
    ),
    ...random.some([injector(random), ...installation(random)], 0.2),
  ];
}

/** The webhooks of an injector, or the tag of a revision. */
function injector(random: Random): Manifest {
  const tag = random.chance(0.3);
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: {
      name: tag ? 'istio-revision-tag-stable' : 'istio-sidecar-injector',
      labels: { app: 'sidecar-injector', 'istio.io/rev': 'default', ...(tag ? { 'istio.io/tag': 'stable' } : {}) },
    },
    webhooks: [
      {
        name: 'rev.namespace.sidecar-injector.istio.io',
        clientConfig: { service: { name: 'istiod', namespace: 'istio-system', path: '/inject' } },
        rules: [{ operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] }],
        namespaceSelector: {
          matchExpressions: [
            { key: 'istio.io/rev', operator: 'In', values: [tag ? 'stable' : 'default'] },
            { key: 'istio-injection', operator: 'DoesNotExist' },
          ],
        },
      },
      ...random.some(
        [
          {
            name: 'namespace.sidecar-injector.istio.io',
            clientConfig: { service: { name: 'istiod', namespace: 'istio-system', path: '/inject' } },
            rules: [{ operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] }],
            namespaceSelector: { matchLabels: { 'istio-injection': 'enabled' } },
          },
        ],
        0.6,
      ),
    ],
  };
}

/** Where settings are kept beside istiod's Deployment. */
function installation(random: Random): readonly Manifest[] {
  const nftables = (): Entries => ({ global: without({ nativeNftables: maybe(random, 0.5, random.chance(0.5)) }) });
  return [
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'istio-cni-config', namespace: 'istio-system' },
      data: without({
        AMBIENT_ENABLED: random.pick(['true', 'true', 'false']),
        EXCLUDE_NAMESPACES: maybe(random, 0.5, random.pick(['kube-system', 'kube-system,shop'])),
        NATIVE_NFTABLES: maybe(random, 0.5, random.pick(['true', 'false'])),
        AMBIENT_RECONCILE_POD_RULES_ON_STARTUP: maybe(random, 0.3, 'false'),
      }),
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'istio-sidecar-injector', namespace: 'istio-system' },
      data: { values: JSON.stringify(nftables()) },
    },
    {
      apiVersion: 'sailoperator.io/v1',
      kind: 'Istio',
      metadata: { name: 'default' },
      spec: { values: { ...nftables(), pilot: { resourceScope: 'all', env: { PILOT_ENABLE_AMBIENT: 'yes' } } } },
    },
    {
      apiVersion: 'sailoperator.io/v1',
      kind: 'IstioCNI',
      metadata: { name: 'default' },
      spec: without({ version: maybe(random, 0.5, random.pick(['v1.27.3', 'v1.31.1'])), values: nftables() }),
    },
  ];
}

function crd(random: Random, plural: string, kind: string, group: string, versions: readonly string[]): Manifest {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.${group}`,
      annotations: without({
        'gateway.networking.k8s.io/bundle-version': maybe(random, 0.8, random.pick(['v1.3.0', 'v1.4.0', 'v1.6.0'])),
      }),
    },
    spec: {
      group,
      names: { plural, kind },
      scope: 'Namespaced',
      versions: versions.map((name, index) => ({
        name,
        served: index === 0 || random.chance(0.6),
        storage: index === 0,
      })),
    },
  };
}

type Maker = (random: Random, namespaceName: string, name: string) => Manifest;
const MAKERS: readonly (readonly [Maker, readonly string[]])[] = [
  [workload, ['web-1', 'api-1', 'db-1']],
  [workload, ['web-1', 'waypoint']],
  [service, ['web', 'api']],
  [service, ['web']],
  [serviceEntry, ['partner', 'db']],
  [waypoint, [...WAYPOINTS, 'ingress']],
  [authorizationPolicy, ['one', 'two', 'three']],
  [authorizationPolicy, ['one', 'two']],
  [route, ['r1', 'r2']],
  [inferencePool, ['pool']],
  [backendTlsPolicy, ['b1', 'b2']],
  [networkPolicy, ['n1', 'n2']],
  [istioPolicy, ['i1', 'i2']],
  [networking, ['v1', 'v2']],
  [availability, ['a1']],
];

/** One object of some kind in some namespace. */
export function anyObject(random: Random): Manifest {
  const at = random.pick(NAMESPACES);
  if (random.chance(0.12)) return namespace(random, at);
  if (random.chance(0.08)) return random.pick(controlPlane(random));
  const [make, names] = random.pick(MAKERS);
  return make(random, at, random.pick(names));
}

/** A whole small cluster; later objects of the same identity replace earlier ones. */
export function anyMesh(random: Random): readonly Manifest[] {
  const objects = [
    ...controlPlane(random),
    ...NAMESPACES.filter(() => random.chance(0.95)).map(name => namespace(random, name)),
    ...Array.from({ length: 8 + random.int(22) }, () => {
      const [make, names] = random.pick(MAKERS);
      return make(random, random.pick(NAMESPACES), random.pick(names));
    }),
  ];
  const byIdentity = new Map(
    objects.map(object => [
      `${object.apiVersion.split('/')[0]}/${object.kind}/${object.metadata.namespace ?? ''}/${object.metadata.name}`,
      object,
    ]),
  );
  return [...byIdentity.values()];
}

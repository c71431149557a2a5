// `affected` of the policies on NetworkPolicies, dry runs, ServiceEntries, BackendTLSPolicies and waypoints' scale, held against
// evaluating everything, over small meshes in which their findings are frequent.

import { expect, test } from 'vitest';
import { backendTlsPolicyPolicy } from '../../policies/backend-tls-policy/policy.ts';
import { dryRunSkew } from '../../policies/dry-run-skew/policy.ts';
import { hbonePort } from '../../policies/hbone-port/policy.ts';
import { serviceEntryPolicy } from '../../policies/service-entry/policy.ts';
import { waypointAvailability } from '../../policies/waypoint-availability/policy.ts';
import { difference, identityOf } from '../../src/engine/difference.ts';
import type { Policy } from '../../src/engine/policy.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { refKey } from '../../src/kube/kind.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { Change } from '../../src/mesh/mesh.ts';
import { overlay } from '../../src/mesh/overlay.ts';
import { createStore } from '../../src/mesh/store.ts';
import { type Random, seeded } from '../generate/random.ts';
import { bruteForce, projected } from '../support/bruteforce.ts';

type Entries = Record<string, unknown>;

const RUNS = Number(process.env['AFFECTED_RUNS'] ?? 3000);
const FIRST = Number(process.env['AFFECTED_SEED'] ?? 1);
const NAMESPACES = ['shop', 'infra', 'batch'];
const APPS = ['web', 'api'];

const policies: readonly Policy[] = [
  backendTlsPolicyPolicy as Policy,
  dryRunSkew as Policy,
  hbonePort as Policy,
  serviceEntryPolicy as Policy,
  waypointAvailability as Policy,
];

function object(apiVersion: string, kind: string, metadata: Entries, rest: Entries = {}): Entries {
  return { apiVersion, kind, metadata, ...rest };
}

function template(labels: Entries, spec: Entries): Entries {
  return { template: { metadata: { labels }, spec } };
}

type Maker = (random: Random) => Entries;

const useWaypoint = (random: Random): Entries =>
  random.chance(0.4)
    ? {
        'istio.io/use-waypoint': random.pick(['waypoint', 'waypoint', 'none', 'missing']),
        ...(random.chance(0.3) ? { 'istio.io/use-waypoint-namespace': 'infra' } : {}),
      }
    : {};

const namespace: Maker = random => {
  const name = random.pick(NAMESPACES);
  return object('v1', 'Namespace', {
    name,
    labels: {
      'kubernetes.io/metadata.name': name,
      ...(random.chance(0.7) ? { 'istio.io/dataplane-mode': 'ambient' } : {}),
      ...(random.chance(0.25) ? { 'istio-injection': 'enabled' } : {}),
      ...(random.chance(0.5) ? { team: random.pick(['a', 'b']) } : {}),
      ...useWaypoint(random),
    },
  });
};

const istiod: Maker = random =>
  object(
    'apps/v1',
    'Deployment',
    { name: 'istiod', namespace: 'istio-system', labels: { app: 'istiod' } },
    {
      spec: template(
        { app: 'istiod' },
        {
          containers: [
            {
              name: 'discovery',
              image: `docker.io/istio/pilot:${random.pick(['1.27.3', '1.28.1', '1.30.4', '1.31.0', '1.31.0', '1.31.1', 'latest'])}`,
              env: [
                { name: 'PILOT_ENABLE_AMBIENT', value: random.pick(['true', 'true', 'true', 'false']) },
                {
                  name: 'AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY',
                  value: random.pick(['true', 'true', 'true', 'false']),
                },
              ],
            },
          ],
        },
      ),
    },
  );

const ztunnel: Maker = random => {
  const pod = random.chance(0.3);
  const spec = {
    containers: [
      { name: 'istio-proxy', image: `ztunnel${random.pick([':1.27.3', ':1.28.1', ':1.31.0', '@sha256:ab'])}` },
    ],
  };
  return pod
    ? object('v1', 'Pod', { name: 'ztunnel-1', namespace: 'istio-system', labels: { app: 'ztunnel' } }, { spec })
    : object(
        'apps/v1',
        'DaemonSet',
        { name: 'ztunnel', namespace: 'istio-system' },
        { spec: template({ app: 'ztunnel' }, spec) },
      );
};

const injector: Maker = () =>
  object(
    'admissionregistration.k8s.io/v1',
    'MutatingWebhookConfiguration',
    { name: 'injector', labels: { 'istio.io/rev': 'default' } },
    {
      webhooks: [
        {
          name: 'namespace.sidecar-injector.istio.io',
          clientConfig: { service: { name: 'istiod', namespace: 'istio-system', path: '/inject' } },
          rules: [{ operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] }],
          namespaceSelector: { matchLabels: { 'istio-injection': 'enabled' } },
        },
      ],
    },
  );

const cilium: Maker = () =>
  object(
    'apps/v1',
    'DaemonSet',
    { name: 'cilium', namespace: 'kube-system' },
    { spec: template({ 'k8s-app': 'cilium' }, { hostNetwork: true, containers: [] }) },
  );

const ciliumPolicy: Maker = random =>
  object(
    'cilium.io/v2',
    'CiliumClusterwideNetworkPolicy',
    { name: 'probes' },
    { spec: { ingress: [{ fromCIDR: [random.pick(['169.254.7.127/32', '10.0.0.0/8'])] }] } },
  );

const workload: Maker = random => {
  const app = random.pick(APPS);
  const spec = {
    containers: [
      {
        name: 'app',
        image: 'app:1',
        ...(random.chance(0.7) ? { ports: [{ name: 'http', containerPort: 8080 }] } : {}),
        ...(random.chance(0.5) ? { readinessProbe: { httpGet: { port: random.pick([8080, 'http']) } } } : {}),
      },
    ],
  };
  const labels = {
    app,
    ...(random.chance(0.3) ? { version: 'v1' } : {}),
    ...(random.chance(0.15) ? { 'istio.io/dataplane-mode': 'none' } : {}),
  };
  const metadata = { name: app, namespace: random.pick(NAMESPACES) };
  return random.chance(0.25)
    ? object(
        'v1',
        'Pod',
        {
          ...metadata,
          labels,
          ...(random.chance(0.5)
            ? { ownerReferences: [{ apiVersion: 'apps/v1', kind: 'Deployment', name: app, controller: true }] }
            : {}),
        },
        { spec },
      )
    : object('apps/v1', 'Deployment', metadata, { spec: template(labels, spec) });
};

const waypointDeployment: Maker = random =>
  object(
    'apps/v1',
    'Deployment',
    { name: 'waypoint', namespace: random.pick(['shop', 'infra']) },
    {
      spec: {
        replicas: random.pick([0, 1, 2]),
        ...template(
          {
            'gateway.networking.k8s.io/gateway-name': 'waypoint',
            'gateway.istio.io/managed': 'istio.io-mesh-controller',
            ...(random.chance(0.3) ? { app: 'web' } : {}),
          },
          { containers: [{ name: 'istio-proxy', image: 'proxyv2:1.31.0' }] },
        ),
      },
    },
  );

const service: Maker = random => {
  const name = random.pick(APPS);
  return object(
    'v1',
    'Service',
    { name, namespace: random.pick(NAMESPACES), labels: useWaypoint(random) },
    {
      spec: { selector: { app: name }, ports: [{ name: 'http', port: 80, targetPort: random.pick([8080, 'http']) }] },
    },
  );
};

const gateway: Maker = random => {
  const waypoint = random.chance(0.7);
  return object(
    'gateway.networking.k8s.io/v1',
    'Gateway',
    {
      name: waypoint ? 'waypoint' : 'public',
      namespace: random.pick(NAMESPACES),
      labels: random.chance(0.2) ? { 'istio.io/rev': 'canary' } : {},
    },
    {
      spec: {
        gatewayClassName: waypoint
          ? random.pick(['istio-waypoint', 'istio-waypoint', 'custom'])
          : random.pick(['istio', 'other']),
        listeners: waypoint
          ? [
              {
                name: 'mesh',
                port: 15008,
                protocol: 'HBONE',
                allowedRoutes: { namespaces: { from: random.pick(['Same', 'All']) } },
              },
            ]
          : [{ name: 'http', port: 80, protocol: 'HTTP' }],
        ...(random.chance(0.4)
          ? { infrastructure: { parametersRef: { group: '', kind: 'ConfigMap', name: 'options' } } }
          : {}),
      },
      status: random.chance(0.7) ? { addresses: [{ value: '10.96.0.9' }] } : {},
    },
  );
};

const gatewayClass: Maker = random =>
  object(
    'gateway.networking.k8s.io/v1',
    'GatewayClass',
    { name: random.pick(['custom', 'other', 'istio-waypoint']) },
    {
      spec: { controllerName: random.pick(['istio.io/mesh-controller', 'example.test/controller']) },
    },
  );

const route: Maker = random =>
  object(
    'gateway.networking.k8s.io/v1',
    'HTTPRoute',
    { name: 'web', namespace: random.pick(NAMESPACES) },
    {
      spec: {
        parentRefs: [{ name: 'public', namespace: random.pick(NAMESPACES) }],
        rules: [{ backendRefs: [{ name: random.pick(APPS), namespace: random.pick(NAMESPACES), port: 80 }] }],
      },
    },
  );

const istioGateway: Maker = random =>
  object(
    'networking.istio.io/v1',
    'Gateway',
    { name: 'classic', namespace: random.pick(NAMESPACES) },
    { spec: { servers: [] } },
  );

function peers(random: Random): Entries[] {
  return random.some<Entries>(
    [
      { podSelector: { matchLabels: { app: random.pick(APPS) } } },
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': random.pick(NAMESPACES) } } },
      {
        namespaceSelector: { matchLabels: { team: random.pick(['a', 'b']) } },
        podSelector: { matchLabels: { app: 'api' } },
      },
      { namespaceSelector: {}, podSelector: { matchLabels: { 'gateway.networking.k8s.io/gateway-name': 'waypoint' } } },
      { namespaceSelector: {} },
      { ipBlock: { cidr: random.pick(['10.0.0.0/8', '0.0.0.0/0', '203.0.113.0/24', '169.254.7.127/32']) } },
    ],
    0.25,
  ) as Entries[];
}

function ports(random: Random): Entries[] {
  return random.some<Entries>(
    [{ port: 8080 }, { port: 'http' }, { port: 15008 }, { protocol: 'UDP', port: 53 }],
    0.4,
  ) as Entries[];
}

const networkPolicy: Maker = random => {
  const rules = (direction: 'from' | 'to'): readonly Entries[] => {
    // 15008 for everybody beside a limit on the application's port
    if (random.chance(0.15))
      return [
        { ports: [{ port: 15008 }] },
        { [direction]: [{ podSelector: { matchLabels: { app: 'api' } } }], ports: [{ port: 8080 }] },
      ];
    return Array.from({ length: random.pick([0, 1, 1, 2]) }, () => ({
      [direction]: peers(random),
      ports: ports(random),
    }));
  };
  return object(
    'networking.k8s.io/v1',
    'NetworkPolicy',
    { name: random.pick(['a', 'b']), namespace: random.pick(NAMESPACES) },
    {
      spec: {
        podSelector: random.pick<Entries>([
          {},
          { matchLabels: { app: random.pick(APPS) } },
          { matchExpressions: [{ key: 'version', operator: 'Exists' }] },
          { matchLabels: { 'gateway.networking.k8s.io/gateway-name': 'waypoint' } },
        ]),
        ...random.pick<Entries>([
          { policyTypes: ['Ingress'], ingress: rules('from') },
          { policyTypes: ['Egress'], egress: rules('to') },
          { policyTypes: ['Ingress', 'Egress'], ingress: rules('from'), egress: rules('to') },
        ]),
      },
    },
  );
};

const HOSTS = ['api.partner.test', '*.partner.test', 'web.shop.svc.cluster.local'];
const serviceEntry: Maker = random =>
  object(
    'networking.istio.io/v1',
    'ServiceEntry',
    {
      name: random.pick(['partner', 'other']),
      namespace: random.pick(NAMESPACES),
      labels: useWaypoint(random),
      ...(random.chance(0.5)
        ? { creationTimestamp: random.pick(['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']) }
        : {}),
    },
    {
      spec: {
        hosts: [random.pick(HOSTS)],
        ports: random.chance(0.9)
          ? [{ number: random.pick([443, 80]), name: 'p', protocol: random.pick(['HTTP', 'TLS', 'GRPC', 'TCP']) }]
          : [],
        resolution: random.pick(['NONE', 'STATIC', 'DNS', 'DYNAMIC_DNS']),
        ...(random.chance(0.4) ? { addresses: ['198.51.100.20'] } : {}),
        ...(random.chance(0.3) ? { exportTo: [random.pick(['.', 'infra', '*'])] } : {}),
        ...(random.chance(0.3) ? { endpoints: [{ address: '198.51.100.20' }] } : {}),
        location: random.pick(['MESH_EXTERNAL', 'MESH_INTERNAL']),
      },
    },
  );

const backendTls: Maker = random =>
  object(
    'gateway.networking.k8s.io/v1',
    'BackendTLSPolicy',
    { name: random.pick(['a', 'b']), namespace: random.pick(NAMESPACES) },
    {
      spec: {
        targetRefs: [
          random.chance(0.7)
            ? {
                group: '',
                kind: 'Service',
                name: random.pick(APPS),
                ...(random.chance(0.3) ? { sectionName: random.pick(['http', 'https']) } : {}),
              }
            : { group: 'networking.istio.io', kind: 'ServiceEntry', name: 'partner' },
        ],
        validation: {
          hostname: 'web.test',
          subjectAltNames: [{ type: 'Hostname', hostname: 'web.test' }],
          ...random.pick<Entries>([
            { wellKnownCACertificates: 'System' },
            { caCertificateRefs: [{ group: '', kind: 'ConfigMap', name: 'options' }] },
            { caCertificateRefs: [{ group: '', kind: 'Secret', name: 'ca' }] },
          ]),
        },
      },
    },
  );

const destinationRule: Maker = random =>
  object(
    'networking.istio.io/v1',
    'DestinationRule',
    { name: 'web', namespace: random.pick(NAMESPACES) },
    {
      spec: {
        host: random.pick([
          'web',
          'web.shop.svc.cluster.local',
          '*.shop.svc.cluster.local',
          'api.infra.svc.cluster.local',
          'api.partner.test',
        ]),
        trafficPolicy: random.pick<Entries>([
          {},
          { tls: { mode: 'DISABLE' } },
          { tls: { mode: 'SIMPLE' } },
          { portLevelSettings: [{ port: { number: 80 }, tls: { mode: 'DISABLE' } }] },
        ]),
      },
    },
  );

const configMap: Maker = random => {
  const defaults = random.chance(0.4);
  return object(
    'v1',
    'ConfigMap',
    {
      name: defaults ? 'defaults' : 'options',
      namespace: defaults ? random.pick(['istio-system', 'shop']) : random.pick(NAMESPACES),
      ...(defaults
        ? { labels: { 'gateway.istio.io/defaults-for-class': random.pick(['istio-waypoint', 'custom', 'istio']) } }
        : {}),
    },
    {
      data: random.pick<Entries>([
        { deployment: 'spec: { replicas: 2 }' },
        { deployment: 'spec: { replicas: 0 }' },
        { deployment: 'spec: { replica: 2 }' },
        { hpa: 'spec: {}' },
        { horizontalPodAutoscaler: 'spec: { minReplicas: 1, maxReplicas: 3 }' },
        {
          horizontalPodAutoscaler: 'spec: { minReplicas: 2, maxReplicas: 3 }',
          podDisruptionBudget: 'spec: { minAvailable: 2 }',
        },
      ]),
    },
  );
};

const autoscaler: Maker = random =>
  object(
    'autoscaling/v2',
    'HorizontalPodAutoscaler',
    { name: 'waypoint', namespace: random.pick(NAMESPACES) },
    {
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: random.pick(['waypoint', 'web']) },
        minReplicas: random.pick([0, 1, 2]),
        maxReplicas: 3,
      },
    },
  );

const budget: Maker = random =>
  object(
    'policy/v1',
    'PodDisruptionBudget',
    { name: 'waypoint', namespace: random.pick(NAMESPACES) },
    {
      spec: {
        selector: random.pick<Entries>([{}, { matchLabels: { 'gateway.networking.k8s.io/gateway-name': 'waypoint' } }]),
        minAvailable: random.pick<unknown>([1, 2, '50%']),
      },
    },
  );

const authorization: Maker = random =>
  object(
    'security.istio.io/v1',
    'AuthorizationPolicy',
    {
      name: random.pick(['a', 'b']),
      namespace: random.pick([...NAMESPACES, 'istio-system']),
      annotations: random.chance(0.7)
        ? { 'istio.io/dry-run': random.pick(['true', 'true', 'true', 'true', 'yes']) }
        : {},
      labels: random.chance(0.2) ? { 'istio.io/dry-run': 'true' } : {},
    },
    {
      spec: {
        ...random.pick<Entries>([
          {},
          { selector: {} },
          { selector: { matchLabels: { app: random.pick(APPS) } } },
          { targetRefs: [{ group: 'networking.istio.io', kind: 'ServiceEntry', name: 'partner' }] },
        ]),
        action: random.pick(['ALLOW', 'DENY']),
        rules: [{ from: [{ source: { namespaces: ['x'] } }] }],
      },
    },
  );

/**
 * A client, a Service and a waypoint between them, with policies that may keep one of them out. Each maker makes another state of
 * the same object, so that a change is one that matters.
 */
function scene(random: Random): readonly Maker[] {
  const home = random.pick(NAMESPACES);
  const away = random.pick(NAMESPACES);
  const place = random.pick([home, away]);
  const bound: Maker = chance => ({
    'istio.io/use-waypoint': chance.pick(['waypoint', 'waypoint', 'none']),
    ...(chance.chance(0.8) ? { 'istio.io/use-waypoint-namespace': place } : {}),
  });
  const namespaced =
    (name: string): Maker =>
    chance =>
      object('v1', 'Namespace', {
        name,
        labels: {
          'kubernetes.io/metadata.name': name,
          ...(chance.chance(0.85) ? { 'istio.io/dataplane-mode': 'ambient' } : {}),
          ...(chance.chance(0.6) ? { team: chance.pick(['a', 'b']) } : {}),
          ...(chance.chance(0.3) ? bound(chance) : {}),
        },
      });
  const deployed =
    (app: string, namespace: string): Maker =>
    chance =>
      object(
        'apps/v1',
        'Deployment',
        { name: app, namespace },
        {
          spec: template(
            { app, ...(chance.chance(0.15) ? { 'istio.io/dataplane-mode': 'none' } : {}) },
            {
              containers: [
                { name: 'app', image: 'app:1', ports: [{ name: 'http', containerPort: chance.pick([8080, 8081]) }] },
              ],
            },
          ),
        },
      );
  const served =
    (app: string, namespace: string): Maker =>
    chance =>
      object(
        'v1',
        'Service',
        { name: app, namespace, labels: chance.chance(0.6) ? bound(chance) : {} },
        { spec: { selector: { app }, ports: [{ port: 80, targetPort: chance.pick([8080, 8081]) }] } },
      );
  const waypoint: Maker = chance =>
    object(
      'gateway.networking.k8s.io/v1',
      'Gateway',
      { name: 'waypoint', namespace: place, labels: chance.chance(0.3) ? { app: 'api' } : {} },
      {
        spec: {
          gatewayClassName: 'istio-waypoint',
          listeners: [
            {
              name: 'mesh',
              port: 15008,
              protocol: 'HBONE',
              allowedRoutes: { namespaces: { from: chance.pick(['All', 'All', 'Same']) } },
            },
          ],
        },
        status: chance.chance(0.85) ? { addresses: [{ value: '10.96.0.9' }] } : {},
      },
    );
  const only = (app: string, namespace: string): Entries => ({
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
    podSelector: { matchLabels: { app } },
  });
  const isolating: Maker = chance =>
    object(
      'networking.k8s.io/v1',
      'NetworkPolicy',
      { name: 'web', namespace: home },
      {
        spec: {
          podSelector: { matchLabels: { app: 'web' } },
          policyTypes: ['Ingress'],
          ingress: [
            {
              from: [
                chance.pick([
                  only('api', away),
                  { namespaceSelector: { matchLabels: { team: chance.pick(['a', 'b']) } } },
                  { podSelector: {} },
                ]),
              ],
              ...(chance.chance(0.4) ? { ports: ports(chance) } : {}),
            },
          ],
        },
      },
    );
  const confining: Maker = chance =>
    object(
      'networking.k8s.io/v1',
      'NetworkPolicy',
      { name: 'api', namespace: away },
      {
        spec: {
          podSelector: { matchLabels: { app: 'api' } },
          policyTypes: ['Egress'],
          egress: [
            {
              to: [chance.pick([only('web', home), { namespaceSelector: { matchLabels: { team: 'a' } } }])],
              ...(chance.chance(0.5) ? { ports: ports(chance) } : {}),
            },
          ],
        },
      },
    );
  return [
    istiod,
    ztunnel,
    namespaced(home),
    namespaced(away),
    deployed('web', home),
    deployed('api', away),
    served('web', home),
    served('api', away),
    waypoint,
    isolating,
    confining,
  ];
}

const MAKERS: readonly (readonly [Maker, number])[] = [
  [istiod, 1],
  [ztunnel, 3],
  [injector, 1],
  [cilium, 1],
  [ciliumPolicy, 1],
  [gatewayClass, 1],
  [istioGateway, 1],
  [namespace, 3],
  [workload, 4],
  [waypointDeployment, 1],
  [service, 3],
  [gateway, 3],
  [route, 2],
  [networkPolicy, 7],
  [serviceEntry, 3],
  [backendTls, 3],
  [destinationRule, 2],
  [configMap, 2],
  [autoscaler, 1],
  [budget, 1],
  [authorization, 8],
];
const ONE_OF = MAKERS.flatMap(([maker, weight]) => Array.from({ length: weight }, () => maker));

async function findings(
  objects: readonly Meta[],
  change: Meta,
  deleted: boolean,
  judges: readonly Policy[],
  seen: Set<string>,
) {
  const store = createStore({ complete: kind => kind !== 'Namespace' });
  for (const each of objects) store.put(each);
  const before = store.object(change);
  const ref = { kind: change.kind, namespace: change.namespace, name: change.name };
  const made: Change = { ref, ...(before === undefined ? {} : { before }), ...(deleted ? {} : { after: change }) };
  const answer = await difference({
    policies: judges,
    settings: DEFAULT_SETTINGS,
    before: store,
    after: overlay(store, [made]),
    changes: [made],
    stage: 'validate',
    now: 0,
  });
  return answer.findings
    .map(finding => {
      seen.add(`${finding.policy}/${finding.finding}${refKey(finding.subject) === refKey(ref) ? '' : ' elsewhere'}`);
      return `${identityOf(finding.policy, finding.subject, finding)} ${finding.action} ${finding.standing}`;
    })
    .sort();
}

test(`affected names every subject (${RUNS} meshes and changes from seed ${FIRST})`, async () => {
  const seen = new Set<string>();
  const brute = policies.map(bruteForce);
  for (let seed = FIRST; seed < FIRST + RUNS; seed += 1) {
    const random = seeded(seed);
    const likely = [istiod, ztunnel, injector, cilium].filter(() => random.chance(0.8));
    const staged = random.chance(0.5) ? scene(random) : undefined;
    const raw =
      staged === undefined
        ? [...likely, ...Array.from({ length: 26 }, () => random.pick(ONE_OF))].map(maker => maker(random))
        : staged.filter(() => random.chance(0.92)).map(maker => maker(random));
    if (raw.length === 0) continue;
    const byKey = new Map(raw.map(each => [refKey(projected(each)), projected(each)]));
    const deleted = random.chance(0.25);
    let change = projected(random.pick(staged ?? ONE_OF)(random));
    if (deleted) change = random.pick([...byKey.values()]);
    const objects = [...byKey.values()];
    const all = await findings(objects, change, deleted, brute, seen);
    const found = await findings(objects, change, deleted, policies, new Set());
    const missing = all.filter(each => !found.includes(each));
    if (missing.length > 0) {
      // as few objects as show it
      let smallest = objects;
      for (let index = 0; index < smallest.length; ) {
        const fewer = smallest.filter((_, position) => position !== index);
        const wanted = await findings(fewer, change, deleted, brute, new Set());
        const got = await findings(fewer, change, deleted, policies, new Set());
        if (wanted.some(each => !got.includes(each))) smallest = fewer;
        else index += 1;
      }
      const names = new Set(smallest.map(refKey));
      const shown = raw.filter(each => names.has(refKey(projected(each))));
      expect.fail(
        `seed ${seed}: ${deleted ? 'deleting' : 'writing'} ${JSON.stringify(change)}\nmisses ${missing.join('\n')}\nin ${JSON.stringify(shown, undefined, 1)}`,
      );
    }
  }
  // meshes in which nothing happens would prove nothing
  const all = policies.flatMap(policy => Object.keys(policy.findings).map(finding => `${policy.id}/${finding}`));
  const never = all.filter(finding => !seen.has(finding) && !seen.has(`${finding} elsewhere`));
  // two of them rest on nothing but the object itself; a few are rare
  if (RUNS >= 3000) expect(never.length, `never seen: ${never.join(', ')}`).toBeLessThanOrEqual(6);
}, 300_000);

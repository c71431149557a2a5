// `affected` of native-sidecar against evaluating everything, on meshes with what the policy reads: nodes, istiod, the injector,
// rules of other engines. And what admission makes of a pod that the injector has already been at.
import { expect, test } from 'vitest';
import { nativeSidecar } from '../../policies/native-sidecar/policy.ts';
import { judge } from '../../src/admission/judge.ts';
import { requestFor } from '../../src/admission/request.ts';
import { difference, identityOf } from '../../src/engine/difference.ts';
import { judges, type Policy } from '../../src/engine/policy.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { refKey } from '../../src/kube/kind.ts';
import { identify, isKind, project } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { overlay } from '../../src/mesh/overlay.ts';
import { createStore } from '../../src/mesh/store.ts';
import { type Random, seeded } from '../generate/random.ts';

type Json = Record<string, unknown>;

function projected(object: Json) {
  const identity = identify(object);
  if (identity === undefined) throw new Error('no object');
  return project(identity.kind, identity.namespace, object);
}

const complete = (kind: string, mesh: Mesh) =>
  kind !== 'Namespace' &&
  [...mesh.referring('component/istiod')].length > 0 &&
  (kind !== 'Node' || [...mesh.list('Node')].length > 0);

const someLabels = (random: Random, from: readonly Json[]) => Object.assign({}, ...random.some(from, 0.3)) as Json;

const ISTIOD = { app: 'istiod', 'istio.io/rev': 'default' };

const makers: readonly ((random: Random) => Json)[] = [
  random => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: random.pick(['shop', 'tools']),
      labels: someLabels(random, [
        { 'istio-injection': random.pick(['enabled', 'disabled']) },
        { 'istio.io/rev': 'default' },
        { 'istio.io/dataplane-mode': 'ambient' },
      ]),
    },
  }),
  random => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: random.pick(['a', 'b']), labels: someLabels(random, [{ pool: 'old' }]) },
    spec: random.chance(0.2) ? { unschedulable: true } : {},
    status: { nodeInfo: { kubeletVersion: random.pick(['v1.28.1', 'v1.32.0', 'v1.34.1', 'v1.36.0']) } },
  }),
  random => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'istiod', namespace: 'istio-system', labels: ISTIOD },
    spec: {
      template: {
        metadata: { labels: ISTIOD },
        spec: {
          containers: [
            {
              name: 'discovery',
              image: `istio/pilot:${random.pick(['1.26.8', '1.30.4', '1.31.1', 'latest'])}`,
              env: random.chance(0.5)
                ? [{ name: 'ENABLE_NATIVE_SIDECARS', value: random.pick(['true', 'false', 'auto', 'yes']) }]
                : [],
            },
          ],
        },
      },
    },
  }),
  random => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'istio-sidecar-injector', namespace: 'istio-system' },
    data: {
      config: [
        `policy: ${random.pick(['enabled', 'disabled'])}`,
        `templates: { sidecar: "{}", ${random.pick(['', 'mine: "{}"', 'mine: "spec: { containers: [{ name: istio-proxy }] }"'])} }`,
      ].join('\n'),
    },
  }),
  random => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: 'istio-sidecar-injector', labels: { 'istio.io/rev': 'default' } },
    webhooks: [
      {
        name: 'namespace.sidecar-injector.istio.io',
        clientConfig: { service: { name: 'istiod', namespace: 'istio-system', path: '/inject' } },
        rules: [{ operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] }],
        namespaceSelector: { matchLabels: { 'istio-injection': random.pick(['enabled', 'disabled']) } },
      },
    ],
  }),
  random => ({
    apiVersion: 'mutations.gatekeeper.sh/v1',
    kind: 'Assign',
    metadata: { name: random.pick(['one', 'two']) },
    spec: { location: `spec.${random.pick(['containers', 'initContainers'])}[name:istio-proxy].image` },
  }),
  random => ({
    apiVersion: 'kyverno.io/v1',
    ...random.pick([
      { kind: 'ClusterPolicy', metadata: { name: 'rules' } },
      { kind: 'Policy', metadata: { name: 'rules', namespace: random.pick(['shop', 'tools']) } },
    ]),
    spec: {
      rules: [
        {
          name: 'one',
          validate: {
            pattern: { spec: { [random.pick(['containers', 'initContainers'])]: [{ '(name)': 'istio-proxy' }] } },
          },
        },
      ],
    },
  }),
  ...['Deployment', 'Job', 'Pod'].map(kind => (random: Random): Json => {
    const image = random.pick(['auto', 'istio/proxyv2:1.30.4', 'example.test/envoy:1']);
    const proxy = { name: 'istio-proxy', image };
    const metadata = {
      labels: someLabels(random, [
        { 'sidecar.istio.io/inject': random.pick(['true', 'false']) },
        { 'sidecar.istio.io/nativeSidecar': 'false' },
      ]),
      annotations: someLabels(random, [
        { 'sidecar.istio.io/nativeSidecar': random.pick(['true', 'false', 'no']) },
        { 'sidecar.istio.io/proxyCPU': random.pick(['1', 'lots']) },
        { 'inject.istio.io/templates': random.pick(['sidecar', 'mine', 'gateway']) },
        { 'pre.hook.backup.velero.io/container': 'istio-proxy' },
      ]),
    };
    const spec = {
      ...(random.chance(0.2) ? { nodeName: random.pick(['a', 'b', 'c']) } : {}),
      ...(random.chance(0.2) ? { nodeSelector: { pool: 'old' } } : {}),
      ...(random.chance(0.1) ? { hostNetwork: true } : {}),
      containers: [{ name: 'app', image: 'example.test/app:1' }, ...random.some([proxy], 0.3)],
      initContainers: random.some([proxy], 0.15),
    };
    const own = { name: random.pick(['web', 'api']), namespace: random.pick(['shop', 'tools', 'elsewhere']) };
    if (kind === 'Pod') return { apiVersion: 'v1', kind, metadata: { ...metadata, ...own }, spec };
    const apiVersion = kind === 'Job' ? 'batch/v1' : 'apps/v1';
    return { apiVersion, kind, metadata: own, spec: { template: { metadata, spec } } };
  }),
];

const everything: Policy = {
  ...nativeSidecar,
  check: (subject, context) => nativeSidecar.check(subject, context as never),
  *affected(_change, { after }) {
    for (const kind of nativeSidecar.subjects) if (isKind(kind)) yield* after.list(kind);
  },
};

test('every subject that a change concerns is named', async () => {
  let elsewhere = 0;
  for (let seed = 1; seed <= 3000; seed += 1) {
    const random = seeded(seed);
    const one = () => random.pick(makers)(random);
    const store = createStore({ complete });
    for (let count = 0; count < 14; count += 1) store.put(projected(one()));
    const object = projected(one());
    const ref = { kind: object.kind, namespace: object.namespace, name: object.name };
    const before = store.object(ref);
    const deleted = before !== undefined && random.chance(0.3);
    const change = { ref, ...(before === undefined ? {} : { before }), ...(deleted ? {} : { after: object }) };
    const ask = async (policy: Policy) => {
      const { findings } = await difference({
        policies: [policy],
        settings: DEFAULT_SETTINGS,
        before: store,
        after: overlay(store, [change]),
        changes: [change],
        stage: 'files',
        now: 0,
      });
      elsewhere += findings.filter(({ subject }) => refKey(subject) !== refKey(ref)).length;
      return findings.map(finding => identityOf(finding.policy, finding.subject, finding)).sort();
    };
    expect(await ask(nativeSidecar as Policy), `seed ${seed}: ${refKey(ref)}`).toEqual(await ask(everything));
  }
  // a generator whose changes concern nobody else would prove nothing
  expect(elsewhere).toBeGreaterThan(300);
}, 120_000);

test('constraints of any kind are subjects', () => {
  expect(judges(nativeSidecar, 'RequireLimits.constraints.gatekeeper.sh')).toBe(true);
  expect(judges(nativeSidecar, 'ConstraintTemplate.templates.gatekeeper.sh')).toBe(false);
});

const mesh = (() => {
  const store = createStore({ complete });
  const random = seeded(1);
  const istiod = makers[2]?.(random) as Json;
  const container = { name: 'discovery', image: 'istio/pilot:1.31.1' };
  store.put(
    projected({ ...istiod, spec: { template: { metadata: { labels: ISTIOD }, spec: { containers: [container] } } } }),
  );
  store.put(
    projected({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'shop', labels: { 'istio-injection': 'enabled' } },
    }),
  );
  store.put(
    projected({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'a' },
      status: { nodeInfo: { kubeletVersion: 'v1.36.0' } },
    }),
  );
  return store;
})();

const PROXY = { name: 'istio-proxy', image: 'mirror.example.test/proxyv2:1.30.0', restartPolicy: 'Always' };

/** A pod as it comes to the guard once the injector has been at it. */
function injected(containers: readonly Json[] = [], more: Json = {}): Json {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'web',
      namespace: 'shop',
      annotations: { 'sidecar.istio.io/status': '{"initContainers":["istio-init","istio-proxy"],"containers":null}' },
      ...more,
    },
    spec: {
      containers: [{ name: 'app', image: 'example.test/app:1' }, ...containers],
      initContainers: [{ name: 'istio-init', image: PROXY.image }, PROXY],
    },
  };
}

async function verdictOn(object: Json, old?: Json) {
  const request = requestFor(object, old === undefined ? {} : { old });
  if (request === undefined) throw new Error('no request');
  return judge({ policies: [nativeSidecar as Policy], settings: DEFAULT_SETTINGS, mesh }, request, 'mutate');
}

test.each([
  ['{ sidecar: "{}", gateway: "{}" }', 'inject.istio.io/templates: sidecar | gateway'],
  ['{}', 'define templates in ConfigMap istio-system/istio-sidecar-injector, which has none'],
])('the fix for an unknown template names those that are there: %s', async (templates, fix) => {
  const name = 'istio-sidecar-injector';
  const config = `{ policy: enabled, templates: ${templates} }`;
  const object = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: 'istio-system' },
    data: { config },
  };
  const configMap = projected(object);
  const ref = { kind: configMap.kind, namespace: configMap.namespace, name };
  const metadata = { annotations: { 'inject.istio.io/templates': 'mine' } };
  const request = requestFor(
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web', namespace: 'shop' },
      spec: { template: { metadata, spec: { containers: [{ name: 'app', image: 'example.test/app:1' }] } } },
    },
    {},
  );
  if (request === undefined) throw new Error('no request');
  const verdict = await judge(
    {
      policies: [nativeSidecar as Policy],
      settings: DEFAULT_SETTINGS,
      mesh: overlay(mesh, [{ ref, after: configMap }]),
    },
    request,
    'validate',
  );
  expect(verdict.findings.map(finding => [finding.finding, finding.fix])).toEqual([['injection-refused', fix]]);
});

test("the injector's own work is never an override, whatever its image", async () => {
  expect(await verdictOn(injected())).toMatchObject({ verdict: 'allow', findings: [] });
});

test('a webhook that adds a second proxy is told so before Kubernetes refuses the pod', async () => {
  const verdict = await verdictOn(injected([{ name: 'istio-proxy', env: [] }]));
  expect(verdict.verdict).toBe('deny');
  expect(verdict.findings.map(({ finding }) => finding)).toEqual(['two-proxies']);
});

test('a webhook that moves the proxy back is told so', async () => {
  const moved = injected([{ name: 'istio-proxy', image: PROXY.image }]);
  const spec = { ...(moved['spec'] as Json), initContainers: [] };
  expect((await verdictOn({ ...moved, spec })).findings.map(({ finding }) => finding)).toEqual(['targets-containers']);
});

test('what a controller makes is judged by its template, not once more in each rollout', async () => {
  const owned = {
    ...injected(),
    metadata: {
      name: 'web-1',
      namespace: 'shop',
      annotations: { 'sidecar.istio.io/proxyCPU': 'lots' },
      ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', controller: true }],
    },
    spec: { containers: [{ name: 'app', image: 'example.test/app:1' }] },
  };
  expect((await verdictOn(owned)).verdict).toBe('allow');
});

test('an update that leaves a defect as it was is warned about, never refused', async () => {
  const deployment = (replicas: number, cpu = 'lots'): Json => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace: 'shop' },
    spec: {
      replicas,
      template: {
        metadata: { annotations: { 'sidecar.istio.io/proxyCPU': cpu, 'sidecar.istio.io/logLevel': String(replicas) } },
        spec: { containers: [{ name: 'app', image: 'example.test/app:1' }] },
      },
    },
  });
  expect((await verdictOn(deployment(1))).verdict).toBe('warn'); // no webhook in the state: no certainty
  expect((await verdictOn(deployment(2), deployment(1))).findings.map(({ standing }) => standing)).toEqual(['old']);
  expect((await verdictOn(deployment(2, '1'), deployment(1))).verdict).toBe('allow');
});

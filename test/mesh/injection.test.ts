// Whether pods get a proxy, from whom, by which template, and where in the pod: what istiod does, state by state.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { injectionOf, injectionSettings, isProxyImage, nativeByDefault, nativeOf } from '../../src/mesh/injection.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { controlPlanes } from '../../src/mesh/releases.ts';
import { createStore } from '../../src/mesh/store.ts';

type Json = Record<string, unknown>;

const SIDECAR = parseAllDocuments(
  readFileSync(new URL('../../policies/states/sidecar.yaml', import.meta.url), 'utf8'),
).map(document => document.toJS() as Json);
const WEBHOOK = SIDECAR.filter(({ kind }) => kind === 'MutatingWebhookConfiguration');

function istiod(tag = '1.31.1', env: Record<string, string> = {}, revision = 'default'): Json {
  const labels = { app: 'istiod', 'istio.io/rev': revision };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: revision === 'default' ? 'istiod' : `istiod-${revision}`, namespace: 'istio-system', labels },
    spec: {
      template: {
        metadata: { labels },
        spec: {
          containers: [
            {
              name: 'discovery',
              image: `istio/pilot:${tag}`,
              env: Object.entries(env).map(([name, value]) => ({ name, value })),
            },
          ],
        },
      },
    },
  };
}

const namespace = (name: string, labels: Json = {}): Json => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
});

const node = (name: string, kubeletVersion: string): Json => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  status: { nodeInfo: { kubeletVersion } },
});

const injector = (config: string, name = 'istio-sidecar-injector'): Json => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'istio-system' },
  data: { config },
});

function projected(object: Json) {
  const identity = identify(object);
  if (identity === undefined) throw new Error('no object');
  return project(identity.kind, identity.namespace, object);
}

/** A Mesh as files make one: complete where there is an istiod, Nodes where there is one, Namespaces never. */
function meshOf(...objects: readonly Json[]): Mesh {
  const store = createStore({
    complete: (kind, mesh) =>
      kind !== 'Namespace' &&
      [...mesh.referring('component/istiod')].length > 0 &&
      (kind !== 'Node' || [...mesh.list('Node')].length > 0),
  });
  for (const object of objects) store.put(projected(object));
  return store;
}

interface Pod {
  readonly namespace?: string;
  readonly labels?: Json;
  readonly annotations?: Json;
  readonly spec?: Json;
  readonly kind?: string;
  readonly created?: string;
}

function pods({ namespace: ns = 'shop', labels = {}, annotations = {}, spec = {}, kind = 'Deployment', created }: Pod) {
  const template = {
    metadata: { labels, annotations },
    spec: { containers: [{ name: 'app', image: 'example.test/app:1' }], ...spec },
  };
  const object =
    kind === 'Pod'
      ? { apiVersion: 'v1', kind, ...template }
      : { apiVersion: 'apps/v1', kind, metadata: {}, spec: { template } };
  return projected({
    ...object,
    metadata: { ...(object.metadata as Json), name: 'web', namespace: ns, creationTimestamp: created },
  }) as Workload;
}

const INJECTED = { 'istio-injection': 'enabled' };
const PROXYV2 = 'docker.io/istio/proxyv2:1.31.1';

describe('with the webhooks of the chart', () => {
  const injected = meshOf(
    istiod(),
    ...WEBHOOK,
    namespace('shop', INJECTED),
    namespace('plain'),
    namespace('kube-system', INJECTED),
  );
  const state = (pod: Pod, mesh = injected) => injectionOf(mesh, pods(pod)).state;

  test.each<[string, Pod, string]>([
    ['a pod of a labelled namespace', {}, 'sidecar'],
    ['a pod that opts out by label', { labels: { 'sidecar.istio.io/inject': 'false' } }, 'none'],
    ['a pod that opts out by annotation', { annotations: { 'sidecar.istio.io/inject': 'false' } }, 'none'],
    [
      'the label beats the annotation',
      { labels: { 'sidecar.istio.io/inject': 'true' }, annotations: { 'sidecar.istio.io/inject': 'false' } },
      'sidecar',
    ],
    ['the host network is never injected', { spec: { hostNetwork: true } }, 'none'],
    ['kube-system is never injected', { namespace: 'kube-system' }, 'none'],
    ['a namespace without labels', { namespace: 'plain' }, 'none'],
    [
      'a pod that asks in a plain namespace',
      { namespace: 'plain', labels: { 'sidecar.istio.io/inject': 'true' } },
      'sidecar',
    ],
    [
      'an annotation alone reaches no webhook',
      { namespace: 'plain', annotations: { 'sidecar.istio.io/inject': 'true' } },
      'none',
    ],
    ['a revision on the pod', { namespace: 'plain', labels: { 'istio.io/rev': 'default' } }, 'sidecar'],
    ['a revision that nobody has', { namespace: 'plain', labels: { 'istio.io/rev': 'canary' } }, 'none'],
    ['a namespace that nobody described', { namespace: 'elsewhere' }, 'unknown'],
    [
      'an opt-out where the namespace is not known',
      { namespace: 'elsewhere', labels: { 'sidecar.istio.io/inject': 'false' } },
      'none',
    ],
    ['the gateway template', { annotations: { 'inject.istio.io/templates': 'gateway' } }, 'gateway'],
    ['the sidecar template with another', { annotations: { 'inject.istio.io/templates': 'sidecar, mine' } }, 'sidecar'],
    ['proxyless gRPC', { annotations: { 'inject.istio.io/templates': 'grpc-agent' } }, 'custom'],
    ['a value on which releases differ', { annotations: { 'sidecar.istio.io/inject': 'no' } }, 'unknown'],
    ['a value that every release takes for yes', { annotations: { 'sidecar.istio.io/inject': 'yes' } }, 'sidecar'],
    ['a stored pod that was never injected', { kind: 'Pod', created: '2026-01-01T00:00:00Z' }, 'none'],
    ['a pod that is about to be created', { kind: 'Pod' }, 'sidecar'],
  ])('%s', (_, pod, expected) => {
    expect(state(pod)).toBe(expected);
  });

  test.each<[string, Pod, string]>([
    ['the status annotation', { annotations: { 'sidecar.istio.io/status': '{}' } }, 'sidecar'],
    [
      'a copied proxy with its init container',
      {
        spec: {
          containers: [{ name: 'istio-proxy', image: PROXYV2 }],
          initContainers: [{ name: 'istio-init', image: PROXYV2 }],
        },
      },
      'sidecar',
    ],
    ['the name alone', { spec: { containers: [{ name: 'istio-proxy', image: 'example.test/envoy:1' }] } }, 'none'],
    [
      'a gateway that is written out',
      { spec: { containers: [{ name: 'istio-proxy', image: PROXYV2, args: ['proxy', 'router'] }] } },
      'gateway',
    ],
    [
      'a waypoint of istiod',
      {
        labels: {
          'gateway.istio.io/managed': 'istio.io-mesh-controller',
          'sidecar.istio.io/inject': 'false',
        },
      },
      'gateway',
    ],
  ])('outside injection: %s', (_, pod, expected) => {
    const found = injectionOf(injected, pods({ namespace: 'plain', ...pod }));
    expect(found.state).toBe(expected);
    expect(found.standing).toBe(expected !== 'none');
  });

  test('istio-injection: disabled keeps pods out that ask for it', () => {
    const mesh = meshOf(istiod(), ...WEBHOOK, namespace('shop', { 'istio-injection': 'disabled' }));
    expect(state({ labels: { 'sidecar.istio.io/inject': 'true' } }, mesh)).toBe('none');
  });

  test('the injector ConfigMap decides by policy, selectors and default templates', () => {
    const withConfig = (config: string) => meshOf(istiod(), ...WEBHOOK, namespace('shop', INJECTED), injector(config));
    expect(state({}, withConfig('policy: disabled'))).toBe('none');
    expect(state({ labels: { 'sidecar.istio.io/inject': 'true' } }, withConfig('policy: disabled'))).toBe('sidecar');
    expect(state({}, withConfig('policy: sometimes'))).toBe('none');
    const never = 'policy: enabled\nneverInjectSelector: [{ matchLabels: { job: "true" } }, {}]';
    expect(state({ labels: { job: 'true' } }, withConfig(never))).toBe('none');
    expect(state({ labels: { job: 'false' } }, withConfig(never))).toBe('sidecar');
    const always = 'policy: disabled\nalwaysInjectSelector: [{ matchExpressions: [{ key: app, operator: Exists }] }]';
    expect(state({ labels: { app: 'a' } }, withConfig(always))).toBe('sidecar');
    expect(state({}, withConfig('policy: enabled\ndefaultTemplates: [mine]'))).toBe('custom');
    const alias = 'policy: enabled\naliases: { mine: [sidecar, more] }';
    const found = injectionOf(withConfig(alias), pods({ annotations: { 'inject.istio.io/templates': 'mine' } }));
    expect(found.templates).toEqual(['sidecar', 'more']);
    expect(state({}, withConfig('{ not: [yaml'))).toBe('sidecar');
  });
});

describe('whose proxy it is', () => {
  const tag = (revision: string, service: string): Json => ({
    ...(WEBHOOK[0] as Json),
    metadata: {
      name: `istio-revision-tag-${revision}`,
      labels: { 'istio.io/rev': revision, 'istio.io/tag': revision },
    },
    webhooks: [
      {
        name: 'rev.namespace.sidecar-injector.istio.io',
        clientConfig: { service: { name: service, namespace: 'istio-system', path: '/inject' } },
        rules: [{ operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] }],
        namespaceSelector: { matchExpressions: [{ key: 'istio.io/rev', operator: 'In', values: [revision] }] },
      },
    ],
  });
  const mesh = meshOf(
    istiod('1.30.4'),
    istiod('1.31.1', {}, 'canary'),
    ...WEBHOOK,
    tag('prod', 'istiod-canary'),
    namespace('shop', { 'istio.io/rev': 'prod' }),
    namespace('old', INJECTED),
  );

  test('a tag leads to the control plane of its webhook', () => {
    const found = injectionOf(mesh, pods({}));
    expect(found.state).toBe('sidecar');
    expect(found.controlPlanes.map(plane => plane.revision)).toEqual(['canary']);
    expect(found.certain).toBe(true);
  });

  test('the label of the default revision leads to the other one', () => {
    expect(injectionOf(mesh, pods({ namespace: 'old' })).controlPlanes.map(plane => plane.revision)).toEqual([
      'default',
    ]);
  });

  test('without any webhook in the state the selectors of the chart count, and it is no certainty', () => {
    const bare = meshOf(istiod(), namespace('shop', INJECTED), namespace('rev', { 'istio.io/rev': 'default' }));
    const found = injectionOf(bare, pods({}));
    expect([found.state, found.certain]).toEqual(['sidecar', false]);
    expect(injectionOf(bare, pods({ namespace: 'rev' })).state).toBe('sidecar');
    expect(injectionOf(bare, pods({ namespace: 'rev', labels: { 'sidecar.istio.io/inject': 'false' } })).state).toBe(
      'none',
    );
  });

  test('a webhook of another revision than any istiod here is still an injector', () => {
    const alone = meshOf(istiod(), tag('prod', 'istiod-gone'), namespace('shop', { 'istio.io/rev': 'prod' }));
    expect(injectionOf(alone, pods({})).state).toBe('sidecar');
  });

  test('without an istiod nobody knows', () => {
    expect(injectionOf(meshOf(namespace('shop', INJECTED)), pods({})).state).toBe('unknown');
  });
});

describe('native or not', () => {
  const PLAIN = pods({});
  const annotated = (value: string) => pods({ annotations: { 'sidecar.istio.io/nativeSidecar': value } });
  const decide = (workload: Workload, ...objects: readonly Json[]) => {
    const mesh = meshOf(...objects);
    const [plane] = mesh.fact(controlPlanes);
    if (plane === undefined) throw new Error('no istiod');
    return nativeOf(mesh, workload, plane);
  };
  const env = (value: string) => ({ ENABLE_NATIVE_SIDECARS: value });
  const NEW = node('new', 'v1.33.0');
  const OLD = node('old', 'v1.32.9-eks-1');

  test.each<[string, string, Record<string, string>, boolean | 'unknown']>([
    ['1.26 is off by default', '1.26.8', {}, false],
    ['1.26 reads a boolean', '1.26.8', env('TRUE'), true],
    ['1.26 does not know auto', '1.26.8', env('auto'), false],
    ['1.27 is auto by default', '1.27.0', {}, true],
    ['1.27 is turned off', '1.27.0', env('false'), false],
    ['1.27 does not know TRUE', '1.27.0', env('TRUE'), false],
    ['an empty value is off', '1.31.1', env(''), false],
    ['a pre-release has its minor', '1.27-alpha.abc', {}, true],
    ['an unknown release', 'latest', {}, 'unknown'],
    ['an unknown release that is told', 'latest', env('true'), true],
  ])('%s', (_, tag, settings, expected) => {
    expect(decide(PLAIN, istiod(tag, settings), NEW)).toBe(expected);
  });

  test('auto looks at every node', () => {
    expect(decide(PLAIN, istiod(), NEW, OLD)).toBe(false);
    expect(decide(PLAIN, istiod(), NEW, node('odd', 'unknown'))).toBe(false);
    expect(decide(PLAIN, istiod())).toBe('unknown');
    expect(decide(PLAIN, istiod(), NEW, node('silent', ''))).toBe('unknown');
    expect(decide(PLAIN, istiod('1.31.1', env('true')), OLD)).toBe(true);
  });

  test('auto looks at the node that the pod names, where it is known', () => {
    const on = (nodeName: string) => pods({ spec: { nodeName } });
    expect(decide(on('new'), istiod(), NEW, OLD)).toBe(true);
    expect(decide(on('old'), istiod(), NEW, OLD)).toBe(false);
    expect(decide(on('gone'), istiod(), NEW, OLD)).toBe(false);
    expect(decide(on('gone'), istiod(), NEW)).toBe(true);
    expect(decide(on('gone'), istiod())).toBe('unknown');
  });

  test('the annotation goes before the setting, and only "false" opts out', () => {
    expect(decide(annotated('false'), istiod('1.31.1', env('true')), NEW)).toBe(false);
    for (const value of ['true', 'False', 'no', '0']) {
      expect(decide(annotated(value), istiod('1.31.1', env('false')), NEW), value).toBe(true);
    }
    expect(decide(annotated(''), istiod('1.31.1', env('false')), NEW)).toBe(false);
  });

  test('a label of that name decides nothing', () => {
    const labelled = pods({ labels: { 'sidecar.istio.io/nativeSidecar': 'false' } });
    expect(decide(labelled, istiod(), NEW)).toBe(true);
  });

  test('each control plane decides for itself', () => {
    const mesh = meshOf(istiod('1.26.8'), istiod('1.31.1', {}, 'canary'), NEW);
    const decided = mesh.fact(controlPlanes).map(plane => [plane.revision, nativeByDefault(mesh, plane)]);
    expect(Object.fromEntries(decided)).toEqual({ default: false, canary: true });
  });
});

test.each([
  ['docker.io/istio/proxyv2:1.31.1', true],
  ['proxyv2', true],
  ['gcr.io/gke-release/asm/proxyv2:1.21.5-asm.7', true],
  ['registry.redhat.io/openshift-service-mesh/istio-proxyv2-rhel9@sha256:0123', true],
  ['cgr.dev/chainguard/istio-proxy:latest', true],
  ['registry.example.test/net/envoy-edge:v1.31.0', false],
  ['istio.example.test/team/cache:1', false],
  ['nginx', false],
  ['', false],
])('%s is an image of the proxy: %s', (image, expected) => {
  expect(isProxyImage(image)).toBe(expected);
});

test('what injection rests on is equal for equal meshes, and not for others', () => {
  const of = (...objects: readonly Json[]) => meshOf(...objects, ...WEBHOOK).fact(injectionSettings);
  expect(of(istiod(), injector('policy: enabled'))).toEqual(of(istiod(), injector('policy: enabled\n# more')));
  expect(of(istiod(), injector('policy: enabled'))).not.toEqual(of(istiod(), injector('policy: disabled')));
  expect(of(istiod('1.30.4'))).not.toEqual(of(istiod()));
});

// `affected` of the two policies about pools and versions, held against evaluating everything on meshes that hold nothing but what
// these two read: the general property test seldom meets their corners.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { inferencePoolEndpointPicker } from '../../policies/inferencepool-endpoint-picker/policy.ts';
import { staleApiVersion } from '../../policies/stale-api-version/policy.ts';
import { difference, identityOf } from '../../src/engine/difference.ts';
import type { Policy } from '../../src/engine/policy.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { refKey } from '../../src/kube/kind.ts';
import { identify, type Kind, project } from '../../src/mesh/kinds.ts';
import { overlay } from '../../src/mesh/overlay.ts';
import { controlPlanes } from '../../src/mesh/releases.ts';
import { createStore } from '../../src/mesh/store.ts';

const GATEWAY_API = 'gateway.networking.k8s.io';
const NEW = 'inference.networking.k8s.io';
const OLD = 'inference.networking.x-k8s.io';
const one = fc.constantFrom;
const namespaces = one('a', 'b');
const names = one('x', 'y');

interface Plane {
  readonly name: string;
  readonly revision: string;
  readonly flag: string;
  readonly release?: string;
}

/** The Deployment of an istiod. */
function plane({ name, revision, flag, release = '1.31.0' }: Plane) {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace: 'istio-system', labels: { app: 'istiod', 'istio.io/rev': revision } },
    spec: {
      template: {
        metadata: { labels: { app: 'istiod', 'istio.io/rev': revision } },
        spec: {
          containers: [
            {
              name: 'discovery',
              image: `pilot:${release}`,
              env: [
                { name: 'ENABLE_GATEWAY_API_INFERENCE_EXTENSION', value: flag },
                { name: 'REVISION', value: revision },
              ],
            },
          ],
        },
      },
    },
  };
}

const istiod = fc
  .record({
    release: one('1.27.1', '1.29.0', '1.31.0', 'latest'),
    name: one('istiod', 'istiod-2'),
    flag: one('true', 'false', ''),
    revision: one('default', 'canary'),
  })
  .map(plane);
const tag = one('default', 'canary').map(revision => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'MutatingWebhookConfiguration',
  metadata: { name: 'istio-revision-tag-stable', labels: { 'istio.io/rev': revision, 'istio.io/tag': 'stable' } },
  webhooks: [],
}));
const revisions = one({}, {}, { 'istio.io/rev': 'canary' }, { 'istio.io/rev': 'stable' });
const meshConfig = one('{}', 'discoverySelectors: [{matchLabels: {watched: "yes"}}]').map(mesh => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'istio', namespace: 'istio-system' },
  data: { mesh },
}));
const namespace = fc.tuple(namespaces, one({}, { watched: 'yes' }), revisions).map(([name, watched, revision]) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels: { ...watched, ...revision } },
}));
const crd = fc
  .tuple(
    one(
      ['inferencepools', 'InferencePool', NEW, ['v1']],
      ['inferencepools', 'InferencePool', OLD, ['v1alpha2']],
      ['backendtlspolicies', 'BackendTLSPolicy', GATEWAY_API, ['v1', 'v1alpha3']],
      ['tlsroutes', 'TLSRoute', GATEWAY_API, ['v1', 'v1alpha2']],
      ['listenersets', 'ListenerSet', GATEWAY_API, ['v1']],
    ),
    one('all', 'first', 'last'),
  )
  .map(([[plural, kind, group, versions], served]) => ({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { plural, kind },
      versions: (versions as readonly string[]).map((name, index, all) => ({
        name,
        served: served === 'all' || index === (served === 'first' ? 0 : all.length - 1),
      })),
    },
  }));
const gatewayClass = fc
  .tuple(one('istio', 'mine', 'other'), one('istio.io/gateway-controller', 'other.test/x'))
  .map(([name, controllerName]) => ({
    apiVersion: `${GATEWAY_API}/v1`,
    kind: 'GatewayClass',
    metadata: { name },
    spec: { controllerName },
  }));
const gateway = fc
  .tuple(namespaces, names, one('istio', 'istio', 'mine', 'other'), revisions)
  .map(([ns, name, gatewayClassName, labels]) => ({
    apiVersion: `${GATEWAY_API}/v1`,
    kind: 'Gateway',
    metadata: { name, namespace: ns, labels },
    spec: { gatewayClassName },
  }));
const backend = fc
  .record({ group: one(NEW, OLD, ''), name: names, namespace: one(undefined, 'a', 'b'), weight: one(0, 1) })
  .map(ref => ({ ...ref, kind: ref.group === '' ? 'Service' : 'InferencePool' }));
const route = fc
  .record({
    kind: one('HTTPRoute', 'GRPCRoute', 'TLSRoute'),
    ns: namespaces,
    name: names,
    parent: fc.oneof(
      fc.record({ name: names, namespace: namespaces }),
      fc.record({ group: one(''), kind: one('Service'), name: names }),
    ),
    backendRefs: fc.array(backend, { maxLength: 3 }),
    mirror: fc.option(backend, { nil: undefined }),
  })
  .map(({ kind, ns, name, parent, backendRefs, mirror }) => ({
    apiVersion: `${GATEWAY_API}/v1`,
    kind,
    metadata: { name, namespace: ns },
    spec: {
      parentRefs: [parent],
      rules: [
        {
          backendRefs,
          filters: mirror === undefined ? [] : [{ type: 'RequestMirror', requestMirror: { backendRef: mirror } }],
        },
      ],
    },
  }));
const pool = fc
  .record({ group: one(NEW, OLD), ns: namespaces, name: names, port: one(undefined, 9002, 8000), picker: fc.boolean() })
  .map(({ group, ns, name, port, picker }) => ({
    apiVersion: group === NEW ? `${NEW}/v1` : `${OLD}/v1alpha2`,
    kind: 'InferencePool',
    metadata: { name, namespace: ns },
    spec: picker ? { endpointPickerRef: { name: 'x', ...(port === undefined ? {} : { port: { number: port } }) } } : {},
  }));
const service = fc.tuple(namespaces, names, one(9002, 8000)).map(([ns, name, port]) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: ns },
  spec: { ports: [{ port }] },
}));
const tlsPolicy = fc.tuple(namespaces, names, one('', 'other.test')).map(([ns, name, group]) => ({
  apiVersion: `${GATEWAY_API}/v1alpha3`,
  kind: 'BackendTLSPolicy',
  metadata: { name, namespace: ns },
  spec: { targetRefs: [{ group, kind: 'Service', name }] },
}));
const grant = fc.tuple(namespaces, one(undefined, 'x', 'y'), one(OLD, NEW)).map(([ns, name, group]) => ({
  apiVersion: `${GATEWAY_API}/v1beta1`,
  kind: 'ReferenceGrant',
  metadata: { name: 'pools', namespace: ns },
  spec: { to: [{ group, kind: 'InferencePool', ...(name === undefined ? {} : { name }) }] },
}));
const referrer = fc
  .tuple(namespaces, names, one('InferenceObjective', 'InferenceModel'), one(undefined, OLD, NEW))
  .map(([ns, name, kind, group]) => ({
    apiVersion: `${OLD}/v1alpha2`,
    kind,
    metadata: { name, namespace: ns },
    spec: { poolRef: { name, ...(group === undefined ? {} : { group }) } },
  }));
const listenerSet = names.map(name => ({
  apiVersion: 'gateway.networking.x-k8s.io/v1alpha1',
  kind: 'XListenerSet',
  metadata: { name, namespace: 'a' },
}));
const object = fc.oneof(
  istiod,
  meshConfig,
  tag,
  namespace,
  crd,
  gatewayClass,
  gateway,
  route,
  route,
  pool,
  pool,
  service,
  tlsPolicy,
  grant,
  referrer,
  listenerSet,
);

const policies: readonly Policy[] = [staleApiVersion, inferencePoolEndpointPicker];
const everything = policies.map(
  (policy): Policy => ({
    ...policy,
    check: (subject, context) => policy.check(subject, context),
    *affected(_change, { after }) {
      for (const kind of policy.subjects) yield* after.list(kind as Kind);
    },
  }),
);
const PARTLY = new Set(['CustomResourceDefinition.apiextensions.k8s.io', 'GatewayClass.gateway.networking.k8s.io']);

function projected(value: unknown) {
  const id = identify(value);
  if (id === undefined) throw new Error('no object');
  return project(id.kind, id.namespace, value);
}

/** Two revisions of which one reads pools, a Gateway, a route and its pool: so much seldom comes together by chance. */
const REVISIONS = [
  plane({ name: 'istiod', revision: 'default', flag: 'true' }),
  plane({ name: 'istiod-2', revision: 'canary', flag: 'false' }),
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a' } },
  {
    apiVersion: `${GATEWAY_API}/v1`,
    kind: 'Gateway',
    metadata: { name: 'x', namespace: 'a' },
    spec: { gatewayClassName: 'istio' },
  },
  {
    apiVersion: `${GATEWAY_API}/v1`,
    kind: 'HTTPRoute',
    metadata: { name: 'x', namespace: 'b' },
    spec: {
      parentRefs: [{ name: 'x', namespace: 'a' }],
      rules: [{ backendRefs: [{ group: NEW, kind: 'InferencePool', name: 'x' }] }],
    },
  },
  {
    apiVersion: `${NEW}/v1`,
    kind: 'InferencePool',
    metadata: { name: 'x', namespace: 'b' },
    spec: { targetPorts: [{ number: 8000 }], endpointPickerRef: { name: 'x', port: { number: 9002 } } },
  },
];

test('every subject that a change concerns is named', async () => {
  let elsewhere = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(object, { minLength: 4, maxLength: 16 }),
      object,
      fc.boolean(),
      fc.boolean(),
      async (random, last, deleted, revisioned) => {
        const objects = revisioned ? [...random.slice(0, 4), ...REVISIONS] : random;
        const base = createStore({
          // as files have it: complete with an istiod, but for kinds of which there is none
          complete: (kind, mesh) =>
            kind !== 'Namespace' &&
            mesh.fact(controlPlanes).length > 0 &&
            (!PARTLY.has(kind) || [...mesh.list(kind as Kind)].length > 0),
        });
        for (const item of objects) base.put(projected(item));
        const target = deleted ? projected(objects[0]) : projected(last);
        const ref = { kind: target.kind, namespace: target.namespace, name: target.name };
        const before = base.object(ref);
        const change = {
          ref,
          ...(before === undefined ? {} : { before }),
          ...(deleted ? {} : { after: target }),
        };
        const after = overlay(
          base,
          [change],
          (kind, mesh) =>
            kind !== 'Namespace' &&
            mesh.fact(controlPlanes).length > 0 &&
            (!PARTLY.has(kind) || [...mesh.list(kind)].length > 0),
        );
        const ask = async (asked: readonly Policy[]) => {
          const answer = await difference({
            policies: asked,
            settings: DEFAULT_SETTINGS,
            before: base,
            after,
            changes: [change],
            stage: 'validate',
            now: 0,
          });
          return answer.findings
            .map(finding => `${identityOf(finding.policy, finding.subject, finding)} ${finding.action}`)
            .sort();
        };
        const found = await ask(policies);
        elsewhere += found.filter(text => !text.includes(refKey(ref))).length;
        expect(found).toEqual(await ask(everything));
      },
    ),
    { numRuns: Number(process.env['AFFECTED_RUNS'] ?? 1500) },
  );
  // a run that never meets a finding elsewhere proves nothing
  expect(elsewhere).toBeGreaterThan(20);
}, 120_000);

import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import jsonPatch, { type Operation } from 'fast-json-patch';
import { describe, expect, test } from 'vitest';
import { fateAt } from '../../policies/stale-api-version/fate.ts';
import { staleApiVersion } from '../../policies/stale-api-version/policy.ts';
import { rewriteOf } from '../../policies/stale-api-version/rewrite.ts';
import { readVersions } from '../../policies/stale-api-version/schema.ts';
import { compareVersions, entryOf, type KindEntry, successorOf } from '../../policies/stale-api-version/table.ts';
import { VERSIONS } from '../../policies/stale-api-version/versions.gen.ts';
import { PAUSE, type Stage } from '../../src/engine/policy.ts';
import { splitApiVersion } from '../../src/kube/kind.ts';
import { identify, isKind, KINDS, project } from '../../src/mesh/kinds.ts';
import type { Declared } from '../../src/mesh/mesh.ts';
import { parseRelease } from '../../src/mesh/releases.ts';
import { createStore } from '../../src/mesh/store.ts';

const source = readFileSync(new URL('../../policies/stale-api-version/versions.yaml', import.meta.url), 'utf8');

function entry(kind: string): KindEntry {
  const found = entryOf(kind);
  if (found === undefined) throw new Error(`no ${kind} in the table`);
  return found;
}

function fate(kind: string, istio: string, served?: readonly string[], written?: string) {
  const release = parseRelease(istio);
  if (release === undefined) throw new Error(`no release: ${istio}`);
  return fateAt(entry(kind), release, served, written);
}

const TLS_POLICY = 'BackendTLSPolicy.gateway.networking.k8s.io';
const TLS_ROUTE = 'TLSRoute.gateway.networking.k8s.io';
const OLD_POOL = 'InferencePool.inference.networking.x-k8s.io';
const NEW_POOL = 'InferencePool.inference.networking.k8s.io';

describe('the table', () => {
  test('is what versions.yaml says: run node scripts/versions.ts where it is not', () => {
    expect(VERSIONS).toEqual(readVersions(source));
  });

  test('calls each kind by the plural that the Mesh knows', () => {
    for (const { kind, plural } of VERSIONS.kinds) if (isKind(kind)) expect(KINDS[kind].plural, kind).toBe(plural);
  });

  test('has the versions of each kind from old to new, and reads none that does not exist', () => {
    for (const { kind, versions, reads } of VERSIONS.kinds) {
      const names = versions.map(({ name }) => name);
      expect([...names].sort(compareVersions), kind).toEqual(names);
      for (const { version } of reads ?? []) expect(names, kind).toContain(version);
    }
  });

  test('a text of another shape is refused with the place', () => {
    expect(() => readVersions('kinds: []')).toThrow(/removed/);
    expect(() => readVersions(source.replace('plural: tlsroutes', 'plural: TLSRoutes'))).toThrow(/plural/);
  });

  test('every early version has something to write instead', () => {
    for (const one of VERSIONS.kinds) {
      for (const { name, early } of one.versions) {
        if (early === true) expect(successorOf(one, name), `${one.kind} ${name}`).toBeDefined();
      }
    }
  });
});

describe('what becomes of an object', () => {
  test.each([
    [OLD_POOL, '1.27.1', ['v1alpha2'], 'v1alpha2', 'read'],
    [OLD_POOL, '1.28.0', ['v1alpha2'], 'v1alpha2', 'not-read'],
    [OLD_POOL, '1.31', undefined, undefined, 'not-read'],
    [NEW_POOL, '1.27.9', ['v1'], 'v1', 'not-yet'],
    [NEW_POOL, '1.28-alpha.1', ['v1'], 'v1', 'read'],
    [TLS_POLICY, '1.27.1', ['v1alpha3'], 'v1alpha3', 'read'],
    [TLS_POLICY, '1.28.1', ['v1alpha3'], 'v1alpha3', 'needs-crd'],
    [TLS_POLICY, '1.28.1', ['v1', 'v1alpha3'], 'v1alpha3', 'read'],
    [TLS_POLICY, '1.28.1', undefined, 'v1alpha3', 'by-conversion'],
    [TLS_POLICY, '1.27.1', ['v1'], 'v1', 'not-yet'],
    [TLS_POLICY, '1.28.1', ['v1alpha3'], undefined, 'needs-crd'],
    [TLS_ROUTE, '1.29.8', ['v1'], 'v1', 'not-yet'],
    [TLS_ROUTE, '1.29.8', ['v1', 'v1alpha2'], 'v1', 'read'],
    [TLS_ROUTE, '1.30.0', ['v1alpha2', 'v1alpha3'], 'v1alpha3', 'needs-crd'],
    ['TCPRoute.gateway.networking.k8s.io', '1.30.5', ['v1alpha2'], 'v1alpha2', 'read'],
    ['TCPRoute.gateway.networking.k8s.io', '1.31.0', ['v1alpha2'], 'v1alpha2', 'needs-crd'],
    ['ReferenceGrant.gateway.networking.k8s.io', '1.31.0', undefined, 'v1', 'read'],
    ['HTTPRoute.gateway.networking.k8s.io', '1.31.0', undefined, 'v1beta1', 'read'],
    ['VirtualService.networking.istio.io', '1.31.0', undefined, 'v1alpha3', 'read'],
    ['UDPRoute.gateway.networking.k8s.io', '1.31.0', undefined, 'v1alpha2', 'never'],
  ] as const)('%s on Istio %s, CRD %s, written %s: %s', (kind, istio, served, written, expected) => {
    expect(fate(kind, istio, served, written)).toBe(expected);
  });
});

function reports(
  object: unknown,
  { stage = 'files', declared, state = [] }: { stage?: Stage; declared?: Declared; state?: readonly unknown[] } = {},
) {
  const store = createStore({ complete: () => false, ...(declared === undefined ? {} : { declared }) });
  for (const one of [...state, object]) {
    const id = identify(one);
    if (id !== undefined) store.put(project(id.kind, id.namespace, one));
  }
  const id = identify(object);
  const subject = id === undefined ? undefined : store.object(id);
  if (id === undefined || subject === undefined) throw new Error('no object');
  const request =
    stage === 'audit'
      ? {}
      : { request: { operation: 'CREATE' as const, version: id.version, earlierVersions: [] as const } };
  const context = { mesh: store, options: { floor: {} }, stage, skipped() {}, ...request };
  return [...staleApiVersion.check(subject, context)].filter(report => report !== PAUSE);
}

const oldPool = {
  apiVersion: 'inference.networking.x-k8s.io/v1alpha2',
  kind: 'InferencePool',
  metadata: { name: 'chat', namespace: 'llm' },
  spec: {
    selector: { app: 'chat' },
    targetPortNumber: 8000,
    extensionRef: { name: 'picker', failureMode: 'FailOpen' },
  },
};
const tlsPolicy = {
  apiVersion: 'gateway.networking.k8s.io/v1alpha3',
  kind: 'BackendTLSPolicy',
  metadata: { name: 'upstream', namespace: 'shop' },
  spec: { targetRefs: [{ group: '', kind: 'Service', name: 'upstream' }], validation: { hostname: 'a.test' } },
};

describe('without a cluster', () => {
  test('a release given by hand is enough to refuse an old pool', () => {
    const [found] = reports(oldPool, { declared: { controlPlanes: [], istio: '1.29' } });
    expect(found).toMatchObject({ finding: 'version-not-read', certain: true });
  });

  test('without a release nothing is certain', () => {
    for (const object of [oldPool, tlsPolicy]) {
      const found = reports(object);
      expect(found).toHaveLength(1);
      expect(found[0]?.certain).toBe(false);
      expect(found[0]?.because).toMatch(/not known/);
    }
  });

  test('a version that no release ever had is doubted, a newer one is not', () => {
    const policy = (version: string) => ({
      apiVersion: `security.istio.io/${version}`,
      kind: 'AuthorizationPolicy',
      metadata: { name: 'a', namespace: 'shop' },
    });
    expect(reports(policy('v1alpha1')).map(({ finding }) => finding)).toEqual(['version-not-served']);
    expect(reports(policy('v2'))).toEqual([]);
    expect(reports(policy('v1beta1'))).toEqual([]);
  });

  test('in an audit no version is known: an old pool is stale by its group, a converted policy is not', () => {
    const declared = { controlPlanes: [], istio: '1.31' };
    expect(reports(oldPool, { stage: 'audit', declared }).map(({ finding }) => finding)).toEqual(['version-not-read']);
    expect(reports(tlsPolicy, { stage: 'audit', declared })).toEqual([]);
  });
});

test('two istiods of which one still reads it: no certainty', () => {
  const plane = (revision: string, version: string) => ({
    revision,
    version,
    rootNamespace: 'istio-system',
    tags: [],
    env: {},
  });
  const declared = { controlPlanes: [plane('old', '1.27.1'), plane('new', '1.31.0')] };
  expect(reports(oldPool, { declared })[0]).toMatchObject({ finding: 'version-not-read', certain: false });
  const labelled = { ...oldPool, metadata: { ...oldPool.metadata, labels: { 'istio.io/rev': 'old' } } };
  expect(reports(labelled, { declared })).toEqual([]);
});

describe('rewriting', () => {
  function rewritten(object: unknown): unknown {
    const found = rewriteOf(object);
    return found === undefined
      ? undefined
      : jsonPatch.applyPatch(structuredClone(object), found.operations as Operation[], true).newDocument;
  }

  test('an alpha pool becomes a v1 pool, with the port that used to be inferred', () => {
    expect(rewritten(oldPool)).toEqual({
      apiVersion: 'inference.networking.k8s.io/v1',
      kind: 'InferencePool',
      metadata: { name: 'chat', namespace: 'llm' },
      spec: {
        selector: { matchLabels: { app: 'chat' } },
        targetPorts: [{ number: 8000 }],
        endpointPickerRef: { name: 'picker', failureMode: 'FailOpen', port: { number: 9002 } },
      },
    });
  });

  test('a port that is written stays, whatever the field was called', () => {
    for (const field of ['portNumber', 'targetPortNumber', 'port']) {
      const object = { ...oldPool, spec: { ...oldPool.spec, extensionRef: { name: 'picker', [field]: 7000 } } };
      expect(rewritten(object)).toMatchObject({
        spec: { endpointPickerRef: { name: 'picker', port: { number: 7000 } } },
      });
    }
  });

  test('a picker of another kind gets no port', () => {
    const object = { ...oldPool, spec: { ...oldPool.spec, extensionRef: { kind: 'Picker', name: 'picker' } } };
    expect(rewritten(object)).toMatchObject({ spec: { endpointPickerRef: { kind: 'Picker', name: 'picker' } } });
    expect(JSON.stringify(rewritten(object))).not.toContain('9002');
  });

  test('a v1 pool of an early shape is repaired, a good one left alone', () => {
    const early = {
      apiVersion: 'inference.networking.k8s.io/v1',
      kind: 'InferencePool',
      spec: {
        selector: { matchLabels: { app: 'a' } },
        targetPorts: [{ number: 1 }],
        endpointPickerRef: { name: 'p', portNumber: 9002 },
      },
    };
    const good = rewritten(early);
    expect(good).toMatchObject({ spec: { endpointPickerRef: { name: 'p', port: { number: 9002 } } } });
    expect(rewriteOf(good)).toBeUndefined();
  });

  test('a BackendTLSPolicy v1alpha2 has its fields renamed', () => {
    expect(
      rewritten({
        apiVersion: 'gateway.networking.k8s.io/v1alpha2',
        kind: 'BackendTLSPolicy',
        metadata: { namespace: 'shop', name: 'a' },
        spec: {
          targetRef: { group: '', kind: 'Service', name: 'a', namespace: 'shop' },
          tls: { hostname: 'a.test', caCertRefs: [{ group: '', kind: 'ConfigMap', name: 'ca' }] },
        },
      }),
    ).toMatchObject({
      apiVersion: 'gateway.networking.k8s.io/v1',
      spec: {
        targetRefs: [{ group: '', kind: 'Service', name: 'a' }],
        validation: { hostname: 'a.test', caCertificateRefs: [{ group: '', kind: 'ConfigMap', name: 'ca' }] },
      },
    });
  });

  test('what belongs in another namespace, or becomes another kind, is left to a person', () => {
    const foreign = { group: '', kind: 'Service', name: 'a', namespace: 'other' };
    expect(
      rewriteOf({ ...tlsPolicy, apiVersion: 'gateway.networking.k8s.io/v1alpha2', spec: { targetRef: foreign } }),
    ).toBeUndefined();
    expect(rewriteOf({ apiVersion: 'inference.networking.x-k8s.io/v1alpha2', kind: 'InferenceModel' })).toBeUndefined();
    expect(rewriteOf({ apiVersion: 'apps/v1', kind: 'Deployment' })).toBeUndefined();
  });

  test('never throws, its operations apply, and what it wrote needs no rewriting', () => {
    const specs = fc.dictionary(
      fc.constantFrom(
        'selector',
        'targetPortNumber',
        'targetPorts',
        'extensionRef',
        'endpointPickerRef',
        'targetRef',
        'tls',
        'validation',
      ),
      fc.oneof(
        fc.jsonValue({ maxDepth: 2 }),
        fc.dictionary(
          fc.constantFrom(
            'name',
            'kind',
            'port',
            'portNumber',
            'targetPortNumber',
            'namespace',
            'matchLabels',
            'caCertRefs',
          ),
          fc.oneof(
            fc.integer(),
            fc.string(),
            fc.constant(null),
            fc.dictionary(fc.constantFrom('number', 'a'), fc.integer()),
          ),
        ),
      ),
    );
    const kinds = fc.constantFrom(
      'inference.networking.x-k8s.io/v1alpha2 InferencePool',
      'inference.networking.k8s.io/v1 InferencePool',
      'gateway.networking.k8s.io/v1alpha2 BackendTLSPolicy',
    );
    fc.assert(
      fc.property(kinds, specs, (type, spec) => {
        const [apiVersion = '', kind = ''] = type.split(' ');
        const after = rewritten({ apiVersion, kind, metadata: { name: 'a' }, spec });
        if (after === undefined) return;
        expect(splitApiVersion((after as { apiVersion: string }).apiVersion).version).toBe('v1');
        // every rewriting settles
        expect(rewriteOf(rewritten(after) ?? after)).toBeUndefined();
      }),
      { numRuns: 3000 },
    );
  });
});

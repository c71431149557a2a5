// Objects that anybody may write into a namespace of his own, each as large as the API server takes it: what is made of them must not
// hold the event loop. Each of these took seconds, or all memory.
import { expect, test } from 'vitest';
import { patchesRegularOnly } from '../../policies/native-sidecar/rules.ts';
import { releaseSkew } from '../../policies/release-skew/policy.ts';
import { routeNeedsWaypoint } from '../../policies/route-needs-waypoint/policy.ts';
import { parametersOf } from '../../policies/waypoint-availability/parameters.ts';
import { DEFAULT_CONFIG } from '../../src/config/default.ts';
import type { Policy } from '../../src/engine/policy.ts';
import { fingerprint, type JsonObject } from '../../src/kube/json.ts';
import { nearest } from '../../src/kube/near.ts';
import { type ConfigMap, configMap } from '../../src/mesh/kinds/cluster.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { meshOf } from '../support/cases.ts';

/** Milliseconds: some tens on an idle machine, and a tenth of what the slowest of these took before. */
const SOON = 1000;

function quickly<T>(work: () => T): T {
  const started = performance.now();
  const result = work();
  expect(performance.now() - started).toBeLessThan(SOON);
  return result;
}

const keys = (count: number): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, '']));

/** What a policy finds of the last of the objects, pauses left out. */
function found(policy: Policy, ...objects: readonly JsonObject[]): readonly string[] {
  const mesh = meshOf(objects, DEFAULT_CONFIG);
  const identity = identify(objects.at(-1));
  const subject = identity === undefined ? undefined : mesh.object(identity);
  if (subject === undefined) throw new Error('no object');
  const context = { mesh, options: {}, stage: 'validate', skipped() {} } as const;
  return quickly(() => [...policy.check(subject, context)]).flatMap(one =>
    typeof one === 'object' ? one.finding : [],
  );
}

const ISTIOD = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'istiod', namespace: 'istio-system', labels: { app: 'istiod' } },
  spec: {
    template: {
      metadata: { labels: { app: 'istiod' } },
      spec: { containers: [{ name: 'discovery', image: 'docker.io/istio/pilot:1.30.1' }] },
    },
  },
};

test('a ConfigMap with a hundred thousand keys is kept, and read as parameters of a Gateway', () => {
  const object = { metadata: { name: 'options', namespace: 'shop' }, data: keys(100_000) };
  const stored = quickly(() => project('ConfigMap', 'shop', object)) as ConfigMap;
  expect(Object.keys(stored.data).length).toBe(100_000);
  expect(quickly(() => parametersOf(stored)).faults.length).toBe(20);
});

test('keys that istiod does not know hide no mistake in those that it knows', () => {
  const data = { ...keys(1000), deployment: 'spec: { replica: 2 }' };
  const { faults } = parametersOf(configMap('ConfigMap', 'shop', { metadata: { name: 'options' }, data }));
  expect(faults.map(({ path }) => path)).toContain('deployment.spec.replica');
});

test('a word is not held against others that are much longer or shorter', () => {
  expect(nearest('deploymen', ['service', 'deployment'])).toBe('deployment');
  expect(nearest('ab', ['abcd', 'abc'])).toBe('abc');
  expect(nearest('abcdefghi', ['abcdef', 'abcde'])).toBe('abcdef');
});

test('a fingerprint of two hundred thousand keys tells them apart', () => {
  const spec = { selector: keys(200_000) };
  const other = { selector: { ...keys(200_000), k7: 'x' } };
  expect(quickly(() => fingerprint(spec))).not.toBe(quickly(() => fingerprint(other)));
});

test('a template full of comments that do not end is looked through once', () => {
  for (const comment of ['{{/*', '{{/**/', '{{/* */ ']) {
    expect(quickly(() => patchesRegularOnly(comment.repeat(20_000)))).toBe(false);
  }
  const patch = 'spec:\n  containers:\n  - name: istio-proxy\n';
  expect(patchesRegularOnly(`{{- /* initContainers: istio-proxy */ -}}\n${patch}{{/* image: auto */}}`)).toBe(true);
});

test('names of templates and their aliases do not multiply', () => {
  const many = (name: string) => Array.from({ length: 20_000 }, () => name);
  const config = {
    defaultTemplates: many('a'),
    aliases: { a: many('b') },
    templates: { b: '{{ .ProxyInitImage }}' },
  };
  const injector = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'istio-sidecar-injector', namespace: 'istio-system' },
    data: { config: JSON.stringify(config), values: '{}' },
  };
  expect(found(releaseSkew, injector, ISTIOD)).toContain('injector-ahead');
});

test('a Telemetry with tens of thousands of providers is told about twenty of them', () => {
  const mesh = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'istio', namespace: 'istio-system' },
    data: { mesh: 'extensionProviders: []' },
  };
  const providers = Array.from({ length: 60_000 }, (_, index) => ({ name: `p${index}` }));
  const telemetry = {
    apiVersion: 'telemetry.istio.io/v1',
    kind: 'Telemetry',
    metadata: { name: 'all', namespace: 'shop' },
    spec: { tracing: [{ providers }] },
  };
  const all = found(routeNeedsWaypoint, ISTIOD, mesh, telemetry);
  expect(all.filter(finding => finding === 'provider-unknown').length).toBe(20);
});

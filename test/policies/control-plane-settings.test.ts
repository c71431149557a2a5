import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { controlPlaneSettings } from '../../policies/control-plane-settings/policy.ts';
import { readSettings } from '../../policies/control-plane-settings/schema.ts';
import { SETTINGS } from '../../policies/control-plane-settings/settings.gen.ts';
import { closingHub, envRow, likelyEnv, likelyMeshKey } from '../../policies/control-plane-settings/table.ts';
import { CHART_NAMES, VALUES_PATH, valuesManifest } from '../../policies/control-plane-settings/values.ts';
import { difference } from '../../src/engine/difference.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { resolve } from '../../src/kube/patch.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { createStore } from '../../src/mesh/store.ts';

const table = readSettings(
  readFileSync(new URL('../../policies/control-plane-settings/settings.yaml', import.meta.url), 'utf8'),
);

describe('the table of settings', () => {
  test('is what settings.gen.ts was made of', () => expect(SETTINGS).toEqual(table));
  test('has every variable once, with a source, and no boolean without a default', () => {
    const names = table.env.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
    for (const row of table.env) {
      expect(row.source, row.name).not.toBe('');
      if (row.type === 'bool' && row.removed === undefined) expect(row.default, row.name).toBeDefined();
      if (row.since !== undefined && row.removed !== undefined) expect(row.since < row.removed, row.name).toBe(true);
    }
  });
  test('no variable that is read is taken for a slip of another', () => {
    for (const name of [...table.env.map(row => row.name), ...table.otherEnv])
      expect(likelyEnv(name), name).toBeUndefined();
    for (const key of table.meshConfig.keys) expect(likelyMeshKey(key), key).toBeUndefined();
  });
  test('defaults are in the order of their releases', () => {
    for (const { key, defaults = [] } of table.values) {
      const releases = defaults.map(({ from }) => from);
      expect(releases, key).toEqual([...releases].sort());
    }
  });
});

describe('names', () => {
  test.each([
    ['SUPPORT_GATEWAY_API_INFERENCE_EXTENSION', 'ENABLE_GATEWAY_API_INFERENCE_EXTENSION'],
    ['PILOT_ENABLE_NATIVE_SIDECARS', 'ENABLE_NATIVE_SIDECARS'],
    ['PILOT_ENABLE_AMBEINT', 'PILOT_ENABLE_AMBIENT'],
    ['PILOT_IGNORE_RESOURCE', 'PILOT_IGNORE_RESOURCES'],
  ])('%s is likely %s', (name, meant) => expect(likelyEnv(name)).toBe(meant));
  test.each(['HTTP_PROXY', 'COMPANY_REGION', 'GODEBUG', 'PILOT_SOMETHING_NEW', 'REVISIONS'])(
    '%s may be anything',
    name => expect(likelyEnv(name)).toBeUndefined(),
  );
  test.each([
    ['discoverySelector', 'discoverySelectors'],
    ['trustdomain', 'trustDomain'],
    ['extensionproviders', 'extensionProviders'],
  ])('meshConfig.%s is likely %s', (name, meant) => expect(likelyMeshKey(name)).toBe(meant));
  test.each(['root_namespace', 'mesh_mtls', 'somethingElse', 'ca'])('meshConfig.%s stays silent', name =>
    expect(likelyMeshKey(name)).toBeUndefined(),
  );
  test('a hub is one with its own path only', () => {
    expect(envRow('PILOT_ENABLE_AMBIENT')?.type).toBe('bool');
    expect(closingHub('gcr.io/istio-release/pilot:1.28.0')?.hub).toBe('gcr.io/istio-release');
    expect(closingHub('registry.istio.io/release')?.hub).toBe('registry.istio.io');
    expect(closingHub('gcr.io/istio-releases/pilot')).toBeUndefined();
    expect(closingHub('docker.io/istio/pilot:1.31.1')).toBeUndefined();
  });
});

describe('values of charts', () => {
  async function found(chart: string, values: unknown, istio = '1.31', quoted?: (path: string) => boolean) {
    const manifest = valuesManifest(chart, values, quoted);
    const identity = identify(manifest);
    if (identity === undefined) return expect.fail(chart);
    const subject = project(identity.kind, identity.namespace, manifest);
    const store = createStore({ complete: () => false, declared: { controlPlanes: [], istio } });
    const after = createStore({ complete: () => false, declared: { controlPlanes: [], istio } });
    after.put(subject);
    const answer = await difference({
      policies: [controlPlaneSettings],
      settings: DEFAULT_SETTINGS,
      before: store,
      after,
      changes: [{ ref: subject, after: subject }],
      stage: 'files',
      now: 0,
    });
    return answer.findings.map(({ finding, action, path = '' }) => {
      expect(path.startsWith(`${VALUES_PATH}/`)).toBe(true);
      expect(resolve(manifest, path), path).toBeDefined();
      return `${finding} ${action} ${path.slice(VALUES_PATH.length)}`;
    });
  }
  test("of no chart of ours are nobody's", () => {
    expect(valuesManifest('kiali', {})).toBeUndefined();
    expect(CHART_NAMES).toContain('istio-cni');
  });
  test('have booleans where helm makes them of words without quotes, and texts in quotes', async () => {
    const env = { PILOT_ENABLE_AMBIENT: 'yes', XDS_AUTH: 'oN', PILOT_HTTP10: 'N' };
    const wrong = 'not-a-boolean warn /env/XDS_AUTH';
    expect(await found('istiod', { env }, '1.31', () => false)).toEqual([wrong]);
    expect(await found('istiod', { env })).toEqual([
      'not-a-boolean warn /env/PILOT_ENABLE_AMBIENT',
      wrong,
      'not-a-boolean warn /env/PILOT_HTTP10',
    ]);
  });
  test('are found within those of an umbrella chart, and below the defaults that helm prints', async () => {
    const env = { PILOT_ENABLE_AMBIENT: 'yes' };
    const defaults = { env: { PILOT_HTTP10: 'on' } };
    expect((await found('istiod', { istiod: { env }, _internal_defaults_do_not_set: defaults })).toSorted()).toEqual([
      'not-a-boolean warn /_internal_defaults_do_not_set/env/PILOT_HTTP10',
      'not-a-boolean warn /istiod/env/PILOT_ENABLE_AMBIENT',
    ]);
    expect(await found('ztunnel', { istiod: { env } })).toEqual([]);
    const metadata = { METRIC_ROTATION_INTERVAL: '5s' };
    expect(await found('istiod', { meshConfig: { defaultConfig: { proxyMetadata: metadata } } })).toEqual([
      'setting-removed warn /meshConfig/defaultConfig/proxyMetadata/METRIC_ROTATION_INTERVAL',
    ]);
  });
  test('are judged where they stand, with the path into the file', async () => {
    expect(await found('istiod', { pilot: { env: { PILOT_ENABLE_AMBIENT: 'on-please' } } })).toEqual([
      'not-a-boolean warn /pilot/env/PILOT_ENABLE_AMBIENT',
    ]);
    expect(await found('istio-discovery', { resourceScope: 'cluster', meshConfig: { discoverySelector: [] } })).toEqual(
      ['wrong-level deny /resourceScope', 'setting-unknown warn /meshConfig/discoverySelector'],
    );
    expect(await found('istiod', { global: { hub: 'gcr.io/istio-release', tag: '1.29.0' } })).toEqual([
      'image-hub warn /global/hub',
    ]);
    expect(await found('istiod', { env: { METRIC_ROTATION_INTERVAL: 10 } })).toEqual([
      'setting-removed warn /env/METRIC_ROTATION_INTERVAL',
    ]);
  });
  test('that are right stay silent', async () => {
    expect(await found('ztunnel', { global: { resourceScope: 'cluster' } })).toEqual([]);
    expect(await found('cni', { global: { resourceScope: 'cluster' }, ambient: { enabled: true } })).toEqual([]);
    const words = { PILOT_ENABLE_AMBIENT: true, ENABLE_DEBUG_ON_HTTP: 'yes' };
    expect(await found('istiod', { env: words }, '1.31', () => false)).toEqual([]);
    expect(await found('istiod', null)).toEqual([]);
    expect(await found('istiod', { env: { METRIC_ROTATION_INTERVAL: 10 }, global: { tag: '1.27.1' } })).toEqual([]);
  });
});

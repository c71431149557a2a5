import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { isLabelValue, isMistaken, knowledgeOf } from '../../policies/mesh-labels/keys.ts';
import { LABELS } from '../../policies/mesh-labels/labels.gen.ts';
import { readLabels } from '../../policies/mesh-labels/schema.ts';
import { distance } from '../../src/kube/distance.ts';

const table = readLabels(readFileSync(new URL('../../policies/mesh-labels/labels.yaml', import.meta.url), 'utf8'));

describe('the table of keys', () => {
  test('is what labels.gen.ts was made of', () => expect(LABELS).toEqual(table));
  test('has every key once, and every value with what happens to others', () => {
    for (const rows of [table.labels, table.annotations]) {
      const keys = rows.map(({ key }) => key);
      expect(keys).toEqual([...new Set(keys)]);
    }
    for (const row of [...table.labels, ...table.annotations]) {
      if (row.values !== undefined || row.bool !== undefined) expect(row.ignored, row.key).toBeDefined();
      if (row.strict !== undefined) expect(row.source, row.key).toBeDefined();
      for (const value of [...(row.mistaken ?? []), ...(row.foreign ?? [])])
        expect(row.values, row.key).not.toContain(value);
    }
  });
  test('no known key is taken for a slip of another', () => {
    for (const key of [...table.known, ...table.labels.map(row => row.key), ...table.annotations.map(row => row.key)])
      expect(knowledgeOf(key).likely, key).toBeUndefined();
  });
});

describe('a key that is not known', () => {
  test.each([
    ['istio.io/dataplane-mod', 'istio.io/dataplane-mode'],
    ['istio.io/dataplane_mode', 'istio.io/dataplane-mode'],
    ['istio.io/dataPlane-mode', 'istio.io/dataplane-mode'],
    ['isito.io/dataplane-mode', 'istio.io/dataplane-mode'],
    ['istio.io/use-waypiont', 'istio.io/use-waypoint'],
    ['networking.istio.io/use-waypoint', 'istio.io/use-waypoint'],
    ['istio.io/waypoint', 'istio.io/use-waypoint'],
    ['istio.io/inject', 'sidecar.istio.io/inject'],
    ['sidecar.istio.io/injec', 'sidecar.istio.io/inject'],
    ['istio.io/injection', 'istio-injection'],
    ['istio-injecton', 'istio-injection'],
    ['istio.io/rve', 'istio.io/rev'],
    ['istio.io/revision', 'istio.io/rev'],
    ['traffic.sidecar.istio.io/excludeOutboundPort', 'traffic.sidecar.istio.io/excludeOutboundPorts'],
  ])('%s is likely %s', (key, meant) => expect(knowledgeOf(key).likely).toBe(meant));
  test.each([
    'istio.io/ref',
    'istio.io/key',
    'istio.io/use-waypoint-weight',
    'istio.io/dataplane-mode-policy',
    'istio.io/rev-tag',
    'sidecar.istio.io/native-side',
    'serving.knative.dev/rev',
    'app.kubernetes.io/part-of',
    'istio.kubeflow.org/use-waypoint',
    'maistra.io/member-of',
    'topology.kubernetes.io/region',
    'app',
    'version',
    'kiali.io/injection',
    '__proto__',
    'constructor',
  ])('%s stays silent', key => expect(knowledgeOf(key)).toEqual({}));
});

describe('values', () => {
  const row = (key: string) => {
    const found = knowledgeOf(key);
    return found.label ?? found.annotation ?? expect.fail(key);
  };
  test.each([
    ['istio.io/dataplane-mode', 'Ambient', true],
    ['istio.io/dataplane-mode', 'ambeint', true],
    ['istio.io/dataplane-mode', 'ambient', false],
    ['istio.io/dataplane-mode', 'Kmesh', false],
    ['istio.io/dataplane-mode', 'something-else', false],
    ['istio-injection', 'unmanaged', true],
    ['istio.io/ingress-use-waypoint', 'T', false],
    ['istio.io/ingress-use-waypoint', 'yes', true],
    ['networking.istio.io/traffic-distribution', 'preferclose', false],
    ['networking.istio.io/traffic-distribution', 'PreferClosest', true],
    ['istio.io/use-waypoint', 'anything', false],
  ])('%s: %s', (key, value, mistaken) => expect(isMistaken(row(key), value)).toBe(mistaken));
  test('of labels are short words', () => {
    for (const value of ['', 'a', 'a.b-c_d', 'x'.repeat(63)]) expect(isLabelValue(value)).toBe(true);
    for (const value of ['a/b', '-a', 'a-', '#none', 'x'.repeat(64), 'a b']) expect(isLabelValue(value)).toBe(false);
  });
});

describe('distance', () => {
  test.each([
    ['abc', 'abc', 0],
    ['abc', 'abd', 1],
    ['abc', 'acb', 1],
    ['abc', 'abcd', 1],
    ['ab', 'ba', 1],
    ['kitten', 'sitting', 3],
    ['', 'xy', 2],
  ])('%s to %s is %i', (a, b, expected) => {
    expect(distance(a, b, 5)).toBe(expected);
    expect(distance(b, a, 5)).toBe(expected);
  });
  test('is not counted beyond what matters', () => expect(distance('abcdef', 'uvwxyz', 2)).toBe(3));
});

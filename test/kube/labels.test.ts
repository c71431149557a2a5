import { describe, expect, test } from 'vitest';
import { at, same } from '../../src/kube/json.ts';
import { groupKind, splitGroupKind, spoken } from '../../src/kube/kind.ts';
import { labelSelector, selects, stringMap } from '../../src/kube/labels.ts';
import { pointer, resolve } from '../../src/kube/patch.ts';

describe('label selectors', () => {
  const labels = stringMap({ app: 'web', tier: '' });
  test.each([
    [{}, true],
    [{ matchLabels: { app: 'web' } }, true],
    [{ matchLabels: { app: 'api' } }, false],
    [{ matchExpressions: [{ key: 'app', operator: 'In', values: ['api', 'web'] }] }, true],
    [{ matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['web'] }] }, false],
    [{ matchExpressions: [{ key: 'other', operator: 'NotIn', values: ['web'] }] }, true],
    [{ matchExpressions: [{ key: 'tier', operator: 'Exists' }] }, true],
    [{ matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] }, false],
    [{ matchLabels: { app: 'web' }, matchExpressions: [{ key: 'x', operator: 'Exists' }] }, false],
  ])('%j: %s', (selector, expected) => {
    const parsed = labelSelector(selector);
    expect(parsed !== undefined && selects(parsed, labels)).toBe(expected);
  });

  test('prototype keys are plain data', () => {
    const hostile = stringMap(JSON.parse('{"__proto__": "x", "constructor": "y"}'));
    expect(Object.entries(hostile)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]);
    expect(hostile['toString']).toBeUndefined();
    const selector = labelSelector(JSON.parse('{"matchLabels": {"__proto__": "x"}}'));
    expect(selector !== undefined && selects(selector, hostile)).toBe(true);
    expect(at({}, 'constructor', 'name')).toBeUndefined();
  });
});

test('equality of JSON ignores the order of keys and absent values, not the order of lists', () => {
  expect(same({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 })).toBe(true);
  expect(same({ a: undefined }, {})).toBe(true);
  expect(same([1, 2], [2, 1])).toBe(false);
  expect(same({ a: 1 }, [1])).toBe(false);
  expect(same(null, {})).toBe(false);
});

test('kinds are written as kubectl writes them', () => {
  expect(groupKind('', 'Pod')).toBe('Pod');
  expect(groupKind('apps', 'Deployment')).toBe('Deployment.apps');
  expect(splitGroupKind('Gateway.gateway.networking.k8s.io')).toEqual({
    group: 'gateway.networking.k8s.io',
    kind: 'Gateway',
  });
  expect(spoken({ kind: 'Node', namespace: '', name: 'n1' })).toBe('Node n1');
  expect(spoken({ kind: 'Deployment.apps', namespace: 'shop', name: 'web' })).toBe('Deployment shop/web');
});

test('pointers escape and resolve', () => {
  const path = pointer('metadata', 'labels', 'istio.io/rev~1', 0);
  expect(path).toBe('/metadata/labels/istio.io~1rev~01/0');
  expect(resolve({ metadata: { labels: { 'istio.io/rev~1': ['x'] } } }, path)).toBe('x');
  expect(resolve({ a: [1] }, '/a/length')).toBeUndefined();
});

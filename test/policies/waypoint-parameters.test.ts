import { describe, expect, test } from 'vitest';
import { parametersOf } from '../../policies/waypoint-availability/parameters.ts';
import { letsNobodyGo } from '../../policies/waypoint-availability/scale.ts';
import { configMap } from '../../src/mesh/kinds/cluster.ts';

const read = (data: Record<string, string>) =>
  parametersOf(configMap('ConfigMap', 'shop', { metadata: { name: 'options' }, data }));

describe('a ConfigMap for a Gateway', () => {
  test('may change anything that the kinds have', () => {
    const { faults } = read({
      deployment:
        'spec: { replicas: 2, template: { spec: { tolerations: [], containers: [{ name: istio-proxy, env: [] }] } } }',
      service: 'metadata: { annotations: { a: b } }\nspec: { type: ClusterIP }',
      serviceAccount: 'metadata: { annotations: { a: b } }',
      horizontalPodAutoscaler: 'spec: { minReplicas: 2, maxReplicas: 5, metrics: [] }',
      podDisruptionBudget: 'spec: { minAvailable: 1 }',
    });
    expect(faults).toEqual([]);
  });

  test.each([
    ['a field that is nearly one', { deployment: 'spec: { replica: 2 }' }, 'deployment.spec.replica', true],
    [
      'a field deep down',
      { deployment: 'spec: { template: { spec: { containers: [{ imagee: x }] } } }' },
      'deployment.spec.template.spec.containers.imagee',
      true,
    ],
    [
      'a field that a newer Kubernetes may know',
      { deployment: 'spec: { quantumEntanglement: 2 }' },
      'deployment.spec.quantumEntanglement',
      false,
    ],
    ['a key that is none', { hpa: 'spec: {}' }, 'hpa', true],
    ['text that is no YAML', { deployment: 'spec: {' }, 'deployment', true],
    ['YAML that is no object', { deployment: 'two' }, 'deployment', true],
    ['a count in quotes', { deployment: 'spec: { replicas: "2" }' }, 'deployment.spec.replicas', true],
  ])('is refused with %s', (_, data, path, certain) => {
    expect(read(data).faults.map(fault => [fault.path, fault.certain])).toEqual([[path, certain]]);
  });

  test('says how many pods there are', () => {
    expect(
      read({ deployment: 'spec: { replicas: 3 }', horizontalPodAutoscaler: 'spec: { maxReplicas: 4 }' }),
    ).toMatchObject({
      replicas: 3,
      autoscaledFrom: 1,
    });
  });

  test('may be written as istiod reads it', () => {
    const { faults, replicas, autoscaledFrom } = read({
      deployment: 'spec: { replicas: 1, <<: { minReadySeconds: 017 }, replicas: 0o2 }\n---\nspec: {',
      service: 'metadata: { annotations: { a: "1" } }\nmetadata: { annotations: { a: "2" } }',
      horizontalPodAutoscaler: 'spec: { minReplicas: 1, maxReplicas: 3, minReplicas: 2 }',
      podDisruptionBudget: `metadata: { labels: { a: &a b, ${Array.from({ length: 150 }, (_, n) => `a${n}: *a`).join(', ')} } }`,
    });
    expect({ faults, replicas, autoscaledFrom }).toEqual({ faults: [], replicas: 2, autoscaledFrom: 2 });
  });

  test('names some of its mistakes where it has thousands', () => {
    const fields = Array.from({ length: 100_000 }, (_, n) => n.toString(36));
    const { faults } = read({ deployment: `spec:\n${fields.map(field => ` ${field}:\n`).join('')}`.slice(0, 500_000) });
    expect(faults).toHaveLength(20);
  });

  test('of nothing or of something huge is read without harm', () => {
    expect(read({}).faults).toEqual([]);
    expect(read({ deployment: '' }).faults).toEqual([]);
    expect(read({ deployment: `a: ${'x'.repeat(2_000_000)}` }).faults).toEqual([]);
    expect(read({ deployment: '__proto__: { spec: { replicas: 0 } }' }).replicas).toBeUndefined();
  });
});

test.each([
  [{ minAvailable: 1 }, 1, true],
  [{ minAvailable: 1 }, 2, false],
  [{ minAvailable: '50%' }, 1, true],
  [{ minAvailable: '50%' }, 2, false],
  [{ minAvailable: '100%' }, 5, true],
  [{ maxUnavailable: 0 }, 3, true],
  [{ maxUnavailable: '0%' }, 3, true],
  [{ maxUnavailable: 1 }, 1, false],
  [{ maxUnavailable: '1%' }, 3, false],
  [{ minAvailable: 'x' }, 1, false],
  [{}, 1, false],
  [{ minAvailable: 1 }, 0, false],
])('a budget of %j over %i pods lets nobody go: %j', (budget, least, expected) => {
  expect(letsNobodyGo(budget, least)).toBe(expected);
});

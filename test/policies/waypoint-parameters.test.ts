import { describe, expect, test } from 'vitest';
import { mergeParameters, parametersOf } from '../../policies/waypoint-availability/parameters.ts';
import { waypointAvailability } from '../../policies/waypoint-availability/policy.ts';
import { letsNobodyGo } from '../../policies/waypoint-availability/scale.ts';
import { DEFAULT_CONFIG } from '../../src/config/default.ts';
import { PAUSE } from '../../src/engine/policy.ts';
import type { JsonObject } from '../../src/kube/json.ts';
import { configMap } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import { meshOf } from '../support/cases.ts';

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
      { deployment: 'spec: { template: { spec: { containers: [{ name: istio-proxy, imagee: x }] } } }' },
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
    ['a count with a fraction', { deployment: 'spec: { replicas: 2.5 }' }, 'deployment.spec.replicas', true],
    ['a count below 0', { deployment: 'spec: { minReadySeconds: -1 }' }, 'deployment.spec.minReadySeconds', true],
    ['a count that turns negative', { deployment: 'spec: { replicas: 4294967295 }' }, 'deployment.spec.replicas', true],
    [
      'a count beyond 64 bits',
      { deployment: 'spec: { replicas: 9999999999999999999 }' },
      'deployment.spec.replicas',
      false,
    ],
    ['a number that is a text to Go', { deployment: 'spec: { replicas: 1e400 }' }, 'deployment.spec.replicas', true],
    ['a spec that is null', { horizontalPodAutoscaler: 'spec:' }, 'horizontalPodAutoscaler.spec', true],
    ['a spec that is a list', { podDisruptionBudget: 'spec: []' }, 'podDisruptionBudget.spec', true],
    ['metadata that are null', { serviceAccount: 'metadata:' }, 'serviceAccount.metadata', true],
    ['labels that are a list', { service: 'metadata: { labels: [a] }' }, 'service.metadata.labels', true],
    ['a label that is a number', { service: 'metadata: { labels: { a: 1 } }' }, 'service.metadata.labels.a', true],
    [
      'no container',
      { deployment: 'spec: { template: { spec: { containers: } } }' },
      'deployment.spec.template.spec.containers',
      true,
    ],
    [
      'a container that is a text',
      { deployment: 'spec: { template: { spec: { containers: [istio-proxy] } } }' },
      'deployment.spec.template.spec.containers',
      true,
    ],
    [
      'a name that is a boolean',
      { deployment: 'spec: { template: { spec: { initContainers: [{ name: n }] } } }' },
      'deployment.spec.template.spec.initContainers.name',
      true,
    ],
    [
      'a node label that is a boolean',
      { deployment: 'spec: { template: { spec: { nodeSelector: { a: yes } } } }' },
      'deployment.spec.template.spec.nodeSelector.a',
      true,
    ],
    [
      'a percentage above 100',
      { podDisruptionBudget: 'spec: { maxUnavailable: 101% }' },
      'podDisruptionBudget.spec.maxUnavailable',
      true,
    ],
    ['a key that is null', { deployment: 'spec: { ~: x }' }, 'deployment', true],
    ['an infinite number', { podDisruptionBudget: 'spec: { minAvailable: .inf }' }, 'podDisruptionBudget', true],
  ])('is refused with %s', (_, data, path, certain) => {
    expect(read(data).faults.map(fault => [fault.path, fault.certain])).toEqual([[path, certain]]);
  });

  test.each([
    ['spec: { replicas: null, minReadySeconds: 2.0, revisionHistoryLimit: 4294967298 }'],
    ['metadata: { annotations: null, labels: { a: null, b: "1" } }\nstatus:\nspecs:'],
    ['metadata: { annotations: { $patch: delete }, foo: null }'],
    ['spec: { template: { spec: { containers: [{ name: agent, $patch: delete, imagee: x }] } } }'],
    ['spec: { template: { spec: { containers: [{ $patch: replace }, { name: istio-proxy }], foo: null } } }'],
    ['spec: { template: { spec: { containers: [], initContainers: [{ name: "n", imagee: null }] } } }'],
  ])('may have %j for a Deployment', deployment => {
    expect(read({ deployment }).faults).toEqual([]);
  });

  test('says how many pods there are', () => {
    const merged = (...data: Record<string, string>[]) => mergeParameters(data.map(read));
    const class_ = {
      deployment: 'spec: { replicas: 3 }',
      horizontalPodAutoscaler: 'spec: { minReplicas: 2, maxReplicas: 4 }',
      podDisruptionBudget: 'spec: { minAvailable: 1 }',
    };
    expect(merged(class_)).toMatchObject({ replicas: 3, autoscaledFrom: 2, budget: { minAvailable: 1 }, faults: [] });
    expect(merged({ deployment: 'spec: { replicas: 4294967298 }' })).toMatchObject({ replicas: 2 });
    expect(merged(class_, { deployment: 'spec: { replicas: null }' }).replicas).toBeUndefined();
    for (const nothing of ['', '# nothing', '~', '{}', '---\n---\nspec: {']) {
      expect(merged({ horizontalPodAutoscaler: nothing }), nothing).toMatchObject({ autoscaledFrom: 1, faults: [] });
      expect(merged(class_, { horizontalPodAutoscaler: nothing }), nothing).toMatchObject({ autoscaledFrom: 2 });
    }
    expect(merged(class_, { horizontalPodAutoscaler: 'spec: { minReplicas: null }' }).autoscaledFrom).toBe(1);
    const wrong = (...data: Record<string, string>[]) => merged(...data).faults.map(({ path }) => path);
    const maximum = ['horizontalPodAutoscaler.spec.maxReplicas'];
    expect(wrong(class_, { horizontalPodAutoscaler: 'spec: { minReplicas: 5 }' })).toEqual(maximum);
    expect(wrong(class_, { horizontalPodAutoscaler: 'spec: { maxReplicas: null }' })).toEqual(maximum);
    expect(wrong(class_, { podDisruptionBudget: 'spec: { maxUnavailable: 1 }' })).toEqual(['podDisruptionBudget.spec']);
    // what is wrong by itself is told once
    expect(wrong({ horizontalPodAutoscaler: 'spec: { minReplicas: 2, maxReplicas: "4" }' })).toEqual([]);
  });

  test('may be written as istiod reads it', () => {
    const { faults, replicas, autoscaler } = read({
      deployment: 'spec: { replicas: 1, <<: { minReadySeconds: 017 }, replicas: 0o2 }\n---\nspec: {',
      service: 'metadata: { annotations: { a: "1" } }\nmetadata: { annotations: { a: "2" } }',
      horizontalPodAutoscaler: 'spec: { minReplicas: 1, maxReplicas: 3, minReplicas: 2 }',
      podDisruptionBudget: `metadata: { labels: { a: &a b, ${Array.from({ length: 150 }, (_, n) => `a${n}: *a`).join(', ')} } }`,
    });
    expect({ faults, replicas, autoscaler }).toEqual({
      faults: [],
      replicas: 2,
      autoscaler: { minReplicas: 2, maxReplicas: 3 },
    });
  });

  test('names some of its mistakes where it has thousands', () => {
    const fields = Array.from({ length: 3000 }, (_, n) => `zz${n.toString(36)}`);
    const deployment = `spec:\n${fields.map(field => ` ${field}: 1\n`).join('')}`;
    expect(read({ deployment }).faults).toHaveLength(20);
    // what is only doubtful does not hide what is certain
    const { faults } = read({ deployment: `${deployment} replica: 2\n` });
    expect(faults.filter(({ certain }) => certain)).toHaveLength(1);
  });

  test('of nothing or of something huge is read without harm', () => {
    expect(read({}).faults).toEqual([]);
    expect(read({ deployment: '' }).faults).toEqual([]);
    expect(read({ deployment: `a: ${'x'.repeat(2_000_000)}` }).faults).toEqual([]);
    expect(read({ deployment: '__proto__: { spec: { replicas: 0 } }' }).replicas).toBeUndefined();
  });
});

describe('of several defaults of a class', () => {
  const options = (name: string, deployment: string, created?: string, namespace = 'istio-system') => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name,
      namespace,
      labels: { 'gateway.istio.io/defaults-for-class': 'istio-waypoint' },
      ...(created === undefined ? {} : { creationTimestamp: created }),
    },
    data: { deployment },
  });
  const istiod = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'istiod', namespace: 'istio-system', labels: { app: 'istiod' } },
    spec: { template: { spec: { containers: [{ name: 'discovery', image: 'docker.io/istio/pilot:1.31.0' }] } } },
  };
  const waypoint = {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'Gateway',
    metadata: { name: 'waypoint', namespace: 'shop' },
    spec: { gatewayClassName: 'istio-waypoint', listeners: [{ name: 'mesh', port: 15008, protocol: 'HBONE' }] },
  };
  const found = (objects: readonly JsonObject[]) => {
    const mesh = meshOf([istiod, waypoint, ...objects], DEFAULT_CONFIG);
    const skipped: string[] = [];
    const context = { mesh, options: {}, stage: 'audit' as const, skipped: (what: string) => void skipped.push(what) };
    const reports = (subject: { readonly name: string; readonly kind: string }) =>
      [...waypointAvailability.check(subject as never, context)].flatMap(report =>
        report === PAUSE
          ? []
          : `${subject.name} ${report.finding} ${report.certain === false ? 'perhaps' : 'certainly'}`,
      );
    const subjects = [...mesh.list(GATEWAY), ...mesh.list('ConfigMap')];
    return { reports: subjects.flatMap(reports).sort(), skipped: skipped.length };
  };
  const ONE = 'spec: { replicas: 1 }';
  const TWO = 'spec: { replicas: 2 }';
  const WRONG = 'spec: { replica: 1 }';
  const EARLY = '2026-01-01T00:00:00Z';
  const LATE = '2026-01-01T00:00:01Z';
  const single = { reports: ['waypoint single-replica certainly'], skipped: 0 };
  const nothing = { reports: [], skipped: 0 };

  test('the oldest counts, whatever its name', () => {
    expect(found([options('a', ONE, LATE), options('z', TWO, EARLY)])).toEqual(nothing);
    expect(found([options('a', TWO, LATE), options('z', ONE, EARLY)])).toEqual(single);
    expect(found([options('a', ONE, EARLY, 'shop'), options('z', TWO, LATE)]).reports).toEqual([
      'a class-defaults-elsewhere certainly',
    ]);
  });

  test('the first by name counts where they are of the same second', () => {
    expect(found([options('z', ONE, EARLY), options('a-b', TWO, EARLY), options('a.b', ONE, EARLY)])).toEqual(nothing);
    expect(found([options('z', TWO, EARLY), options('a-b', ONE, EARLY), options('a.b', TWO, EARLY)])).toEqual(single);
  });

  test('nothing is said that they do not agree about, where it is not known which is the oldest', () => {
    expect(found([options('a', ONE), options('b', TWO)])).toEqual({ reports: [], skipped: 1 });
    expect(found([options('a', ONE, EARLY), options('b', TWO)])).toEqual({ reports: [], skipped: 1 });
    expect(found([options('a', ONE), options('b', ONE)])).toEqual(single);
  });

  test('a mistake stops Gateways where it is in the oldest', () => {
    expect(found([options('a', WRONG, EARLY), options('b', TWO, LATE)]).reports).toContain(
      'a parameters-invalid certainly',
    );
    expect(found([options('a', WRONG, LATE), options('b', TWO, EARLY)])).toEqual(nothing);
    expect(found([options('a', WRONG), options('b', TWO)]).reports).toEqual(['a parameters-invalid perhaps']);
    expect(found([options('a', WRONG), options('b', WRONG)]).reports).toEqual([
      'a parameters-invalid certainly',
      'b parameters-invalid certainly',
      'waypoint single-replica certainly',
    ]);
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

// Workloads are found by their labels, however many a namespace has and whatever was written before.
import { expect, test } from 'vitest';
import { matchesLabels } from '../../src/kube/labels.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { project } from '../../src/mesh/kinds.ts';
import { createStore } from '../../src/mesh/store.ts';
import { seeded } from '../generate/random.ts';

test('the workloads with some labels are those that a search finds', () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const random = seeded(seed);
    const store = createStore({ complete: () => true });
    const all = new Map<string, Workload>();
    const names = random.pick([3, 20, 80]);
    const labels = () => ({
      ...(random.chance(0.9) ? { app: `a${random.int(4)}` } : {}),
      ...(random.chance(0.5) ? { version: `v${random.int(3)}` } : {}),
    });
    for (let step = 0; step < 300; step += 1) {
      const name = `w${random.int(names)}`;
      const namespace = random.pick(['shop', 'shop', 'shop', 'bank']);
      const kind = random.pick(['Pod', 'Pod', 'Deployment.apps'] as const);
      const key = `${kind}/${namespace}/${name}`;
      if (random.chance(0.2)) {
        store.delete({ kind, namespace, name });
        all.delete(key);
      } else {
        const metadata = { name, namespace, labels: labels() };
        const object = project(kind, namespace, { metadata, spec: { template: { metadata } } }) as Workload;
        store.put(object);
        all.set(key, object);
      }
      if (!random.chance(0.2)) continue;
      const wanted = labels();
      const where = random.pick(['shop', 'bank', undefined]);
      const found = [...store.workloads(wanted, where)];
      const expected = [...all.values()].filter(
        one => (where === undefined || one.namespace === where) && matchesLabels(wanted, one.template.labels),
      );
      expect(new Set(found), `seed ${seed}`).toEqual(new Set(expected));
      expect(found.length).toBe(expected.length);
    }
    expect(store.size()).toBe(all.size);
  }
});

test('who refers to something is found among many', () => {
  const store = createStore({ complete: () => true });
  const policy = (index: number) =>
    project('AuthorizationPolicy.security.istio.io', 'shop', {
      metadata: { name: `p${index}` },
      spec: { targetRefs: [{ kind: 'Service', name: 'web' }] },
    });
  const referring = () => [...store.referring('Service/shop/web')].map(({ name }) => name).sort();
  for (let index = 0; index < 20; index += 1) store.put(policy(index));
  store.put(policy(3));
  expect(referring()).toHaveLength(20);
  for (let index = 0; index < 20; index += 1) if (index !== 7) store.delete(policy(index));
  expect(referring()).toEqual(['p7']);
  store.delete(policy(7));
  expect(referring()).toEqual([]);
});

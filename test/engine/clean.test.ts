// A verdict that is remembered is the one that would be reached: over random meshes, changes between two reviews, and names.
import { expect, test } from 'vitest';
import { policies } from '../../policies/index.ts';
import { type Guard, judge } from '../../src/admission/judge.ts';
import { requestFor } from '../../src/admission/request.ts';
import type { Policy } from '../../src/engine/policy.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { createStore } from '../../src/mesh/store.ts';
import { anyMesh, anyObject, type Manifest } from '../generate/mesh.ts';
import { type Random, seeded } from '../generate/random.ts';

const RUNS = Number(process.env['CLEAN_RUNS'] ?? 2500);

function projected(manifest: Manifest) {
  const { kind, namespace } = identify(manifest) ?? { kind: 'Pod', namespace: '' };
  return project(kind, namespace, manifest);
}

function renamed(manifest: Manifest, name: string): Manifest {
  return { ...manifest, metadata: { ...(manifest['metadata'] as object), name } };
}

/** Any object, pods with a good chance: those of a workload of the mesh among them. */
function created(random: Random, objects: readonly Manifest[]): Manifest {
  const object = random.chance(0.3) ? random.pick(objects) : anyObject(random);
  if (random.chance(0.4)) return object;
  const template = (object['spec'] as { template?: Manifest } | undefined)?.template;
  const { metadata, spec } = template ?? object;
  const { labels = {}, annotations = {} } = (metadata ?? {}) as Record<string, unknown>;
  const { namespace = 'default', name } = object['metadata'] as Record<string, unknown>;
  const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name, controller: true };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'x-1',
      namespace,
      labels,
      annotations,
      ...(random.chance(0.5) ? { ownerReferences: [owner] } : {}),
    },
    spec: template === undefined ? { containers: [{ name: 'app', image: 'app:1' }] } : spec,
  } as Manifest;
}

test('what was found clean a moment ago is found clean again', async () => {
  let checks = 0;
  const counted = policies.map(
    (policy): Policy => ({
      ...policy,
      check(subject, context) {
        checks += 1;
        return policy.check(subject, context);
      },
    }),
  );
  let remembered = 0;
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const random = seeded(seed);
    const objects = anyMesh(random);
    const complete = random.chance(0.85);
    const mesh = createStore({ complete: kind => complete && kind !== 'Namespace' });
    for (const object of objects) mesh.put(projected(object));
    const guard: Guard = { policies: counted, settings: DEFAULT_SETTINGS, mesh };
    const stage = random.pick(['mutate', 'validate'] as const);
    const reviewed = (object: Manifest, by: Guard) => {
      const request = requestFor(object, { operation: 'CREATE' });
      if (request === undefined) throw new Error('no object');
      return judge(by, request, stage);
    };
    let object = created(random, objects);
    for (let step = 0; step < 6; step += 1) {
      if (random.chance(0.5)) {
        const other = random.chance(0.7) ? random.pick(objects) : anyObject(random);
        if (random.chance(0.5)) mesh.delete(projected(other));
        else mesh.put(projected(other));
      }
      if (random.chance(0.2)) object = created(random, objects);
      else if (object['kind'] === 'Pod') object = renamed(object, `x-${step}`);
      const before = checks;
      const verdict = await reviewed(object, guard);
      if (checks === before) remembered += 1;
      const afresh = await reviewed(object, { ...guard, policies: [...policies] });
      expect(verdict, `seed ${seed}`).toEqual(afresh);
      // in the place of what the other guard has left there
      await reviewed(object, guard);
    }
  }
  expect(remembered).toBeGreaterThan(RUNS / 10);
});

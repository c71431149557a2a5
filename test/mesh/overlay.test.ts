// An overlay answers as a store would to which the changes have been made.
import { expect, test } from 'vitest';
import { refKey } from '../../src/kube/kind.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { identify, KINDS, type Kind, project } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { overlay } from '../../src/mesh/overlay.ts';
import { referencesOf } from '../../src/mesh/references.ts';
import { controlPlanes, istioReleases, kubelets, rootNamespaces, ztunnels } from '../../src/mesh/releases.ts';
import { createStore } from '../../src/mesh/store.ts';
import { anyMesh, anyObject, type Manifest } from '../generate/mesh.ts';
import { seeded } from '../generate/random.ts';

function projected(manifest: Manifest): Meta {
  const identity = identify(manifest);
  if (identity === undefined) throw new Error('no object');
  return project(identity.kind, identity.namespace, manifest);
}

const keys = (objects: Iterable<Meta>) => [...objects].map(refKey).sort();

/** All that a Mesh can be asked, of the things that these objects speak of. */
function answers(mesh: Mesh, objects: readonly Meta[]): unknown {
  const references = new Set(objects.flatMap(object => [...referencesOf(object), refKey(object)]));
  return {
    lists: (Object.keys(KINDS) as Kind[]).map(kind => keys(mesh.list(kind))),
    inNamespace: (['Service', 'Deployment.apps', 'AuthorizationPolicy.security.istio.io'] as const).map(kind =>
      keys(mesh.list(kind, 'shop')),
    ),
    found: objects.map(object => mesh.object(object)),
    referring: [...references].sort().map(key => keys(mesh.referring(key))),
    selected: ['web', 'api'].map(app => [keys(mesh.workloads({ app })), keys(mesh.workloads({ app }, 'shop'))]),
    everywhere: keys(mesh.workloads()),
    facts: [controlPlanes, istioReleases, kubelets, rootNamespaces, ztunnels].map(fact => mesh.fact<unknown>(fact)),
  };
}

test('an overlay is the store with its changes made', () => {
  for (let seed = 1; seed <= 300; seed += 1) {
    const random = seeded(seed);
    const objects = anyMesh(random).map(projected);
    const base = createStore({ complete: () => true });
    const changed = createStore({ complete: () => true });
    for (const object of objects) {
      base.put(object);
      changed.put(object);
    }
    answers(base, objects); // facts are kept before the change, and must not be believed after it
    const changes = Array.from({ length: 1 + random.int(3) }, () => {
      if (random.chance(0.4)) return { ref: random.pick(objects) };
      const after = projected(anyObject(random));
      return { ref: after, after };
    });
    for (const { ref, after } of changes) {
      if (after === undefined) changed.delete(ref);
      else changed.put(after);
    }
    const about = [...objects, ...changes.map(({ ref }) => ref as Meta)];
    const sorted = (value: unknown) => JSON.parse(JSON.stringify(value)) as { facts: unknown };
    const got = sorted(answers(overlay(base, changes), about));
    const want = sorted(answers(changed, about));
    // lists of facts follow the order of writing, which an overlay does not keep
    const unordered = ({ facts, ...rest }: { facts: unknown }) => ({
      ...rest,
      facts: (facts as unknown[]).map(fact => [...(fact as unknown[])].map(one => JSON.stringify(one)).sort()),
    });
    expect(unordered(got), `seed ${seed}`).toEqual(unordered(want));
  }
});

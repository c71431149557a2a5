// `affected` may name too many subjects, never too few: held against evaluating everything, over random meshes and changes.
import { expect, test } from 'vitest';
import { policies } from '../../policies/index.ts';
import { difference, identityOf } from '../../src/engine/difference.ts';
import type { Policy } from '../../src/engine/policy.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { refKey } from '../../src/kube/kind.ts';
import { WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Change } from '../../src/mesh/mesh.ts';
import { overlay } from '../../src/mesh/overlay.ts';
import { createStore } from '../../src/mesh/store.ts';
import { anyMesh, anyObject, type Manifest } from '../generate/mesh.ts';
import { type Random, seeded } from '../generate/random.ts';
import { bruteForce, projected } from '../support/bruteforce.ts';

const RUNS = Number(process.env['AFFECTED_RUNS'] ?? 2000);
const FIRST = Number(process.env['AFFECTED_SEED'] ?? 1);

const bruteForced = policies.map(bruteForce);

interface Situation {
  readonly objects: readonly Manifest[];
  readonly change: { readonly object: Manifest; readonly deleted: boolean; readonly terminates: boolean };
  readonly complete: boolean;
}

function situation(seed: number): Situation {
  const random = seeded(seed);
  const objects = anyMesh(random);
  const deleted = random.chance(0.3);
  const known = random.chance(0.5) || deleted;
  const picked = random.pick(objects);
  let object = known ? picked : anyObject(random);
  if (known && !deleted) {
    // another object of the same identity, where chance makes one
    const identity = refKey(projected(picked));
    for (let attempt = 0; attempt < 200; attempt += 1) {
      const other = anyObject(random);
      if (refKey(projected(other)) === identity) {
        object = other;
        break;
      }
    }
  }
  return withImpostor(
    { objects, change: { object, deleted, terminates: seed % 2 === 0 }, complete: random.chance(0.85) },
    random,
  );
}

/** Now and then with a Deployment elsewhere that looks like the istiod that is there, and with what tells them apart changed. */
function withImpostor(found: Situation, random: Random): Situation {
  const istiod = found.objects.find(object => (projected(object) as Partial<Workload>).component === 'istiod');
  if (istiod === undefined || random.chance(0.85)) return found;
  const impostor = JSON.parse(
    JSON.stringify(istiod)
      .replace('"namespace":"istio-system"', '"namespace":"apps"')
      .replace(/pilot:[\w.]+/, `pilot:${random.pick(['1.27.3', '1.29.0', '1.31.1'])}`),
  ) as Manifest;
  const injector = found.objects.find(object => projected(object).kind === WEBHOOKS);
  const objects = [...found.objects, impostor];
  if (random.chance(0.3)) return { ...found, objects };
  const object = injector !== undefined && random.chance(0.6) ? injector : impostor;
  return { ...found, objects, change: { object, deleted: true, terminates: false } };
}

/** A Namespace that is deleted stays for a while, and what is in it goes: half of them are told of so. */
function stateAfter(
  { deleted, terminates }: Situation['change'],
  changed: Meta,
  before: Meta | undefined,
): Pick<Change, 'after'> {
  if (!deleted) return { after: changed };
  const stays = before?.kind === 'Namespace' && terminates;
  return stays ? { after: { ...before, terminating: true } } : {};
}

async function findingsOf(
  { objects, change, complete }: Situation,
  judges: readonly Policy[],
): Promise<readonly string[]> {
  const store = createStore({ complete: kind => complete && kind !== 'Namespace' });
  for (const object of objects) store.put(projected(object));
  const changed = projected(change.object);
  const before = store.object(changed);
  const made: Change = {
    ref: { kind: changed.kind, namespace: changed.namespace, name: changed.name },
    ...(before === undefined ? {} : { before }),
    ...stateAfter(change, changed, before),
  };
  const answer = await difference({
    policies: judges,
    settings: DEFAULT_SETTINGS,
    before: store,
    after: overlay(store, [made]),
    changes: [made],
    stage: 'validate',
    now: Date.parse('2026-11-30T00:00:00Z'),
  });
  // reports show it: `affected` may hand out whole objects, their environment among them
  for (const { subject } of answer.findings) expect(Object.keys(subject)).toEqual(['kind', 'namespace', 'name']);
  return answer.findings
    .map(finding => `${identityOf(finding.policy, finding.subject, finding)} ${finding.action} ${finding.standing}`)
    .sort();
}

/** The same defect with as few objects as show it. */
async function shrunk(found: Situation): Promise<Situation> {
  let smallest = found;
  for (let progress = true; progress; ) {
    progress = false;
    for (const object of smallest.objects) {
      const smaller = { ...smallest, objects: smallest.objects.filter(other => other !== object) };
      if ((await missing(smaller)).length > 0) {
        smallest = smaller;
        progress = true;
        break;
      }
    }
  }
  return smallest;
}

async function missing(at: Situation): Promise<readonly string[]> {
  const found = await findingsOf(at, policies);
  const all = await findingsOf(at, bruteForced);
  return all.filter(finding => !found.includes(finding));
}

test(`affected names every subject that a change concerns (${RUNS} meshes and changes from seed ${FIRST})`, async () => {
  let changesWithFindings = 0;
  for (let seed = FIRST; seed < FIRST + RUNS; seed += 1) {
    const at = situation(seed);
    const all = await findingsOf(at, bruteForced);
    if (all.length > 0) changesWithFindings += 1;
    const found = await findingsOf(at, policies);
    if (all.length !== found.length || all.some((finding, index) => finding !== found[index])) {
      const small = await shrunk(at);
      expect.fail(
        `seed ${seed}: not found:\n${(await missing(small)).join('\n')}\nmore than all: ${found.filter(one => !all.includes(one)).join('\n')}\nin ${JSON.stringify(small, undefined, 1)}`,
      );
    }
  }
  // a generator that never provokes a finding would prove nothing
  expect(changesWithFindings).toBeGreaterThan(RUNS / 10);
}, 300_000);

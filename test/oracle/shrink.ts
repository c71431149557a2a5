// The smallest mesh that still differs: objects are taken away, then what stands in them, as long as the same difference stays.
import { record } from '../../src/kube/json.ts';
import type { Manifest } from '../harness/objects.ts';
import type { Difference } from './compare/compare.ts';
import type { Run } from './run.ts';
import { renamed, type Situation } from './situation.ts';

type Runner = (situations: readonly Situation[]) => Promise<readonly Run[]>;

/** Rounds at most, and meshes that are tried in one. */
const ROUNDS = 14;
const AT_ONCE = 45;

/** A difference whatever the mesh is called. */
function plain(prefix: string, { about, model, istio }: Difference): string {
  return [about, model, istio].join('\n').replaceAll(`${prefix}-`, '');
}

/** Tries so far, of all meshes: no two are called the same. */
let count = 0;

type Path = readonly (string | number)[];

/** Everything in an object that may be left out: labels, annotations, and what is under its spec. */
function* parts(value: unknown, path: Path): Iterable<Path> {
  if (Array.isArray(value)) {
    for (const [index, entry] of value.entries()) {
      yield [...path, index];
      yield* parts(entry, [...path, index]);
    }
    return;
  }
  for (const [key, entry] of Object.entries(record(value) ?? {})) {
    yield [...path, key];
    yield* parts(entry, [...path, key]);
  }
}

function* partsOf(object: Manifest): Iterable<Path> {
  yield* parts(object.metadata.labels, ['metadata', 'labels']);
  yield* parts(object.metadata.annotations, ['metadata', 'annotations']);
  yield* parts(object['spec'], ['spec']);
}

function leaveOut(value: unknown, [key, ...rest]: Path): unknown {
  if (key === undefined) return value;
  if (Array.isArray(value)) {
    return rest.length === 0
      ? value.filter((_entry, index) => index !== key)
      : value.map((entry, index) => (index === key ? leaveOut(entry, rest) : entry));
  }
  const object = record(value) ?? {};
  if (rest.length === 0) return Object.fromEntries(Object.entries(object).filter(([name]) => name !== key));
  return { ...object, [key]: leaveOut(object[key as string], rest) };
}

/** One step smaller: an object less, or a part of one. */
type Step = { readonly index: number; readonly path?: undefined } | { readonly index: number; readonly path: Path };

function smaller(objects: readonly Manifest[], steps: readonly Step[]): readonly Manifest[] {
  const gone = new Set(steps.filter(({ path }) => path === undefined).map(({ index }) => index));
  return objects
    .map((object, index) =>
      steps
        .filter(step => step.index === index && step.path !== undefined)
        // from the back, so that places in lists stay what they are
        .toReversed()
        .reduce<Manifest>((left, { path }) => leaveOut(left, path ?? []) as Manifest, object),
    )
    .filter((_object, index) => !gone.has(index));
}

/** Takes apart what differs. All tries of a round stand side by side. */
export async function shrink(found: Run, runner: Runner): Promise<Run> {
  const wanted = new Set(found.differences.map(one => plain(found.situation.prefix, one)));
  let best = found;

  /** The tries that still differ, by their number. */
  async function standing(tries: readonly (readonly Step[])[]): Promise<ReadonlyMap<number, Run>> {
    const runs = await runner(
      tries.map((steps, index) => {
        count += 1;
        const { situation } = best;
        return renamed({ ...situation, objects: smaller(situation.objects, steps) }, `s${count}x${index}`);
      }),
    );
    const good = new Map<number, Run>();
    for (const [index, one] of runs.entries()) {
      const { prefix } = one.situation;
      // it has to be a mesh that the API server takes as it is, but for what was refused before
      const known = one.refused.size <= best.refused.size;
      if (known && one.differences.some(difference => wanted.has(plain(prefix, difference)))) good.set(index, one);
    }
    return good;
  }

  const steps = (): readonly Step[] => {
    const { objects } = best.situation;
    const whole = objects.map((_object, index): Step => ({ index }));
    return objects.length > 6
      ? whole
      : [
          ...whole,
          ...objects.flatMap((object, index) => [...partsOf(object)].map((path): Step => ({ index, path }))),
        ].slice(0, AT_ONCE);
  };

  for (let round = 0; round < ROUNDS; round += 1) {
    const single = steps();
    if (single.length === 0) break;
    const good = await standing(single.map(step => [step]));
    if (good.size === 0) break;
    const able = single.filter((_step, index) => good.has(index));
    // all that can go by itself at once, or half of it, or a quarter; else the first alone
    const heaps = [1, 2, 4, 8].flatMap(divisor => {
      const size = Math.ceil(able.length / divisor);
      return Array.from({ length: divisor }, (_, at) => able.slice(at * size, (at + 1) * size)).filter(
        heap => heap.length > 1,
      );
    });
    const together = heaps.length === 0 ? new Map<number, Run>() : await standing(heaps);
    const most = [...together].sort(([a], [b]) => (heaps[b]?.length ?? 0) - (heaps[a]?.length ?? 0))[0];
    best = most?.[1] ?? ([...good.values()][0] as Run);
  }
  return best;
}

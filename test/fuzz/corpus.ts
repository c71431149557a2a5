// What the fuzzer starts from: every object of every policy's cases, of the states they stand on and of the examples.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { list, record } from '../../src/kube/json.ts';
import { identify } from '../../src/mesh/kinds.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

function* yamlFiles(folder: string): Generator<string> {
  if (!existsSync(join(ROOT, folder))) return;
  const entries = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
  for (const entry of entries.sort()) if (/\.ya?ml$/.test(entry)) yield join(ROOT, folder, entry);
}

function* documents(folder: string): Generator<unknown> {
  for (const file of yamlFiles(folder)) {
    for (const document of parseAllDocuments(readFileSync(file, 'utf8'), { logLevel: 'silent' })) {
      if ('errors' in document && document.errors.length === 0) yield document.toJS({ maxAliasCount: 1000 });
    }
  }
}

/** Kubernetes objects anywhere in a document: itself, a case's `input`, `old` and `state`, the items of a List. */
function* objectsIn(value: unknown, depth = 0): Generator<unknown> {
  if (depth > 4) return;
  if (identify(value) !== undefined) yield value;
  for (const inner of [...list(value), ...Object.values(record(value) ?? {})]) {
    if (typeof inner === 'object') yield* objectsIn(inner, depth + 1);
  }
}

export interface Corpus {
  /** Objects that are written. */
  readonly objects: readonly unknown[];
  /** What the mesh holds. */
  readonly state: readonly unknown[];
}

export function corpus(): Corpus {
  const state = [...documents('policies/states'), ...documents('examples')].flatMap(value => [...objectsIn(value)]);
  const cases = [...documents('policies')].flatMap(value => [...objectsIn(value)]);
  const once = new Map([...state, ...cases].map(object => [JSON.stringify(object), object]));
  return { objects: [...once.values()], state };
}

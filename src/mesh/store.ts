// The Mesh in memory: frozen projections in Maps by kind, namespace and name, label posting lists by namespace, and references
// turned around. Writers are the sources (files, a live cluster); readers see the Mesh interface.
import { type GroupKind, type ObjectRef, refKey } from '../kube/kind.ts';
import { matchesLabels } from '../kube/labels.ts';
import type { Meta } from './kinds/meta.ts';
import { WORKLOAD_KINDS, type Workload } from './kinds/workloads.ts';
import type { Kind, Projections } from './kinds.ts';
import type { Declared, Fact, Lookup, Mesh, Reads } from './mesh.ts';
import { recorded } from './recorded.ts';
import { type ReferenceKey, referencesOf } from './references.ts';

/** A Mesh that its source may write to. */
export interface Store extends Mesh {
  /** Adds an object or replaces the one of the same identity. */
  put(object: Meta): void;
  delete(ref: ObjectRef): void;
  /** Number of objects of a kind, or of all. */
  size(kind?: GroupKind): number;
  /** What a fact read when it was computed last; undefined where it has not been. */
  factReads(fact: Fact<unknown>): ReadonlySet<string> | undefined;
}

export interface StoreOptions {
  readonly declared?: Declared;
  /** Whether the source knows every object of a kind, or whether it would know this one. Asked at each look-up that finds nothing. */
  readonly complete: (kind: GroupKind, store: Mesh, ref?: ObjectRef) => boolean;
}

export const NOTHING_DECLARED: Declared = Object.freeze({ controlPlanes: Object.freeze([]) });
const WORKLOADS: ReadonlySet<GroupKind> = new Set(WORKLOAD_KINDS);
const NOBODY: ReadonlyMap<string, never> = new Map<string, never>();

/** The keys under which a change of this object shows in what somebody has read. */
export function readKeysOf(object: Meta): readonly string[] {
  return [
    object.kind,
    `${object.kind}/${object.namespace}`,
    refKey(object),
    ...referencesOf(object).map(key => `@${key}`),
    ...(WORKLOADS.has(object.kind) ? ['#', `#${object.namespace}`] : []),
  ];
}

type ByName = Map<string, Meta>;

const newMap = <V>() => new Map<string, V>();

/** The entry of a Map, made first where there is none. */
function grown<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

export function createStore(options: StoreOptions): Store {
  const kinds = new Map<GroupKind, Map<string, ByName>>();
  const referrers = new Map<ReferenceKey, Map<string, Meta>>();
  // namespace → `label=value` → workloads
  const postings = new Map<string, Map<string, Set<Workload>>>();
  const workloadsIn = new Map<string, Map<string, Workload>>();
  const facts = new Map<Fact<unknown>, { readonly value: unknown; readonly reads: Reads }>();
  const declared = options.declared ?? NOTHING_DECLARED;

  const byName = (kind: GroupKind, namespace: string): ReadonlyMap<string, Meta> =>
    kinds.get(kind)?.get(namespace) ?? NOBODY;

  function index(object: Meta): void {
    const key = refKey(object);
    for (const reference of referencesOf(object)) {
      grown(referrers, reference, newMap<Meta>).set(key, object);
    }
    if (!WORKLOADS.has(object.kind)) return;
    const workload = object as Workload;
    grown(workloadsIn, object.namespace, newMap<Workload>).set(key, workload);
    const lists = grown(postings, object.namespace, newMap<Set<Workload>>);
    for (const label in workload.template.labels) {
      grown(lists, `${label}=${workload.template.labels[label]}`, () => new Set<Workload>()).add(workload);
    }
  }

  function unindex(object: Meta): void {
    const key = refKey(object);
    for (const reference of referencesOf(object)) {
      const known = referrers.get(reference);
      known?.delete(key);
      if (known?.size === 0) referrers.delete(reference);
    }
    if (!WORKLOADS.has(object.kind)) return;
    const workload = object as Workload;
    const here = workloadsIn.get(object.namespace);
    here?.delete(key);
    if (here?.size === 0) workloadsIn.delete(object.namespace);
    const lists = postings.get(object.namespace);
    for (const label in workload.template.labels) {
      const pair = `${label}=${workload.template.labels[label]}`;
      const posting = lists?.get(pair);
      posting?.delete(workload);
      if (posting?.size === 0) lists?.delete(pair);
    }
    if (lists?.size === 0) postings.delete(object.namespace);
  }

  function forget(...objects: readonly Meta[]): void {
    if (facts.size === 0) return;
    for (const object of objects) {
      const keys = readKeysOf(object);
      for (const [fact, { reads }] of facts) if (keys.some(key => reads.has(key))) facts.delete(fact);
    }
  }

  function remove(ref: ObjectRef): Meta | undefined {
    const names = kinds.get(ref.kind)?.get(ref.namespace);
    const found = names?.get(ref.name);
    if (found === undefined) return undefined;
    unindex(found);
    names?.delete(ref.name);
    if (names?.size === 0) kinds.get(ref.kind)?.delete(ref.namespace);
    return found;
  }

  const store: Store = {
    declared,
    put(object) {
      const before = remove(object);
      grown(grown(kinds, object.kind, newMap<ByName>), object.namespace, newMap<Meta>).set(object.name, object);
      index(object);
      forget(...(before === undefined ? [object] : [before, object]));
    },
    delete(ref) {
      const before = remove(ref);
      if (before !== undefined) forget(before);
    },
    size(kind) {
      let count = 0;
      for (const [id, namespaces] of kinds) {
        if (kind === undefined || kind === id) for (const names of namespaces.values()) count += names.size;
      }
      return count;
    },
    find<K extends Kind>(kind: K, namespace: string, name: string): Lookup<Projections[K]> {
      const found = byName(kind, namespace).get(name) as Projections[K] | undefined;
      return found ?? (options.complete(kind, store, { kind, namespace, name }) ? 'absent' : 'unknown');
    },
    get<K extends Kind>(kind: K, namespace: string, name: string) {
      return byName(kind, namespace).get(name) as Projections[K] | undefined;
    },
    object: ref => byName(ref.kind, ref.namespace).get(ref.name),
    *list<K extends Kind>(kind: K, namespace?: string) {
      if (namespace !== undefined) yield* byName(kind, namespace).values() as Iterable<Projections[K]>;
      else for (const names of kinds.get(kind)?.values() ?? []) yield* names.values() as Iterable<Projections[K]>;
    },
    complete: kind => options.complete(kind, store),
    *referring(key: ReferenceKey, kind?: Kind) {
      for (const object of referrers.get(key)?.values() ?? []) {
        if (kind === undefined || object.kind === kind) yield object as never;
      }
    },
    *workloads(labels = {}, namespace) {
      const rarest = (lists: Map<string, Set<Workload>> | undefined): Iterable<Workload> => {
        let best: Set<Workload> | undefined;
        for (const label in labels) {
          const posting = lists?.get(`${label}=${labels[label]}`);
          if (posting === undefined) return [];
          if (best === undefined || posting.size < best.size) best = posting;
        }
        return best ?? [];
      };
      const empty = Object.keys(labels).length === 0;
      for (const here of namespace === undefined ? workloadsIn.keys() : [namespace]) {
        const candidates = empty ? (workloadsIn.get(here)?.values() ?? []) : rarest(postings.get(here));
        for (const workload of candidates) if (matchesLabels(labels, workload.template.labels)) yield workload;
      }
    },
    fact<T>(fact: Fact<T>): T {
      const known = facts.get(fact);
      if (known !== undefined) return known.value as T;
      const reads: Reads = new Set();
      const value = fact.compute(recorded(store, reads));
      facts.set(fact, { value, reads });
      return value;
    },
    factReads: fact => facts.get(fact)?.reads,
  };
  return store;
}

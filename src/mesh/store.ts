// The Mesh in memory: frozen projections by kind, namespace and name, lists of workloads by label where a namespace has many, and
// references turned around. Writers are the sources (files, a live cluster); readers see the Mesh interface.
import { same } from '../kube/json.ts';
import { type GroupKind, type ObjectRef, refKey } from '../kube/kind.ts';
import { matchesLabels, type StringMap } from '../kube/labels.ts';
import { type Few, fewFind, fewSize, fewValues, fewWith, fewWithout } from './few.ts';
import type { Meta } from './kinds/meta.ts';
import { WORKLOAD_KINDS, WORKLOADS, type Workload } from './kinds/workloads.ts';
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
  /** Whether any fact ever read objects of a kind, references ('@') or workloads of any kind ('#'). */
  factsRead(what: GroupKind | '@' | '#'): boolean;
}

export interface StoreOptions {
  readonly declared?: Declared;
  /** Whether the source knows every object of a kind, or whether it would know this one. Asked at each look-up that finds nothing. */
  readonly complete: (kind: GroupKind, store: Mesh, ref?: ObjectRef) => boolean;
}

export const NOTHING_DECLARED: Declared = Object.freeze({ controlPlanes: Object.freeze([]) });

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

/** What a key of {@link readKeysOf} is about: a kind, '@' for a reference, '#' for workloads. */
export function kindRead(key: string): string {
  return key.startsWith('@') || key.startsWith('#') ? key.charAt(0) : (key.split('/', 1)[0] ?? '');
}

const nameOf = ({ name }: Meta) => name;
const itself = (object: Meta) => object;

type Labelled = Map<string, Set<Workload>>;

/** From so many workloads on the ones with a label are listed; fewer are searched as fast. */
const WORTH_LISTING = 32;

function* labelPairs({ template: { labels } }: Workload): Iterable<string> {
  for (const label in labels) yield `${label}=${labels[label]}`;
}

function addLabelled(lists: Labelled, workload: Workload): void {
  for (const pair of labelPairs(workload)) {
    const known = lists.get(pair);
    if (known === undefined) lists.set(pair, new Set([workload]));
    else known.add(workload);
  }
}

function removeLabelled(lists: Labelled, workload: Workload): void {
  for (const pair of labelPairs(workload)) {
    const known = lists.get(pair);
    known?.delete(workload);
    if (known?.size === 0) lists.delete(pair);
  }
}

/** The shortest list of one of these labels, in which all that have all of them are. */
function rarest(lists: Labelled, labels: StringMap): Iterable<Workload> {
  let best: Set<Workload> | undefined;
  for (const label in labels) {
    const list = lists.get(`${label}=${labels[label]}`);
    if (list === undefined) return [];
    if (best === undefined || list.size < best.size) best = list;
  }
  return best ?? [];
}

export function createStore(options: StoreOptions): Store {
  const kinds = new Map<GroupKind, Map<string, Few<Meta>>>();
  const referrers = new Map<ReferenceKey, Few<Meta>>();
  // of a kind in a namespace, made when somebody asks for the first time
  const labelled = new WeakMap<Few<Meta>, Labelled>();
  const facts = new Map<Fact<unknown>, { readonly value: unknown; readonly reads: Reads }>();
  const factKinds = new Set<string>();
  const declared = options.declared ?? NOTHING_DECLARED;

  const here = (kind: GroupKind, namespace: string) => kinds.get(kind)?.get(namespace);

  function add(object: Meta): void {
    const namespaces = kinds.get(object.kind) ?? new Map<string, Few<Meta>>();
    kinds.set(object.kind, namespaces);
    const now = fewWith(namespaces.get(object.namespace), nameOf, object);
    namespaces.set(object.namespace, now);
    for (const reference of new Set(referencesOf(object)))
      referrers.set(reference, fewWith(referrers.get(reference), itself, object));
    const lists = labelled.get(now);
    if (lists !== undefined) addLabelled(lists, object as Workload);
  }

  function remove(ref: ObjectRef): Meta | undefined {
    const before = here(ref.kind, ref.namespace);
    const found = fewFind(before, nameOf, ref.name);
    if (before === undefined || found === undefined) return undefined;
    const lists = labelled.get(before);
    if (lists !== undefined) removeLabelled(lists, found as Workload);
    const left = fewWithout(before, nameOf, ref.name);
    if (left === undefined) kinds.get(ref.kind)?.delete(ref.namespace);
    else kinds.get(ref.kind)?.set(ref.namespace, left);
    for (const reference of referencesOf(found)) {
      const known = referrers.get(reference);
      const others = known === undefined ? undefined : fewWithout(known, itself, found);
      if (others === undefined) referrers.delete(reference);
      else referrers.set(reference, others);
    }
    return found;
  }

  /** Workloads of a kind in a namespace, among which all with these labels are. */
  function candidates(few: Few<Meta>, labels: StringMap): Iterable<Workload> {
    if (!(few instanceof Map) || few.size < WORTH_LISTING || Object.keys(labels).length === 0)
      return fewValues(few) as Iterable<Workload>;
    let lists = labelled.get(few);
    if (lists === undefined) {
      lists = new Map();
      for (const workload of few.values()) addLabelled(lists, workload as Workload);
      labelled.set(few, lists);
    }
    return rarest(lists, labels);
  }

  function forget(...objects: readonly Meta[]): void {
    if (facts.size === 0) return;
    for (const object of objects) {
      const keys = readKeysOf(object);
      for (const [fact, { reads }] of facts) if (keys.some(key => reads.has(key))) facts.delete(fact);
    }
  }

  const store: Store = {
    declared,
    put(object) {
      const known = fewFind(here(object.kind, object.namespace), nameOf, object.name);
      // most of what a watch tells is about fields that nobody reads
      if (known !== undefined && same(known, object)) return;
      const before = remove(object);
      add(object);
      forget(...(before === undefined ? [object] : [before, object]));
    },
    delete(ref) {
      const before = remove(ref);
      if (before === undefined) return;
      forget(before);
    },
    size(kind) {
      let count = 0;
      for (const [id, namespaces] of kinds) {
        if (kind === undefined || kind === id) for (const few of namespaces.values()) count += fewSize(few);
      }
      return count;
    },
    find<K extends Kind>(kind: K, namespace: string, name: string): Lookup<Projections[K]> {
      const found = fewFind(here(kind, namespace), nameOf, name) as Projections[K] | undefined;
      return found ?? (options.complete(kind, store, { kind, namespace, name }) ? 'absent' : 'unknown');
    },
    get<K extends Kind>(kind: K, namespace: string, name: string) {
      return fewFind(here(kind, namespace), nameOf, name) as Projections[K] | undefined;
    },
    object: ref => fewFind(here(ref.kind, ref.namespace), nameOf, ref.name),
    *list<K extends Kind>(kind: K, namespace?: string) {
      if (namespace !== undefined) yield* fewValues(here(kind, namespace)) as Iterable<Projections[K]>;
      else for (const few of kinds.get(kind)?.values() ?? []) yield* fewValues(few) as Iterable<Projections[K]>;
    },
    some: (kind, namespace) =>
      namespace === undefined ? (kinds.get(kind)?.size ?? 0) > 0 : here(kind, namespace) !== undefined,
    complete: kind => options.complete(kind, store),
    *referring(key: ReferenceKey, kind?: Kind) {
      for (const object of fewValues(referrers.get(key))) {
        if (kind === undefined || object.kind === kind) yield object as never;
      }
    },
    *workloads(labels = {}, namespace) {
      for (const kind of WORKLOAD_KINDS) {
        const namespaces = kinds.get(kind);
        const some = namespace === undefined ? namespaces?.values() : [namespaces?.get(namespace)];
        for (const few of some ?? []) {
          if (few === undefined) continue;
          for (const workload of candidates(few, labels))
            if (matchesLabels(labels, workload.template.labels)) yield workload;
        }
      }
    },
    fact<T>(fact: Fact<T>): T {
      const known = facts.get(fact);
      if (known !== undefined) return known.value as T;
      const reads: Reads = new Set();
      const value = fact.compute(recorded(store, reads));
      facts.set(fact, { value, reads });
      for (const key of reads) factKinds.add(kindRead(key));
      return value;
    },
    factReads: fact => facts.get(fact)?.reads,
    factsRead: what => factKinds.has(what),
  };
  return store;
}

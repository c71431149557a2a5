// A Mesh with changes on top of another: what the cluster would be if they went through.
import { type ObjectRef, refKey } from '../kube/kind.ts';
import { matchesLabels } from '../kube/labels.ts';
import type { Meta } from './kinds/meta.ts';
import { WORKLOADS, type Workload } from './kinds/workloads.ts';
import type { Kind, Projections } from './kinds.ts';
import type { Change, Fact, Mesh, Reads } from './mesh.ts';
import { recorded } from './recorded.ts';
import { referencesOf } from './references.ts';
import { kindRead, readKeysOf, type Store } from './store.ts';

/** A Mesh that remembers what its facts read: the store, or an overlay. */
export type Base = Mesh & Pick<Store, 'factReads' | 'factsRead'>;

/**
 * The Mesh `base` with each change's `after` in place of its `before`. The base is not touched and may not be written to while
 * the overlay is in use. `complete` is the base's unless given (manifests that bring an istiod complete a Mesh).
 */
export function overlay(
  base: Base,
  changes: readonly Pick<Change, 'ref' | 'after'>[],
  complete?: (kind: Kind, mesh: Mesh) => boolean,
): Base {
  // one change, as at admission, needs no Maps; most questions are about kinds that no change touches and go to the base as they are
  const [only] = changes.length === 1 ? changes : [];
  const changed = only === undefined ? new Map(changes.map(({ ref, after }) => [refKey(ref), after])) : undefined;
  const kinds = only === undefined ? new Set(changes.map(({ ref }) => ref.kind)) : undefined;
  const touches = (kind: string): boolean => (only === undefined ? kinds?.has(kind) === true : only.ref.kind === kind);
  const isChanged = (kind: string, namespace: string, name: string): boolean =>
    only === undefined
      ? changed?.has(refKey({ kind, namespace, name })) === true
      : only.ref.name === name && only.ref.namespace === namespace && only.ref.kind === kind;
  const changedTo = (kind: string, namespace: string, name: string): Meta | undefined =>
    only === undefined ? changed?.get(refKey({ kind, namespace, name })) : only.after;
  const added: Meta[] = [];
  if (only !== undefined) {
    if (only.after !== undefined) added.push(only.after);
  } else for (const after of changed?.values() ?? []) if (after !== undefined) added.push(after);
  const replacesWorkloads = changes.some(({ ref }) => WORKLOADS.has(ref.kind));
  let touchedKeys: ReadonlySet<string> | undefined;
  /** The keys under which the changes show in what somebody has read. */
  const touched = (): ReadonlySet<string> => {
    if (touchedKeys === undefined) {
      const keys = new Set<string>();
      for (const { ref } of changes) {
        const before = base.object(ref);
        if (before !== undefined) for (const key of readKeysOf(before)) keys.add(key);
      }
      for (const after of added) for (const key of readKeysOf(after)) keys.add(key);
      touchedKeys = keys;
    }
    return touchedKeys;
  };
  let refers: boolean | undefined;
  /** Whether the changed objects refer to anything at all, as they were or as they will be. */
  const refer = (): boolean => {
    refers ??= changes.some(({ ref }) => isReferring(base.object(ref))) || added.some(isReferring);
    return refers;
  };
  /** Whether the changes may show in what facts have read. Most are of kinds that none reads, which is seen without a key for each place. */
  const mayShow = (): boolean => {
    if (only === undefined ? changes.some(({ ref }) => base.factsRead(ref.kind)) : base.factsRead(only.ref.kind))
      return true;
    return (replacesWorkloads && base.factsRead('#')) || (base.factsRead('@') && refer());
  };
  /** Those that may show the changes: worked out anew, or the base's after all, which are kept without what they read. */
  let facts: Map<Fact<unknown>, { readonly value: unknown; readonly reads?: Reads }> | undefined;
  // once for each object: one with thousands of references is asked about each of them
  let references: Map<Meta, ReadonlySet<string>> | undefined;
  const refersTo = (object: Meta, key: string): boolean => {
    references ??= new Map();
    let known = references.get(object);
    if (known === undefined) {
      known = new Set(referencesOf(object));
      references.set(object, known);
    }
    return known.has(key);
  };
  const hidden = ({ kind, namespace, name }: ObjectRef) => isChanged(kind, namespace, name);

  const top: Top = { base, added, hidden, refersTo };

  const mesh: Base = {
    declared: base.declared,
    find(kind, namespace, name) {
      if (isChanged(kind, namespace, name)) {
        return (changedTo(kind, namespace, name) as never) ?? (mesh.complete(kind) ? 'absent' : 'unknown');
      }
      const found = base.find(kind, namespace, name);
      return found === 'unknown' && complete !== undefined && mesh.complete(kind) ? 'absent' : found;
    },
    get(kind, namespace, name) {
      return isChanged(kind, namespace, name)
        ? (changedTo(kind, namespace, name) as never)
        : base.get(kind, namespace, name);
    },
    object(ref) {
      const { kind, namespace, name } = ref;
      return isChanged(kind, namespace, name) ? changedTo(kind, namespace, name) : base.object(ref);
    },
    list: (kind, namespace) => (touches(kind) ? listed(top, kind, namespace) : base.list(kind, namespace)),
    some: (kind, namespace) =>
      base.some(kind, namespace) ||
      (touches(kind) &&
        added.some(object => object.kind === kind && (namespace === undefined || object.namespace === namespace))),
    complete: kind => (complete === undefined ? base.complete(kind) : complete(kind, mesh)),
    referring(key: string, kind?: Kind) {
      if (kind !== undefined ? !touches(kind) : !refer() || !touched().has(`@${key}`))
        return base.referring(key, kind as Kind);
      return referrers(top, key, kind) as never;
    },
    workloads: (labels = {}, namespace) =>
      replacesWorkloads ? selected(top, labels, namespace) : base.workloads(labels, namespace),
    fact<T>(fact: Fact<T>): T {
      const known = facts?.get(fact);
      if (known !== undefined) return known.value as T;
      // computed on the base first, to learn what it reads; most changes touch nothing of it
      const value = base.fact(fact);
      if (complete === undefined && !mayShow()) return value;
      facts ??= new Map();
      const reads = base.factReads(fact);
      if (reads !== undefined && complete === undefined && !overlaps(reads, touched())) {
        facts.set(fact, { value });
        return value;
      }
      const own: Reads = new Set();
      const computed = fact.compute(recorded(mesh, own));
      facts.set(fact, { value: computed, reads: own });
      return computed;
    },
    factReads: fact => facts?.get(fact)?.reads ?? base.factReads(fact),
    factsRead(what) {
      if (base.factsRead(what)) return true;
      for (const { reads } of facts?.values() ?? [])
        for (const key of reads ?? []) if (kindRead(key) === what) return true;
      return false;
    },
  };
  return mesh;
}

/** What an overlay puts on its base. */
interface Top {
  readonly base: Base;
  readonly added: readonly Meta[];
  hidden(object: ObjectRef): boolean;
  refersTo(object: Meta, key: string): boolean;
}

// Outside of `overlay`: a generator function that is made anew for each of them keeps all that it closes over until the next major
// collection (see difference.ts).

function* listed<K extends Kind>({ base, added, hidden }: Top, kind: K, namespace?: string): Iterable<Projections[K]> {
  for (const object of base.list(kind, namespace)) if (!hidden(object)) yield object;
  for (const object of added) {
    if (object.kind === kind && (namespace === undefined || object.namespace === namespace)) yield object as never;
  }
}

function* referrers({ base, added, hidden, refersTo }: Top, key: string, kind?: Kind): Iterable<Meta> {
  for (const object of kind === undefined ? base.referring(key) : base.referring(key, kind)) {
    if (!hidden(object)) yield object;
  }
  for (const object of added) if ((kind === undefined || object.kind === kind) && refersTo(object, key)) yield object;
}

function* selected(
  { base, added, hidden }: Top,
  labels: Readonly<Record<string, string>>,
  namespace?: string,
): Iterable<Workload> {
  for (const workload of base.workloads(labels, namespace)) if (!hidden(workload)) yield workload;
  for (const object of added) {
    if (!WORKLOADS.has(object.kind) || (namespace !== undefined && object.namespace !== namespace)) continue;
    const workload = object as Workload;
    if (matchesLabels(labels, workload.template.labels)) yield workload;
  }
}

function isReferring(object: Meta | undefined): boolean {
  return object !== undefined && referencesOf(object).length > 0;
}

function overlaps(reads: ReadonlySet<string>, touched: ReadonlySet<string>): boolean {
  for (const key of touched) if (reads.has(key)) return true;
  return false;
}

// A Mesh with changes on top of another: what the cluster would be if they went through.
import { type ObjectRef, refKey } from '../kube/kind.ts';
import { matchesLabels } from '../kube/labels.ts';
import type { Meta } from './kinds/meta.ts';
import { WORKLOAD_KINDS, type Workload } from './kinds/workloads.ts';
import type { Kind } from './kinds.ts';
import type { Change, Fact, Mesh, Reads } from './mesh.ts';
import { recorded } from './recorded.ts';
import { referencesOf } from './references.ts';
import { readKeysOf, type Store } from './store.ts';

/** A Mesh that remembers what its facts read: the store, or an overlay. */
export type Base = Mesh & Pick<Store, 'factReads'>;

/**
 * The Mesh `base` with each change's `after` in place of its `before`. The base is not touched and may not be written to while
 * the overlay is in use. `complete` is the base's unless given (manifests that bring an istiod complete a Mesh).
 */
export function overlay(
  base: Base,
  changes: readonly Pick<Change, 'ref' | 'after'>[],
  complete?: (kind: Kind, mesh: Mesh) => boolean,
): Base {
  const changed = new Map<string, Meta | undefined>();
  const touched = new Set<string>();
  const added: Meta[] = [];
  for (const { ref, after } of changes) changed.set(refKey(ref), after);
  for (const { ref } of changes) {
    const before = base.object(ref);
    if (before !== undefined) for (const key of readKeysOf(before)) touched.add(key);
  }
  for (const after of changed.values()) {
    if (after === undefined) continue;
    added.push(after);
    for (const key of readKeysOf(after)) touched.add(key);
  }
  const workloads = added.filter((object): object is Workload =>
    (WORKLOAD_KINDS as readonly string[]).includes(object.kind),
  );
  const facts = new Map<Fact<unknown>, { readonly value: unknown; readonly reads: Reads }>();
  // once for each object: one with thousands of references is asked about each of them
  const references = new Map<Meta, ReadonlySet<string>>();
  const refersTo = (object: Meta, key: string): boolean => {
    let known = references.get(object);
    if (known === undefined) {
      known = new Set(referencesOf(object));
      references.set(object, known);
    }
    return known.has(key);
  };
  const hidden = (object: ObjectRef) => changed.has(refKey(object));

  const mesh: Base = {
    declared: base.declared,
    find(kind, namespace, name) {
      const key = refKey({ kind, namespace, name });
      if (!changed.has(key)) {
        const found = base.find(kind, namespace, name);
        return found === 'unknown' && mesh.complete(kind) ? 'absent' : found;
      }
      return (changed.get(key) as never) ?? (mesh.complete(kind) ? 'absent' : 'unknown');
    },
    get(kind, namespace, name) {
      const key = refKey({ kind, namespace, name });
      return changed.has(key) ? (changed.get(key) as never) : base.get(kind, namespace, name);
    },
    object(ref) {
      const key = refKey(ref);
      return changed.has(key) ? changed.get(key) : base.object(ref);
    },
    *list(kind, namespace) {
      for (const object of base.list(kind, namespace)) if (!hidden(object)) yield object;
      for (const object of added) {
        if (object.kind === kind && (namespace === undefined || object.namespace === namespace)) yield object as never;
      }
    },
    complete: kind => (complete === undefined ? base.complete(kind) : complete(kind, mesh)),
    *referring(key: string, kind?: Kind) {
      for (const object of base.referring(key)) {
        if ((kind === undefined || object.kind === kind) && !hidden(object)) yield object as never;
      }
      for (const object of added) {
        if ((kind === undefined || object.kind === kind) && refersTo(object, key)) yield object as never;
      }
    },
    *workloads(labels = {}, namespace) {
      for (const workload of base.workloads(labels, namespace)) if (!hidden(workload)) yield workload;
      for (const workload of workloads) {
        if (
          (namespace === undefined || workload.namespace === namespace) &&
          matchesLabels(labels, workload.template.labels)
        ) {
          yield workload;
        }
      }
    },
    fact<T>(fact: Fact<T>): T {
      const known = facts.get(fact);
      if (known !== undefined) return known.value as T;
      // computed on the base first, to learn what it reads; most changes touch nothing of it
      const value = base.fact(fact);
      const reads = base.factReads(fact);
      if (reads !== undefined && complete === undefined && !overlaps(reads, touched)) return value;
      const own: Reads = new Set();
      const computed = fact.compute(recorded(mesh, own));
      facts.set(fact, { value: computed, reads: own });
      return computed;
    },
    factReads: fact => facts.get(fact)?.reads ?? base.factReads(fact),
  };
  return mesh;
}

function overlaps(reads: ReadonlySet<string>, touched: ReadonlySet<string>): boolean {
  for (const key of touched) if (reads.has(key)) return true;
  return false;
}

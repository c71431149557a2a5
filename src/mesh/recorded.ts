// A Mesh that notes what is read through it.
import { refKey } from '../kube/kind.ts';
import type { Kind } from './kinds.ts';
import type { Fact, Mesh, Reads } from './mesh.ts';
import type { ReferenceKey } from './references.ts';

/** The Mesh with every read noted in `reads` (shapes: {@link Reads}). Facts note what they read themselves. */
export function recorded(
  mesh: Mesh & { factReads?(fact: Fact<unknown>): ReadonlySet<string> | undefined },
  reads: Reads,
): Mesh {
  const view: Mesh = {
    declared: mesh.declared,
    find(kind, namespace, name) {
      reads.add(refKey({ kind, namespace, name }));
      return mesh.find(kind, namespace, name);
    },
    get(kind, namespace, name) {
      reads.add(refKey({ kind, namespace, name }));
      return mesh.get(kind, namespace, name);
    },
    object(ref) {
      reads.add(refKey(ref));
      return mesh.object(ref);
    },
    list(kind, namespace) {
      reads.add(namespace === undefined ? kind : `${kind}/${namespace}`);
      return mesh.list(kind, namespace);
    },
    some(kind, namespace) {
      reads.add(namespace === undefined ? kind : `${kind}/${namespace}`);
      return mesh.some(kind, namespace);
    },
    complete(kind) {
      reads.add(kind);
      return mesh.complete(kind);
    },
    referring(key: ReferenceKey, kind?: Kind) {
      reads.add(`@${key}`);
      return kind === undefined ? (mesh.referring(key) as never) : (mesh.referring(key, kind) as never);
    },
    workloads(labels, namespace) {
      reads.add(namespace === undefined ? '#' : `#${namespace}`);
      return mesh.workloads(labels, namespace);
    },
    fact(fact) {
      const value = mesh.fact(fact);
      const inner = mesh.factReads?.(fact);
      if (inner !== undefined) for (const key of inner) reads.add(key);
      else fact.compute(view); // a Mesh that does not remember what its facts read: read once more, noting it
      return value;
    },
  };
  return view;
}

// The Mesh as a policy sees it: projections by kind, namespace and name, what refers to what, and facts derived from them.
import type { ObjectRef } from '../kube/kind.ts';
import type { Meta } from './kinds/meta.ts';
import type { Kind, Projections } from './kinds.ts';
import type { ReferenceKey } from './references.ts';

/**
 * What a look-up found. `absent`: the source is complete and the object is not there. `unknown`: nobody knows, so that no
 * denial may rest on it.
 */
export type Lookup<P> = P | 'absent' | 'unknown';

/** A fact that follows from the Mesh as a whole, computed once and kept until something that it read has changed. */
export interface Fact<T> {
  readonly name: string;
  readonly compute: (mesh: Mesh) => T;
}

/** Facts given by the configuration for what the cluster does not show. */
export interface Declared {
  /** Control planes outside the cluster (external, managed, multi-primary). */
  readonly controlPlanes: readonly DeclaredControlPlane[];
  /** The release of Istio where nothing else tells (`check --istio 1.29`). */
  readonly istio?: string;
  /** Namespace of Istio's own objects where no istiod tells. Default `istio-system`. */
  readonly rootNamespace?: string;
}

export interface DeclaredControlPlane {
  readonly revision: string;
  readonly version?: string;
  readonly rootNamespace: string;
  readonly tags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** MeshConfig, as in the `istio` ConfigMap; undefined where unknown. */
  readonly meshConfig?: unknown;
}

/** Read-only view of a Mesh. Iterables are snapshots only as long as nobody writes. */
export interface Mesh {
  readonly declared: Declared;
  find<K extends Kind>(kind: K, namespace: string, name: string): Lookup<Projections[K]>;
  /** The object, or undefined both where it is absent and where nobody knows. */
  get<K extends Kind>(kind: K, namespace: string, name: string): Projections[K] | undefined;
  /** The object with any kind, also those without a projection of their own. */
  object(ref: ObjectRef): Meta | undefined;
  /** All objects of a kind, or those of one namespace. */
  list<K extends Kind>(kind: K, namespace?: string): Iterable<Projections[K]>;
  /** Whether there may be an object of this kind, in a namespace or anywhere. Cheap; true also where the last one is just being deleted. */
  some(kind: Kind, namespace?: string): boolean;
  /** True where an object of this kind that is not there does not exist. */
  complete(kind: Kind): boolean;
  /** Objects that refer to something, as `references.ts` has it; of one kind only where given. */
  referring(key: ReferenceKey): Iterable<Meta>;
  referring<K extends Kind>(key: ReferenceKey, kind: K): Iterable<Projections[K]>;
  /** Workloads (of any kind) in a namespace, or everywhere, whose pods have all of these labels. */
  workloads(labels?: Readonly<Record<string, string>>, namespace?: string): Iterable<Projections['Pod']>;
  fact<T>(fact: Fact<T>): T;
}

/** Whether a namespace is being deleted, with all that is in it. False where it is not there, or nobody knows. */
export function isTerminating(mesh: Pick<Mesh, 'get'>, namespace: string): boolean {
  return mesh.get('Namespace', '', namespace)?.terminating === true;
}

/** One change of one object; `before` or `after` is undefined where it is created or deleted. */
export interface Change {
  readonly ref: ObjectRef;
  readonly before?: Meta;
  readonly after?: Meta;
}

/** What was read: `Kind` for a whole kind, `Kind/namespace` for a namespace of it, `Kind/namespace/name`, `@key` for a reference. */
export type Reads = Set<string>;

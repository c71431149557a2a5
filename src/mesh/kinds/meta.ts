import { at, type JsonObject, record, records, text } from '../../kube/json.ts';
import { type GroupKind, groupKind, splitApiVersion } from '../../kube/kind.ts';
import { type StringMap, stringMap } from '../../kube/labels.ts';

/** What every projection has: the identity of the object and what any policy may read of its metadata. */
export interface Meta {
  readonly kind: GroupKind;
  /** '' for cluster-scoped kinds. */
  readonly namespace: string;
  /** The name; `generateName` with a `*` for an object that has no name yet. */
  readonly name: string;
  readonly labels: StringMap;
  /** Only annotations of the mesh and those that speak of `istio-proxy`: what a rollout stamps on objects is left out. */
  readonly annotations: StringMap;
  /** True once the object has a `deletionTimestamp`. */
  readonly terminating: boolean;
  /** `creationTimestamp`, '' where there is none (an object that is not stored yet): the older of two often wins. */
  readonly created: string;
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** Annotations that some policy may read: the mesh's own (misspelt ones too) and whatever names the proxy container. */
function keptAnnotation(key: string, value: string): boolean {
  if (key === LAST_APPLIED) return false;
  return (
    /istio|isito|itsio|gateway\.networking\.k8s\.io|prometheus\.istio/i.test(key) ||
    (value.length < 4096 && value.includes('istio-proxy'))
  );
}

export function labelsOf(metadata: unknown): StringMap {
  return stringMap(record(metadata)?.['labels']);
}

export function annotationsOf(metadata: unknown): StringMap {
  return stringMap(record(metadata)?.['annotations'], keptAnnotation);
}

/** The name, or what stands for it before the API server has made one up. */
function nameOf(metadata: JsonObject | undefined): string {
  const name = text(metadata?.['name']) ?? '';
  const generateName = text(metadata?.['generateName']) ?? '';
  return name !== '' || generateName === '' ? name : `${generateName}*`;
}

/** The metadata of an object as it came; total over every shape. */
export function metaOf(kind: GroupKind, namespace: string, object: unknown): Meta {
  const metadata = record(record(object)?.['metadata']);
  const deleted = metadata?.['deletionTimestamp'];
  return {
    kind,
    namespace,
    name: nameOf(metadata),
    labels: labelsOf(metadata),
    annotations: annotationsOf(metadata),
    terminating: deleted !== undefined && deleted !== null,
    created: text(metadata?.['creationTimestamp']) ?? '',
  };
}

/** The object that controls another one (its `ownerReferences` entry with `controller: true`). */
export interface Owner {
  readonly kind: GroupKind;
  readonly name: string;
}

export function ownerOf(object: unknown): Owner | undefined {
  const owner = records(at(object, 'metadata', 'ownerReferences')).find(reference => reference['controller'] === true);
  const kind = text(owner?.['kind']);
  const name = text(owner?.['name']);
  if (kind === undefined || name === undefined) return undefined;
  return { kind: groupKind(splitApiVersion(text(owner?.['apiVersion']) ?? '').group, kind), name };
}

/**
 * The object as its author last applied it with `kubectl apply`, or undefined. The only trace of fields that the API
 * server has pruned (facts/admission.md §b).
 */
export function lastApplied(object: unknown): unknown {
  const json = text(at(object, 'metadata', 'annotations', LAST_APPLIED));
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}

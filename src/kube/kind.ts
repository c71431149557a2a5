// Names of kinds and references to objects, in the field's own notation.

/** A kind with its group, as kubectl writes it: `Pod`, `Deployment.apps`, `AuthorizationPolicy.security.istio.io`. */
export type GroupKind = string;

/** An object's identity. `namespace` is '' for cluster-scoped kinds. */
export interface ObjectRef {
  readonly kind: GroupKind;
  readonly namespace: string;
  readonly name: string;
}

/** `Kind.group`, or `Kind` alone for the core group. */
export function groupKind(group: string, kind: string): GroupKind {
  return group === '' || group === 'core' ? kind : `${kind}.${group}`;
}

/** The parts of a {@link GroupKind}. */
export function splitGroupKind(id: GroupKind): { readonly group: string; readonly kind: string } {
  const dot = id.indexOf('.');
  return dot < 0 ? { group: '', kind: id } : { group: id.slice(dot + 1), kind: id.slice(0, dot) };
}

/** The group and version of an `apiVersion` ('v1' is the core group). */
export function splitApiVersion(apiVersion: string): { readonly group: string; readonly version: string } {
  const slash = apiVersion.indexOf('/');
  return slash < 0
    ? { group: '', version: apiVersion }
    : { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1) };
}

/** An object's identity alone, for evidence. */
export function ref({ kind, namespace, name }: ObjectRef): ObjectRef {
  return { kind, namespace, name };
}

/** A text that is equal for equal references; usable as the key of a Map. */
export function refKey(ref: ObjectRef): string {
  return `${ref.kind}/${ref.namespace}/${ref.name}`;
}

/** The reference as an operator would say it: `AuthorizationPolicy orders/require-token`. */
export function spoken(ref: ObjectRef): string {
  const { kind } = splitGroupKind(ref.kind);
  return ref.namespace === '' ? `${kind} ${ref.name}` : `${kind} ${ref.namespace}/${ref.name}`;
}

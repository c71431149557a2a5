// The envelope of an AdmissionReview (k8s.io/api/admission/v1), and the request that a bare object in a file would be.
import * as z from 'zod';
import { at, record, records, text } from '../kube/json.ts';
import { type GroupKind, groupKind, type ObjectRef, splitApiVersion, splitGroupKind } from '../kube/kind.ts';
import type { Meta } from '../mesh/kinds/meta.ts';
import { glimpse, identify, isKind, KINDS } from '../mesh/kinds.ts';

const kindSchema = z.object({ group: z.string(), version: z.string(), kind: z.string() });

/** One issue for all of them: zod's array would make one of each, of which 2 MB hold a million. */
const groupsSchema = z
  .custom<readonly string[] | null>(
    value => value === null || (Array.isArray(value) && value.every(one => typeof one === 'string')),
    'must be a list of texts',
  )
  .optional();

/** What Waywarden reads of a request; the rest is left alone. Objects are read by the projections, which are total. */
export const requestSchema = z.object({
  uid: z.string(),
  kind: kindSchema,
  requestKind: kindSchema.nullish(),
  subResource: z.string().nullish(),
  name: z.string().nullish(),
  namespace: z.string().nullish(),
  operation: z.enum(['CREATE', 'UPDATE', 'DELETE', 'CONNECT']),
  userInfo: z.object({ username: z.string().nullish(), groups: groupsSchema }).nullish(),
  // the API server writes null for what is not there; others leave it out
  object: z.unknown().optional(),
  oldObject: z.unknown().optional(),
  dryRun: z.boolean().nullish(),
});

export const reviewSchema = z.object({
  apiVersion: z.literal('admission.k8s.io/v1'),
  kind: z.literal('AdmissionReview'),
  request: requestSchema,
});

export type AdmissionRequest = z.infer<typeof requestSchema>;

/** The objects of a request, projected. */
export interface Subject {
  readonly ref: ObjectRef;
  readonly before?: Meta;
  readonly after?: Meta;
  /** The version that the client wrote: `requestKind`, never the converted object's (facts/admission.md §a). */
  readonly version: string;
}

/** The kind that the client wrote. */
export function kindOf({
  requestKind,
  kind: { group, kind },
}: Pick<AdmissionRequest, 'requestKind' | 'kind'>): GroupKind {
  return requestKind ? groupKind(requestKind.group, requestKind.kind) : groupKind(group, kind);
}

/** What a request is about; undefined where it holds no object at all. */
export function subjectOf(request: AdmissionRequest): Subject | undefined {
  const { version } = request.requestKind ?? request.kind;
  const kind = kindOf(request);
  const object = record(request.object);
  const oldObject = record(request.oldObject);
  const present = object ?? oldObject;
  if (present === undefined) return undefined;
  const scoped = isKind(kind) && KINDS[kind].scope === 'Cluster';
  const namespace = scoped ? '' : request.namespace || text(record(present['metadata'])?.['namespace']) || '';
  const after = request.operation === 'DELETE' || object === undefined ? undefined : glimpse(kind, namespace, object);
  const before = oldObject === undefined ? undefined : glimpse(kind, namespace, oldObject);
  const name = request.name || after?.name || before?.name || request.uid;
  // the API server clears the deletionTimestamp of what is created (registry/rest BeforeCreate)
  const terminating = (projected: Meta) => projected.terminating && request.operation !== 'CREATE';
  const named = (projected: Meta): Meta =>
    projected.name === name && projected.terminating === terminating(projected)
      ? projected
      : { ...projected, name, terminating: terminating(projected) };
  const subject: { -readonly [Key in keyof Subject]: Subject[Key] } = { ref: { kind, namespace, name }, version };
  if (before !== undefined) subject.before = named(before);
  if (after !== undefined) subject.after = named(after);
  return subject;
}

/**
 * The versions by which earlier writers wrote an object: `managedFields` of the old object tell, else its `apiVersion`
 * (which, converted, says nothing better). Status writers do not count.
 */
export function earlierVersions(oldObject: unknown): readonly string[] {
  const managed = records(at(oldObject, 'metadata', 'managedFields'))
    .filter(entry => (text(entry['subresource']) ?? '') === '')
    .flatMap(entry => text(entry['apiVersion']) ?? []);
  const versions = managed.length > 0 ? managed : [text(at(oldObject, 'apiVersion')) ?? ''];
  return [...new Set(versions.filter(version => version !== '').map(version => splitApiVersion(version).version))];
}

export interface ObjectRequest {
  readonly operation?: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly old?: unknown;
  readonly dryRun?: boolean;
}

/**
 * The object as the API server would store it: of kinds with a status of their own an UPDATE leaves the status alone (each kind's
 * PrepareForUpdate), and manifests have none.
 */
export function withStatusOf(old: unknown, object: unknown): unknown {
  const status = at(old, 'status');
  const written = record(object);
  return status === undefined || written === undefined || at(written, 'status') !== undefined
    ? object
    : { ...written, status };
}

/**
 * The request that writing this object would be. Undefined where it is no Kubernetes object.
 * The operation defaults to UPDATE where there is an old object, else to CREATE.
 */
export function requestFor(object: unknown, { operation, old, dryRun }: ObjectRequest): AdmissionRequest | undefined {
  const identity = identify(object);
  if (identity === undefined) return undefined;
  const asked = operation ?? (old === undefined ? 'CREATE' : 'UPDATE');
  const { group, kind } = splitGroupKind(identity.kind);
  return {
    uid: '00000000-0000-0000-0000-000000000000',
    kind: { group, version: identity.version, kind },
    requestKind: { group, version: identity.version, kind },
    name: identity.name,
    namespace: identity.namespace,
    operation: asked,
    userInfo: { username: 'waywarden-review', groups: [] },
    object: asked === 'DELETE' ? null : asked === 'UPDATE' ? withStatusOf(old, object) : object,
    oldObject: asked === 'DELETE' ? (old ?? object) : asked === 'CREATE' ? null : (old ?? null),
    dryRun: dryRun ?? false,
  };
}

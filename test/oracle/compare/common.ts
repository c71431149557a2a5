// What all comparisons are made of.
import { policies } from '../../../policies/index.ts';
import type { Policy, Report } from '../../../src/engine/policy.ts';
import { PAUSE } from '../../../src/engine/policy.ts';
import { record } from '../../../src/kube/json.ts';
import type { ObjectRef } from '../../../src/kube/kind.ts';
import type { Meta } from '../../../src/mesh/kinds/meta.ts';
import type { Mesh } from '../../../src/mesh/mesh.ts';
import type { Manifest } from '../../harness/objects.ts';
import type { Observation } from '../observe.ts';

/** One object of a mesh and all that there is to know about it. */
export interface Asked {
  readonly mesh: Mesh;
  /** As it was sent. */
  readonly object: Manifest;
  readonly ref: ObjectRef;
  /** Its projection. */
  readonly subject: Meta;
  readonly seen: Observation;
  /** What the API server said against it; undefined where it was accepted. */
  readonly refused?: string;
}

/** A question with two answers: the model's and istiod's. */
export type Answered = readonly [question: string, model: string, istio: string];
export type Comparison = (asked: Asked) => Iterable<Answered>;

export function reportsBy(mesh: Mesh, id: string, subject: Meta): readonly Report[] {
  const policy: Policy | undefined = policies.find(one => one.id === id);
  if (policy === undefined) throw new Error(`no policy ${id}`);
  const context = { mesh, options: policy.options.parse({}), stage: 'audit', skipped: () => {} } as const;
  const found: Report[] = [];
  for (const report of policy.check(subject, context)) if (report !== PAUSE) found.push(report);
  return found;
}

/** The findings of one policy on one object, by id. */
export function findingsOn(mesh: Mesh, id: string, subject: Meta): ReadonlySet<string> {
  return new Set(reportsBy(mesh, id, subject).map(({ finding }) => finding));
}

/** An object as it is stored. */
export function storedAs({ seen, object, ref }: Asked): Manifest | undefined {
  return seen.stored.get(`${object.kind}/${ref.namespace}/${ref.name}`);
}

/** The hosts of ambientz under which a target is known: of a Service one, of a ServiceEntry all of its. */
export function hostsOf(mesh: Mesh, target: ObjectRef): readonly string[] {
  if (target.kind === 'Service') return [`${target.name}.${target.namespace}.svc.cluster.local`];
  return mesh.get('ServiceEntry.networking.istio.io', target.namespace, target.name)?.hosts ?? [];
}

/** Names in an order of their own, or a word for none. */
export function together(names: Iterable<string>, none: string): string {
  return [...new Set(names)].sort().join(' ') || none;
}

/** Attributes with values in one match. */
export function attributes(value: unknown): readonly string[] {
  return Object.entries(record(value) ?? {})
    .filter(([, entry]) => Array.isArray(entry) && entry.length > 0)
    .map(([key]) => key);
}

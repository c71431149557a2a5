// What a policy is.
import type { z } from 'zod';
import { type GroupKind, type ObjectRef, splitGroupKind } from '../kube/kind.ts';
import type { PatchOperation } from '../kube/patch.ts';
import type { Meta } from '../mesh/kinds/meta.ts';
import type { Change, Mesh } from '../mesh/mesh.ts';

/** What a finding leads to: the request is refused, answered with a warning, only logged, or nothing. */
export type Action = 'deny' | 'warn' | 'log' | 'off';

/**
 * Where a finding can be seen. `mutate`: before the schema and built-in validation, so the only place to explain an object that
 * these will refuse. `validate`: after them. `files`: manifests that no API server has seen. `audit`: what is stored.
 */
export type Stage = 'mutate' | 'validate' | 'files' | 'audit';

/** One row of a policy's table of findings. */
export interface FindingSpec {
  readonly action: Action;
  /** The Istio release that the finding starts with, such as '1.28'. */
  readonly since?: string;
  /** The last Istio release that it holds for. */
  readonly until?: string;
  readonly seen: readonly Stage[];
  /** One line for tables and reports. */
  readonly doc: string;
  /** True where the object alone shows it, so that it holds before the first sync and with the API server gone. */
  readonly objectAlone?: true;
}

/** What a policy has found; the engine adds the policy, the page and the action that the configuration leaves of it. */
export interface Report<Id extends string = string> {
  readonly finding: Id;
  /**
   * What makes this occurrence the same one tomorrow: a target, a namespace, a rule's attributes. Never a workload, a count, a
   * message or an API version.
   */
  readonly key: string;
  /**
   * The reference that the finding is about. Where the change replaces a finding about it by an equal or weaker one, that is
   * progress and not new. Default: the key.
   */
  readonly about?: string;
  /** What happens, as an operator would say it, without a final full stop: 'this DENY rule never matches in ztunnel: requests to /admin are allowed'. */
  readonly effect: string;
  /** Fields and values that repair it, without a final full stop. */
  readonly fix: string;
  /** What the finding rests on: objects, present or missing. */
  readonly evidence: readonly ObjectRef[];
  /** More that it rests on, in words: a release, a setting, the time of day. */
  readonly because?: string;
  /** False where a part of the evidence is unknown: never more than a warning then. Default true. */
  readonly certain?: boolean;
  /** Where this occurrence is milder (or stricter) than the table says. */
  readonly action?: Action;
  /** JSON pointer to the field of the subject that is at fault, for positions in files. */
  readonly path?: string;
  /** At `mutate`: operations that repair the subject. */
  readonly patch?: readonly PatchOperation[];
  /**
   * What to report instead where the change took away what worked: for a subject that is not itself written, and of which
   * `held` is true in Mesh A. What only waits for a promise is a warning; the same promise in the place of what worked is a loss.
   */
  readonly lost?: { readonly instead: Report<Id>; held(before: Mesh): boolean };
}

/** Yielded by long searches, so that the engine may look at the clock and let other requests through. */
export const PAUSE = Symbol('pause');

/** The items, with a pause after every so many of them. */
export function* pausing<T>(items: Iterable<T>, every = 50): Iterable<T | typeof PAUSE> {
  let count = 0;
  for (const item of items) {
    yield item;
    count += 1;
    if (count % every === 0) yield PAUSE;
  }
}

/** Of the items the wanted ones, with a pause after every so many that were looked at. */
export function* matching<T>(items: Iterable<T>, wanted: (item: T) => boolean, every = 50): Iterable<T | typeof PAUSE> {
  let count = 0;
  for (const item of items) {
    if (wanted(item)) yield item;
    count += 1;
    if (count % every === 0) yield PAUSE;
  }
}

/** What a policy knows of the request by which its subject comes; only where the subject is what is being written. */
export interface RequestFacts {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';
  /** The version that the client wrote (`requestKind.version`, or the file's `apiVersion`). */
  readonly version: string;
  /** Versions by which earlier writers wrote the object (managedFields, else the old object's apiVersion); empty on CREATE. */
  readonly earlierVersions: readonly string[];
}

export interface CheckContext<Options> {
  readonly mesh: Mesh;
  readonly options: Options;
  readonly stage: Stage;
  /** undefined where the subject is checked because of another object's change, and in an audit. */
  readonly request?: RequestFacts;
  /** Says that a check could not be made because something is not known: 'whether orders/orders-api has a waypoint'. */
  skipped(what: string): void;
}

/** The two Meshes of a change. */
export interface ChangeContext {
  readonly before: Mesh;
  readonly after: Mesh;
}

export interface Policy<Options = unknown, Id extends string = string> {
  readonly id: string;
  /** One line: what it guards against. */
  readonly title: string;
  /** Kinds that it judges; `*.GROUP` for every kind of a group. */
  readonly subjects: readonly GroupKind[];
  /** Kinds that it reads beside its subjects; a test holds it against what it was seen reading. */
  readonly reads: readonly GroupKind[];
  readonly findings: Readonly<Record<Id, FindingSpec>>;
  readonly options: z.ZodType<Options>;
  /** Judges one subject. Pure: the same subject and Mesh give the same reports in the same order. */
  check(subject: Meta, context: CheckContext<Options>): Iterable<Report<Id> | typeof PAUSE>;
  /**
   * The subjects, beside the changed object, that a change may give findings, or worse ones. May name too many, never too few: a
   * property test holds it against evaluating everything. Those whose findings can only go need not be named.
   */
  affected(change: Change, context: ChangeContext): Iterable<ObjectRef | typeof PAUSE>;
}

/** Whether a policy judges objects of a kind. */
export function judges(policy: Pick<Policy, 'subjects'>, kind: GroupKind): boolean {
  return policy.subjects.includes(kind) || policy.subjects.includes(`*.${splitGroupKind(kind).group}`);
}

/** Checks the shape of a policy at compile time; finding ids are inferred from the table. */
export function definePolicy<Options, Id extends string>(policy: Policy<Options, Id>): Policy<Options, Id> {
  return policy;
}

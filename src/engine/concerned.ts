// Which policies have something to say about a change of a kind, so that a review asks no others.
import { type GroupKind, splitGroupKind } from '../kube/kind.ts';
import { judges, type Policy, type Stage } from './policy.ts';

export interface Concerned {
  /** Those that judge objects of the kind. */
  readonly judging: readonly Policy[];
  /** Those whose subjects elsewhere it can affect: they judge the kind or read it. What can deny comes first: time may not suffice. */
  readonly affected: readonly Policy[];
}

/** Kinds that are remembered for a set of policies; users can make up as many as they like. */
const REMEMBERED = 500;
const known = new WeakMap<readonly Policy[], Map<GroupKind, Partial<Record<Stage, Concerned>>>>();

/** The policies that a change of this kind concerns at a stage. */
export function concernedBy(policies: readonly Policy[], kind: GroupKind, stage: Stage): Concerned {
  let kinds = known.get(policies);
  if (kinds === undefined) {
    kinds = new Map();
    known.set(policies, kinds);
  }
  let stages = kinds.get(kind);
  if (stages === undefined) {
    stages = {};
    if (kinds.size < REMEMBERED) kinds.set(kind, stages);
  }
  stages[stage] ??= found(policies, kind, stage);
  return stages[stage];
}

function found(policies: readonly Policy[], kind: GroupKind, stage: Stage): Concerned {
  const visible = policies.filter(({ findings }) => Object.values(findings).some(({ seen }) => seen.includes(stage)));
  const judging = visible.filter(policy => judges(policy, kind));
  const concerned = visible.filter(policy => judges(policy, kind) || reads(policy, kind));
  return { judging, affected: deniersFirst(concerned) };
}

/** What can deny is looked at first: the time may not suffice for all. */
export function deniersFirst(policies: readonly Policy[]): readonly Policy[] {
  const denies = ({ findings }: Policy) => Object.values(findings).some(({ action }) => action === 'deny');
  return [...policies.filter(denies), ...policies.filter(policy => !denies(policy))];
}

function reads(policy: Policy, kind: GroupKind): boolean {
  return policy.reads.includes(kind) || policy.reads.includes(`*.${splitGroupKind(kind).group}`);
}

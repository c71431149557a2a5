// Which findings does Mesh B have that Mesh A has not? The one question behind admission, check, audit and plan.
import { performance } from 'node:perf_hooks';
import { setImmediate as breathe } from 'node:timers/promises';
import { type ObjectRef, refKey } from '../kube/kind.ts';
import type { Meta } from '../mesh/kinds/meta.ts';
import { WORKLOAD_KINDS, type Workload } from '../mesh/kinds/workloads.ts';
import type { Change, Mesh } from '../mesh/mesh.ts';
import { concernedBy } from './concerned.ts';
import { actionOf, type Circumstances, compareActions, exemptionFor, inForce } from './enforce.ts';
import {
  type Action,
  type CheckContext,
  PAUSE,
  type Policy,
  type Report,
  type RequestFacts,
  type Stage,
} from './policy.ts';
import type { Exemption, Settings } from './settings.ts';

/** A report with its policy and what it leads to. */
export interface Finding extends Report {
  readonly policy: string;
  readonly subject: ObjectRef;
  readonly action: Action;
  /** `new`: Mesh A has it not. `old`: the written object had it before; at most a warning. */
  readonly standing: 'new' | 'old';
  /** The exemption that made it `log`. */
  readonly exemption?: Exemption;
}

export interface Question {
  readonly policies: readonly Policy[];
  readonly settings: Settings;
  readonly before: Mesh;
  readonly after: Mesh;
  readonly changes: readonly Change[];
  readonly stage: Stage;
  /** By `refKey` of a written object. */
  readonly requests?: ReadonlyMap<string, RequestFacts>;
  /** `performance.now()` by which to answer with what is known by then. */
  readonly deadline?: number;
  /** Milliseconds since 1970, for exemptions. */
  readonly now: number;
}

export interface Answer {
  /** What has to be said or refused, the strongest first. */
  readonly findings: readonly Finding[];
  /** Checks that could not be made because something is not known. */
  readonly skipped: readonly string[];
  /** True where the deadline or the limit of examples ended the search. */
  readonly unfinished: boolean;
  /** Subjects, as policy and reference, that were not looked at any more. */
  readonly unchecked: number;
  /** Exemptions that would have covered a finding and have expired. */
  readonly expired: readonly Exemption[];
}

/** Work between two breaths, in milliseconds. */
const SLICE = 4;
/** Pauses between two looks at the clock: each stands for some microseconds of work. */
const PAUSES = 8;
/** Findings of one kind that are enough to make the point. */
const EXAMPLES = 20;

const WORKLOADS: ReadonlySet<string> = new Set(WORKLOAD_KINDS);

interface Clock {
  /** Resolves at once, or after other requests had their turn. False once the deadline has passed. */
  tick(): boolean | Promise<boolean>;
}

function clock(deadline: number | undefined): Clock {
  let last = performance.now();
  // the first look is at once: the time may have been spent before
  let pauses = PAUSES;
  return {
    tick() {
      pauses += 1;
      if (pauses < PAUSES) return true;
      pauses = 0;
      const now = performance.now();
      if (deadline !== undefined && now >= deadline) return false;
      if (now - last < SLICE) return true;
      return breathe().then(() => {
        last = performance.now();
        return deadline === undefined || last < deadline;
      });
    },
  };
}

/** Identity of a finding: the same tomorrow as today, whatever its message says. */
export function identityOf(policy: string, subject: ObjectRef, report: Report): string {
  return `${policy}/${report.finding}\n${refKey(subject)}\n${report.key}`;
}

/** Work that asks at each pause whether it may go on. */
type Work<Result> = Generator<typeof PAUSE, Result, boolean>;

interface Task {
  readonly policy: Policy;
  readonly subject: ObjectRef;
  readonly own: boolean;
}

function terminating(mesh: Mesh, object: Meta): boolean {
  return (
    object.terminating || (object.namespace !== '' && mesh.get('Namespace', '', object.namespace)?.terminating === true)
  );
}

/** The options of each policy, parsed once for each settings object. */
const parsedOptions = new WeakMap<Settings, Map<string, unknown>>();

/** A policy's options as the settings have them, with its defaults. */
export function optionsOf(policy: Policy, settings: Settings): unknown {
  let known = parsedOptions.get(settings);
  if (known === undefined) {
    known = new Map();
    parsedOptions.set(settings, known);
  }
  if (!known.has(policy.id)) known.set(policy.id, policy.options.parse(settings.policies[policy.id]?.options ?? {}));
  return known.get(policy.id);
}

/** Finds what is new in `after`, and what the written objects had before. */
export async function difference(question: Question): Promise<Answer> {
  const { policies, settings, before, after, changes, stage, requests, now } = question;
  const time = clock(question.deadline);
  const written = new Map(changes.map(change => [refKey(change.ref), change]));
  const skipped = new Set<string>();
  const expired = new Set<Exemption>();
  const findings: Finding[] = [];
  const examples = new Map<string, number>();
  let unfinished = false;
  let unchecked = 0;

  // what stands in a Namespace that goes, goes with it
  const leaving = new Set(
    changes.filter(({ ref, after: is }) => ref.kind === 'Namespace' && is === undefined).map(({ ref }) => ref.name),
  );
  const objects = changes.map(change => change.after ?? change.before);
  const circumstances: Omit<Circumstances, 'elsewhere'> = {
    mesh: after,
    workload: objects.some(object => object !== undefined && WORKLOADS.has(object.kind)),
    component: objects.some(object => (object as Workload | undefined)?.component !== undefined),
    deletion: changes.every(change => change.after === undefined),
    admission: stage === 'mutate' || stage === 'validate',
    now,
  };

  function* reportsOn(task: Task, mesh: Mesh, note: boolean): Work<readonly Report[] | undefined> {
    const object = mesh.object(task.subject);
    if (object === undefined || terminating(mesh, object) || leaving.has(object.namespace)) return [];
    const request = task.own && note ? requests?.get(refKey(task.subject)) : undefined;
    const context: CheckContext<unknown> = {
      mesh,
      options: optionsOf(task.policy, settings),
      stage,
      ...(request === undefined ? {} : { request }),
      skipped: what => {
        if (note) skipped.add(what);
      },
    };
    const found: Report[] = [];
    for (const report of task.policy.check(object, context)) {
      if (report !== PAUSE) {
        if (task.policy.findings[report.finding]?.seen.includes(stage)) found.push(report);
      } else if (!(yield PAUSE)) return undefined;
    }
    return found;
  }

  function* perform(task: Task): Work<boolean> {
    const { policy, subject, own } = task;
    const present = yield* reportsOn(task, after, true);
    if (present === undefined) return false;
    if (present.length === 0) return true;
    const change = written.get(refKey(subject));
    const past = change !== undefined && change.before === undefined ? [] : yield* reportsOn(task, before, false);
    if (past === undefined) return false;
    const known = new Set(past.map(report => identityOf(policy.id, subject, report)));
    const current = new Set(present.map(report => identityOf(policy.id, subject, report)));
    const seen = new Set<string>();
    for (const { lost, ...shown } of present) {
      let report: Report = shown;
      let identity = identityOf(policy.id, subject, report);
      if (!own && lost !== undefined && !known.has(identity) && lost.held(before)) {
        report = lost.instead;
        identity = identityOf(policy.id, subject, report);
      }
      if (seen.has(identity)) continue;
      seen.add(identity);
      let action = actionOf(policy, report, subject, settings, { ...circumstances, elsewhere: !own });
      if (action === 'off') continue;
      let old = known.has(identity);
      if (!old && past.length > 0) {
        // progress: it takes the place of a finding about the same reference that was as strong and is gone
        const about = report.about ?? report.key;
        old = past.some(
          was =>
            (was.about ?? was.key) === about &&
            !current.has(identityOf(policy.id, subject, was)) &&
            compareActions(strength(policy, was), strength(policy, report)) >= 0,
        );
      }
      if (old && !own) continue;
      const exemption = exemptionFor(settings, policy.id, report.finding, subject);
      const exempt = exemption !== undefined && inForce(exemption, now);
      if (exemption !== undefined && !exempt) expired.add(exemption);
      if (exempt) action = 'log';
      if (action === 'deny' && (old || settings.mode === 'audit')) action = 'warn';
      findings.push({
        ...report,
        policy: policy.id,
        subject,
        action,
        standing: old ? 'old' : 'new',
        ...(exempt ? { exemption } : {}),
      });
      const kind = `${policy.id}/${report.finding}`;
      examples.set(kind, (examples.get(kind) ?? 0) + 1);
      if (!own && (examples.get(kind) ?? 0) >= EXAMPLES) return false;
    }
    return true;
  }

  function* search(): Work<void> {
    const done = new Set<string>();
    for (const { ref } of changes) {
      for (const policy of concernedBy(policies, ref.kind, stage).judging) {
        done.add(`${policy.id}\n${refKey(ref)}`);
        if (!(yield PAUSE) || !(yield* perform({ policy, subject: ref, own: true }))) {
          unfinished = true;
          unchecked += 1;
        }
      }
    }
    const concerned = changes.map(change => concernedBy(policies, change.ref.kind, stage).affected);
    const ordered = concerned.length === 1 ? (concerned[0] ?? []) : inOrder(policies, new Set(concerned.flat()));
    for (const policy of ordered) {
      for (const [index, change] of changes.entries()) {
        if (concerned[index]?.includes(policy) !== true) continue;
        let given = false;
        for (const subject of policy.affected(change, { before, after })) {
          if (!(yield PAUSE)) {
            unfinished = true;
            unchecked += 1;
            return;
          }
          if (subject === PAUSE) continue;
          const key = `${policy.id}\n${refKey(subject)}`;
          if (done.has(key)) continue;
          done.add(key);
          if (yield* perform({ policy, subject, own: written.has(refKey(subject)) })) continue;
          unfinished = true;
          unchecked += 1;
          given = true;
          break;
        }
        if (given) break;
      }
    }
  }

  const work = search();
  for (let step = work.next(); step.done !== true; ) {
    const going = time.tick();
    step = work.next(typeof going === 'boolean' ? going : await going);
  }
  findings.sort((a, b) => compareActions(b.action, a.action));
  return { findings, skipped: [...skipped], unfinished, unchecked, expired: [...expired] };
}

function strength(policy: Policy, report: Report): Action {
  return report.action ?? policy.findings[report.finding]?.action ?? 'warn';
}

/** What can deny is looked at first: the time may not suffice for all. */
function inOrder(policies: readonly Policy[], concerned: ReadonlySet<Policy>): readonly Policy[] {
  const denies = (policy: Policy) => Object.values(policy.findings).some(({ action }) => action === 'deny');
  const those = policies.filter(policy => concerned.has(policy));
  return [...those.filter(denies), ...those.filter(policy => !denies(policy))];
}

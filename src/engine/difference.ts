// Which findings does Mesh B have that Mesh A has not? The one question behind admission, check, audit and plan.
import { performance } from 'node:perf_hooks';
import { setImmediate as breathe } from 'node:timers/promises';
import { type ObjectRef, ref, refKey } from '../kube/kind.ts';
import type { Meta } from '../mesh/kinds/meta.ts';
import { WORKLOADS, type Workload } from '../mesh/kinds/workloads.ts';
import { isKind } from '../mesh/kinds.ts';
import { type Change, isTerminating, type Mesh } from '../mesh/mesh.ts';
import { concernedBy, deniersFirst } from './concerned.ts';
import { actionOf, type Circumstances, compareActions, exemptionFor, inForce, milder } from './enforce.ts';
import {
  type Action,
  type CheckContext,
  judges,
  PAUSE,
  type Policy,
  type Report,
  type RequestFacts,
  type Stage,
} from './policy.ts';
import type { Exemption, Settings } from './settings.ts';

/** A report with its policy and what it leads to. */
export interface Finding extends Omit<Report, 'evidence'> {
  /** What it rests on; `missing` where that is an object that is not there. */
  readonly evidence: readonly (ObjectRef & { readonly missing?: true })[];
  readonly policy: string;
  readonly subject: ObjectRef;
  readonly action: Action;
  /** `new`: Mesh A has it not. `old`: the written object had it before; at most a warning. */
  readonly standing: 'new' | 'old';
  /** The exemption that made it `log`. */
  readonly exemption?: Exemption;
  /** True for a denial that audit mode made a warning. */
  readonly audited?: true;
}

/** What became of a finding, for logs and figures: a denial that audit mode made a warning is told from others. */
export function takenOf({ action, audited }: Pick<Finding, 'action' | 'audited'>): Action | 'would-deny' {
  return audited === true ? 'would-deny' : action;
}

export interface Question {
  readonly policies: readonly Policy[];
  readonly settings: Settings;
  readonly before: Mesh;
  readonly after: Mesh;
  readonly changes: readonly Change[];
  readonly stage: Stage;
  /** The request by which an object is written, where there is one. */
  readonly request?: (written: ObjectRef) => RequestFacts | undefined;
  /** `performance.now()` by which to answer with what is known by then. */
  readonly deadline?: number | undefined;
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

interface Clock {
  /** Resolves at once, or after other requests had their turn. False once the deadline has passed. */
  tick(): boolean | Promise<boolean>;
}

function clock(deadline: number | undefined): Clock {
  let last = performance.now();
  // the first look is at once: the time may have been spent before
  let pauses = PAUSES;
  let over = false;
  return {
    tick() {
      if (over) return false;
      pauses += 1;
      if (pauses < PAUSES) return true;
      pauses = 0;
      const now = performance.now();
      over = deadline !== undefined && now >= deadline;
      if (over) return false;
      if (now - last < SLICE) return true;
      return breathe().then(() => {
        last = performance.now();
        over = deadline !== undefined && last >= deadline;
        return !over;
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

type Step = IteratorResult<Report | typeof PAUSE>;

const NOTHING: readonly never[] = Object.freeze([]);

/** What the past could not tell is no news. */
const unnoted = (): void => {};

interface Task {
  readonly policy: Policy;
  readonly subject: ObjectRef;
  readonly own: boolean;
}

/**
 * A search under way. Its functions stand outside of `difference`: V8 makes a hidden class for every generator function that is
 * called for the first time, which lives in the old space and keeps all that the function closes over until the next major
 * collection. Made anew for each review, that was a third of its time.
 */
interface Search {
  readonly question: Question;
  /** By `refKey`; one change alone, as at admission, is found without it. */
  readonly byKey: ReadonlyMap<string, Change> | undefined;
  readonly note: (what: string) => void;
  readonly findings: Finding[];
  // made when there is something to keep in them: most reviews find nothing
  circumstances: Omit<Circumstances, 'elsewhere'> | undefined;
  skipped: Set<string> | undefined;
  expired: Set<Exemption> | undefined;
  examples: Map<string, number> | undefined;
  unfinished: boolean;
  unchecked: number;
}

/** The change of a written object. */
function writtenAs({ byKey, question }: Search, { kind, namespace, name }: ObjectRef): Change | undefined {
  if (byKey !== undefined) return byKey.get(refKey({ kind, namespace, name }));
  const [only] = question.changes;
  return only?.ref.name === name && only.ref.namespace === namespace && only.ref.kind === kind ? only : undefined;
}

/** True for what nobody judges any more: it is gone or going. What stands in a Namespace that goes, goes with it. */
function going({ question }: Search, object: Meta, mesh: Mesh): boolean {
  if (terminating(mesh, object)) return true;
  for (const { ref, after } of question.changes)
    if (ref.kind === 'Namespace' && after === undefined && ref.name === object.namespace) return true;
  return false;
}

/** What the settings go by beside a report and its subject. */
function circumstancesOf({ changes, after, stage, now }: Question): Omit<Circumstances, 'elsewhere'> {
  const objects = changes.map(change => change.after ?? change.before);
  return {
    mesh: after,
    workload: objects.some(object => object !== undefined && WORKLOADS.has(object.kind)),
    component: objects.some(object => (object as Workload | undefined)?.component !== undefined),
    deletion: changes.every(change => change.after === undefined),
    admission: stage === 'mutate' || stage === 'validate',
    now,
  };
}

/** Where a policy begins to judge an object in a Mesh. */
function begun(
  { question: { settings, stage } }: Search,
  policy: Policy,
  object: Meta,
  mesh: Mesh,
  request: RequestFacts | undefined,
  skipped: (what: string) => void,
): Iterator<Report | typeof PAUSE> {
  const options = optionsOf(policy, settings);
  const context: CheckContext<unknown> =
    request === undefined ? { mesh, options, stage, skipped } : { mesh, options, stage, request, skipped };
  return policy.check(object, context)[Symbol.iterator]();
}

/** A piece of evidence, said to be missing where it is. */
function marked(object: ObjectRef, mesh: Mesh): Finding['evidence'][number] {
  const { kind, namespace, name } = object;
  const missing = isKind(kind) && mesh.find(kind, namespace, name) === 'absent';
  return missing ? { ...ref(object), missing } : ref(object);
}

function terminating(mesh: Mesh, object: Meta): boolean {
  return object.terminating || (object.namespace !== '' && isTerminating(mesh, object.namespace));
}

/** The options of each policy, parsed once for each settings object. */
const parsedOptions = new WeakMap<Settings, Map<Policy, unknown>>();

/** A policy's options as the settings have them, with its defaults. */
export function optionsOf(policy: Policy, settings: Settings): unknown {
  let known = parsedOptions.get(settings);
  if (known === undefined) {
    known = new Map();
    parsedOptions.set(settings, known);
  }
  const options = known.get(policy);
  if (options !== undefined || known.has(policy)) return options;
  const parsed = policy.options.parse(settings.policies[policy.id]?.options ?? {});
  known.set(policy, parsed);
  return parsed;
}

/** Finds what is new in `after`, and what the written objects had before. At once where that takes no longer than a slice. */
export function difference(question: Question): Answer | Promise<Answer> {
  const { changes } = question;
  const time = clock(question.deadline);
  const run: Search = {
    question,
    byKey: changes.length > 1 ? new Map(changes.map(change => [refKey(change.ref), change])) : undefined,
    note(what) {
      run.skipped ??= new Set();
      run.skipped.add(what);
    },
    findings: [],
    circumstances: undefined,
    skipped: undefined,
    expired: undefined,
    examples: undefined,
    unfinished: false,
    unchecked: 0,
  };
  const work = search(run);
  for (let step = work.next(); step.done !== true; ) {
    const going = time.tick();
    if (typeof going !== 'boolean') return rest(work, going, time).then(() => answerOf(run));
    step = work.next(going);
  }
  return answerOf(run);
}

/** What would be refused comes before other warnings. */
const heed = ({ audited }: Finding): number => (audited === true ? 1 : 0);

function answerOf({ findings, skipped, unfinished, unchecked, expired }: Search): Answer {
  if (findings.length > 1) findings.sort((a, b) => compareActions(b.action, a.action) || heed(b) - heed(a));
  return {
    findings,
    skipped: skipped === undefined ? NOTHING : [...skipped],
    unfinished,
    unchecked,
    expired: expired === undefined ? NOTHING : [...expired],
  };
}

/** All reports of a check that has begun; undefined where the time is over. */
function* reportsOf(
  { question: { stage } }: Search,
  policy: Policy,
  check: Iterator<Report | typeof PAUSE>,
  first: Step,
): Work<readonly Report[] | undefined> {
  const found: Report[] = [];
  for (let step = first; step.done !== true; step = check.next()) {
    if (step.value !== PAUSE) {
      if (policy.findings[step.value.finding]?.seen.includes(stage)) found.push(step.value);
      // a policy that finds much may pause too little
      if (found.length % 16 === 0 && !(yield PAUSE)) return undefined;
    } else if (!(yield PAUSE)) return undefined;
  }
  return found;
}

/** Judges a subject as it is and as it was. `check` has begun, and `first` is what came of it. False where the search ends. */
function* perform(
  run: Search,
  { policy, subject, own }: Task,
  check: Iterator<Report | typeof PAUSE>,
  first: Step,
): Work<boolean> {
  const { before: meshBefore, after, settings, now } = run.question;
  const present = yield* reportsOf(run, policy, check, first);
  if (present === undefined) return false;
  if (present.length === 0) return true;
  const change = own ? writtenAs(run, subject) : undefined;
  let past: readonly Report[] | undefined = [];
  const was = change !== undefined && change.before === undefined ? undefined : meshBefore.object(subject);
  if (was !== undefined && !going(run, was, meshBefore)) {
    const earlier = begun(run, policy, was, meshBefore, undefined, unnoted);
    past = yield* reportsOf(run, policy, earlier, earlier.next());
    if (past === undefined) return false;
  }
  // each as strong as it was: a dry run that is enforced now, or a guess that is known now, is news
  const known = new Map<string, Action>();
  for (const report of past) {
    const identity = identityOf(policy.id, subject, report);
    const strongest = known.get(identity);
    const as = strength(policy, report);
    if (strongest === undefined || compareActions(as, strongest) > 0) known.set(identity, as);
  }
  const current = new Set(present.map(report => identityOf(policy.id, subject, report)));
  const seen = new Set<string>();
  for (const { lost, ...shown } of present) {
    let report: Report = shown;
    let identity = identityOf(policy.id, subject, report);
    if (!own && lost !== undefined && !known.has(identity) && lost.held(meshBefore)) {
      report = lost.instead;
      identity = identityOf(policy.id, subject, report);
    }
    if (seen.has(identity)) continue;
    seen.add(identity);
    run.circumstances ??= circumstancesOf(run.question);
    let action = actionOf(policy, report, subject, settings, { ...run.circumstances, elsewhere: !own });
    if (action === 'off') continue;
    const before = known.get(identity);
    let old = before !== undefined && compareActions(before, strength(policy, report)) >= 0;
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
    if (exemption !== undefined && !exempt) {
      run.expired ??= new Set();
      run.expired.add(exemption);
    }
    if (exempt) action = 'log';
    if (action === 'deny' && old) action = 'warn';
    const audited = action === 'deny' && settings.mode === 'audit';
    if (audited) action = 'warn';
    run.findings.push({
      ...report,
      evidence: report.evidence.map(ref => marked(ref, after)),
      policy: policy.id,
      // `affected` may hand out the object itself; its identity alone belongs in a report
      subject: ref(subject),
      action,
      standing: old ? 'old' : 'new',
      ...(exempt ? { exemption } : {}),
      ...(audited ? { audited } : {}),
    });
    // enough to make the point, where the point is a refusal: what only warns must not hide one
    if (own || action !== 'deny') continue;
    const kind = `${policy.id}/${report.finding}`;
    run.examples ??= new Map();
    const times = (run.examples.get(kind) ?? 0) + 1;
    run.examples.set(kind, times);
    if (times >= EXAMPLES) return false;
  }
  return true;
}

function* search(run: Search): Work<void> {
  const { changes, policies, stage, request: requestOf, after, before } = run.question;
  for (const { ref } of changes) {
    const object = after.object(ref);
    if (object === undefined || going(run, object, after)) continue;
    const request = requestOf?.(ref);
    if (!(yield PAUSE)) {
      run.unfinished = true;
      run.unchecked += 1;
      continue;
    }
    for (const policy of concernedBy(policies, ref.kind, stage).judging) {
      // most have nothing to say, which takes no more than asking once
      const check = begun(run, policy, object, after, request, run.note);
      const first = check.next();
      if (first.done === true) continue;
      if (yield* perform(run, { policy, subject: ref, own: true }, check, first)) continue;
      run.unfinished = true;
      run.unchecked += 1;
    }
  }
  const meshes = { before, after };
  const [only] = changes;
  if (changes.length === 1 && only !== undefined) {
    for (const policy of concernedBy(policies, only.ref.kind, stage).affected) {
      // most affect nothing else, which takes no more than asking once
      const affected = policy.affected(only, meshes)[Symbol.iterator]();
      const first = affected.next();
      if (first.done === true) continue;
      const given = yield* elsewhere(run, policy, affected, first, undefined);
      if (given === 'over') return;
    }
    return;
  }
  const concerned = changes.map(change => concernedBy(policies, change.ref.kind, stage).affected);
  const any = new Set(concerned.flat());
  for (const policy of deniersFirst(policies.filter(one => any.has(one)))) {
    const done = new Set<string>();
    for (const [index, change] of changes.entries()) {
      if (concerned[index]?.includes(policy) !== true) continue;
      const affected = policy.affected(change, meshes)[Symbol.iterator]();
      const given = yield* elsewhere(run, policy, affected, affected.next(), done);
      if (given === 'over') return;
      if (given === 'enough') break;
    }
  }
}

/**
 * Judges what a change affects elsewhere. `done` holds the keys of what was judged for other changes. 'over' where the time is,
 * 'enough' where more of the policy need not be looked at.
 */
function* elsewhere(
  run: Search,
  policy: Policy,
  affected: Iterator<ObjectRef | typeof PAUSE>,
  first: IteratorResult<ObjectRef | typeof PAUSE>,
  done: Set<string> | undefined,
): Work<'over' | 'enough' | undefined> {
  const { after } = run.question;
  let seen = done;
  for (let step = first; step.done !== true; step = affected.next()) {
    const subject = step.value;
    if (!(yield PAUSE)) {
      run.unfinished = true;
      run.unchecked += 1;
      return 'over';
    }
    // written subjects are done, and kinds that the policy does not judge are none of its business
    if (subject === PAUSE || writtenAs(run, subject) !== undefined || !judges(policy, subject.kind)) continue;
    const key = refKey(subject);
    if (seen?.has(key) === true) continue;
    seen ??= new Set();
    seen.add(key);
    const object = after.object(subject);
    if (object === undefined || going(run, object, after)) continue;
    const check = begun(run, policy, object, after, undefined, run.note);
    const first = check.next();
    if (first.done === true) continue;
    if (yield* perform(run, { policy, subject, own: false }, check, first)) continue;
    run.unfinished = true;
    run.unchecked += 1;
    return 'enough';
  }
  return undefined;
}

/** The rest of a search that had to let others have their turn. */
async function rest(work: Work<void>, first: Promise<boolean>, time: Clock): Promise<void> {
  for (let step = work.next(await first); step.done !== true; ) {
    const going = time.tick();
    step = work.next(typeof going === 'boolean' ? going : await going);
  }
}

function strength(policy: Policy, report: Report): Action {
  const action = report.action ?? policy.findings[report.finding]?.action ?? 'warn';
  return report.certain === false ? milder(action, 'warn') : action;
}

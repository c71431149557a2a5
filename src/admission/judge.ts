// From a request to a verdict: what the cluster is now, what it would be, and what is new in it.
import jsonPatch, { type Operation } from 'fast-json-patch';
import { type Answer, difference, type Finding, identityOf, type Question } from '../engine/difference.ts';
import { compareActions } from '../engine/enforce.ts';
import { clip, oneLine, WARNING_AT_MOST, WARNINGS_AT_MOST } from '../engine/message.ts';
import type { Policy, RequestFacts, Stage } from '../engine/policy.ts';
import type { Settings } from '../engine/settings.ts';
import { ALLOWED, type Verdict, verdictOf } from '../engine/verdict.ts';
import { same } from '../kube/json.ts';
import { type ObjectRef, spoken } from '../kube/kind.ts';
import type { PatchOperation } from '../kube/patch.ts';
import { type BackendTlsPolicy, GATEWAY, type Gateway } from '../mesh/kinds/gateways.ts';
import type { Meta } from '../mesh/kinds/meta.ts';
import type { Workload } from '../mesh/kinds/workloads.ts';
import { type Base, overlay } from '../mesh/overlay.ts';
import { rootNamespaces } from '../mesh/releases.ts';
import { confirmed, type Evidence } from './confirm.ts';
import { type AdmissionRequest, earlierVersions, type Subject, subjectOf } from './request.ts';

/** All that a verdict depends on beside the request. */
export interface Guard {
  readonly policies: readonly Policy[];
  readonly settings: Settings;
  readonly mesh: Base;
  /** Where the Mesh is a live cluster's: it is asked once more before a denial. */
  readonly evidence?: Evidence;
}

/**
 * Requests that no policy may stand in the way of: subresources (a status write among them), CONNECT, terminating objects, the
 * namespaces that the guard leaves alone, and pods in the root namespace.
 */
function untouchable(guard: Guard, request: AdmissionRequest, subject: Subject): boolean {
  if ((request.subResource ?? '') !== '' || request.operation === 'CONNECT') return true;
  const { namespace, kind } = subject.ref;
  if (guard.settings.unguarded.includes(namespace)) return true;
  if (kind === 'Pod' && guard.mesh.fact(rootNamespaces).includes(namespace)) return true;
  return (
    request.operation === 'UPDATE' && (subject.after?.terminating === true || subject.before?.terminating === true)
  );
}

/** The first Mesh of a request. What is being replaced belongs to it, even where the source lacks it. */
function meshBefore({ mesh }: Guard, { ref, before: old }: Subject): Base {
  const known = mesh.object(ref);
  const asIs = old === undefined ? known === undefined : known !== undefined && same(known, old);
  return asIs ? mesh : overlay(mesh, [old === undefined ? { ref } : { ref, after: old }]);
}

/** What a request leaves behind: a Namespace that is deleted stays, terminating, until all in it is gone. */
function left({ ref, before, after }: Subject): { readonly ref: ObjectRef; readonly after?: Meta } {
  if (after !== undefined) return { ref, after };
  return ref.kind === 'Namespace' && before !== undefined ? { ref, after: { ...before, terminating: true } } : { ref };
}

/** A check that an internal error ended: a defect of ours, which must never be the user's. */
export interface Failure {
  /** The policy, or `*` where the object could not be read at all. */
  readonly policy: string;
  readonly error: unknown;
}

/** A verdict, and what could not be judged for it. */
export interface Judged extends Verdict {
  readonly failures?: readonly Failure[];
  /** True where a denial could not be confirmed and became a warning. */
  readonly unconfirmed?: true;
}

/** Each policy alone, after one of them has failed: the others still count. */
async function oneByOne(
  question: Question,
): Promise<{ readonly answer: Answer; readonly failures: readonly Failure[] }> {
  const answers: Answer[] = [];
  const failures: Failure[] = [];
  for (const policy of question.policies) {
    try {
      answers.push(await difference({ ...question, policies: [policy] }));
    } catch (error) {
      failures.push({ policy: policy.id, error });
    }
  }
  return {
    answer: {
      findings: answers.flatMap(({ findings }) => findings).sort((a, b) => compareActions(b.action, a.action)),
      skipped: [...new Set(answers.flatMap(({ skipped }) => skipped))],
      unfinished: answers.some(({ unfinished }) => unfinished),
      unchecked: answers.reduce((sum, { unchecked }) => sum + unchecked, 0),
      expired: [...new Set(answers.flatMap(({ expired }) => expired))],
    },
    failures,
  };
}

/** A verdict that says what could not be judged; refused only where the configuration refuses what is not judged in time. */
function withFailures(
  verdict: Verdict,
  failures: readonly Failure[],
  about: string,
  onTimeout: Settings['onTimeout'],
): Judged {
  if (failures.length === 0) return verdict;
  const ids = failures.map(({ policy }) => policy);
  const what = ids.includes('*')
    ? 'it could not be judged because of'
    : `the check ${ids.join(', ')} was left out because of`;
  const said = `waywarden: ${clip(oneLine(about), 80)}: ${clip(what, 96)} an internal error, which its log has`;
  const warnings = [clip(said, WARNING_AT_MOST)];
  let total = said.length;
  for (const warning of verdict.warnings) {
    total += warning.length;
    if (total <= WARNINGS_AT_MOST) warnings.push(warning);
  }
  if (verdict.verdict === 'deny') return { ...verdict, warnings, failures };
  if (onTimeout === 'allow') return { ...verdict, verdict: 'warn', warnings, failures };
  const message = `${clip(oneLine(about), WARNING_AT_MOST)}: ${what} an internal error, and the configuration says onTimeout: deny`;
  return { ...verdict, verdict: 'deny', message, warnings, patch: [], failures };
}

/** What is not judged in time never refuses a deletion (unless deletions are refused), nor a change to Istio's own workloads. */
function lenient({ settings }: Guard, { operation }: AdmissionRequest, subject: Subject | undefined): boolean {
  if (settings.onTimeout === 'allow' || settings.mode === 'audit') return true;
  if (operation === 'DELETE' && settings.onDelete === 'warn') return true;
  const object = (subject?.after ?? subject?.before) as Partial<Workload> | undefined;
  return object?.component !== undefined;
}

/**
 * The verdict on one request at one of the two webhooks. `deadline` is in `performance.now()` milliseconds; `now` in
 * milliseconds since 1970. At once where nothing has to be waited for. Never throws or rejects: what fails inside is said in the
 * verdict.
 */
export function judge(
  guard: Guard,
  request: AdmissionRequest,
  stage: Extract<Stage, 'mutate' | 'validate'>,
  deadline?: number,
  now: number = Date.now(),
): Judged | Promise<Judged> {
  try {
    const verdict = judged(guard, request, stage, deadline, now);
    return verdict instanceof Promise ? verdict.catch((error: unknown) => broken(guard, request, error)) : verdict;
  } catch (error) {
    return broken(guard, request, error);
  }
}

/** The verdict where the object could not be read at all. */
function broken(guard: Guard, request: AdmissionRequest, error: unknown): Judged {
  const onTimeout = lenient(guard, request, undefined) ? 'allow' : 'deny';
  return withFailures(ALLOWED, [{ policy: '*', error }], spoken(namedIn(request)), onTimeout);
}

/** The object of a request by its envelope alone. */
function namedIn({ kind, namespace, name, uid }: AdmissionRequest): ObjectRef {
  return { kind: kind.kind, namespace: namespace ?? '', name: name || uid };
}

function judged(
  guard: Guard,
  request: AdmissionRequest,
  stage: Extract<Stage, 'mutate' | 'validate'>,
  deadline: number | undefined,
  now: number,
): Judged | Promise<Judged> {
  const subject = subjectOf(request);
  if (subject === undefined || untouchable(guard, request, subject)) return ALLOWED;
  // an UPDATE that changes nothing that any policy reads is never judged
  if (request.operation === 'UPDATE' && subject.before !== undefined && same(subject.before, subject.after))
    return ALLOWED;
  const reach = () => verdictOn(guard, request, subject, stage, deadline, now);
  return guard.evidence === undefined ? reach() : underDoubt(guard, guard.evidence, subject, reach, deadline);
}

/** The verdict where a live cluster can be asked: what is read on demand first, a denial confirmed last. */
async function underDoubt(
  { policies, settings }: Guard,
  evidence: Evidence,
  subject: Subject,
  reach: () => Judged | Promise<Judged>,
  deadline: number | undefined,
): Promise<Judged> {
  const wanted = onDemand(subject);
  if (wanted.length > 0) await evidence.prepare(wanted, 1000);
  if (subject.after?.kind === GATEWAY) await evidence.prepareDefaults();
  const verdict = await reach();
  if (verdict.verdict !== 'deny') return verdict;
  const again = async () => reach();
  return confirmed(evidence, verdict, again, { policies, settings, written: subject.ref, deadline });
}

/** The ConfigMaps that a written object names. */
function onDemand({ after }: Subject): readonly ObjectRef[] {
  if (after === undefined) return [];
  const { certificateRefs, parameters } = after as Partial<BackendTlsPolicy & Gateway>;
  const refs = (certificateRefs ?? []).filter(({ kind }) => kind === 'ConfigMap');
  return parameters === undefined
    ? refs
    : [...refs, { kind: 'ConfigMap', namespace: after.namespace, name: parameters }];
}

/** The verdict on what is known now. */
function verdictOn(
  guard: Guard,
  request: AdmissionRequest,
  subject: Subject,
  stage: Extract<Stage, 'mutate' | 'validate'>,
  deadline: number | undefined,
  now: number,
): Judged | Promise<Judged> {
  const facts: RequestFacts = {
    operation: request.operation,
    version: subject.version,
    earlierVersions: request.operation === 'UPDATE' ? earlierVersions(request.oldObject) : [],
  };
  const question: Question = {
    policies: guard.policies,
    settings: guard.settings,
    before: meshBefore(guard, subject),
    after: overlay(guard.mesh, [left(subject)]),
    changes: [subject],
    stage,
    request: () => facts,
    deadline,
    now,
  };
  const told = (answer: Answer, failures: readonly Failure[]) => tell(guard, request, subject, stage, answer, failures);
  const failed = () => oneByOne(question).then(({ answer, failures }) => told(answer, failures));
  try {
    const answer = difference(question);
    if (answer instanceof Promise) return answer.then(found => told(found, []), failed);
    return told(answer, []);
  } catch {
    return failed();
  }
}

/** What an answer comes to for this request. */
function tell(
  guard: Guard,
  request: AdmissionRequest,
  subject: Subject,
  stage: Extract<Stage, 'mutate' | 'validate'>,
  answer: Answer,
  failures: readonly Failure[],
): Judged {
  const leniently = lenient(guard, request, subject);
  const settings: Settings =
    leniently && guard.settings.onTimeout === 'deny' ? { ...guard.settings, onTimeout: 'allow' } : guard.settings;
  const reached = verdictOf(answer, settings);
  const verdict =
    failures.length === 0
      ? reached
      : withFailures(reached, failures, spoken(subject.ref), leniently ? 'allow' : 'deny');
  if (verdict.patch.length === 0) return verdict;
  return { ...verdict, patch: stage === 'mutate' ? applicable(verdict.patch, request.object) : [] };
}

/** Operations that will apply; a patch that cannot is never sent: the API server answers it with a hard 500. */
function applicable(patch: readonly PatchOperation[], object: unknown): readonly PatchOperation[] {
  try {
    patched(object, patch);
    return patch;
  } catch {
    return [];
  }
}

/** An object with operations applied to a copy of it. */
export function patched(object: unknown, patch: readonly PatchOperation[]): unknown {
  if (patch.length === 0) return object;
  return jsonPatch.applyPatch(structuredClone(object), patch as Operation[], true).newDocument;
}

/** The verdict as the API server would get it: mutate, then validate what came out; the worse of both. */
export async function review(
  guard: Guard,
  request: AdmissionRequest,
  deadline?: number,
  now: number = Date.now(),
): Promise<Judged> {
  const first = await judge(guard, request, 'mutate', deadline, now);
  if (first.verdict === 'deny') return first;
  const second = await judge(
    guard,
    { ...request, object: patched(request.object, first.patch) },
    'validate',
    deadline,
    now,
  );
  const identity = (finding: Finding) => identityOf(finding.policy, finding.subject, finding);
  const said = new Set(second.findings.map(identity));
  const warnings = [...new Set([...first.warnings, ...second.warnings])];
  return {
    ...second,
    verdict: second.verdict === 'allow' && warnings.length > 0 ? 'warn' : second.verdict,
    warnings,
    patch: second.verdict === 'deny' ? [] : first.patch,
    findings: [...second.findings, ...first.findings.filter(finding => !said.has(identity(finding)))],
    unfinished: first.unfinished || second.unfinished,
    failures: [...(first.failures ?? []), ...(second.failures ?? [])],
  };
}

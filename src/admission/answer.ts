// One AdmissionReview in, one out. What is no review is refused by the catalogue in errors.ts.
import { takenOf } from '../engine/difference.ts';
import { type GroupKind, spoken } from '../kube/kind.ts';
import { isKind } from '../mesh/kinds.ts';
import { clipped, type Logs } from '../telemetry/logs.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { clock } from './deadline.ts';
import { refusal } from './errors.ts';
import { type Guard, type Judged, judge } from './judge.ts';
import { type AdmissionRequest, kindOf, reviewSchema } from './request.ts';

export type Webhook = 'mutate' | 'validate';

export type Observe = (request: AdmissionRequest, judged: Judged) => void;

export interface Answering {
  readonly guard: () => Guard;
  readonly logs: Logs;
  readonly metrics: Metrics;
  /** Told of every verdict, after the answer was made; may not throw. */
  readonly observe?: Observe;
}

export interface Arrival {
  /** The body, as JSON text. */
  readonly text: string;
  /** All of the body, where nothing but the managedFields of what is created was left out of `text`. */
  readonly whole?: (() => string) | undefined;
  /** `performance.now()` when the headers were there. */
  readonly arrived: number;
  /** `performance.now()` by which to answer. */
  readonly deadline: number;
}

const HEAD = '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":';

/** The review of a body. Throws what errors.ts has for everything else. */
export function requestOf(text: string): AdmissionRequest {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw refusal('WW_NOT_JSON');
  }
  const parsed = reviewSchema.safeParse(body);
  if (parsed.success) return parsed.data.request;
  const issue = parsed.error.issues[0];
  // zod's messages tell what it expected, never what it got
  throw refusal(
    'WW_NOT_A_REVIEW',
    issue === undefined ? undefined : `${issue.path.join('.') || 'body'}: ${issue.message}`,
  );
}

/** The AdmissionReview v1 that says so, as JSON text. Nothing else than the verdict is in it. */
export function responseText(uid: string, judged: Judged): string {
  const head = HEAD + JSON.stringify(uid);
  const { verdict, warnings, patch, message } = judged;
  const warned = warnings.length === 0 ? '' : `,"warnings":${JSON.stringify(warnings)}`;
  if (verdict === 'deny') {
    // code 403 and reason Forbidden: with Invalid kubectl drops the message (facts/admission.md §e)
    const status = { code: 403, reason: 'Forbidden', status: 'Failure', message: message ?? '' };
    return `${head},"allowed":false,"status":${JSON.stringify(status)}${warned}}}`;
  }
  if (patch.length === 0) return `${head},"allowed":true${warned}}}`;
  const encoded = Buffer.from(JSON.stringify(patch)).toString('base64');
  return `${head},"allowed":true,"patchType":"JSONPatch","patch":"${encoded}"${warned}}}`;
}

const NOT_JUDGED = 'waywarden: this could not be judged because of an internal error, which its log has';

/**
 * Answers a review, at once where it is judged at once. Throws only an error of the catalogue, and only before the review is known
 * to be one; never rejects.
 */
export function answer(answering: Answering, webhook: Webhook, arrival: Arrival): string | Promise<string> {
  const { guard: current, logs, metrics, observe } = answering;
  const read = requestOf(arrival.text);
  const request = arrival.whole === undefined || read.operation === 'CREATE' ? read : requestOf(arrival.whole());
  const failed = (error: unknown): string => {
    logs.logger.error({ uid: clipped(request.uid), err: error }, 'a review could not be judged');
    return `${HEAD}${JSON.stringify(request.uid)},"allowed":true,"warnings":["${NOT_JUDGED}"]}}`;
  };
  const answered = (guard: Guard, judged: Judged): string => {
    const response = responseText(request.uid, judged);
    account(guard, request, webhook, judged, clock() - arrival.arrived, logs, metrics);
    observe?.(request, judged);
    return response;
  };
  try {
    const guard = current();
    const judged = judge(guard, request, webhook, arrival.deadline);
    return judged instanceof Promise
      ? judged.then(later => answered(guard, later)).catch(failed)
      : answered(guard, judged);
  } catch (error) {
    return failed(error);
  }
}

/** Kinds that some policy judges, so that a label of a metric never takes a value that users make up. */
const judgedKinds = new WeakMap<Guard['policies'], ReadonlySet<GroupKind>>();

/** A kind as the label of a metric. */
export function kindLabel({ policies }: Guard, kind: GroupKind): string {
  let kinds = judgedKinds.get(policies);
  if (kinds === undefined) {
    kinds = new Set(policies.flatMap(({ subjects }) => subjects));
    judgedKinds.set(policies, kinds);
  }
  return isKind(kind) || kinds.has(kind) ? kind : 'other';
}

/** Findings in one line of the log; the figures count all of them. */
const LOGGED_AT_MOST = 20;

function account(
  guard: Guard,
  request: AdmissionRequest,
  webhook: Webhook,
  judged: Judged,
  milliseconds: number,
  logs: Logs,
  metrics: Metrics,
): void {
  const { verdict, findings, unfinished, failures } = judged;
  const kind = kindOf(request);
  const dryRun = request.dryRun === true;
  metrics.reviewed({
    stage: webhook,
    operation: request.operation,
    kind: kindLabel(guard, kind),
    verdict,
    dryRun,
    milliseconds,
    findings,
    timedOut: unfinished,
    unconfirmed: judged.unconfirmed === true,
    failed: failures === undefined ? NONE : failures.map(({ policy }) => policy),
  });
  if (failures !== undefined) {
    for (const { policy, error } of failures)
      logs.logger.error({ uid: clipped(request.uid), policy, err: error }, 'a check failed');
  }
  const level = verdict === 'allow' ? 'info' : 'warn';
  if (!logs.logger.isLevelEnabled(level)) return;
  let line = `"webhook":"${webhook}","uid":${quoted(request.uid)},"operation":"${request.operation}","user":${quoted(request.userInfo?.username)},"kind":${quoted(kind)},"namespace":${quoted(request.namespace)},"name":${quoted(request.name)}`;
  if (request.subResource) line += `,"subResource":${quoted(request.subResource)}`;
  line += `,"verdict":"${verdict}"`;
  if (findings.length > 0) {
    const shown = findings.slice(0, LOGGED_AT_MOST).map(finding => ({
      finding: `${finding.policy}/${finding.finding}`,
      action: takenOf(finding),
      subject: clipped(spoken(finding.subject)),
    }));
    line += `,"findings":${JSON.stringify(shown)},"found":${findings.length}`;
  }
  if (unfinished) line += ',"unfinished":true';
  if (judged.unconfirmed === true) line += ',"unconfirmed":true';
  if (guard.evidence !== undefined) line += `,"cacheMs":${JSON.stringify(Math.round(guard.evidence.age()))}`;
  logs.line(level, `${line},"dryRun":${dryRun},"ms":${inHundredths(milliseconds)}`, 'review');
}

const NONE: readonly never[] = Object.freeze([]);

/** A number with two decimals, made of whole ones: V8 takes ten times as long to write a fraction. */
function inHundredths(value: number): string {
  const hundredths = Math.round(value * 100);
  const rest = hundredths % 100;
  return `${(hundredths - rest) / 100}.${rest < 10 ? '0' : ''}${rest}`;
}

/** Texts that stand in JSON as they are: names, kinds, users nearly always. */
const PLAIN = /^[ !#-[\]-~]*$/;

function quoted(value: string | null | undefined): string {
  if (!value) return '""';
  const text = clipped(value);
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

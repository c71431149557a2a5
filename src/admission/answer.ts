// One AdmissionReview in, one out. What is no review is refused by the catalogue in errors.ts.
import { type GroupKind, groupKind, spoken } from '../kube/kind.ts';
import { isKind } from '../mesh/kinds.ts';
import { clipped, type Logs } from '../telemetry/logs.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { clock } from './deadline.ts';
import { refusal } from './errors.ts';
import { type Guard, type Judged, judge } from './judge.ts';
import { type AdmissionRequest, reviewSchema } from './request.ts';

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

/** Answers a review. Rejects only with an error of the catalogue, and only before the review is known to be one. */
export async function answer(
  { guard: current, logs, metrics, observe }: Answering,
  webhook: Webhook,
  { text, arrived, deadline }: Arrival,
): Promise<string> {
  const request = requestOf(text);
  try {
    const guard = current();
    const judged = await judge(guard, request, webhook, deadline);
    const response = responseText(request.uid, judged);
    account(guard, request, webhook, judged, clock() - arrived, logs, metrics);
    observe?.(request, judged);
    return response;
  } catch (error) {
    logs.logger.error({ uid: clipped(request.uid), err: error }, 'a review could not be judged');
    return `${HEAD}${JSON.stringify(request.uid)},"allowed":true,"warnings":["${NOT_JUDGED}"]}}`;
  }
}

/** Kinds that some policy judges, so that a label of a metric never takes a value that users make up. */
const judgedKinds = new WeakMap<Guard['policies'], ReadonlySet<GroupKind>>();

function kindLabel({ policies }: Guard, kind: GroupKind): string {
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
  { logger }: Logs,
  metrics: Metrics,
): void {
  const { verdict, findings, unfinished, failures = [] } = judged;
  const { group, kind: kindName } = request.requestKind ?? request.kind;
  const kind = groupKind(group, kindName);
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
    failed: failures.map(({ policy }) => policy),
  });
  for (const { policy, error } of failures) {
    logger.error({ uid: clipped(request.uid), policy, err: error }, 'a check failed');
  }
  const level = verdict === 'allow' ? 'info' : 'warn';
  if (!logger.isLevelEnabled(level)) return;
  logger[level](
    {
      webhook,
      uid: clipped(request.uid),
      operation: request.operation,
      user: clipped(request.userInfo?.username ?? ''),
      kind: clipped(kind),
      namespace: clipped(request.namespace ?? ''),
      name: clipped(request.name ?? ''),
      ...(request.subResource ? { subResource: clipped(request.subResource) } : {}),
      verdict,
      ...(findings.length === 0
        ? {}
        : {
            findings: findings.slice(0, LOGGED_AT_MOST).map(finding => ({
              finding: `${finding.policy}/${finding.finding}`,
              action: finding.action,
              subject: clipped(spoken(finding.subject)),
            })),
            found: findings.length,
          }),
      ...(unfinished ? { unfinished } : {}),
      ...(judged.unconfirmed === true ? { unconfirmed: true } : {}),
      ...(guard.evidence === undefined ? {} : { cacheMs: Math.round(guard.evidence.age()) }),
      dryRun,
      ms: Math.round(milliseconds * 100) / 100,
    },
    'review',
  );
}

// A write by a member of a break-glass group: allowed whatever it is, counted and logged, so that somebody hears of it. The judging
// entries of the webhook configuration are never asked about it (docs/decisions/0004-break-glass-is-counted.md).
import { ALLOWED } from '../engine/verdict.ts';
import { texts } from '../kube/json.ts';
import { clipped } from '../telemetry/logs.ts';
import { type Answering, kindLabel, requestOf, responseText } from './answer.ts';
import { type AdmissionRequest, kindOf } from './request.ts';

export interface Passing extends Pick<Answering, 'guard' | 'logs' | 'metrics'> {
  /** The groups whose members pass. The API server knows them by a matchCondition, and does not say which one matched. */
  readonly breakGlassGroups?: () => readonly string[];
}

/** The AdmissionReview that allows a request, as JSON text. Throws only an error of the catalogue, where the body is no review. */
export function passBreakGlass(passing: Passing, body: string): string {
  const request = requestOf(body);
  try {
    note(passing, request);
  } catch (error) {
    passing.logs.logger.error({ uid: clipped(request.uid), err: error }, 'a use of break-glass could not be counted');
  }
  return responseText(request.uid, ALLOWED);
}

/** A dry run changes nothing, so it is no use: neither counted nor a warning. */
function note({ guard, logs, metrics, breakGlassGroups }: Passing, request: AdmissionRequest): void {
  const kind = kindOf(request);
  const dryRun = request.dryRun === true;
  const groups = breakGlassGroups?.() ?? [];
  const line = {
    webhook: 'break-glass',
    uid: clipped(request.uid),
    operation: request.operation,
    user: clipped(request.userInfo?.username ?? ''),
    // none for a moment after somebody has changed the groups
    group: clipped(texts(request.userInfo?.groups).find(one => groups.includes(one)) ?? ''),
    kind: clipped(kind),
    namespace: clipped(request.namespace ?? ''),
    name: clipped(request.name ?? ''),
    dryRun,
  };
  logs.logger[dryRun ? 'info' : 'warn'](line, 'break-glass');
  if (!dryRun) metrics.passedUnjudged(request.operation, kindLabel(guard(), kind));
}

// An answer as the one who asked gets it.
import type { PatchOperation } from '../kube/patch.ts';
import type { Answer, Finding } from './difference.ts';
import { denialOf, warningsOf } from './message.ts';
import type { Settings } from './settings.ts';

export interface Verdict {
  readonly verdict: 'allow' | 'warn' | 'deny';
  /** What the user is told beside the answer: at most 256 characters each, no control characters. */
  readonly warnings: readonly string[];
  /** Why it is refused; undefined where it is not. */
  readonly message?: string;
  readonly patch: readonly PatchOperation[];
  readonly findings: readonly Finding[];
  /** Those of the warnings that are about the judging itself: checks skipped, exemptions expired. */
  readonly notices: readonly string[];
  /** True where the deadline ended the search. */
  readonly unfinished: boolean;
}

export const ALLOWED: Verdict = Object.freeze({
  verdict: 'allow',
  warnings: Object.freeze([]),
  patch: Object.freeze([]),
  findings: Object.freeze([]),
  notices: Object.freeze([]),
  unfinished: false,
});

/** What is said once, of all checks that could not be made. */
export function noticesOf(answer: Answer): readonly string[] {
  const notices: string[] = [];
  if (answer.skipped.length > 0) {
    const more = answer.skipped.length > 2 ? ` and ${answer.skipped.length - 2} more` : '';
    notices.push(
      `waywarden: the state of the cluster is not known here, so some checks were skipped: ${answer.skipped.slice(0, 2).join('; ')}${more}`,
    );
  }
  if (answer.unfinished) {
    notices.push(
      'waywarden: this change can affect more than could be checked in time: waywarden check on a dump of the cluster tells the whole',
    );
  }
  for (const { policy, finding, owner, expires } of answer.expired) {
    notices.push(
      `waywarden: the exemption of ${policy}${finding === undefined ? '' : `/${finding}`} (owner ${owner}) expired on ${expires}`,
    );
  }
  return notices;
}

/** The verdict that an answer comes to. */
export function verdictOf(answer: Answer, settings: Settings): Verdict {
  if (answer.findings.length + answer.skipped.length + answer.expired.length === 0 && !answer.unfinished)
    return ALLOWED;
  const findings = answer.findings.filter(finding => finding.action !== 'off');
  const denied = findings.some(finding => finding.action === 'deny');
  const timedOut = answer.unfinished && settings.onTimeout === 'deny' && settings.mode === 'enforce' && !denied;
  const notices = noticesOf(answer);
  const warnings = warningsOf(findings, notices, settings);
  const patch = denied ? [] : findings.flatMap(finding => finding.patch ?? []);
  const message = denied
    ? denialOf(findings, settings)
    : timedOut
      ? 'not everything that this change affects could be checked in time, and the configuration says onTimeout: deny'
      : undefined;
  return {
    verdict: message !== undefined ? 'deny' : warnings.length > 0 ? 'warn' : 'allow',
    warnings,
    ...(message === undefined ? {} : { message }),
    patch,
    findings,
    notices,
    unfinished: answer.unfinished,
  };
}

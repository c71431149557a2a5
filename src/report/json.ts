// What programs read. Fields are only ever added.
import { lineOf, pageOf } from '../engine/message.ts';
import type { Settings } from '../engine/settings.ts';
import type { CheckReport, Located, ReviewReport } from './report.ts';

function findingJson({ finding, position }: Located, settings: Settings) {
  const { policy, action, standing, subject, key, effect, fix, evidence, because, certain, path } = finding;
  return {
    policy,
    finding: finding.finding,
    action,
    standing,
    subject,
    key,
    message: lineOf(finding, settings),
    effect,
    fix,
    evidence,
    ...(because === undefined ? {} : { because }),
    certain: certain ?? true,
    ...(path === undefined ? {} : { path }),
    ...(position === undefined ? {} : { position }),
    ...(finding.audited === true ? { audited: true } : {}),
    ...(finding.exemption === undefined ? {} : { exemption: finding.exemption }),
    page: pageOf(finding),
  };
}

function lines(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** The result of `check` as JSON. */
export function checkJson(report: CheckReport, settings: Settings): string {
  const { findings, notices, objects, files, skipped } = report;
  return lines({ findings: findings.map(located => findingJson(located, settings)), notices, objects, files, skipped });
}

/** The result of `review` as JSON. */
export function reviewJson({ verdict, findings }: ReviewReport, settings: Settings): string {
  return lines({
    verdict: verdict.verdict,
    warnings: verdict.warnings,
    ...(verdict.message === undefined ? {} : { message: verdict.message }),
    patch: verdict.patch,
    findings: findings.map(located => findingJson(located, settings)),
    unfinished: verdict.unfinished,
  });
}

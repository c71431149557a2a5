// What a person reads in a terminal or in the log of a pipeline.
import type { Finding } from '../engine/difference.ts';
import { evidenceOf, oneLine, sentence } from '../engine/message.ts';
import type { Settings } from '../engine/settings.ts';
import { refKey, spoken } from '../kube/kind.ts';
import { place } from '../mesh/sources/files.ts';
import type { CheckReport, Located, ReviewReport } from './report.ts';

/** Colours a text, or leaves it as it is. */
export type Paint = (style: 'red' | 'yellow' | 'green' | 'bold' | 'dim', text: string) => string;

const STYLE = { deny: 'red', warn: 'yellow', log: 'dim', off: 'dim' } as const;

/** The lines below the head of a finding. */
function details(finding: Finding, settings: Settings): readonly string[] {
  const evidence = evidenceOf(finding, settings);
  return [
    ...(evidence.length === 0 ? [] : [`Seen: ${evidence.join(', ')}`]),
    `Fix:  ${sentence(oneLine(finding.fix))}.`,
    ...(finding.exemption === undefined
      ? []
      : [`Exempt until ${finding.exemption.expires} (${finding.exemption.owner}): ${finding.exemption.reason}`]),
  ].map(line => `    ${oneLine(line)}`);
}

function findingText({ finding, position }: Located, settings: Settings, paint: Paint): string {
  const where = position === undefined ? '' : `${paint('bold', place(position))}  `;
  const head = `${where}${paint(STYLE[finding.action], finding.action)}  ${paint('dim', `${finding.policy}/${finding.finding}`)}${finding.audited === true ? ' (audit mode: else refused)' : ''}`;
  return [head, `    ${oneLine(`${spoken(finding.subject)}: ${finding.effect}`)}.`, ...details(finding, settings)].join(
    '\n',
  );
}

function pages(findings: readonly Located[]): readonly string[] {
  const ids = [...new Set(findings.map(({ finding }) => finding.policy))];
  return ids.length === 0 ? [] : [`More: ${ids.map(id => `waywarden explain ${id}`).join(', ')}`];
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** The result of `check`: every finding with its place, then a line that sums up. */
export function checkText(report: CheckReport, settings: Settings, paint: Paint): string {
  const { findings, notices, objects, files, skipped } = report;
  const denied = findings.filter(({ finding }) => finding.action === 'deny').length;
  const warned = findings.filter(({ finding }) => finding.action === 'warn').length;
  const read = `${count(objects, 'object')} in ${count(files, 'file')}${
    skipped === 0
      ? ''
      : `, ${count(skipped, 'document')} skipped that ${skipped === 1 ? 'is' : 'are'} no Kubernetes object`
  }`;
  const result =
    denied + warned === 0
      ? paint('green', 'nothing to say')
      : [
          ...(denied === 0 ? [] : [paint('red', `${denied} to be refused`)]),
          ...(warned === 0 ? [] : [paint('yellow', count(warned, 'warning'))]),
        ].join(', ');
  return `${[
    ...findings.map(located => findingText(located, settings, paint)),
    ...notices.map(notice => paint('dim', oneLine(notice))),
    ...(findings.length + notices.length === 0 ? [] : ['']),
    `${read}: ${result}`,
    ...pages(findings),
  ].join('\n')}\n`;
}

/** The result of `review`: the verdict, why, and the patch. */
export function reviewText({ subject, verdict, findings }: ReviewReport, settings: Settings, paint: Paint): string {
  const colour = { deny: 'red', warn: 'yellow', allow: 'green' } as const;
  const said: Readonly<Record<typeof verdict.verdict, string>> = {
    deny: 'would be refused',
    warn: 'would be let in with a warning',
    allow: 'would be let in',
  };
  const told = new Set(
    findings.map(({ finding }) => `${finding.policy}/${finding.finding} ${refKey(finding.subject)}`),
  );
  const notices = verdict.warnings.filter(warning => warning.startsWith('waywarden: '));
  return `${[
    `${paint('bold', oneLine(subject === undefined ? 'this request' : spoken(subject)))} ${paint(colour[verdict.verdict], said[verdict.verdict])}`,
    ...findings.map(located => findingText(located, settings, paint)),
    ...(verdict.message !== undefined && told.size === 0 ? [`    ${oneLine(verdict.message)}`] : []),
    ...notices.map(notice => paint('dim', notice)),
    ...(verdict.patch.length === 0
      ? []
      : ['Repaired on the way:', ...verdict.patch.map(change => `    ${JSON.stringify(change)}`)]),
    ...pages(findings),
  ].join('\n')}\n`;
}

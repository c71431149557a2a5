// What a person reads: one line for a warning, a paragraph for a denial. Both name object, effect, evidence, fix and page.
import { type ObjectRef, refKey, spoken } from '../kube/kind.ts';
import type { Finding } from './difference.ts';
import type { Settings } from './settings.ts';

/** The API server cuts every warning of a request to 256 characters once all of them pass 4,096 (facts/admission.md §e). */
export const WARNING_AT_MOST = 256;
/** Of the 4,096, which all webhooks share. */
export const WARNINGS_AT_MOST = 2000;

/** One line: control characters (which make the API server drop a warning) and lone surrogates replaced. */
export function oneLine(value: string): string {
  return value
    .toWellFormed()
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
    .replace(/ {2,}/g, ' ')
    .trim();
}

/** At most so many characters (code points), cut at a word where one is near, with an ellipsis. */
export function clip(value: string, atMost: number): string {
  const points = [...value];
  if (points.length <= atMost) return value;
  const cut = points.slice(0, Math.max(0, atMost - 1)).join('');
  const word = cut.lastIndexOf(' ');
  return `${word > cut.length * 0.7 ? cut.slice(0, word) : cut}…`;
}

/** A long name keeps its beginning and its end. */
function clipMiddle(value: string, atMost: number): string {
  const points = [...value];
  if (points.length <= atMost) return value;
  const half = Math.floor((atMost - 1) / 2);
  return `${points.slice(0, half).join('')}…${points.slice(points.length - (atMost - 1 - half)).join('')}`;
}

/** The page of a finding, as `waywarden explain` prints it. */
export function pageOf(finding: Pick<Finding, 'policy' | 'finding'>): string {
  return `policies/${finding.policy}/README.md#${finding.finding}`;
}

function ownNamespace(ref: ObjectRef): string {
  return ref.kind === 'Namespace' ? ref.name : ref.namespace;
}

/** An object in the evidence; without its name where tenants must not learn of each other. */
function named(ref: ObjectRef, finding: Pick<Finding, 'subject'>, settings: Settings): string {
  const elsewhere = ownNamespace(ref) !== '' && ownNamespace(ref) !== ownNamespace(finding.subject);
  return settings.redact && elsewhere
    ? `a ${spoken({ ...ref, namespace: '', name: 'of another namespace' })}`
    : spoken(ref);
}

/** The evidence of a finding in words, the subject itself left out. */
export function evidenceOf(finding: Finding, settings: Settings): readonly string[] {
  const self = refKey(finding.subject);
  const objects = finding.evidence
    .filter(ref => refKey(ref) !== self)
    .map(ref => `${ref.missing === true ? 'no ' : ''}${named(ref, finding, settings)}`);
  return [...new Set(objects), ...(finding.because === undefined ? [] : [finding.because])].map(oneLine);
}

function withCount(name: string, count: number, noun: string): string {
  return count > 1 ? `${name} and ${count - 1} ${noun}` : name;
}

/** Findings of one kind in one line of at most 256 characters; the first of them is the example. */
function warningLine(group: readonly Finding[], settings: Settings): string {
  const [first] = group;
  if (first === undefined) return '';
  const subjects = new Set(group.map(finding => refKey(finding.subject)));
  const subject = withCount(clipMiddle(oneLine(spoken(first.subject)), 72), subjects.size, 'more');
  const more = group.length > 1 && subjects.size === 1 ? ` (${group.length} times)` : '';
  const tail = ` [${first.policy}/${first.finding}]`;
  const head = group.some(({ audited }) => audited === true) ? 'would be refused: ' : '';
  const evidence = evidenceOf(first, settings);
  const effect = oneLine(first.effect);
  const fix = oneLine(first.fix);
  const basis = evidence.length === 0 ? 'the object itself' : evidence.join(', ');
  const room = WARNING_AT_MOST - [...head, ...subject, ...more, ...tail].length - ': . Seen: . Fix: .'.length;
  // the evidence makes way first, then the effect where it is longer than six tenths of the room, then the fix
  const least = Math.min([...basis].length, 24);
  const said = clip(effect, Math.max(Math.floor(room * 0.6), room - least - [...fix].length));
  const fixed = clip(fix, Math.max(24, room - least - [...said].length));
  const seen = clip(basis, Math.max(8, room - [...said].length - [...fixed].length));
  return clip(
    `${head}${subject}${more}: ${stopped(said)} Seen: ${stopped(seen)} Fix: ${stopped(fixed)}${tail}`,
    WARNING_AT_MOST,
  );
}

/** With a full stop, unless it was cut. */
function stopped(value: string): string {
  return value.endsWith('…') ? value : `${value}.`;
}

/** A finding in one line, however long, for programs and logs. */
export function lineOf(finding: Finding, settings: Settings): string {
  const evidence = evidenceOf(finding, settings);
  const seen = evidence.length === 0 ? '' : ` Evidence: ${evidence.join(', ')}.`;
  const [subject, effect, fix] = [spoken(finding.subject), finding.effect, finding.fix].map(oneLine);
  return `${subject}: ${effect}.${seen} Fix: ${fix}. [${finding.policy}/${finding.finding}]`;
}

/** Findings of one policy and kind together, in the order of their first. */
function gathered(findings: readonly Finding[]): readonly (readonly Finding[])[] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    const kind = `${finding.policy}/${finding.finding}`;
    const group = groups.get(kind);
    if (group === undefined) groups.set(kind, [finding]);
    else group.push(finding);
  }
  return [...groups.values()];
}

/** The warnings of a verdict: findings, then notices, within what the API server passes on. */
export function warningsOf(
  findings: readonly Finding[],
  notices: readonly string[],
  settings: Settings,
): readonly string[] {
  const lines = [
    ...gathered(findings.filter(finding => finding.action === 'warn')).map(group => warningLine(group, settings)),
    ...notices.map(notice => clip(oneLine(notice), WARNING_AT_MOST)),
  ];
  const kept: string[] = [];
  let total = 0;
  for (const [index, line] of lines.entries()) {
    total += [...line].length;
    if (total > WARNINGS_AT_MOST - 80) {
      kept.push(`waywarden: ${lines.length - index} more warnings are left out here: waywarden review tells them all`);
      break;
    }
    kept.push(line);
  }
  return kept;
}

/** Begun with a capital, unless it begins with something literal: a key, an image, a value in quotes. */
export function sentence(value: string): string {
  const plain = /^[a-z]+(?:-[a-z]+)*[,;]?(?: |$)/.test(value);
  return plain ? value.charAt(0).toUpperCase() + value.slice(1) : value;
}

/** The text of a denial: every reason with effect, evidence, fix and page. */
export function denialOf(findings: readonly Finding[], settings: Settings): string {
  const groups = gathered(findings.filter(finding => finding.action === 'deny'));
  return groups
    .map(group => {
      const [first] = group;
      if (first === undefined) return '';
      const others = [...new Set(group.slice(1).map(finding => spoken(finding.subject)))].filter(
        name => name !== spoken(first.subject),
      );
      const listed = others.slice(0, 5).join(', ') + (others.length > 5 ? ` and ${others.length - 5} more` : '');
      const evidence = evidenceOf(first, settings);
      return [
        `${oneLine(spoken(first.subject))}: ${oneLine(first.effect)}.`,
        ...(others.length > 0 ? [`  The same for: ${oneLine(listed)}`] : []),
        ...(evidence.length > 0 ? [`  Evidence: ${evidence.join(', ')}`] : []),
        `  Fix: ${sentence(oneLine(first.fix))}.`,
        `  More: waywarden explain ${first.policy} (${first.finding})`,
      ].join('\n');
    })
    .join('\n');
}

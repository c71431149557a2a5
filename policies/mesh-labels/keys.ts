// The table of known keys, read once, and what a key that is not in it may have been meant to be.

import { distance } from '../../src/kube/distance.ts';
import { parseBool } from '../../src/mesh/releases.ts';
import { LABELS } from './labels.gen.ts';

/** One key: labels.yaml says what the fields mean. */
export interface Row {
  readonly key: string;
  readonly kinds: readonly string[];
  readonly values?: readonly string[] | undefined;
  readonly bool?: true | undefined;
  readonly strict?: true | undefined;
  readonly fold?: true | undefined;
  readonly mistaken?: readonly string[] | undefined;
  readonly foreign?: readonly string[] | undefined;
  readonly ignored?: string | undefined;
  readonly spelled?: readonly string[] | undefined;
  readonly needs?: string | undefined;
  readonly either?: true | undefined;
  readonly status?: string | undefined;
  readonly instead?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly metadata?:
    | readonly { readonly name: string; readonly until: string; readonly instead: string }[]
    | undefined;
  readonly quiet?: true | undefined;
  readonly source?: string | undefined;
}

export interface LabelTable {
  readonly labels: readonly Row[];
  readonly annotations: readonly Row[];
  /** Keys of Istio of which nothing is said. */
  readonly known: readonly string[];
}

/** What is known of a key. `likely` is the known key that an unknown one is probably meant to be. */
export interface Knowledge {
  readonly label?: Row;
  readonly annotation?: Row;
  readonly likely?: string;
}

interface Table {
  readonly rows: ReadonlyMap<string, Knowledge>;
  readonly mistaken: ReadonlyMap<string, string>;
  readonly candidates: readonly string[];
  /** Keys without case and separators, to the key as it must be written. */
  readonly plain: ReadonlyMap<string, string>;
}

const NOTHING: Knowledge = Object.freeze({});

const plainly = (key: string) => key.toLowerCase().replaceAll(/[^a-z0-9/]/g, '');

function indexed({ labels, annotations, known }: LabelTable): Table {
  const rows = new Map<string, Knowledge>();
  const mistaken = new Map<string, string>();
  for (const key of known) rows.set(key, NOTHING);
  for (const label of labels) rows.set(label.key, { label });
  for (const annotation of annotations) rows.set(annotation.key, { ...rows.get(annotation.key), annotation });
  for (const { key, spelled } of [...labels, ...annotations])
    for (const wrong of spelled ?? []) mistaken.set(wrong, key);
  const candidates = [...labels, ...annotations].filter(({ quiet }) => quiet === undefined).map(({ key }) => key);
  return { rows, mistaken, candidates, plain: new Map(candidates.map(key => [plainly(key), key])) };
}

const TABLE = indexed(LABELS);

/** Domain and name of a key; the domain is '' where it has none. */
function parts(key: string): readonly [string, string] {
  const slash = key.indexOf('/');
  return slash < 0 ? ['', key] : [key.slice(0, slash), key.slice(slash + 1)];
}

/** Whether a key is so near to a known one that it can hardly mean anything else. Short names need to be nearer. */
function near(key: string, known: string): boolean {
  const [domain, name] = parts(key);
  const [itsDomain, itsName] = parts(known);
  if (Math.abs(key.length - known.length) > 2 && name !== itsName) return false;
  if (name === itsName) {
    // the right name under a wrong domain: a slip of the pen, or another domain of Istio's
    return (
      itsDomain !== '' && (distance(domain, itsDomain, 2) <= 2 || (name.length >= 8 && /(^|\.)istio\.io$/.test(domain)))
    );
  }
  if (domain === itsDomain) {
    const allowed = itsName.length >= 8 ? 2 : itsName.length >= 6 ? 1 : 0;
    // an added or lost letter of a short name may be another name; two that changed places are not
    return distance(name, itsName, allowed) <= allowed || (name.length === itsName.length && transposed(name, itsName));
  }
  return itsName.length >= 8 && distance(key, known, 2) <= 2;
}

function transposed(a: string, b: string): boolean {
  return [...a].sort().join('') === [...b].sort().join('') && distance(a, b, 1) === 1;
}

function likely(key: string): string | undefined {
  const { mistaken, plain, candidates } = TABLE;
  return mistaken.get(key) ?? plain.get(plainly(key)) ?? candidates.find(known => near(key, known));
}

const seen = new Map<string, Knowledge>();
const SEEN_AT_MOST = 10_000;

/** What is known of a label or annotation key. Cheap for keys that were seen before: it is asked for every label of every object. */
export function knowledgeOf(key: string): Knowledge {
  const remembered = seen.get(key);
  if (remembered !== undefined) return remembered;
  const row = TABLE.rows.get(key);
  const meant = row === undefined && /i[sti]{2,4}o/i.test(key) && key.length < 128 ? likely(key) : undefined;
  const knowledge = row ?? (meant === undefined ? NOTHING : Object.freeze({ likely: meant }));
  if (seen.size >= SEEN_AT_MOST) seen.clear();
  seen.set(key, knowledge);
  return knowledge;
}

/** True for a value that Istio is known not to understand; never for one that a newer release or another product may read. */
export function isMistaken(row: Row, value: string): boolean {
  if (row.bool !== undefined) return parseBool(value) === undefined;
  if (row.values === undefined) return false;
  const legal = row.fold === undefined ? value : value.toLowerCase();
  if (row.values.some(one => (row.fold === undefined ? one : one.toLowerCase()) === legal)) return false;
  if (row.foreign?.includes(value)) return false;
  if (row.strict !== undefined || row.mistaken?.includes(value)) return true;
  const lower = value.toLowerCase();
  return row.values.some(
    one => one.toLowerCase() === lower || (one.length >= 6 && distance(one.toLowerCase(), lower, 2) <= 2),
  );
}

/** True for what the API server takes as the value of a label (apimachinery pkg/util/validation IsValidLabelValue). */
export function isLabelValue(value: string): boolean {
  return value.length <= 63 && /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/.test(value);
}

/** The keys that must have one beside them, with the one that they need. */
export const HALVES: ReadonlyMap<string, string> = new Map(
  [...TABLE.rows].flatMap(([key, { label }]) => (label?.needs === undefined ? [] : [[key, label.needs]])),
);

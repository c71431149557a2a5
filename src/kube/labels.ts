// Labels and label selectors (apimachinery pkg/apis/meta/v1 LabelSelectorAsSelector).
import { emptyRecord, record, records, text, texts } from './json.ts';

/** Labels, annotations and other string maps: nothing is inherited, so that any key is safe to read. */
export type StringMap = Readonly<Record<string, string>>;

/** One requirement of a label selector. */
export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values: readonly string[];
}

/** A label selector with its requirements; without any it selects everything. */
export interface LabelSelector {
  readonly matchLabels: StringMap;
  readonly matchExpressions: readonly LabelRequirement[];
}

export const NO_STRINGS: StringMap = Object.freeze(emptyRecord<string>());

/** The string entries of a JSON object; others are left out. */
export function stringMap(value: unknown, keep: (key: string, value: string) => boolean = () => true): StringMap {
  const object = record(value);
  if (object === undefined) return NO_STRINGS;
  let found: Record<string, string> | undefined;
  for (const key of Object.keys(object)) {
    const entry = text(object[key]);
    if (entry !== undefined && keep(key, entry)) {
      found ??= emptyRecord();
      found[key] = entry;
    }
  }
  return found ?? NO_STRINGS;
}

const OPERATORS = ['In', 'NotIn', 'Exists', 'DoesNotExist'] as const;

/** A metav1.LabelSelector; undefined where there is none (null, absent, no object). */
export function labelSelector(value: unknown): LabelSelector | undefined {
  const object = record(value);
  if (object === undefined) return undefined;
  return {
    matchLabels: stringMap(object['matchLabels']),
    matchExpressions: records(object['matchExpressions']).flatMap(expression => {
      const key = text(expression['key']);
      const operator = OPERATORS.find(known => known === expression['operator']);
      return key === undefined || operator === undefined
        ? []
        : [{ key, operator, values: texts(expression['values']) }];
    }),
  };
}

function meets(labels: StringMap, { key, operator, values }: LabelRequirement): boolean {
  const value = labels[key];
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}

/** True when every wanted label is there with that value. An empty wish is met by all. */
export function matchesLabels(wanted: StringMap, labels: StringMap): boolean {
  for (const key in wanted) if (labels[key] !== wanted[key]) return false;
  return true;
}

/** Whether a selector selects these labels. A selector without requirements selects everything. */
export function selects(selector: LabelSelector, labels: StringMap): boolean {
  return (
    matchesLabels(selector.matchLabels, labels) &&
    selector.matchExpressions.every(requirement => meets(labels, requirement))
  );
}

// Readers for JSON of unknown shape. An admitted object is whatever its author sent: nothing here throws, and only own
// properties are ever followed, so that keys like `__proto__` or `constructor` are plain data.

/** A JSON object of unknown content. */
export type JsonObject = { readonly [key: string]: unknown };

const NO_ITEMS: readonly never[] = Object.freeze([]);
const NOTHING: object = Object.freeze(Object.create(null));

/**
 * A record for keys that anybody may choose: it inherits nothing. An object without any prototype would be a hash table of its own
 * to V8, which takes several times the memory; one with an empty prototype shares the shape of its keys with others.
 */
export function emptyRecord<V>(): Record<string, V> {
  return Object.create(NOTHING) as Record<string, V>;
}

/** The value as a JSON object; undefined for null, arrays and scalars. */
export function record(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
}

/** The value as a list; empty for everything else. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : NO_ITEMS;
}

const isRecord = (item: unknown): item is JsonObject => record(item) !== undefined;
const isText = (item: unknown): item is string => typeof item === 'string';

/** The JSON objects of a list, others left out. */
export function records(value: unknown): readonly JsonObject[] {
  const items = list(value);
  // nearly always they are all objects, and then the list is good as it is
  return items.every(isRecord) ? items : items.filter(isRecord);
}

/** The value as text; undefined for everything else. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** The value as a finite number; undefined for everything else. */
export function number(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** The texts of a list, others left out. */
export function texts(value: unknown): readonly string[] {
  const items = list(value);
  return items.every(isText) ? items : items.filter(isText);
}

/** The value at a path of own properties, undefined where the path ends early. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  let current: unknown = value;
  for (const key of path) {
    const object = record(current);
    if (object === undefined || !Object.hasOwn(object, key)) return undefined;
    current = object[key];
  }
  return current;
}

/** True when two JSON-like values (frozen projections among them) have the same content. Key order does not matter. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null)
    return Number.isNaN(a) && Number.isNaN(b);
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a) && Array.isArray(b)) {
    if (a.length !== b.length) return false;
    for (let index = 0; index < a.length; index += 1) if (!same(a[index], b[index])) return false;
    return true;
  }
  const left = a as JsonObject;
  const right = b as JsonObject;
  let more = 0;
  // neither has inherited anything that could be counted
  for (const key in left) {
    const value = left[key];
    if (value === undefined) continue;
    if (!Object.hasOwn(right, key) || !same(value, right[key])) return false;
    more += 1;
  }
  for (const key in right) if (right[key] !== undefined) more -= 1;
  return more === 0;
}

/** How much of a value {@link fingerprint} reads: characters and parts. Nobody writes such a spec by hand. */
const FINGERPRINTED = 1_000_000;

/**
 * A number that is the same for the same JSON-like content, whatever the order of its keys, and nearly always another for other content: by
 * it is seen that something changed of which nobody reads more (FNV-1a of 32 bits, over the first million characters and 32 levels). Of
 * an object it is the sum over its keys, which need not be sorted for it: that took most of a second for as many as a review can hold.
 */
export function fingerprint(value: unknown): number {
  let left = FINGERPRINTED;
  const mix = (hash: number, more: number) => Math.imul(hash ^ more, 0x01000193);
  const ofText = (words: string, from: number) => {
    let hash = from;
    const length = Math.min(words.length, left);
    left -= length;
    for (let index = 0; index < length; index += 1) hash = mix(hash, words.charCodeAt(index));
    // what follows must not be read as its end
    return mix(hash, words.length);
  };
  const of = (part: unknown, levels: number): number => {
    left -= 1;
    if (typeof part === 'string') return ofText(part, 0x811c9dc5);
    if (typeof part !== 'object' || part === null) return ofText(String(part), 0x2f0b4a27);
    if (levels === 0) return 1;
    if (Array.isArray(part)) {
      let hash = 0x3c6ef372;
      for (const item of part) {
        if (left <= 0) break;
        hash = mix(mix(hash, of(item, levels - 1)), 0x5b);
      }
      return mix(hash, part.length);
    }
    const object = part as JsonObject;
    let sum = 0x510e527f;
    for (const key in object) {
      if (left <= 0) break;
      if (object[key] !== undefined)
        sum = (sum + scattered(mix(ofText(key, 0x811c9dc5), of(object[key], levels - 1)))) | 0;
    }
    return scattered(sum);
  };
  return scattered(of(value, 32)) >>> 0;
}

/** A number whose every bit depends on all of another's (the end of MurmurHash3): sums of such do not cancel each other out. */
function scattered(hash: number): number {
  const half = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const most = Math.imul(half ^ (half >>> 13), 0xc2b2ae35);
  return most ^ (most >>> 16);
}

/** The value with null for what is nested deeper than so many levels: whoever walks through it by recursion has room to. */
export function bounded(value: unknown, levels: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map(item => bounded(item, levels - 1));
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, bounded(inner, levels - 1)]));
}

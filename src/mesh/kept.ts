// What makes a projection fit to be kept beside a hundred thousand others: nobody may change it, and what it has in common with
// others is in memory once. Objects of one cluster are much alike: the labels of a workload are those of its pods and of the
// Service in front of them, and containers, ports and rules are made by the same few charts.

/** Longer texts and parts are rarely the same as others. */
const LONGEST_TEXT = 128;
const LONGEST_PART = 1024;
/** V8 copies shorter texts (SlicedString::kMinLength). */
const SHORTEST_VIEW = 13;
/** How many of the last texts and parts are remembered, once or twice over: what is alike stands close together in most sources. */
const TEXTS = 16_384;
const PARTS = 2048;

/** A Map of the entries that were used last; it forgets the others. */
interface Recent<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
}

function recent<V>(size: number): Recent<V> {
  let young = new Map<string, V>();
  let old = new Map<string, V>();
  const set = (key: string, value: V) => {
    if (young.size >= size) {
      old = young;
      young = new Map();
    }
    young.set(key, value);
  };
  return {
    get(key) {
      const known = young.get(key);
      if (known !== undefined) return known;
      const older = old.get(key);
      if (older !== undefined) set(key, older);
      return older;
    },
    set,
  };
}

interface Part {
  readonly id: number;
  readonly value: object;
}

const texts = recent<string>(TEXTS);
const parts = recent<Part>(PARTS);
let lastId = 0;

/** The text by itself: V8 makes what was cut from a longer one a view of it, which keeps all of a file in memory. */
function ownCopy(value: string): string {
  return value.length < SHORTEST_VIEW ? value : (JSON.parse(JSON.stringify(value)) as string);
}

/** The same text, shared with others that have it. */
function sharedText(value: string): string {
  if (value.length > LONGEST_TEXT) return ownCopy(value);
  const known = texts.get(value);
  if (known !== undefined) return known;
  const own = ownCopy(value);
  texts.set(own, own);
  return own;
}

type Fields = Record<string, unknown>;

/** The part of a projection, frozen, or an equal one that was met before. `id` is the same for the same part. */
function sharedPart(part: object): Part {
  // a text that is equal for equal parts alone: prototypes, order of keys, `undefined` and the types of scalars count
  const isList = Array.isArray(part);
  let signature = isList ? '[' : Object.getPrototypeOf(part) === Object.prototype ? '{' : '<';
  // looking into a text that is being put together copies all of it: with a hundred thousand keys that took half a minute
  const add = (more: string) => {
    if (signature.length <= LONGEST_PART) signature += more;
  };
  const frozen = Object.isFrozen(part);
  for (const key of Object.keys(part)) {
    const value = (part as Fields)[key];
    if (!isList) add(`${key.length}:${key}`);
    if (typeof value === 'string') {
      add(`"${value.length}:${value}`);
      if (!frozen) (part as Fields)[key] = sharedText(value);
    } else if (typeof value === 'object' && value !== null) {
      const inner = sharedPart(value);
      add(`#${inner.id},`);
      if (!frozen && inner.value !== value) (part as Fields)[key] = inner.value;
    } else add(`${value},`);
  }
  const short = signature.length <= LONGEST_PART;
  const known = short ? parts.get(signature) : undefined;
  if (known !== undefined) return known;
  lastId += 1;
  const made = { id: lastId, value: Object.freeze(part) };
  if (short) parts.set(signature, made);
  return made;
}

/** The projection, frozen to the ground. Its parts may be others' too. */
export function kept<T extends object>(projection: T): T {
  const fields = projection as Fields;
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    if (typeof value === 'string') fields[key] = sharedText(value);
    else if (typeof value === 'object' && value !== null) fields[key] = sharedPart(value).value;
  }
  return Object.freeze(projection);
}

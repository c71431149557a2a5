// Where a value stands in JSON text. Nothing is parsed: the text has been by JSON.parse, so it is known to be well formed.

const QUOTE = 34;
const BACKSLASH = 92;

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && text.charCodeAt(at) <= 32) at += 1;
  return at;
}

/** The offset behind the string that begins here. */
function skipString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) return at + 1;
  }
  return text.length;
}

/** The offset behind the value that begins here. */
function skipValue(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; ) {
    const character = text.charAt(at);
    if (character === '"') {
      at = skipString(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (character === '{' || character === '[') depth += 1;
    else if (character === '}' || character === ']') {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (character === ',' || character.charCodeAt(0) <= 32)) return at;
    at += 1;
  }
  return text.length;
}

/** One member of an object, or one element of a list. */
interface Member {
  /** The key as it is meant; the index of an element as text. */
  readonly key: string;
  /** Where its key begins; for an element where its value begins. */
  readonly offset: number;
  /** Where its value begins. */
  readonly value: number;
}

/** The members of the object or list that begins at an offset; none of a scalar. */
export function* jsonMembers(text: string, from: number): Generator<Member> {
  const start = skipSpace(text, from);
  const isObject = text.charAt(start) === '{';
  if (!isObject && text.charAt(start) !== '[') return;
  let at = skipSpace(text, start + 1);
  for (let index = 0; at < text.length && text.charAt(at) !== '}' && text.charAt(at) !== ']'; index += 1) {
    const offset = at;
    let key = String(index);
    if (isObject) {
      const end = skipString(text, at);
      key = JSON.parse(text.slice(at, end)) as string;
      at = skipSpace(text, skipSpace(text, end) + 1);
    }
    yield { key, offset, value: at };
    at = skipSpace(text, skipValue(text, at));
    if (text.charAt(at) === ',') at = skipSpace(text, at + 1);
  }
}

/** The members of objects and lists that were asked about, by offset: a text with many findings is read once for all. */
export type JsonIndex = Map<number, ReadonlyMap<string, Member>>;

function membersAt(text: string, from: number, index: JsonIndex): ReadonlyMap<string, Member> {
  const known = index.get(from);
  if (known !== undefined) return known;
  const members = new Map<string, Member>();
  // of two equal keys JSON.parse takes the last
  for (const member of jsonMembers(text, from)) members.set(member.key, member);
  index.set(from, members);
  return members;
}

/** The offset of what a path leads to (its key, where it has one), or of the last part of the path that is there. */
export function jsonOffset(text: string, from: number, path: readonly string[], index: JsonIndex = new Map()): number {
  let offset = skipSpace(text, from);
  let value = offset;
  for (const part of path) {
    const found = membersAt(text, value, index).get(part);
    if (found === undefined) return offset;
    ({ offset, value } = found);
  }
  return offset;
}

/** The parts of a long List in JSON text: its fields but `items`, and where each item begins and ends. */
export interface JsonList {
  readonly head: Readonly<Record<string, unknown>>;
  readonly items: readonly (readonly [start: number, end: number])[];
}

/**
 * Finds the items of a List without making objects of them all. Undefined where the text is not plainly an object with a list of
 * items; the items themselves are for the caller to parse, and whether they are JSON shows then.
 */
export function jsonList(text: string): JsonList | undefined {
  const parts = ranges(text, 0, '{');
  if (parts === undefined || parts.end !== text.trimEnd().length) return undefined;
  const head = Object.create(null) as Record<string, unknown>;
  let items: JsonList['items'] | undefined;
  try {
    for (const { key, start, end } of parts.members) {
      const name = JSON.parse(key) as string;
      if (name !== 'items') head[name] = JSON.parse(text.slice(start, end)) as unknown;
      else {
        const list = items === undefined ? ranges(text, start, '[') : undefined;
        if (list === undefined || list.end !== end) return undefined;
        items = list.members.map(member => [member.start, member.end] as const);
      }
    }
  } catch {
    return undefined;
  }
  return items === undefined ? undefined : { head, items };
}

interface Ranges {
  readonly members: readonly { readonly key: string; readonly start: number; readonly end: number }[];
  /** Behind the closing bracket. */
  readonly end: number;
}

/** Where the members of an object or list stand; undefined where what is between them is not as it must be. */
function ranges(text: string, from: number, open: '{' | '['): Ranges | undefined {
  let at = skipSpace(text, from);
  if (text.charAt(at) !== open) return undefined;
  const close = open === '{' ? '}' : ']';
  const members: Ranges['members'][number][] = [];
  at = skipSpace(text, at + 1);
  if (text.charAt(at) === close) return { members, end: at + 1 };
  for (;;) {
    let key = '';
    if (open === '{') {
      if (text.charCodeAt(at) !== QUOTE) return undefined;
      const behind = skipString(text, at);
      key = text.slice(at, behind);
      at = skipSpace(text, behind);
      if (text.charAt(at) !== ':') return undefined;
      at = skipSpace(text, at + 1);
    }
    const end = skipValue(text, at);
    if (end === at) return undefined;
    members.push({ key, start: at, end });
    at = skipSpace(text, end);
    const next = text.charAt(at);
    if (next === close) return { members, end: at + 1 };
    if (next !== ',') return undefined;
    at = skipSpace(text, at + 1);
  }
}

const TOKEN =
  /[ \t\r\n]*(?:("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)|([{}[\],:]))/y;

/** Where a text stops being JSON: JSON.parse does not always tell. Its length where the end is what is missing. */
export function jsonMistakeOffset(text: string): number {
  const open: ('{' | '[')[] = [];
  let expected: 'value' | 'first' | 'key' | 'firstKey' | 'colon' | 'end' = 'value';
  TOKEN.lastIndex = 0;
  for (;;) {
    const start = skipSpace(text, TOKEN.lastIndex);
    if (start >= text.length) return text.trimEnd().length;
    const token = TOKEN.exec(text);
    if (token === null) return start;
    const [, string, scalar, mark] = token;
    const takesValue = expected === 'value' || expected === 'first';
    if (string !== undefined && (expected === 'key' || expected === 'firstKey')) expected = 'colon';
    else if ((string !== undefined || scalar !== undefined) && takesValue) expected = 'end';
    else if ((mark === '{' || mark === '[') && takesValue) {
      open.push(mark);
      expected = mark === '{' ? 'firstKey' : 'first';
    } else if (mark === ':' && expected === 'colon') expected = 'value';
    else if (mark === ',' && expected === 'end' && open.length > 0) expected = open.at(-1) === '{' ? 'key' : 'value';
    else if (
      (mark === '}' && open.at(-1) === '{' && (expected === 'end' || expected === 'firstKey')) ||
      (mark === ']' && open.at(-1) === '[' && (expected === 'end' || expected === 'first'))
    ) {
      open.pop();
      expected = 'end';
    } else return start;
  }
}

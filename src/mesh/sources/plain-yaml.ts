// A quick reader for the plain block YAML that manifests are written in: ten times as fast as a full parser, which `check` on
// a thousand files needs. It gives up (undefined) on whatever is not plainly that: anchors, tags, scalars over several lines,
// duplicate keys, every mistake. The full parser then has the word, so what YAML means is decided in one place; a property
// test holds the two against each other.
import { plainScalar } from './scalars.ts';

/** Told of each value in the order of the text: its container, its key or index there, the offset where it (or its key) begins. */
export type Mark = (container: object, key: string | number, offset: number) => void;

export interface PlainYamlOptions {
  /** Where to begin and to end in the text; the whole of it by default. The beginning may be in the middle of a line. */
  readonly start?: number;
  readonly end?: number;
  readonly mark?: Mark;
  /** Told of each element of the list under the key `items` of the outermost mapping: the offset of its dash; at last of what follows the list. */
  readonly item?: (offset: number) => void;
  /** Leaves those elements out of the value: they are only looked at. */
  readonly withoutItems?: boolean;
}

/** A part of a text that does not keep the whole text in memory: V8 makes a long slice a view of what it was cut from. */
function ownCopy(part: string): string {
  return part.length < 13 ? part : ` ${part}`.slice(1);
}

const GIVE_UP = Symbol('not plain YAML');
/** Deeper than any manifest; the full parser has the word beyond. */
const DEPTH = 100;

const NEWLINE = 10;
const RETURN = 13;
const TAB = 9;
const SPACE = 32;
const QUOTE = 34;
const HASH = 35;
const APOSTROPHE = 39;
const COMMA = 44;
const DASH = 45;
const COLON = 58;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_MAP = 123;
const PIPE = 124;
const CLOSE_MAP = 125;

/** First characters of an unquoted scalar that mean something else in YAML, `-` apart. */
const INDICATORS: ReadonlySet<number> = new Set([...'?:,[]{}#&*!|>\'"%@`'].map(character => character.charCodeAt(0)));

type Values = Record<string, unknown>;

/**
 * The value of one YAML document without its markers (`---`, `...`), which must not stand in it. A wrapper, since a document may be
 * null. Undefined where the text is not plain enough.
 */
export function parsePlainYaml(text: string, options: PlainYamlOptions = {}): { readonly value: unknown } | undefined {
  const end = options.end ?? text.length;
  const { mark, item } = options;
  let position = options.start ?? 0;
  // the column of `position` where it is the first character of a line's content, -1 at the end of the text
  let indent = 0;
  let depth = 0;

  function giveUp(): never {
    throw GIVE_UP;
  }

  function isEnd(at: number): boolean {
    if (at >= end) return true;
    const code = text.charCodeAt(at);
    if (code === RETURN && at + 1 < end && text.charCodeAt(at + 1) !== NEWLINE) giveUp();
    return code === NEWLINE || code === RETURN;
  }

  /** To the first content at or after the beginning of a line. */
  function content(lineStart: number): void {
    let at = lineStart;
    for (;;) {
      const start = at;
      while (at < end && text.charCodeAt(at) === SPACE) at += 1;
      if (at >= end) {
        position = end;
        indent = -1;
        return;
      }
      const code = text.charCodeAt(at);
      if (code === NEWLINE) at += 1;
      else if (code === RETURN) {
        if (at + 1 < end && text.charCodeAt(at + 1) !== NEWLINE) giveUp();
        at += 2;
      } else if (code === HASH) at = lineEnd(at) + 1;
      else {
        if (code === TAB) giveUp();
        position = at;
        indent = at - start;
        return;
      }
    }
  }

  function lineEnd(from: number): number {
    const found = text.indexOf('\n', from);
    return found < 0 || found > end ? end : found;
  }

  /** Past spaces and a comment, to the next line's content. Anything else there is not plain. */
  function finishLine(): void {
    let at = position;
    while (at < end && text.charCodeAt(at) === SPACE) at += 1;
    if (!isEnd(at) && !(text.charCodeAt(at) === HASH && at > position)) giveUp();
    content(lineEnd(at) + 1);
  }

  function quoted(): string {
    const quote = text.charCodeAt(position);
    let at = position + 1;
    if (quote === APOSTROPHE) {
      for (;;) {
        const code = text.charCodeAt(at);
        if (at >= end || code === NEWLINE || code === RETURN) giveUp();
        if (code === APOSTROPHE) {
          if (text.charCodeAt(at + 1) !== APOSTROPHE || at + 1 >= end) break;
          at += 1;
        }
        at += 1;
      }
      const raw = text.slice(position + 1, at);
      position = at + 1;
      return ownCopy(raw.includes("''") ? raw.replaceAll("''", "'") : raw);
    }
    let escapes = false;
    for (;;) {
      const code = text.charCodeAt(at);
      if (at >= end || code === NEWLINE || code === RETURN || code === TAB) giveUp();
      if (code === QUOTE) break;
      if (code === 92) {
        escapes = true;
        at += 1;
        // those that JSON has too; YAML's own (\x41, \e, \ …) are for the full parser
        if (!'"\\/bfnrtu'.includes(text.charAt(at))) giveUp();
      }
      at += 1;
    }
    const raw = text.slice(position + 1, at);
    position = at + 1;
    if (!escapes) return ownCopy(raw);
    try {
      return JSON.parse(`"${raw}"`) as string;
    } catch {
      return giveUp();
    }
  }

  /** An unquoted scalar up to the end of its line, or in a flow collection to what ends it there. */
  function unquoted(flow: boolean): string {
    const start = position;
    const first = text.charCodeAt(start);
    if (INDICATORS.has(first) || (first === DASH && (isEnd(start + 1) || text.charCodeAt(start + 1) === SPACE)))
      giveUp();
    let at = start;
    for (; !isEnd(at); at += 1) {
      const code = text.charCodeAt(at);
      if (code === TAB) giveUp();
      if (code === HASH && text.charCodeAt(at - 1) === SPACE) break;
      if (code === COLON) {
        const next = text.charCodeAt(at + 1);
        if (isEnd(at + 1) || next === SPACE || next === TAB) {
          if (flow) break;
          giveUp();
        }
        if (
          flow &&
          (next === COMMA || next === CLOSE_LIST || next === CLOSE_MAP || next === OPEN_LIST || next === OPEN_MAP)
        )
          giveUp();
      }
      if (
        flow &&
        (code === COMMA || code === CLOSE_LIST || code === CLOSE_MAP || code === OPEN_LIST || code === OPEN_MAP)
      )
        break;
    }
    position = at;
    while (at > start && text.charCodeAt(at - 1) === SPACE) at -= 1;
    if (at === start) giveUp();
    return ownCopy(text.slice(start, at));
  }

  /** An unquoted key as the text that it becomes in JSON; words and unusual numbers are for the full parser. */
  function keyText(source: string): string {
    const value = plainScalar(source);
    if (typeof value === 'string' || (typeof value === 'number' && String(value) === source)) return source;
    return giveUp();
  }

  function put(container: Values, key: string, value: unknown, offset: number): void {
    // `in` finds `__proto__` and the like too: those are for the full parser, and so are duplicate keys and merges
    if (key === '<<' || key in container) giveUp();
    container[key] = value;
    mark?.(container, key, offset);
  }

  function skipSpaces(): void {
    while (position < end && text.charCodeAt(position) === SPACE) position += 1;
  }

  /** A flow collection on one line. */
  function flow(): unknown {
    depth += 1;
    if (depth > DEPTH) giveUp();
    const isMap = text.charCodeAt(position) === OPEN_MAP;
    const close = isMap ? CLOSE_MAP : CLOSE_LIST;
    const values: Values = {};
    const items: unknown[] = [];
    position += 1;
    skipSpaces();
    while (text.charCodeAt(position) !== close) {
      if (isEnd(position)) giveUp();
      const start = position;
      if (isMap) {
        const isQuoted = text.charCodeAt(position) === QUOTE || text.charCodeAt(position) === APOSTROPHE;
        const key = isQuoted ? quoted() : keyText(unquoted(true));
        skipSpaces();
        if (text.charCodeAt(position) !== COLON) giveUp();
        position += 1;
        if (text.charCodeAt(position) !== SPACE) giveUp();
        skipSpaces();
        if (isEnd(position)) giveUp();
        const code = text.charCodeAt(position);
        put(values, key, code === COMMA || code === CLOSE_MAP ? null : flowValue(), start);
      } else {
        items.push(flowValue());
        mark?.(items, items.length - 1, start);
      }
      skipSpaces();
      if (text.charCodeAt(position) === COMMA) {
        position += 1;
        skipSpaces();
      } else if (text.charCodeAt(position) !== close) giveUp();
    }
    if (position >= end) giveUp();
    position += 1;
    depth -= 1;
    return isMap ? values : items;
  }

  function flowValue(): unknown {
    const code = text.charCodeAt(position);
    if (position >= end) giveUp();
    if (code === OPEN_MAP || code === OPEN_LIST) return flow();
    if (code === QUOTE || code === APOSTROPHE) return quoted();
    return plainScalar(unquoted(true));
  }

  /** A literal block scalar (`|`, `|-`, `|+`), whose lines stand deeper than `parent`. */
  function literal(parent: number): string {
    position += 1;
    let chomp = 'clip';
    const sign = text.charAt(position);
    if (sign === '-' || sign === '+') {
      chomp = sign === '-' ? 'strip' : 'keep';
      position += 1;
    }
    let at = position;
    while (at < end && text.charCodeAt(at) === SPACE) at += 1;
    if (!isEnd(at) && !(text.charCodeAt(at) === HASH && at > position)) giveUp();
    at = lineEnd(at) + 1;
    let width = -1;
    let lines = '';
    // blank lines that end the scalar, unless more of it follows
    let blank = '';
    let widestBlank = 0;
    while (at < end) {
      let column = at;
      while (column < end && text.charCodeAt(column) === SPACE && (width < 0 || column - at < width)) column += 1;
      const deep = column - at;
      const stop = lineEnd(at);
      const stopText = stop > at && text.charCodeAt(stop - 1) === RETURN ? stop - 1 : stop;
      if (column >= stopText) {
        if (width < 0) widestBlank = Math.max(widestBlank, deep);
        blank += '\n';
      } else if (width < 0) {
        if (deep <= parent) break;
        if (widestBlank > deep || text.charCodeAt(column) === TAB) giveUp();
        width = deep;
        lines = `${blank}${text.slice(column, stopText)}\n`;
        blank = '';
      } else {
        if (deep < width) {
          if (deep > parent || text.charCodeAt(column) === TAB) giveUp();
          break;
        }
        lines += `${blank}${text.slice(column, stopText)}\n`;
        blank = '';
      }
      at = stop + 1;
    }
    // an empty scalar, and a text that ends in the middle of a line: the full parser knows
    if (width < 0 || (at >= end && text.charCodeAt(end - 1) !== NEWLINE)) giveUp();
    content(Math.min(at, end));
    return ownCopy(chomp === 'keep' ? lines + blank : chomp === 'strip' ? lines.slice(0, -1) : lines);
  }

  /** A value that begins on the line of its key or dash; its lines stand deeper than `parent`. */
  function inline(parent: number): unknown {
    const code = text.charCodeAt(position);
    if (code === PIPE) return literal(parent);
    const value =
      code === OPEN_MAP || code === OPEN_LIST || code === QUOTE || code === APOSTROPHE
        ? flowValue()
        : plainScalar(unquoted(false));
    finishLine();
    // a scalar that goes on, or a mistake
    if (indent > parent) giveUp();
    return value;
  }

  function block(each?: (offset: number) => void): unknown {
    depth += 1;
    if (depth > DEPTH) giveUp();
    const value = isDash(position) ? sequence(indent, each) : mapping(indent);
    depth -= 1;
    return value;
  }

  function isDash(at: number): boolean {
    return text.charCodeAt(at) === DASH && (isEnd(at + 1) || text.charCodeAt(at + 1) === SPACE);
  }

  function mapping(column: number): Values {
    const values: Values = {};
    while (indent === column) {
      const start = position;
      const first = text.charCodeAt(position);
      const key = first === QUOTE || first === APOSTROPHE ? quoted() : plainKey();
      skipSpaces();
      if (text.charCodeAt(position) !== COLON || position >= end) giveUp();
      position += 1;
      const separated = text.charCodeAt(position) === SPACE;
      if (!isEnd(position) && !separated) giveUp();
      const after = position;
      skipSpaces();
      if (isEnd(position) || (text.charCodeAt(position) === HASH && position > after)) {
        finishLine();
        const each = depth === 1 && key === 'items' ? item : undefined;
        // a list may stand in the column of its key
        const value =
          indent > column ? block(each) : indent === column && isDash(position) ? sequence(column, each) : null;
        put(values, key, value, start);
        continue;
      }
      put(values, key, inline(column), start);
    }
    if (indent > column) giveUp();
    return values;
  }

  /** An unquoted key, up to its colon. */
  function plainKey(): string {
    const start = position;
    const first = text.charCodeAt(start);
    if (INDICATORS.has(first) || isDash(start)) giveUp();
    let at = start;
    for (; ; at += 1) {
      if (isEnd(at)) giveUp();
      const code = text.charCodeAt(at);
      if (code === TAB || (code === HASH && text.charCodeAt(at - 1) === SPACE)) giveUp();
      if (code === COLON && (isEnd(at + 1) || text.charCodeAt(at + 1) === SPACE)) break;
    }
    position = at;
    while (text.charCodeAt(at - 1) === SPACE) at -= 1;
    return keyText(text.slice(start, at));
  }

  /** Whether what begins here is a key with its colon: so that `- name: x` is a mapping and `- x` is not. */
  function startsMapping(): boolean {
    const first = text.charCodeAt(position);
    if (first === QUOTE || first === APOSTROPHE) {
      const start = position;
      quoted();
      skipSpaces();
      const found = text.charCodeAt(position) === COLON;
      position = start;
      return found;
    }
    if (first === OPEN_MAP || first === OPEN_LIST || first === PIPE) return false;
    for (let at = position; !isEnd(at); at += 1) {
      const code = text.charCodeAt(at);
      if (code === HASH && text.charCodeAt(at - 1) === SPACE) return false;
      if (code === COLON && (isEnd(at + 1) || text.charCodeAt(at + 1) === SPACE)) return true;
    }
    return false;
  }

  function sequence(column: number, each?: (offset: number) => void): unknown[] {
    const items: unknown[] = [];
    while (indent === column && isDash(position)) {
      const dash = position;
      position += 1;
      const after = position;
      skipSpaces();
      let offset = position;
      let value: unknown;
      if (isEnd(position) || (text.charCodeAt(position) === HASH && position > after)) {
        finishLine();
        offset = indent > column ? position : dash;
        value = indent > column ? block() : null;
      } else if (isDash(position) || startsMapping()) {
        indent = column + (position - dash);
        value = block();
      } else value = inline(column);
      each?.(dash);
      if (each !== undefined && options.withoutItems === true) continue;
      items.push(value);
      mark?.(items, items.length - 1, offset);
    }
    if (indent > column) giveUp();
    each?.(position);
    return items;
  }

  try {
    if (options.start === undefined || options.start === 0 || text.charCodeAt(options.start - 1) === NEWLINE)
      content(position);
    else {
      // in the middle of a line: the column of what begins here
      indent = position - (text.lastIndexOf('\n', position - 1) + 1);
    }
    if (position >= end) return undefined;
    if (
      INDICATORS.has(text.charCodeAt(position)) &&
      text.charCodeAt(position) !== QUOTE &&
      text.charCodeAt(position) !== APOSTROPHE
    )
      return undefined;
    const value = block();
    return indent === -1 ? { value } : undefined;
  } catch (error) {
    if (error === GIVE_UP) return undefined;
    throw error;
  }
}

// The documents of a manifest's text, YAML or JSON, as kubectl would read them; and, only when asked, where in the text a value
// stands. Positions cost more than the values do, and few values have something to be said about them.
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  parseAllDocuments,
  type ScalarTag,
  type Tags,
  type Node as YamlNode,
} from 'yaml';
import { list, record, text } from '../../kube/json.ts';
import { depthOfKeys } from '../../kube/yaml.ts';
import { jsonList, jsonMembers, jsonMistakeOffset, jsonOffset } from './json-offsets.ts';
import { type Mark, parsePlainYaml } from './plain-yaml.ts';
import { plainScalar } from './scalars.ts';

/** One document of a text. */
export interface TextDocument {
  readonly value: unknown;
  /** Offset of the value that a path of keys and indexes leads to, or of the last part of the path that is there. */
  offset(path: readonly string[]): number;
}

/** A text that cannot be read, with the offset of the mistake. */
export class UnreadableText extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.name = 'UnreadableText';
    this.offset = offset;
  }
}

/** How often aliases may be followed in one document: enough for a manifest, too little for "a billion laughs". */
const ALIASES = 1000;
/** Mappings as keys of mappings: templates that nobody has rendered have one (`{{ .Values.x }}`), and more take exponential time. */
const KEYS_IN_KEYS = 4;

/** Every unquoted scalar read as kubectl does (scalars.ts). */
const plainTag: ScalarTag = {
  tag: 'tag:waywarden,2026:plain',
  default: true,
  test: /^(?!<<$)/s,
  resolve: source => plainScalar(source),
};

const FULL = {
  version: '1.2',
  merge: true,
  logLevel: 'silent',
  prettyErrors: false,
  uniqueKeys: true,
  customTags: (tags: Tags): Tags => [plainTag, ...tags],
} as const;

/** Lone `---` lines part documents wherever they stand: YAML forbids them within scalars (spec 1.2, c-forbidden). */
const MARKER = /(?<![^\n])(?:---|\.\.\.)(?![^ \t\r\n])/g;

interface Chunk {
  readonly start: number;
  readonly end: number;
  /** True where content stands on the line of the marker: only the full parser reads that. */
  readonly inline: boolean;
}

/** The parts of a text between its markers; undefined where directives (%YAML, %TAG) make that more than cutting. */
function chunksOf(text: string): readonly Chunk[] | undefined {
  if (/(?<![^\n])%/.test(text)) return undefined;
  const chunks: Chunk[] = [];
  let start = 0;
  let inline = false;
  for (const marker of text.matchAll(MARKER)) {
    chunks.push({ start, end: marker.index, inline });
    const line = text.indexOf('\n', marker.index);
    const lineEnd = line < 0 ? text.length : line;
    const rest = text.slice(marker.index + 3, lineEnd).trim();
    inline = rest !== '' && !rest.startsWith('#');
    start = inline ? marker.index : Math.min(lineEnd + 1, text.length);
  }
  chunks.push({ start, end: text.length, inline });
  return chunks;
}

function offsetInNode(node: unknown, path: readonly string[], base: number): number {
  let current = node;
  let offset = (node as YamlNode | null)?.range?.[0] ?? 0;
  for (const part of path) {
    if (isMap(current)) {
      const pair = current.items.find(({ key }) => isScalar(key) && String(key.value) === part);
      if (pair === undefined) break;
      offset = (pair.key as YamlNode).range?.[0] ?? offset;
      current = pair.value;
    } else if (isSeq(current)) {
      const item = current.items[Number(part)] as YamlNode | undefined;
      if (item === undefined) break;
      offset = item.range?.[0] ?? offset;
      current = item;
    } else break;
    if (isAlias(current)) break;
  }
  return base + offset;
}

function fromYaml(document: Document.Parsed, base: number): TextDocument {
  const [error] = document.errors;
  if (error !== undefined) {
    const [line = ''] = error.message.split('\n');
    throw new UnreadableText(
      error.code === 'DUPLICATE_KEY' ? 'this key stands twice in one mapping' : line.replace(/:$/, ''),
      base + error.pos[0],
    );
  }
  try {
    if (depthOfKeys(document.contents) > KEYS_IN_KEYS) throw new RangeError('keys in keys');
    return {
      value: document.toJS({ maxAliasCount: ALIASES }) as unknown,
      offset: path => offsetInNode(document.contents, path, base),
    };
  } catch (error) {
    throw new UnreadableText(
      error instanceof ReferenceError
        ? 'aliases multiply here beyond measure, or refer to nothing'
        : 'nested too deeply',
      base + (document.contents?.range[0] ?? 0),
    );
  }
}

/** The documents of a text by the full parser alone: what the quick reader is held against. */
export function readFully(text: string): readonly TextDocument[] {
  return fullParse(text, 0).filter(({ value }) => value !== null);
}

function fullParse(text: string, base: number): readonly TextDocument[] {
  let documents: ReturnType<typeof parseAllDocuments>;
  try {
    documents = parseAllDocuments(text, FULL);
  } catch (error) {
    throw new UnreadableText(error instanceof RangeError ? 'nested too deeply' : String(error), base);
  }
  return [...documents].map(document => fromYaml(document as Document.Parsed, base));
}

type Offsets = Map<object, Map<string, number>>;

/** Offsets in plain YAML, found by reading that part of it once more. */
function plainOffsets(text: string, chunk: Chunk, items: readonly number[]): TextDocument['offset'] {
  let last: { readonly item: string; readonly find: (path: readonly string[]) => number } | undefined;

  function reread(start: number, end: number): (path: readonly string[]) => number {
    const offsets: Offsets = new Map();
    const mark: Mark = (container, key, offset) => {
      const known = offsets.get(container);
      if (known === undefined) offsets.set(container, new Map([[String(key), offset]]));
      else known.set(String(key), offset);
    };
    const root = parsePlainYaml(text, { start, end, mark })?.value;
    const first = firstContent(text, { start, end });
    return path => {
      let current: unknown = root;
      let offset = first;
      for (const part of path) {
        const found = typeof current === 'object' && current !== null ? offsets.get(current)?.get(part) : undefined;
        if (found === undefined) break;
        offset = found;
        current = (current as Record<string, unknown>)[part];
      }
      return offset;
    };
  }

  return path => {
    const [list, index = '', ...rest] = path;
    const start = items[Number(index)];
    const end = items[Number(index) + 1];
    // of a long List only the element asked for
    const inItem = list === 'items' && start !== undefined && end !== undefined;
    const item = inItem ? index : '';
    if (last?.item !== item) last = { item, find: inItem ? reread(start, end) : reread(chunk.start, chunk.end) };
    return last.find(inItem ? ['0', ...rest] : path);
  };
}

function firstContent(text: string, { start, end }: Pick<Chunk, 'start' | 'end'>): number {
  const blank = /(?:[ \t\r\n]|#[^\n]*)*/y;
  blank.lastIndex = start;
  return Math.min(end, start + (blank.exec(text)?.[0].length ?? 0));
}

function jsonOffsets(text: string, start: number): TextDocument['offset'] {
  let items: readonly number[] | undefined;
  return path => {
    const [list, index, ...rest] = path;
    if (list !== 'items' || index === undefined) return jsonOffset(text, start, path);
    if (items === undefined) {
      const member = [...jsonMembers(text, start)].findLast(({ key }) => key === 'items');
      items = member === undefined ? [] : [...jsonMembers(text, member.value)].map(({ value }) => value);
    }
    const found = items[Number(index)];
    return found === undefined ? jsonOffset(text, start, ['items']) : jsonOffset(text, found, rest);
  };
}

function fromJson(text: string): TextDocument | undefined {
  try {
    return { value: JSON.parse(text) as unknown, offset: jsonOffsets(text, 0) };
  } catch {
    return undefined;
  }
}

/** What is wrong with JSON text, and where. */
function jsonMistake(text: string): UnreadableText {
  const offset = jsonMistakeOffset(text);
  const found = text.slice(offset, offset + 12).split(/\s/)[0] ?? '';
  return new UnreadableText(
    offset >= text.trimEnd().length
      ? 'the JSON ends here before it is complete'
      : `no valid JSON from here on: ${found}`,
    offset,
  );
}

/** From so many characters on a List is taken apart before its elements are read, so that they are not all in memory at once. */
const LONG = 1_000_000;

type Head = Readonly<Record<string, unknown>>;

function isList(head: Head): boolean {
  return text(head['kind'])?.endsWith('List') === true;
}

/** One element of a long List, as a List of one; positions are found in the element alone. */
function ofList(head: Head, item: unknown, offset: TextDocument['offset']): TextDocument {
  return { value: { ...head, items: [item] }, offset: ([, , ...rest]) => offset(rest) };
}

function* longJson(source: string): Generator<TextDocument, boolean> {
  const list = jsonList(source);
  if (list === undefined || !isList(list.head)) return false;
  for (const [start, end] of list.items) {
    let item: unknown;
    try {
      item = JSON.parse(source.slice(start, end)) as unknown;
    } catch {
      throw jsonMistake(source);
    }
    yield ofList(list.head, item, path => jsonOffset(source, start, path));
  }
  return true;
}

function* plainDocuments(source: string, chunk: Chunk): Generator<TextDocument, boolean> {
  if (chunk.inline) return false;
  const items: number[] = [];
  const withoutItems = chunk.end - chunk.start >= LONG;
  const { start, end } = chunk;
  const plain = parsePlainYaml(source, { start, end, item: offset => items.push(offset), withoutItems });
  if (plain === undefined) return false;
  if (!withoutItems || items.length === 0) {
    yield { value: plain.value, offset: plainOffsets(source, chunk, items) };
    return true;
  }
  const offset = plainOffsets(source, chunk, items);
  const head = (record(plain.value) ?? {}) as Head;
  const read = (index: number) =>
    list(parsePlainYaml(source, { start: items[index] ?? end, end: items[index + 1] ?? end })?.value)[0];
  if (isList(head)) {
    for (let index = 0; index + 1 < items.length; index += 1)
      yield ofList(head, read(index), path => offset(['items', String(index), ...path]));
  } else {
    yield { value: { ...head, items: items.slice(0, -1).map((_, index) => read(index)) }, offset };
  }
  return true;
}

/**
 * The documents of a text, empty ones left out; of a long List each element as a List of its own. `json` says that it is meant as
 * JSON, so that its mistakes are told as those of JSON. Throws {@link UnreadableText}.
 */
export function* documentsOf(source: string, json = false): Generator<TextDocument> {
  for (const document of read(source, json)) if (document.value !== null) yield document;
}

function* read(source: string, json: boolean): Generator<TextDocument> {
  const begin = /[^\s]/.exec(source)?.[0];
  if (begin === undefined) return;
  if (begin === '{' || begin === '[') {
    if (source.length >= LONG && (yield* longJson(source))) return;
    const document = fromJson(source);
    if (document !== undefined) {
      yield document;
      return;
    }
  }
  if (json) throw jsonMistake(source);
  const chunks = chunksOf(source);
  if (chunks === undefined) {
    yield* fullParse(source, 0);
    return;
  }
  for (const chunk of chunks) {
    if (firstContent(source, chunk) >= chunk.end || (yield* plainDocuments(source, chunk))) continue;
    yield* fullParse(source.slice(chunk.start, chunk.end), chunk.start);
  }
}

// The documents of a manifest's text, YAML or JSON, as kubectl would read them; and, only when asked, where in the text a value
// stands. A parser's nodes, which know it, take many times the memory of the values, and few values have something to be said
// about them: they are made once more for those.
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
import { depthOfKeys, isCyclic } from '../../kube/yaml.ts';
import { type JsonIndex, jsonList, jsonMembers, jsonMistakeOffset, jsonOffset } from './json-offsets.ts';
import { plainScalar } from './scalars.ts';
import { yamlList } from './yaml-list.ts';

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
  // the parser would compare every key with every other of its mapping: see repeatedKey
  uniqueKeys: false,
  customTags: (tags: Tags): Tags => [plainTag, ...tags],
} as const;

/** Lone `---` lines part documents wherever they stand: YAML forbids them within scalars (spec 1.2, c-forbidden). */
const MARKER = /(?<![^\n])(?:---|\.\.\.)(?![^ \t\r\n])/g;

interface Chunk {
  readonly start: number;
  readonly end: number;
}

/** The parts of a text between its markers; undefined where directives (%YAML, %TAG) make that more than cutting. */
function chunksOf(text: string): readonly Chunk[] | undefined {
  if (/(?<![^\n])%/.test(text)) return undefined;
  const chunks: Chunk[] = [];
  let start = 0;
  for (const marker of text.matchAll(MARKER)) {
    chunks.push({ start, end: marker.index });
    const line = text.indexOf('\n', marker.index);
    const lineEnd = line < 0 ? text.length : line;
    const rest = text.slice(marker.index + 3, lineEnd).trim();
    // content may begin on the line of the marker
    const inline = rest !== '' && !rest.startsWith('#');
    start = inline ? marker.index : Math.min(lineEnd + 1, text.length);
  }
  chunks.push({ start, end: text.length });
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

/** A key that stands twice in its mapping. */
function repeatedKey(node: unknown): YamlNode | undefined {
  if (isSeq(node)) {
    for (const item of node.items) {
      const found = repeatedKey(item);
      if (found !== undefined) return found;
    }
  }
  if (!isMap(node)) return undefined;
  const seen = new Set<unknown>();
  for (const { key, value } of node.items) {
    if (isScalar(key)) {
      if (seen.has(key.value)) return key;
      seen.add(key.value);
    }
    const found = repeatedKey(key) ?? repeatedKey(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

function fromYaml(document: Document.Parsed, base: number, again: () => Document | undefined): TextDocument {
  const [error] = document.errors;
  if (error !== undefined) {
    const [line = ''] = error.message.split('\n');
    throw new UnreadableText(line.replace(/:$/, ''), base + error.pos[0]);
  }
  let repeated: YamlNode | undefined;
  let contents: unknown;
  const offset: TextDocument['offset'] = path => {
    contents ??= again()?.contents;
    return offsetInNode(contents, path, base);
  };
  try {
    if (depthOfKeys(document.contents) > KEYS_IN_KEYS) throw new RangeError('keys in keys');
    repeated = repeatedKey(document.contents);
    if (repeated === undefined) {
      const value = document.toJS({ maxAliasCount: ALIASES }) as unknown;
      if (isCyclic(value)) throw new ReferenceError('an alias within its own anchor');
      return { value, offset };
    }
  } catch (error) {
    throw new UnreadableText(
      error instanceof ReferenceError
        ? 'aliases multiply here beyond measure, or refer to nothing or to what they are part of'
        : 'nested too deeply',
      base + (document.contents?.range[0] ?? 0),
    );
  }
  throw new UnreadableText('this key stands twice in one mapping', base + (repeated.range?.[0] ?? 0));
}

/** Every document of a text, whole; `base` is where the text stands in a longer one. Throws {@link UnreadableText}. */
export function readWhole(source: string, base = 0): readonly TextDocument[] {
  const parse = () => [...parseAllDocuments(source, FULL)] as Document.Parsed[];
  let documents: Document.Parsed[];
  try {
    documents = parse();
  } catch (error) {
    throw new UnreadableText(error instanceof RangeError ? 'nested too deeply' : String(error), base);
  }
  return documents.map((document, index) => fromYaml(document, base, () => parse()[index]));
}

function jsonOffsets(text: string, start: number): TextDocument['offset'] {
  const members: JsonIndex = new Map();
  let items: readonly number[] | undefined;
  return path => {
    const [list, index, ...rest] = path;
    if (list !== 'items' || index === undefined) return jsonOffset(text, start, path, members);
    if (items === undefined) {
      const member = [...jsonMembers(text, start)].findLast(({ key }) => key === 'items');
      items = member === undefined ? [] : [...jsonMembers(text, member.value)].map(({ value }) => value);
    }
    const found = items[Number(index)];
    return found === undefined ? jsonOffset(text, start, ['items'], members) : jsonOffset(text, found, rest, members);
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
const LONG = 200_000;

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

/** The one value of a text; undefined where it is no YAML, or none by itself. */
function alone(source: string, base = 0): TextDocument | undefined {
  try {
    const [document, more] = readWhole(source, base);
    return more === undefined ? document : undefined;
  } catch {
    return undefined;
  }
}

function* longYaml(source: string, base: number): Generator<TextDocument, boolean> {
  const found = yamlList(source);
  const head = found === undefined ? undefined : record(alone(found.head)?.value);
  if (found === undefined || head === undefined || !isList(head)) return false;
  for (const [index, start] of found.bounds.slice(0, -1).entries()) {
    const element = alone(source.slice(start, found.bounds[index + 1]), base + start);
    const items = list(element?.value);
    if (element === undefined || items.length !== 1) {
      // a mistake, or an alias of something in an element before: the whole says which
      const [whole] = readWhole(source, base);
      for (const [at, item] of list(record(whole?.value)?.['items']).entries())
        if (at >= index && whole !== undefined)
          yield ofList(head, item, path => whole.offset(['items', String(at), ...path]));
      return true;
    }
    yield ofList(head, items[0], path => element.offset(['0', ...path]));
  }
  return true;
}

/**
 * The documents of a text, empty ones left out; of a List of so many characters (`long`) each element as a List of its own. `json`
 * says that it is meant as JSON, so that its mistakes are told as those of JSON. Throws {@link UnreadableText}.
 */
export function* documentsOf(source: string, json = false, long = LONG): Generator<TextDocument> {
  for (const document of read(source, json, long)) if (document.value !== null) yield document;
}

function* read(source: string, json: boolean, long: number): Generator<TextDocument> {
  const begin = /[^\s]/.exec(source)?.[0];
  if (begin === undefined) return;
  if (begin === '{' || begin === '[') {
    if (source.length >= long && (yield* longJson(source))) return;
    const document = fromJson(source);
    if (document !== undefined) {
      yield document;
      return;
    }
  }
  if (json) throw jsonMistake(source);
  const chunks = chunksOf(source);
  if (chunks === undefined) {
    yield* readWhole(source);
    return;
  }
  for (const { start, end } of chunks) {
    const part = source.slice(start, end);
    if (part.length < long || !(yield* longYaml(part, start))) yield* readWhole(part, start);
  }
}

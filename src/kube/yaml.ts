// YAML inside of objects: in annotations, ConfigMaps and other products' rules. Whoever may write these may write anything.
import { CST, isCollection, isMap, isPair, isScalar, Lexer, parseDocument, type ScalarTag, type Tags } from 'yaml';

/** No text that anybody wrote is as long: the injector's configuration has 60 KB. A megabyte takes a second to read. */
const LONGEST = 192 * 1024;
/** Anchors and aliases: the library looks through all of the text for each. */
const NAMES = 500;
/** Brackets that close nothing: the library makes an error for each, of several kilobytes. */
const UNOPENED = 100;

const count = (source: string, pattern: RegExp): number => source.match(pattern)?.length ?? 0;

/** True for a text that costs the library more than its length: nobody writes such, and what it means stays unknown. */
function isTooMuch(source: string): boolean {
  return (
    count(source, /(?:^|[\s,[{:-])[&*][^\s&*]/g) > NAMES || count(source, /[\]}]/g) - count(source, /[[{]/g) > UNOPENED
  );
}

const OCTAL: ScalarTag = { tag: 'tag:yaml.org,2002:int', default: true, test: /^0[oO][0-7]+$/, resolve: Number };

/** Where Go leaves YAML 1.1: dates and 1:30 are texts, and 0o17 is 15. */
function asGo(tags: Tags): Tags {
  const timeless = tags.filter(
    tag => typeof tag === 'string' || !(tag.format === 'TIME' || tag.tag.endsWith(':timestamp')),
  );
  return [OCTAL, ...timeless];
}

/** Mistakes that the library finds only when it makes values; what else it throws says that a text is too much for it. */
const MISTAKE = /^(?:Unresolved alias|Merge sources)/;

/** What the library reports as a mistake in a text that is only too deep for it. */
const STACK = /^Maximum call stack/;

function parse(source: string) {
  // errors are not made pretty: each of thousands would look for its line from the beginning of the text
  return parseDocument(source, {
    version: '1.1',
    customTags: asGo,
    uniqueKeys: false,
    logLevel: 'silent', // or a second document is an error
    prettyErrors: false,
  });
}

/** Tokens of the library's lexer that stand for no character of the text. */
const MARKS: ReadonlySet<string> = new Set([CST.DOCUMENT, CST.FLOW_END, CST.SCALAR]);
/** Characters that are looked at, over all tries, for lines of a flow mapping that are to be moved. */
const EFFORT = 2_000_000;

/**
 * The text with the lines of flow mappings and lists that stand too far to the left moved to the right: to Go indentation says nothing
 * there, the library ends the mapping (tried with istiod 1.31: `spec: {`, and below it `replicas: 2` in column 0). The text itself where
 * no such line is found, undefined where finding them takes too long.
 */
function indentFlow(source: string): string | undefined {
  for (const mark of MARKS) if (source.includes(mark)) return source;
  let deepest = 0;
  for (const [spaces] of source.matchAll(/^ +/gm)) deepest = Math.max(deepest, spaces.length);
  if (deepest > 200) return undefined;
  const margin = ' '.repeat(deepest + 1);
  let text = source;
  for (let left = EFFORT; left > 0; left -= text.length) {
    let offset = 0;
    let broken = -1;
    for (const token of new Lexer().lex(text)) {
      if (token === CST.FLOW_END) {
        broken = offset;
        break;
      }
      if (!MARKS.has(token)) offset += token.length;
    }
    // a marker between documents ends a mapping to Go as well
    if (broken === -1 || /^(?:---|\.\.\.)(?:\s|$)/.test(text.slice(broken, broken + 4))) return text;
    text = text.slice(0, broken) + margin + text.slice(broken);
  }
  return undefined;
}

/** A mistake that is none to Go: a comment right behind a bracket or a quote (tried with istiod 1.31: `spec: { replicas: 2 }#two`). */
const COMMENT = 'Comments must be separated';

const INFINITE = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;

/**
 * What of a document JSON cannot say, and `sigs.k8s.io/yaml` therefore refuses (tried with istiod 1.31): a key that is null, a number that
 * is none. A number that is too large for a float is a text to Go, and is made one.
 */
function noJson(node: unknown): string | undefined {
  if (isScalar(node)) {
    if (typeof node.value !== 'number' || Number.isFinite(node.value)) return undefined;
    if (INFINITE.test(node.source ?? '.inf')) return `${node.source ?? '.inf'} is no number of JSON`;
    node.value = node.source;
    return undefined;
  }
  if (!isCollection(node)) return undefined;
  const map = isMap(node);
  for (const item of node.items) {
    if (map && isPair(item) && (item.key === null || (isScalar(item.key) && item.key.value === null))) {
      return 'a key is null';
    }
    const found = noJson(isPair(item) ? item.value : item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * The value of a YAML text as Go's `sigs.k8s.io/yaml` reads it: YAML 1.1, the last of two equal keys wins, the first of several documents
 * is all there is (tried with istiod 1.30 and 1.31, docs/decisions/0003-one-yaml-reader.md). Or what is wrong with it; an error that is
 * undefined where nobody knows, since the text is too long, too deep or full of aliases. Never throws, aliases do not multiply, and the
 * time it takes grows with the text only.
 */
export function readYaml(
  source: string,
  longest: number = LONGEST,
): { readonly value: unknown } | { readonly error: string | undefined } {
  if (source.length > longest || isTooMuch(source)) return { error: undefined };
  try {
    let document = parse(source);
    if (document.errors.some(({ code, message }) => code === 'BAD_INDENT' && message.includes('in block collection'))) {
      const indented = indentFlow(source);
      if (indented === undefined) return { error: undefined };
      if (indented !== source) document = parse(indented);
    }
    const error = document.errors.find(({ message }) => !message.startsWith(COMMENT));
    // `parse` would hand out what it has understood up to a mistake
    if (error !== undefined) return { error: STACK.test(error.message) ? undefined : error.message };
    if (depthOfKeys(document.contents) > 0) return { error: 'a key is a mapping or a list' };
    const unsaid = noJson(document.contents);
    if (unsaid !== undefined) return { error: unsaid };
    const value = document.toJS({ maxAliasCount: 100 }) as unknown;
    return isCyclic(value) ? { error: 'an anchor is part of itself' } : { value };
  } catch (error) {
    return { error: error instanceof Error && MISTAKE.test(error.message) ? error.message : undefined };
  }
}

/**
 * Whether a value is part of itself, by an alias within its own anchor (`a: &a { b: *a }`). Go refuses that, and whoever walks through it
 * never ends. Each part is looked at once, however many aliases lead to it.
 */
export function isCyclic(value: unknown): boolean {
  const within = new Set<object>();
  const done = new Set<object>();
  const walk = (part: unknown): boolean => {
    if (typeof part !== 'object' || part === null || done.has(part)) return false;
    if (within.has(part)) return true;
    within.add(part);
    for (const inner of Object.values(part)) if (walk(inner)) return true;
    within.delete(part);
    done.add(part);
    return false;
  };
  return walk(value);
}

/** The value of a YAML text as Go reads it; undefined where it is no YAML, or not known to be. */
export function yamlIn(source: string): { readonly value: unknown } | undefined {
  const read = readYaml(source);
  return 'value' in read ? read : undefined;
}

/**
 * How deep keys stand in keys: 0 where every key is a scalar, 1 where one is a mapping, a list or an alias. JSON has no such keys, Go
 * refuses them, and `toJS` makes texts of them in exponential time: ten kilobytes of `? ` take it for ever.
 */
export function depthOfKeys(node: unknown): number {
  if (!isCollection(node)) return 0;
  let deepest = 0;
  for (const item of node.items) {
    if (isMap(node) && isPair(item)) {
      const { key, value } = item;
      if (key !== null && !isScalar(key)) deepest = Math.max(deepest, 1 + depthOfKeys(key));
      deepest = Math.max(deepest, depthOfKeys(value));
    } else deepest = Math.max(deepest, depthOfKeys(isPair(item) ? item.value : item));
  }
  return deepest;
}

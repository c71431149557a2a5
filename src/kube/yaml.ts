// YAML inside of objects: in annotations, ConfigMaps and other products' rules. Whoever may write these may write anything.
import { isCollection, isMap, isPair, isScalar, parseDocument, type ScalarTag, type Tags } from 'yaml';

/** No text that anybody wrote is as long: the injector's configuration has 60 KB. A megabyte takes a second to read. */
const LONGEST = 512 * 1024;

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

/**
 * The value of a YAML text as Go's `sigs.k8s.io/yaml` reads it: YAML 1.1, the last of two equal keys wins, the first of several documents
 * is all there is (tried with istiod 1.30 and 1.31, docs/decisions/0003-one-yaml-reader.md). Or what is wrong with it; an error that is
 * undefined where nobody knows, since the text is too long, too deep or full of aliases. Never throws, aliases do not multiply, and the
 * time it takes grows with the text only.
 */
export function readYaml(source: string): { readonly value: unknown } | { readonly error: string | undefined } {
  if (source.length > LONGEST) return { error: undefined };
  try {
    // errors are not made pretty: each of thousands would look for its line from the beginning of the text
    const document = parseDocument(source, {
      version: '1.1',
      customTags: asGo,
      uniqueKeys: false,
      logLevel: 'silent', // or a second document is an error
      prettyErrors: false,
    });
    const [error] = document.errors;
    // `parse` would hand out what it has understood up to a mistake
    if (error !== undefined) return { error: error.message };
    if (depthOfKeys(document.contents) > 0) return { error: 'a key is a mapping or a list' };
    return { value: document.toJS({ maxAliasCount: 100 }) as unknown };
  } catch (error) {
    return { error: error instanceof Error && MISTAKE.test(error.message) ? error.message : undefined };
  }
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

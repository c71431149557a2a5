// YAML inside of objects: in annotations, ConfigMaps and other products' rules. Whoever may write these may write anything.
import { isCollection, isMap, isPair, isScalar, parseDocument } from 'yaml';

/** No text that anybody wrote is as long: the injector's configuration has 60 KB. A megabyte takes a second to read. */
const LONGEST = 512 * 1024;

/**
 * The value of a YAML text as Go's `sigs.k8s.io/yaml` reads it (YAML 1.1, the last of two equal keys wins); undefined where it is no
 * YAML. Never throws, aliases do not multiply, and the time it takes grows with the text only.
 */
export function yamlIn(source: string): { readonly value: unknown } | undefined {
  if (source.length > LONGEST) return undefined;
  try {
    // errors are not made pretty: each of thousands would look for its line from the beginning of the text
    const document = parseDocument(source, {
      version: '1.1',
      uniqueKeys: false,
      logLevel: 'silent',
      prettyErrors: false,
    });
    // `parse` would hand out what it has understood up to a mistake
    if (document.errors.length > 0 || depthOfKeys(document.contents) > 0) return undefined;
    return { value: document.toJS({ maxAliasCount: 100 }) as unknown };
  } catch {
    return undefined;
  }
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

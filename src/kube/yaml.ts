// YAML inside of objects: in annotations, ConfigMaps and other products' rules.
import { parseDocument } from 'yaml';

/**
 * The value of a YAML text as Go's `sigs.k8s.io/yaml` reads it (YAML 1.1, the last of two equal keys wins); undefined where it is no
 * YAML. Never throws, and aliases do not multiply.
 */
export function yamlIn(source: string): { readonly value: unknown } | undefined {
  try {
    const document = parseDocument(source, { version: '1.1', uniqueKeys: false, logLevel: 'silent' });
    // `parse` would hand out what it has understood up to a mistake
    return document.errors.length > 0 ? undefined : { value: document.toJS({ maxAliasCount: 100 }) as unknown };
  } catch {
    return undefined;
  }
}

// RFC 6901 pointers and RFC 6902 operations, written by hand of the policies: never found by comparing objects.
import { record } from './json.ts';

/** One operation of a JSON Patch. */
export type PatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** The pointer to a path: `pointer('metadata', 'labels', 'istio.io/rev')` is `/metadata/labels/istio.io~1rev`. */
export function pointer(...path: readonly (string | number)[]): string {
  return path.map(part => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** The parts of a pointer. */
export function pointerParts(path: string): readonly string[] {
  return path
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The value at a pointer; undefined where there is none. */
export function resolve(value: unknown, path: string): unknown {
  let current: unknown = value;
  for (const part of pointerParts(path)) {
    if (Array.isArray(current)) current = /^\d+$/.test(part) ? current[Number(part)] : undefined;
    else {
      const object = record(current);
      current = object !== undefined && Object.hasOwn(object, part) ? object[part] : undefined;
    }
  }
  return current;
}

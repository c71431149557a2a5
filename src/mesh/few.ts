// Collections of which most hold one or two objects: a kind in a namespace, whoever refers to something. A Map for each would
// take more memory than the objects.

/** Objects in the order in which they were added: one alone, some, or many. Never changed but where it is a Map. */
export type Few<T extends object> = T | readonly T[] | Map<unknown, T>;

/** From so many on a Map finds one faster than a search does. */
const MANY = 9;

const isSome = <T extends object>(few: Few<T>): few is readonly T[] => Array.isArray(few);

/** By what the objects of a collection are told apart. */
export type KeyOf<T> = (object: T) => unknown;

export function fewValues<T extends object>(few: Few<T> | undefined): Iterable<T> {
  if (few === undefined) return [];
  if (few instanceof Map) return few.values();
  return isSome(few) ? few : [few];
}

export function fewSize<T extends object>(few: Few<T>): number {
  if (few instanceof Map) return few.size;
  return isSome(few) ? few.length : 1;
}

export function fewFind<T extends object>(few: Few<T> | undefined, keyOf: KeyOf<T>, key: unknown): T | undefined {
  if (few === undefined) return undefined;
  if (few instanceof Map) return few.get(key);
  if (isSome(few)) return few.find(object => keyOf(object) === key);
  return keyOf(few) === key ? few : undefined;
}

/** With one more object, whose key must not be in use. */
export function fewWith<T extends object>(few: Few<T> | undefined, keyOf: KeyOf<T>, object: T): Few<T> {
  if (few === undefined) return object;
  if (few instanceof Map) return few.set(keyOf(object), object);
  const some = isSome(few) ? [...few, object] : [few, object];
  return some.length < MANY ? some : new Map(some.map(one => [keyOf(one), one]));
}

/** Without the object of a key; undefined where none is left. */
export function fewWithout<T extends object>(few: Few<T>, keyOf: KeyOf<T>, key: unknown): Few<T> | undefined {
  if (few instanceof Map) {
    few.delete(key);
    return few.size === 0 ? undefined : few;
  }
  if (!isSome(few)) return keyOf(few) === key ? undefined : few;
  const left = few.filter(object => keyOf(object) !== key);
  return left.length === 1 ? left[0] : left;
}

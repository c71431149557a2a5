// What becomes of a manifest on its way: something at some depth is missing, null, of another type, huge, deep, odd.
import fc from 'fast-check';
import { list, record } from '../../src/kube/json.ts';

/** One thing that is done at one place of a JSON value. */
export interface Mutation {
  /** Which way down: at each step the child of this number, modulo how many there are. */
  readonly way: readonly number[];
  readonly what:
    | { readonly do: 'remove' }
    | { readonly do: 'set'; readonly value: unknown }
    | { readonly do: 'add'; readonly key: string; readonly value: unknown }
    | { readonly do: 'repeat'; readonly times: number }
    | { readonly do: 'bury'; readonly depth: number; readonly list: boolean }
    | { readonly do: 'rename'; readonly key: string };
}

const ODD_TEXTS = [
  '',
  ' ',
  '\u0000',
  '\n\r\t',
  '\u202e\u2066evil',
  'e\u0301\u0327'.repeat(20),
  '\ud800',
  '\udfff\ud800',
  '👩‍👩‍👧‍👦'.repeat(50),
  '\ufeff',
  'true',
  'null',
  '0x10',
  '1e400',
  '*',
  '../../etc/passwd',
  '${jndi:ldap://x}',
  '<script>alert(1)</script>',
  'x/y/z',
  'a=b,c',
  '-1',
  'istio.io/use-waypoint',
  'cluster.local/ns/*/sa/*',
  '1.2.3.4/33',
  '999999999999999999999.0.0',
];

const KEYS = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'length',
  'then',
  '',
  '\u0000',
  'a.b/c~0~1',
];

const text = fc.oneof(
  fc.constantFrom(...ODD_TEXTS),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ maxLength: 300 }),
  fc
    .tuple(
      fc.constantFrom(
        'x',
        'é',
        '😀',
        'a.',
        '\\',
        '"',
        '*',
        'x,',
        '? ',
        '? - ',
        '- ',
        '[',
        '{a: ',
        'a: &x y\n',
        '(',
        '%',
      ),
      fc.integer({ min: 1, max: 40_000 }),
    )
    .map(([unit, times]) => unit.repeat(times)),
);

const scalar = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom<unknown>(null, true, false, 0, -1, 1.5, 2 ** 53, -(2 ** 63), 1e308, 5e-324, 65536),
  },
  { weight: 3, arbitrary: text },
  { weight: 1, arbitrary: fc.integer() },
);

const value = fc.oneof(
  { weight: 5, arbitrary: scalar },
  { weight: 2, arbitrary: fc.constantFrom<unknown>({}, [], [[]], [null], [{}], { '': null }, [1, 'a', null, {}, []]) },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 4 }) },
  { weight: 1, arbitrary: fc.array(scalar, { maxLength: 60 }) },
  { weight: 1, arbitrary: fc.dictionary(fc.oneof(fc.constantFrom(...KEYS), text), scalar, { maxKeys: 8 }) },
);

const key = fc.oneof(fc.constantFrom(...KEYS), text);

export const mutation: fc.Arbitrary<Mutation> = fc.record({
  way: fc.array(fc.nat(30), { maxLength: 9 }),
  what: fc.oneof(
    { weight: 4, arbitrary: fc.constant<Mutation['what']>({ do: 'remove' }) },
    { weight: 8, arbitrary: value.map((value): Mutation['what'] => ({ do: 'set', value })) },
    { weight: 3, arbitrary: fc.tuple(key, value).map(([key, value]): Mutation['what'] => ({ do: 'add', key, value })) },
    {
      weight: 2,
      arbitrary: fc.integer({ min: 2, max: 200 }).map((times): Mutation['what'] => ({ do: 'repeat', times })),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(1000, 9000, 30_000)), fc.boolean())
        .map(([depth, list]): Mutation['what'] => ({ do: 'bury', depth, list })),
    },
    { weight: 1, arbitrary: key.map((key): Mutation['what'] => ({ do: 'rename', key })) },
  ),
});

/** JSON text of a value that may be too deep for JSON.stringify. */
const RAW = new WeakMap<object, string>();

/** An object that `textOf` writes as this text. */
function raw(text: string): object {
  const marker = {};
  RAW.set(marker, text);
  return marker;
}

function changed(value: unknown, what: Mutation['what'], budget: { left: number }): unknown {
  switch (what.do) {
    case 'set':
      return what.value;
    case 'add': {
      const object = record(value);
      if (object === undefined) return Array.isArray(value) ? [...value, what.value] : what.value;
      return withKey(object, what.key, what.value);
    }
    case 'repeat': {
      if (!Array.isArray(value) || value.length === 0) return value;
      // what is repeated twice over would fill the memory of the fuzzer, not of the guard
      const times = Math.max(1, Math.min(what.times, Math.floor(budget.left / value.length)));
      budget.left -= times * value.length;
      return Array.from({ length: times }, () => value).flat();
    }
    case 'bury': {
      const [open, close] = what.list ? ['[', ']'] : ['{"a":', '}'];
      return raw(open.repeat(what.depth) + textOf(value) + close.repeat(what.depth));
    }
    default:
      return value;
  }
}

/** With an own property of any name, `__proto__` too. */
function withKey(object: Readonly<Record<string, unknown>>, key: string, value: unknown): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...object };
  Object.defineProperty(copy, key, { value, enumerable: true, configurable: true, writable: true });
  return copy;
}

/** A copy with the mutation done. */
export function mutated(value: unknown, { way, what }: Mutation, budget = { left: 2000 }): unknown {
  const [step, ...rest] = way;
  if (typeof value === 'object' && value !== null && RAW.has(value)) return changed(value, what, budget);
  const object = record(value);
  const keys = object === undefined ? list(value).map((_, index) => String(index)) : Object.keys(object);
  const chosen = step === undefined || keys.length === 0 ? undefined : keys[step % keys.length];
  if (chosen === undefined) return changed(value, what, budget);
  const last = rest.length === 0;
  if (object === undefined) {
    const items = [...list(value)];
    const index = Number(chosen);
    if (last && what.do === 'remove') items.splice(index, 1);
    else items[index] = mutated(items[index], { way: rest, what }, budget);
    return items;
  }
  if (last && what.do === 'remove')
    return Object.fromEntries(Object.entries(object).filter(([name]) => name !== chosen));
  if (last && what.do === 'rename') {
    const others = Object.fromEntries(Object.entries(object).filter(([name]) => name !== chosen));
    return withKey(others, what.key, object[chosen]);
  }
  return withKey(object, chosen, mutated(object[chosen], { way: rest, what }, budget));
}

/** JSON text. */
export function textOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const known = RAW.get(value);
  if (known !== undefined) return known;
  if (Array.isArray(value)) return `[${value.map(textOf).join(',')}]`;
  return `{${Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .map(([name, inner]) => `${JSON.stringify(name)}:${textOf(inner)}`)
    .join(',')}}`;
}

/** Something done to a text: a key twice, a piece lost, a byte turned. */
export type TextMutation =
  | { readonly do: 'double'; readonly at: number; readonly json: string }
  | { readonly do: 'cut'; readonly from: number; readonly length: number }
  | { readonly do: 'turn'; readonly at: number; readonly to: string };

export const textMutation: fc.Arbitrary<TextMutation> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(
        fc.nat(),
        fc.constantFrom(
          'apiVersion',
          'kind',
          'metadata',
          'spec',
          'name',
          'labels',
          'request',
          'object',
          'uid',
          '__proto__',
        ),
        value,
      )
      .map(([at, key, value]): TextMutation => ({ do: 'double', at, json: `${JSON.stringify(key)}:${textOf(value)}` })),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.nat(), fc.integer({ min: 1, max: 400 }))
      .map(([from, length]): TextMutation => ({ do: 'cut', from, length })),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.nat(), fc.string({ unit: 'binary', minLength: 1, maxLength: 2 }))
      .map(([at, to]): TextMutation => ({ do: 'turn', at, to })),
  },
);

export function mutatedText(text: string, change: TextMutation): string {
  switch (change.do) {
    case 'double': {
      // before some brace that opens an object, so that what stood there comes later and counts
      const brace = text.indexOf('{', change.at % (text.length + 1));
      if (brace < 0) return text;
      const empty = /^\{\s*\}/.test(text.slice(brace, brace + 40));
      return `${text.slice(0, brace + 1)}${change.json}${empty ? '' : ','}${text.slice(brace + 1)}`;
    }
    case 'cut': {
      const from = change.from % (text.length + 1);
      return text.slice(0, from) + text.slice(from + change.length);
    }
    case 'turn': {
      const at = change.at % (text.length + 1);
      return text.slice(0, at) + change.to + text.slice(at + 1);
    }
  }
}

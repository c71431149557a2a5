// Documents and long Lists are cut out of a text before a parser reads them: that must not change what they say.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { documentsOf, readWhole } from '../src/mesh/sources/documents.ts';
import { yamlList } from '../src/mesh/sources/yaml-list.ts';

const key = fc.oneof(
  fc.constantFrom('name', 'spec', 'items', 'app.kubernetes.io/name', '8080', 'on', 'a b', "it's", 'x:y', '__proto__'),
  fc.string({ maxLength: 6 }),
);
const scalar = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.constantFrom(
    'yes',
    '0755',
    '1e3',
    '~',
    '- a',
    'a: b',
    'a #b',
    'a\nb',
    'a\n\n b\n',
    '  x\ny',
    "'",
    '"',
    '|',
    'é€😀',
  ),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
);
const { tree } = fc.letrec(tie => ({
  tree: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.dictionary(key, tie('tree'), { maxKeys: 5 }),
    fc.array(tie('tree'), { maxLength: 4 }),
  ),
}));

/** What kubectl writes of many objects, and what looks like it. */
const lists = fc.record(
  {
    apiVersion: fc.constant('v1'),
    items: fc.array(tree, { maxLength: 5 }),
    kind: fc.constantFrom('List', 'PodList', 'Pod'),
    metadata: tree,
  },
  { requiredKeys: ['items', 'kind'] },
);

/** Written in different styles, then bruised: most of it stays YAML, some of it does not. */
const bruised = (value: fc.Arbitrary<unknown>) =>
  fc
    .tuple(
      value,
      fc.constantFrom(
        {},
        { indentSeq: false },
        { collectionStyle: 'flow' as const },
        { defaultStringType: 'QUOTE_SINGLE' as const },
      ),
      fc.constantFrom(0, 80),
      fc.array(
        fc.tuple(
          fc.nat(400),
          fc.constantFrom(
            ' ',
            '\n',
            '  ',
            '- ',
            ': ',
            '#',
            ' # c',
            '"',
            "'",
            '|',
            '|-',
            '>',
            '\t',
            '\r\n',
            '&a ',
            '*a',
            '!!str ',
            '? ',
            '{',
            '}',
            '[',
            ']',
            ',',
            '---',
            '<<: ',
            '\n\n',
            '%',
          ),
          fc.nat(2),
        ),
        { maxLength: 3 },
      ),
      fc.boolean(),
    )
    .map(([value, style, lineWidth, bruises, windows]) => {
      let text = stringify(value, { ...style, lineWidth });
      for (const [at, what, drop] of bruises) {
        const offset = at % (text.length + 1);
        text = text.slice(0, offset) + what + text.slice(offset + drop);
      }
      return windows ? text.replace(/\r?\n/g, '\r\n') : text;
    });

function outcome(read: () => readonly { readonly value: unknown }[]): unknown {
  try {
    return read().map(({ value }) => value);
  } catch {
    return 'refused';
  }
}

const runs = { numRuns: Number(process.env['RUNS'] ?? 2_000) };
const isJson = (text: string) => /^\s*[{[]/.test(text);

test('documents cut out of a text are those of the text', () => {
  fc.assert(
    fc.property(bruised(tree), text => {
      const whole = outcome(() => readWhole(text).filter(({ value }) => value !== null));
      if (whole !== 'refused' && !isJson(text)) expect(outcome(() => [...documentsOf(text)])).toEqual(whole);
    }),
    runs,
  );
});

test('a List taken apart has the elements, the fields and the positions of the List', () => {
  let apart = 0;
  fc.assert(
    fc.property(bruised(lists), text => {
      if (isJson(text)) return;
      const whole = outcome(() => [...documentsOf(text, false, Number.POSITIVE_INFINITY)]);
      const parts = outcome(() => [...documentsOf(text, false, 0)]);
      if (whole === 'refused') expect(parts).toBe('refused');
      else expect(itemsOf(parts as readonly unknown[])).toEqual(itemsOf(whole as readonly unknown[]));
      if (whole === 'refused' || yamlList(text) === undefined) return;
      const [one, more] = documentsOf(text, false, Number.POSITIVE_INFINITY);
      const elements = [...documentsOf(text, false, 0)];
      if (one === undefined || more !== undefined || elements.length < 2) return;
      apart += 1;
      for (const [index, element] of elements.entries())
        for (const path of [[], ['name'], ['spec', '0']])
          expect(element.offset(['items', '0', ...path]), text).toBe(one.offset(['items', String(index), ...path]));
    }),
    runs,
  );
  expect(apart).toBeGreaterThan(100);
});

/** The values of documents, with a List of several elements as so many Lists. */
function itemsOf(values: readonly unknown[]): readonly unknown[] {
  return values.flatMap(value => {
    const { items, kind, ...head } = (value ?? {}) as { readonly items?: unknown; readonly kind?: unknown };
    if (!Array.isArray(items) || typeof kind !== 'string' || !kind.endsWith('List')) return [value];
    return items.map((item: unknown) => ({ ...head, kind, items: [item] }));
  });
}

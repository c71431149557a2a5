// The quick YAML reader against the full parser: wherever the quick one answers, both must say the same.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { documentsOf, readFully } from '../src/mesh/sources/documents.ts';
import { parsePlainYaml } from '../src/mesh/sources/plain-yaml.ts';

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

/** Written in different styles, then bruised: most of it stays YAML, some of it does not. */
const source = fc
  .tuple(
    tree,
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

test('what the quick reader answers is what the full parser answers', () => {
  let quick = 0;
  fc.assert(
    fc.property(source, text => {
      // markers part documents before the quick reader sees them
      const whole = /(?<![^\n])(---|\.\.\.|%)/.test(text) ? undefined : parsePlainYaml(text);
      if (whole !== undefined) {
        quick += 1;
        expect([whole.value]).toEqual(outcome(() => readFully(text)));
      }
      const full = outcome(() => readFully(text));
      // what is JSON is read as JSON
      if (full !== 'refused' && !/^\s*[{[]/.test(text)) expect(outcome(() => [...documentsOf(text)])).toEqual(full);
    }),
    { numRuns: Number(process.env['RUNS'] ?? 5_000) },
  );
  expect(quick).toBeGreaterThan(500);
});

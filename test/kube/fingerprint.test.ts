import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fingerprint } from '../../src/kube/json.ts';

const backwards = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(backwards);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, backwards(inner)]),
  );
};

test('the order of keys does not matter, that of items does', () => {
  fc.assert(
    fc.property(fc.jsonValue(), value => {
      expect(fingerprint(backwards(value))).toBe(fingerprint(value));
    }),
  );
  expect(fingerprint([1, 2])).not.toBe(fingerprint([2, 1]));
});

test('a value, a key and nothing at all are told apart', () => {
  const all = [undefined, null, {}, [], '', { a: 1 }, { a: 2 }, { b: 1 }, { a: '1' }, { a: { b: 1 } }].map(fingerprint);
  expect(new Set(all).size).toBe(all.length);
});

test('what is nested very deeply ends too', () => {
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = { deep };
  expect(fingerprint(deep)).toBeGreaterThan(0);
});

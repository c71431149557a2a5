// Projections that are kept share what they have in common, and only that.
import { expect, test } from 'vitest';
import { emptyRecord, same } from '../../src/kube/json.ts';
import { stringMap } from '../../src/kube/labels.ts';
import { kept } from '../../src/mesh/kept.ts';
import { glimpse, identify, project } from '../../src/mesh/kinds.ts';
import { anyObject } from '../generate/mesh.ts';
import { seeded } from '../generate/random.ts';

function frozen(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(frozen);
}

test('a kept projection is what it was, and frozen to the ground', () => {
  for (let seed = 1; seed <= 500; seed += 1) {
    const object = anyObject(seeded(seed));
    const identity = identify(object);
    if (identity === undefined) throw new Error('no object');
    const known = project(identity.kind, identity.namespace, object);
    expect(known, `seed ${seed}`).toEqual(glimpse(identity.kind, identity.namespace, object));
    expect(frozen(known), `seed ${seed}`).toBe(true);
  }
});

test('equal parts are one in memory, wherever they stand', () => {
  const pod = () => ({ labels: stringMap({ app: 'web' }), ports: [{ name: 'http', port: 80 }] });
  const one = kept({ name: 'one', template: pod(), selector: stringMap({ app: 'web' }) });
  const other = kept({ name: 'other', template: pod(), selector: stringMap({}) });
  expect(other.template).toBe(one.template);
  expect(one.selector).toBe(one.template.labels);
});

test.each([
  ['a number and its text', { port: 80 }, { port: '80' }],
  ['null and its text', { port: null }, { port: 'null' }],
  ['a field that is undefined and none', { port: undefined }, {}],
  ['a list and an object', ['x'], { 0: 'x' }],
  ['texts that run into one another', ['a"1:b'], ['a', 'b']],
  ['keys that run into their values', { a: 'b', c: 'd' }, { a: 'b1:c"1:d' }],
  ['lists cut elsewhere', [['a'], ['b']], [['a', 'b']]],
  ['an object that inherits and one that does not', { app: 'web' }, stringMap({ app: 'web' })],
  ['nothing in either', {}, emptyRecord()],
])('%s are not the same part', (_, one, other) => {
  const before = structuredClone([one, other]);
  const first = kept({ part: { inner: one } }).part.inner;
  const second = kept({ part: { inner: other } }).part.inner;
  expect(first).not.toBe(second);
  expect(Object.getPrototypeOf(second)).toBe(Object.getPrototypeOf(other));
  expect(same(first, before[0]) && same(second, before[1])).toBe(true);
});

test('it goes on sharing after more parts than it remembers', () => {
  for (let index = 0; index < 10_000; index += 1) {
    const own = kept({ labels: { app: `web-${index}` } });
    expect(own.labels.app).toBe(`web-${index}`);
    expect(kept({ labels: { app: `web-${index}` } }).labels).toBe(own.labels);
  }
});

import {
  array,
  assert,
  constant,
  constantFrom,
  dictionary,
  jsonValue,
  oneof,
  property,
  record,
  string,
} from 'fast-check';
import { expect, test } from 'vitest';
import { answer } from '../../src/admission/answer.ts';
import { withoutManagedFields } from '../../src/admission/unread.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { createStore } from '../../src/mesh/store.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { capturedLogs, reviewOf } from './serving.ts';

const FIELDS = [{ manager: 'kubectl', fieldsV1: { 'f:spec': { 'k:{"a":"]}\\""}': {} } } }];

/** Nothing is cut out of small bodies. */
const ROOM = ' '.repeat(2048);

function cut(value: unknown): unknown {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  const text = withoutManagedFields(Buffer.from(body + ROOM));
  return text === undefined ? undefined : JSON.parse(text);
}

test('managedFields of what is created are cut out, and nothing else', () => {
  const metadata = { name: 'a', labels: { 'x}': '"{', list: ['}'] } };
  const review = reviewOf({
    object: { metadata: { ...metadata, managedFields: FIELDS, uid: 'ü€😀' }, spec: { a: [1] } },
  });
  const { object } = review.request as { object: { metadata: object } };
  expect(cut(review)).toEqual({
    ...review,
    request: { ...review.request, object: { ...object, metadata: { ...object.metadata, managedFields: [] } } },
  });
});

test('only where the body says that it is a CREATE, and only where they stand in some metadata', () => {
  const object = { metadata: { name: 'a', managedFields: FIELDS } };
  expect(cut(reviewOf({ object, operation: 'UPDATE' }))).toBeUndefined();
  expect(cut(reviewOf({ object: { metadata: { name: 'a' }, spec: { managedFields: FIELDS } } }))).toBeUndefined();
  expect(cut(reviewOf({ object: { metadata: { a: { managedFields: FIELDS } } } }))).toBeUndefined();
  expect(cut(reviewOf({ object: { data: { text: JSON.stringify(object) } } }))).toBeUndefined();
  expect(cut(JSON.stringify(reviewOf({ object }), undefined, 1))).toBeUndefined();
  expect(() => cut(JSON.stringify(reviewOf({ object })).slice(0, -40).replace(']', ''))).toThrow(SyntaxError);
});

test('whatever a body holds, what is left of it is the same', () => {
  const key = oneof(
    string(),
    constantFrom('metadata', 'managedFields', 'operation', '"metadata":{', '"managedFields":['),
  );
  const value = oneof(jsonValue(), constant('"managedFields":['), dictionary(key, jsonValue()));
  const metadata = oneof(record({ before: value, managedFields: array(value), after: value }), dictionary(key, value));
  const object = oneof(record({ metadata, spec: value }), dictionary(key, oneof(metadata, value)));
  assert(
    property(object, object, (first, second) => {
      const review = { request: { operation: 'CREATE', object: first, oldObject: second } };
      const left = cut(review);
      if (left === undefined) return;
      expect(emptied(left)).toEqual(emptied(JSON.parse(JSON.stringify(review))));
    }),
    { numRuns: 2000 },
  );
});

test('a body that says CREATE somewhere and is none is read as a whole', () => {
  let asked = 0;
  const answering = {
    guard: () => ({ policies: [], settings: DEFAULT_SETTINGS, mesh: createStore({ complete: () => true }) }),
    logs: capturedLogs().logs,
    metrics: createMetrics(),
  };
  for (const operation of ['CREATE', 'UPDATE']) {
    const { request, ...head } = reviewOf({ operation, object: { metadata: { name: 'a', managedFields: FIELDS } } });
    const body = JSON.stringify({ ...head, request: { options: { operation: 'CREATE' }, ...request } }) + ROOM;
    const text = withoutManagedFields(Buffer.from(body));
    expect(text?.length).toBeLessThan(body.length);
    const whole = () => {
      asked += 1;
      return body;
    };
    const arrival = { text: text ?? '', whole, arrived: performance.now(), deadline: performance.now() + 1000 };
    expect(answer(answering, 'validate', arrival)).toContain('"allowed":true');
  }
  expect(asked).toBe(1);
});

/** The value, its entries in order, with every list of managedFields of some metadata empty. */
function emptied(value: unknown, parent = ''): unknown {
  if (Array.isArray(value)) return value.map(item => emptied(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value).map(([key, inner]) =>
    parent === 'metadata' && key === 'managedFields' && Array.isArray(inner) ? [key, []] : [key, emptied(inner, key)],
  );
}

// The cases, sent to a running webhook as the API server would send them, get the verdict that they must get.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policies } from '../policies/index.ts';
import { type AdmissionRequest, requestFor, reviewSchema } from '../src/admission/request.ts';
import { DEFAULT_SETTINGS } from '../src/engine/settings.ts';
import { record, text } from '../src/kube/json.ts';
import { readMesh, readValues } from '../src/mesh/sources/files.ts';
import { NOTHING_DECLARED } from '../src/mesh/store.ts';
import { allCases, judgeCase, meshOf } from './support/cases.ts';
import { type RunningWebhook, runWebhook } from './support/webhook.ts';

let webhook: RunningWebhook;
beforeAll(async () => {
  webhook = await runWebhook({ policies, settings: DEFAULT_SETTINGS, mesh: readMesh([], NOTHING_DECLARED) });
});
afterAll(() => webhook.close());

describe('the policies’ own cases', () => {
  const cases = allCases().filter(({ stage }) => stage === undefined);
  test.each(cases.map(one => ({ id: `${one.policy.id}/${one.name}`, one })))('$id', async ({ one }) => {
    const guard = { policies, settings: one.config.settings, mesh: meshOf(one.state, one.config) };
    const answer = await webhook.ask(guard, one.request);
    const verdict = await judgeCase(one);
    expect(answer.verdict, answer.message).toBe(one.verdict);
    expect(answer.warnings).toEqual(verdict.warnings);
    expect(answer.patch).toEqual(verdict.patch);
    expect(answer.message).toBe(verdict.message ?? '');
  });
});

const SHARED = join(import.meta.dirname, '../../shared/cases');

function documentIn(file: string): Readonly<Record<string, unknown>> {
  return record(readValues(file)[0]?.value) ?? {};
}

function requestOf(folder: string, operation: string | undefined): AdmissionRequest | undefined {
  const input = documentIn(join(folder, 'input.yaml'));
  if (input['kind'] === 'AdmissionReview') return reviewSchema.safeParse(input).data?.request;
  const old = join(folder, 'old.yaml');
  return requestFor(input, {
    ...(operation === undefined ? {} : { operation: operation as 'CREATE' | 'UPDATE' | 'DELETE' }),
    ...(existsSync(old) ? { old: documentIn(old) } : {}),
  });
}

describe.skipIf(!existsSync(SHARED))('the shared cases', () => {
  const ids = new Set([...policies.map(({ id }) => id), 'other', 'any']);
  const folders = existsSync(SHARED)
    ? readdirSync(SHARED)
        .filter(name => existsSync(join(SHARED, name, 'expect.yaml')))
        .map(name => ({ name, expected: documentIn(join(SHARED, name, 'expect.yaml')) }))
        .filter(({ expected }) => (text(expected['policy']) ?? '').split('|').some(id => ids.has(id)))
    : [];

  test.each(folders)('$name', async ({ name, expected }) => {
    const folder = join(SHARED, name);
    const request = requestOf(folder, text(expected['operation']));
    if (request === undefined) {
      // no review at all: an error status, and the next request is answered as ever
      const { status } = await webhook.post('/validate', JSON.stringify(documentIn(join(folder, 'input.yaml'))));
      expect(status).toBe(400);
      return;
    }
    const mesh = readMesh([join(folder, 'state.yaml')], NOTHING_DECLARED);
    const { verdict, message, warnings } = await webhook.ask({ policies, settings: DEFAULT_SETTINGS, mesh }, request);
    expect(verdict, [message, ...warnings].join('\n')).toBe(expected['verdict']);
  });
});

test('the request of the example’s curl line is refused, and the answer says why', async () => {
  const body = readFileSync(join(import.meta.dirname, '../examples/review.json'), 'utf8');
  const mesh = readMesh([join(import.meta.dirname, '../examples/mesh.yaml')], NOTHING_DECLARED);
  const { request } = reviewSchema.parse(JSON.parse(body));
  const answer = await webhook.ask({ policies, settings: DEFAULT_SETTINGS, mesh }, request);
  expect(answer.verdict).toBe('deny');
  expect(answer.message).toContain('AuthorizationPolicy payments/no-admin');
  expect(answer.message).toContain('Fix: ');
});

import { expect, test } from 'vitest';
import { type Answer, reviewOf, send, serve } from './serving.ts';

function refused(answer: Answer, status: number, code: string): void {
  expect(answer.text).toMatch(new RegExp(`^${code}: .+\\n$`));
  expect(answer.text.split('\n')).toHaveLength(2);
  expect(answer.status).toBe(status);
  expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
}

const review = reviewOf();
const { request } = review;
const without = (key: string) => ({ ...review, request: { ...request, [key]: undefined } });
const bodies: Readonly<Record<string, unknown>> = {
  'an empty object': {},
  null: 'null',
  'a list': [],
  'another apiVersion': { ...review, apiVersion: 'admission.k8s.io/v1beta1' },
  'another kind': { ...review, kind: 'ConversionReview' },
  'no request': { apiVersion: review.apiVersion, kind: review.kind },
  'a request that is null': { ...review, request: null },
  'a request that is a list': { ...review, request: [] },
  'no uid': without('uid'),
  'a uid that is a number': { ...review, request: { ...request, uid: 1 } },
  'no kind': without('kind'),
  'a kind without a version': { ...review, request: { ...request, kind: { group: '', kind: 'Pod' } } },
  'no operation': without('operation'),
  'an operation nobody knows': { ...review, request: { ...request, operation: 'PATCH' } },
  'a name that is an object': { ...review, request: { ...request, name: {} } },
  'a dryRun that is a text': { ...review, request: { ...request, dryRun: 'yes' } },
};

test('a body that is no AdmissionReview v1 is refused with 400 and one line that names the field', async () => {
  await using guard = await serve();
  for (const [what, body] of Object.entries(bodies)) {
    for (const path of ['/validate', '/mutate', '/break-glass']) {
      const answer = await guard.post(path, body);
      expect(answer.status, what).toBe(400);
      refused(answer, 400, 'WW_NOT_A_REVIEW');
    }
  }
  const answer = await guard.post('/validate', { ...review, request: { ...request, uid: 1 } });
  expect(answer.text).toContain('request.uid');
});

test('a body that is no JSON is refused, and nothing of it is repeated', async () => {
  await using guard = await serve();
  for (const body of ['', '{', '<script>', '{"a":1}x', '\ufeff{}', JSON.stringify(review).slice(0, -1)]) {
    const answer = await guard.post('/validate', body);
    refused(answer, 400, 'WW_NOT_JSON');
    expect(answer.text).not.toContain('script');
  }
  refused(await guard.post('/validate', Buffer.from([0xff, 0xfe, 0x00])), 400, 'WW_NOT_JSON');
});

test('a content type that is not application/json is refused', async () => {
  await using guard = await serve();
  for (const type of ['text/plain', 'application/yaml', 'application/jsonp', 'multipart/form-data', 'nonsense', '']) {
    refused(await guard.post('/validate', review, { 'content-type': type }), 400, 'WW_CONTENT_TYPE');
  }
  refused(await send(guard.port, '/validate', { ca: guard.ca }), 400, 'WW_CONTENT_TYPE');
  const spelt = await guard.post('/validate', review, { 'content-type': 'Application/JSON; charset=utf-8' });
  expect(spelt.status).toBe(200);
});

test('other paths and methods are answered in the same way', async () => {
  await using guard = await serve();
  refused(await guard.post('/', review), 404, 'WW_NOT_FOUND');
  refused(await guard.post('/validate/', review), 404, 'WW_NOT_FOUND');
  refused(await guard.post('/%zz', review), 404, 'WW_NOT_FOUND');
  refused(await guard.post('/healthz', review), 404, 'WW_NOT_FOUND');
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const answer = await send(guard.port, '/validate?timeout=1s', { ca: guard.ca, method });
    refused(answer, 405, 'WW_METHOD');
    expect(answer.headers.allow).toBe('POST');
  }
});

test('each refusal is counted and logged with its code, and the next review on the same connection is answered', async () => {
  await using guard = await serve();
  await guard.post('/validate', '{');
  await guard.post('/validate', {});
  expect((await guard.post('/validate', review)).status).toBe(200);
  expect(guard.lines.filter(({ level }) => level === 'warn').map(({ code }) => code)).toEqual([
    'WW_NOT_JSON',
    'WW_NOT_A_REVIEW',
  ]);
  const { text } = await guard.health('/metrics');
  expect(text).toContain('waywarden_refused_requests_total{code="WW_NOT_JSON"} 1');
  expect(text).toContain('waywarden_refused_requests_total{code="WW_NOT_A_REVIEW"} 1');
});

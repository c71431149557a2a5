import { expect, test } from 'vitest';
import { reviewIn, reviewOf, serve } from './serving.ts';

test('what nothing speaks against is allowed, without a word', async () => {
  await using guard = await serve();
  const answer = await guard.post('/validate?timeout=10s', reviewOf({ uid: 'u-1' }));
  expect(answer.status).toBe(200);
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  expect(JSON.parse(answer.text)).toEqual({
    kind: 'AdmissionReview',
    apiVersion: 'admission.k8s.io/v1',
    response: { uid: 'u-1', allowed: true },
  });
});

test('a denial has code 403, reason Forbidden and a message with effect and fix', async () => {
  await using guard = await serve();
  for (const path of ['/validate', '/mutate']) {
    const answer = await guard.post(path, reviewOf({ ask: 'deny', uid: 'u-2' }));
    const { response } = reviewIn(answer);
    expect(answer.status).toBe(200);
    expect(Object.keys(response).sort()).toEqual(['allowed', 'status', 'uid']);
    expect(response).toMatchObject({ uid: 'u-2', allowed: false, status: { code: 403, reason: 'Forbidden' } });
    expect(response.status?.message).toContain('Service shop/orders: the label asks for a refusal.');
    expect(response.status?.message).toContain('Fix: Remove the label ask.');
  }
});

test('a warning allows, with the name of the object in its text', async () => {
  await using guard = await serve();
  const { response } = reviewIn(await guard.post('/validate', reviewOf({ ask: 'warn' })));
  expect(Object.keys(response).sort()).toEqual(['allowed', 'uid', 'warnings']);
  expect(response.allowed).toBe(true);
  expect(response.warnings).toHaveLength(1);
  expect(response.warnings?.[0]).toMatch(/^Service shop\/orders: the label asks for a warning/);
});

test('a dry run gets exactly the real verdict', async () => {
  await using guard = await serve();
  for (const ask of ['deny', 'warn', 'patch', 'none']) {
    for (const path of ['/validate', '/mutate']) {
      const real = await guard.post(path, reviewOf({ ask }));
      expect((await guard.post(path, reviewOf({ ask, dryRun: true }))).text).toBe(real.text);
      expect((await guard.post(path, reviewOf({ ask, dryRun: false }))).text).toBe(real.text);
    }
  }
});

test('a patch is base64 of a JSON Patch, with its type, and only at /mutate', async () => {
  await using guard = await serve();
  const { response } = reviewIn(await guard.post('/mutate', reviewOf({ ask: 'patch' })));
  expect(response).toMatchObject({ allowed: true, patchType: 'JSONPatch' });
  expect(JSON.parse(Buffer.from(response.patch ?? '', 'base64').toString())).toEqual([
    { op: 'add', path: '/metadata/labels/mended~1by', value: 'waywarden' },
  ]);
  const validated = reviewIn(await guard.post('/validate', reviewOf({ ask: 'patch' }))).response;
  expect(validated).not.toHaveProperty('patch');
  expect(validated).not.toHaveProperty('patchType');
});

test('a patch that cannot apply is never sent', async () => {
  await using guard = await serve();
  const { response } = reviewIn(await guard.post('/mutate', reviewOf({ ask: 'bad-patch' })));
  expect(response.allowed).toBe(true);
  expect(response).not.toHaveProperty('patch');
  expect(response).not.toHaveProperty('patchType');
});

test('an object that is denied is not patched as well', async () => {
  await using guard = await serve();
  const { response } = reviewIn(await guard.post('/mutate', reviewOf({ ask: 'patch', labels: { second: 'yes' } })));
  expect(response.allowed).toBe(false);
  expect(response).not.toHaveProperty('patch');
});

test('DELETE has no object and CONNECT no metadata: both are answered', async () => {
  await using guard = await serve();
  const deleted = await guard.post('/validate', reviewOf({ ask: 'deny', operation: 'DELETE', uid: 'u-3' }));
  expect(reviewIn(deleted).response).toMatchObject({ uid: 'u-3', allowed: true });
  const review = reviewOf({ uid: 'u-4', operation: 'CONNECT' });
  const connected = await guard.post('/validate', {
    ...review,
    request: { ...review.request, subResource: 'exec', object: { apiVersion: 'v1', kind: 'PodExecOptions' } },
  });
  expect(JSON.parse(connected.text).response).toEqual({ uid: 'u-4', allowed: true });
});

test('keys of the prototype are data: an object that holds them is judged like any other', async () => {
  await using guard = await serve();
  const body = JSON.stringify(reviewOf({ ask: 'deny', uid: 'u-5' })).replace(
    '"spec":{',
    '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"spec":{"__proto__":[],',
  );
  const { response } = reviewIn(await guard.post('/validate', body));
  expect(response).toMatchObject({ uid: 'u-5', allowed: false });
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});

test('the uid comes back as it was, whatever it holds', async () => {
  await using guard = await serve();
  for (const uid of ['', 'a"b\\c', 'ü\u2028\u0000', '\ud800', '"}]', 'x'.repeat(100_000)]) {
    expect(reviewIn(await guard.post('/validate', reviewOf({ uid }))).response).toEqual({ uid, allowed: true });
  }
});

test('null stands for absent where Go writes it so', async () => {
  await using guard = await serve();
  const review = reviewOf({ ask: 'deny' });
  const sparse = { ...review.request, requestKind: null, dryRun: null, userInfo: null, subResource: null };
  expect(reviewIn(await guard.post('/validate', { ...review, request: sparse })).response.allowed).toBe(false);
});

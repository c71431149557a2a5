import { expect, test } from 'vitest';
import { type Asked, guardOf, reviewIn, reviewOf, send, serve } from './serving.ts';

const GROUPS = { breakGlassGroups: () => ['mesh-emergency', 'oidc:on call'] };
const lines = (text: string) => text.split('\n').filter(line => line.startsWith('waywarden_break_glass_total{'));
const used = async (guard: Awaited<ReturnType<typeof serve>>) => lines((await guard.health('/metrics')).text);
/** A review of a member's write. */
function byMember(asked: Asked = {}) {
  const review = reviewOf(asked);
  const userInfo = { username: 'anna', groups: ['system:authenticated', 'mesh-emergency', 'staff'] };
  return { ...review, request: { ...review.request, userInfo } };
}

test('what would be denied is allowed, without a word, a warning or a patch', async () => {
  await using guard = await serve(GROUPS);
  for (const ask of ['deny', 'warn', 'patch', 'throw', 'wait']) {
    for (const operation of ['CREATE', 'DELETE']) {
      const answer = await guard.post('/break-glass?timeout=1s', byMember({ ask, operation, uid: `${ask}-1` }));
      expect(answer.status).toBe(200);
      expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
      expect(reviewIn(answer)).toEqual({
        kind: 'AdmissionReview',
        apiVersion: 'admission.k8s.io/v1',
        response: { uid: `${ask}-1`, allowed: true },
      });
    }
  }
});

test('uses are counted by operation and kind, dry runs are not, and no review is counted for them', async () => {
  await using guard = await serve(GROUPS);
  await guard.post('/break-glass', byMember());
  await guard.post('/break-glass', byMember());
  await guard.post('/break-glass', byMember({ operation: 'DELETE' }));
  await guard.post('/break-glass', byMember({ dryRun: true }));
  await guard.post('/validate', byMember());
  expect(await used(guard)).toEqual([
    'waywarden_break_glass_total{operation="CREATE",kind="Service"} 2',
    'waywarden_break_glass_total{operation="DELETE",kind="Service"} 1',
  ]);
  const { text } = await guard.health('/metrics');
  expect(text.match(/^waywarden_reviews_total\{.*$/gm)).toHaveLength(1);
});

test('nobody can make the series grow: kinds that no policy knows are "other"', async () => {
  await using guard = await serve(GROUPS);
  for (let count = 0; count < 50; count++) {
    const review = byMember({ name: `name-${count}`, uid: `uid-${count}` });
    const kind = { group: `group-${count}.example.test`, version: 'v1', kind: `Kind${count}` };
    const request = { ...review.request, kind, requestKind: kind, userInfo: { username: `user-${count}` } };
    expect((await guard.post('/break-glass', { ...review, request })).status).toBe(200);
  }
  expect(await used(guard)).toEqual(['waywarden_break_glass_total{operation="CREATE",kind="other"} 50']);
});

test('a use is one line at warn: who, by which group, what, which object; a dry run is one at info', async () => {
  await using guard = await serve(GROUPS);
  const object = { data: { password: 'correct-horse-battery-staple' } };
  await guard.post('/break-glass', byMember({ uid: 'u-7', object }));
  await guard.post('/break-glass', byMember({ uid: 'u-8', dryRun: true }));
  const [use, dryRun, ...more] = guard.lines.filter(({ msg }) => msg === 'break-glass');
  expect(more).toEqual([]);
  expect(use).toEqual({
    level: 'warn',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    msg: 'break-glass',
    webhook: 'break-glass',
    uid: 'u-7',
    operation: 'CREATE',
    user: 'anna',
    group: 'mesh-emergency',
    kind: 'Service',
    namespace: 'shop',
    name: 'orders',
    dryRun: false,
  });
  expect(dryRun).toMatchObject({ level: 'info', uid: 'u-8', dryRun: true });
});

test('whoever is asked about is counted, also where the groups are others by now', async () => {
  let groups: readonly string[] = [];
  await using guard = await serve({ breakGlassGroups: () => groups });
  await guard.post('/break-glass', byMember());
  await guard.post('/break-glass', reviewOf());
  groups = ['staff'];
  await guard.post('/break-glass', byMember());
  expect(guard.lines.filter(({ msg }) => msg === 'break-glass').map(({ group }) => group)).toEqual(['', '', 'staff']);
  expect(await used(guard)).toEqual(['waywarden_break_glass_total{operation="CREATE",kind="Service"} 3']);
});

test('names of megabytes are clipped, and stay in their line', async () => {
  await using guard = await serve({ breakGlassGroups: () => ['g'.repeat(10_000)] });
  const long = 'x\n{"level":"error"}\u2028'.repeat(50_000);
  const review = byMember({ name: long, uid: long });
  const request = { ...review.request, namespace: long, userInfo: { username: long, groups: ['g'.repeat(10_000)] } };
  expect((await guard.post('/break-glass', { ...review, request })).status).toBe(200);
  const said = guard.lines.filter(({ msg }) => msg === 'break-glass');
  expect(said).toHaveLength(1);
  expect(JSON.stringify(said).length).toBeLessThan(4000);
});

test('a guard that cannot tell its policies allows all the same, and says so', async () => {
  const broken = () => {
    throw new Error('no mesh');
  };
  await using guard = await serve({ ...GROUPS, guard: broken });
  expect(reviewIn(await guard.post('/break-glass', byMember())).response.allowed).toBe(true);
  expect(guard.lines.filter(({ level }) => level === 'error')).toMatchObject([
    { msg: 'a use of break-glass could not be counted' },
  ]);
});

test('nothing that is being judged keeps it waiting', async () => {
  await using guard = await serve({ ...GROUPS, guard: () => guardOf({}) });
  const large = { data: { filler: 'x'.repeat(2 * 1024 * 1024) } };
  const judged = guard.post('/validate?timeout=3s', reviewOf({ ask: 'wait', object: large }));
  const began = performance.now();
  const member = await guard.post('/break-glass?timeout=1s', byMember({ object: large }));
  expect(reviewIn(member).response.allowed).toBe(true);
  expect(performance.now() - began).toBeLessThan(1_000);
  expect((await judged).status).toBe(200);
});

test('what is no review is refused as everywhere, and is no use', async () => {
  await using guard = await serve(GROUPS);
  const { request, ...review } = byMember();
  const refused: readonly (readonly [unknown, string])[] = [
    ['{', 'WW_NOT_JSON'],
    [{}, 'WW_NOT_A_REVIEW'],
    [review, 'WW_NOT_A_REVIEW'],
    [{ ...review, request: { ...request, userInfo: { groups: 'mesh-emergency' } } }, 'WW_NOT_A_REVIEW'],
  ];
  for (const [body, code] of refused) {
    const answer = await guard.post('/break-glass', body);
    expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(new RegExp(`^${code}: `))]);
  }
  expect((await guard.post('/break-glass', byMember(), { 'content-type': 'text/plain' })).text).toMatch(
    /^WW_CONTENT_TYPE/,
  );
  expect((await send(guard.port, '/break-glass', { ca: guard.ca })).text).toMatch(/^WW_CONTENT_TYPE/);
  const got = await send(guard.port, '/break-glass', { ca: guard.ca, method: 'GET' });
  expect([got.status, got.headers.allow]).toEqual([405, 'POST']);
  expect(await used(guard)).toEqual([]);
});

test('while the guard shuts down it answers, and closes the connection', async () => {
  const guard = await serve({ ...GROUPS, linger: 300 });
  const closing = guard.close();
  const answer = await send(guard.port, '/break-glass', {
    ca: guard.ca,
    body: JSON.stringify(byMember()),
    headers: { 'content-type': 'application/json' },
  });
  expect([answer.status, answer.headers.connection]).toEqual([200, 'close']);
  await closing;
});

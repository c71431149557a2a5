import { expect, test } from 'vitest';
import { budgets, goDuration } from '../../src/admission/deadline.ts';
import { guardOf, reviewIn, reviewOf, serve } from './serving.ts';

test('the timeout is read as Go writes durations', () => {
  expect(goDuration('10s')).toBe(10_000);
  expect(goDuration('1m30s')).toBe(90_000);
  expect(goDuration('500ms')).toBe(500);
  expect(goDuration('1.5s')).toBe(1500);
  expect(goDuration('1h2m3.004s')).toBe(3_723_004);
  expect(goDuration('250µs')).toBe(0.25);
  for (const text of ['', '10', 's', '-1s', '1 s', '1d', '10s ', 'Infinitys', '1e9s', `${'1s'.repeat(100)}`]) {
    expect(goDuration(text), text).toBeUndefined();
  }
});

test('half a second of the timeout is kept for the way, or half of a short one', () => {
  const parse = budgets();
  const budget = (query: string) => parse(query).budget;
  expect(budget('timeout=10s')).toBe(9500);
  expect(budget('timeout=1s')).toBe(500);
  expect(budget('timeout=400ms')).toBe(200);
  expect(budget('')).toBe(9500);
  expect(budget('timeout=soon')).toBe(9500);
  expect(budget('timeout=0s')).toBe(9500);
  expect(budget('timeout=24h')).toBe(29_500);
  expect(parse('timeout=10s')).toBe(parse('timeout=10s'));
});

test('a check that would take for ever is answered in time, allowed, with a warning that says so', async () => {
  await using guard = await serve();
  for (const path of ['/validate', '/mutate']) {
    const started = performance.now();
    const { response } = reviewIn(await guard.post(`${path}?timeout=800ms`, reviewOf({ ask: 'wait' })));
    const took = performance.now() - started;
    expect(took).toBeGreaterThan(350);
    expect(took).toBeLessThan(800);
    expect(response.allowed).toBe(true);
    expect(response.warnings?.[0]).toContain('could be checked in time');
  }
  expect((await guard.health('/metrics')).text).toContain('waywarden_timed_out_total{stage="validate"} 1');
});

test('with onTimeout: deny it is refused, but a deletion is not, nor in audit mode', async () => {
  let guarding = guardOf({ onTimeout: 'deny' });
  await using guard = await serve({ guard: () => guarding });
  const ask = async (operation: string) =>
    reviewIn(await guard.post('/validate?timeout=200ms', reviewOf({ ask: 'wait', operation }))).response;
  const refused = await ask('CREATE');
  expect(refused).toMatchObject({ allowed: false, status: { code: 403, reason: 'Forbidden' } });
  expect(refused.status?.message).toContain('onTimeout: deny');
  const deleted = await ask('DELETE');
  expect(deleted.allowed).toBe(true);
  expect(deleted.warnings?.[0]).toContain('could be checked in time');
  guarding = guardOf({ onTimeout: 'deny', onDelete: 'deny' });
  expect((await ask('DELETE')).allowed).toBe(false);
  guarding = guardOf({ onTimeout: 'deny', mode: 'audit' });
  expect((await ask('CREATE')).allowed).toBe(true);
});

test('a long search lets other reviews through', async () => {
  await using guard = await serve();
  const slow = guard.post('/validate?timeout=3s', reviewOf({ ask: 'pause' }));
  let done = false;
  void slow.then(() => {
    done = true;
  });
  let between = 0;
  while (!done) {
    expect((await guard.post('/validate', reviewOf())).status).toBe(200);
    if (!done) between += 1;
  }
  expect(between).toBeGreaterThan(3);
  expect(reviewIn(await slow).response.warnings?.[0]).toContain('asks for patience');
});

test('a policy that throws leaves the request allowed, with a warning, and is logged and counted', async () => {
  await using guard = await serve();
  for (const path of ['/validate', '/mutate']) {
    const answer = await guard.post(path, reviewOf({ ask: 'throw' }));
    expect(answer.status).toBe(200);
    const { response } = reviewIn(answer);
    expect(response.allowed).toBe(true);
    expect(response.warnings).toEqual([
      'waywarden: Service shop/orders: the check asked was left out because of an internal error, which its log has',
    ]);
  }
  const failed = guard.lines.filter(({ msg }) => msg === 'a check failed');
  expect(failed).toHaveLength(2);
  expect(failed[0]).toMatchObject({ level: 'error', policy: 'asked', err: { message: 'thrown as asked' } });
  expect((await guard.health('/metrics')).text).toContain('waywarden_failed_checks_total{policy="asked"} 2');
});

test('the other policies are still asked', async () => {
  await using guard = await serve();
  const { response } = reviewIn(await guard.post('/validate', reviewOf({ ask: 'throw', labels: { second: 'yes' } })));
  expect(response.allowed).toBe(false);
  expect(response.status?.message).toContain('it has the label second');
  expect(response.warnings?.[0]).toContain('the check asked was left out');
});

test('with onTimeout: deny a check that failed refuses, since it was asked to refuse what is not judged', async () => {
  const guarding = guardOf({ onTimeout: 'deny' });
  await using guard = await serve({ guard: () => guarding });
  const { response } = reviewIn(await guard.post('/validate', reviewOf({ ask: 'throw' })));
  expect(response.allowed).toBe(false);
  expect(response.status?.message).toContain('the check asked was left out because of an internal error');
});

test('a guard that cannot be had allows, with a warning', async () => {
  await using guard = await serve({
    guard: () => {
      throw new Error('no mesh');
    },
  });
  const answer = await guard.post('/validate', reviewOf({ uid: 'u-6' }));
  expect(answer.status).toBe(200);
  expect(reviewIn(answer).response).toMatchObject({ uid: 'u-6', allowed: true });
  expect(reviewIn(answer).response.warnings?.[0]).toContain('could not be judged');
  expect(guard.lines.some(({ level }) => level === 'error')).toBe(true);
});

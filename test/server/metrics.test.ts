import { expect, test } from 'vitest';
import { guardOf, reviewIn, reviewOf, serve } from './serving.ts';

const lines = (text: string, name: string) => text.split('\n').filter(line => line.startsWith(`${name}{`));

test('reviews are counted by stage, operation, kind, verdict and dry run', async () => {
  await using guard = await serve();
  await guard.post('/validate', reviewOf());
  await guard.post('/validate', reviewOf());
  await guard.post('/mutate', reviewOf({ ask: 'warn' }));
  await guard.post('/validate', reviewOf({ ask: 'deny' }));
  await guard.post('/validate', reviewOf({ ask: 'deny', dryRun: true }));
  const { text, headers } = await guard.health('/metrics');
  expect(headers['content-type']).toContain('text/plain');
  expect(lines(text, 'waywarden_reviews_total').sort()).toEqual([
    'waywarden_reviews_total{stage="mutate",operation="CREATE",kind="Service",verdict="warn",dry_run="false"} 1',
    'waywarden_reviews_total{stage="validate",operation="CREATE",kind="Service",verdict="allow",dry_run="false"} 2',
    'waywarden_reviews_total{stage="validate",operation="CREATE",kind="Service",verdict="deny",dry_run="false"} 1',
    'waywarden_reviews_total{stage="validate",operation="CREATE",kind="Service",verdict="deny",dry_run="true"} 1',
  ]);
  // asked again, nothing has changed
  expect(lines((await guard.health('/metrics')).text, 'waywarden_reviews_total')).toEqual(
    lines(text, 'waywarden_reviews_total'),
  );
});

test('audit mode tells what would be refused from what is only warned about', async () => {
  await using guard = await serve({ guard: () => guardOf({ mode: 'audit' }) });
  const { response } = reviewIn(await guard.post('/validate', reviewOf({ ask: 'deny' })));
  expect(response.allowed).toBe(true);
  expect(response.warnings?.[0]).toMatch(/^would be refused: Service /);
  const warned = reviewIn(await guard.post('/validate', reviewOf({ ask: 'warn' }))).response.warnings?.[0];
  expect(warned).toMatch(/^Service /);
  const actions = lines((await guard.health('/metrics')).text, 'waywarden_findings_total').map(
    line => /action="([a-z-]+)"/.exec(line)?.[1],
  );
  expect(actions.sort()).toEqual(['warn', 'would-deny']);
});

test('a dry run leaves no count of findings, no duration and no timeout', async () => {
  await using guard = await serve();
  await guard.post('/validate', reviewOf({ ask: 'deny', dryRun: true }));
  await guard.post('/mutate', reviewOf({ ask: 'warn', dryRun: true }));
  await guard.post('/validate?timeout=200ms', reviewOf({ ask: 'wait', dryRun: true }));
  const dry = (await guard.health('/metrics')).text;
  expect(lines(dry, 'waywarden_findings_total')).toEqual([]);
  expect(lines(dry, 'waywarden_timed_out_total')).toEqual([]);
  expect(lines(dry, 'waywarden_review_duration_seconds_count').every(line => line.endsWith(' 0'))).toBe(true);
  await guard.post('/validate', reviewOf({ ask: 'deny' }));
  const real = (await guard.health('/metrics')).text;
  expect(lines(real, 'waywarden_findings_total')).toEqual([
    'waywarden_findings_total{policy="asked",finding="refused",action="deny"} 1',
  ]);
  expect(lines(real, 'waywarden_review_duration_seconds_count')).toContain(
    'waywarden_review_duration_seconds_count{stage="validate"} 1',
  );
});

test('nobody can make the series grow: kinds that no policy knows are "other"', async () => {
  await using guard = await serve();
  for (let count = 0; count < 50; count++) {
    const review = reviewOf({ name: `name-${count}`, uid: `uid-${count}` });
    const kind = { group: `group-${count}.example.test`, version: 'v1', kind: `Kind${count}` };
    const request = { ...review.request, kind, requestKind: kind, userInfo: { username: `user-${count}` } };
    expect((await guard.post('/validate', { ...review, request })).status).toBe(200);
  }
  const { text } = await guard.health('/metrics');
  expect(lines(text, 'waywarden_reviews_total')).toEqual([
    'waywarden_reviews_total{stage="validate",operation="CREATE",kind="other",verdict="allow",dry_run="false"} 50',
  ]);
});

test('the process tells its CPU time and memory', async () => {
  await using guard = await serve();
  const { text } = await guard.health('/metrics');
  for (const name of [
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
    'nodejs_heap_size_used_bytes',
    'process_start_time_seconds',
  ]) {
    expect(Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]), name).toBeGreaterThan(0);
  }
});

test('healthz says yes at once, readyz when the mesh is known', async () => {
  let known = false;
  await using guard = await serve({ ready: () => known });
  expect(await guard.health('/healthz')).toMatchObject({ status: 200, text: 'ok\n' });
  expect(await guard.health('/readyz')).toMatchObject({ status: 503, text: 'the mesh is not known yet\n' });
  known = true;
  expect(await guard.health('/readyz')).toMatchObject({ status: 200, text: 'ok\n' });
  expect((await guard.health('/validate')).status).toBe(404);
});

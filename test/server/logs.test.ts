import { spawn } from 'node:child_process';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createLogs } from '../../src/telemetry/logs.ts';
import { capturedLogs, reviewOf, serve } from './serving.ts';

test('a verdict is one line: who, what, which object, the findings, how long', async () => {
  await using guard = await serve();
  await guard.post('/validate', reviewOf({ ask: 'deny', uid: 'u-7', name: 'orders' }));
  await guard.post('/mutate', reviewOf({ uid: 'u-8', dryRun: true }));
  const [denied, allowed] = guard.lines.filter(({ msg }) => msg === 'review');
  expect(denied).toEqual({
    level: 'warn',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    msg: 'review',
    webhook: 'validate',
    uid: 'u-7',
    operation: 'CREATE',
    user: 'ann',
    kind: 'Service',
    namespace: 'shop',
    name: 'orders',
    verdict: 'deny',
    findings: [{ finding: 'asked/refused', action: 'deny', subject: 'Service shop/orders' }],
    found: 1,
    dryRun: false,
    ms: expect.any(Number),
  });
  expect(allowed).toMatchObject({ level: 'info', webhook: 'mutate', uid: 'u-8', verdict: 'allow', dryRun: true });
  expect(allowed).not.toHaveProperty('findings');
});

test('no body of an object is in the log, whatever comes of it', async () => {
  await using guard = await serve();
  const secret = 'correct-horse-battery-staple';
  const object = { data: { password: secret }, spec: { clusterIP: secret } };
  for (const ask of ['deny', 'warn', 'patch', 'throw', 'none']) {
    for (const path of ['/validate', '/mutate']) {
      await guard.post(path, reviewOf({ ask, object }));
      await guard.post(path, reviewOf({ ask, object, operation: 'DELETE' }));
    }
  }
  await guard.post('/validate', `{"${secret}`);
  await guard.post('/validate', { ...reviewOf({ object }), kind: secret });
  expect(guard.lines.filter(({ msg }) => msg === 'review')).toHaveLength(20);
  expect(JSON.stringify(guard.lines)).not.toContain(secret);
});

test('a name of megabytes, or with line breaks, is clipped and stays in its line', async () => {
  await using guard = await serve();
  const name = 'x\n{"level":"error"}\u2028'.repeat(100_000);
  await guard.post('/validate', reviewOf({ name, uid: name, ask: 'warn' }));
  const review = guard.lines.filter(({ msg }) => msg === 'review');
  expect(review).toHaveLength(1);
  expect(JSON.stringify(review).length).toBeLessThan(4000);
});

test('the level decides what is written', async () => {
  const { logs, lines } = capturedLogs('warn');
  await using guard = await serve({ logs });
  await guard.post('/validate', reviewOf());
  expect(lines.filter(({ msg }) => msg === 'review')).toEqual([]);
  await guard.post('/validate', reviewOf({ ask: 'warn' }));
  expect(lines.filter(({ msg }) => msg === 'review')).toHaveLength(1);
});

test('lines are held back and written together, and all of them at a flush', async () => {
  const file = join(await mkdtemp(join(tmpdir(), 'waywarden-logs-')), 'log');
  const logs = createLogs({ destination: file });
  for (let line = 0; line < 20; line++) logs.logger.info({ line }, 'held back');
  expect(await readFile(file, 'utf8').catch(() => '')).toBe('');
  logs.flush();
  expect((await readFile(file, 'utf8')).trim().split('\n')).toHaveLength(20);
});

test('what is held back at the end of the process is written', async () => {
  const script = `
    import { createLogs } from '${new URL('../../src/telemetry/logs.ts', import.meta.url).href}';
    const logs = createLogs();
    for (let line = 0; line < 100; line++) logs.logger.info({ line }, 'last words');
    setTimeout(() => process.exit(0), 50);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script]);
  let out = '';
  child.stdout.on('data', data => {
    out += String(data);
  });
  await new Promise(resolve => child.on('close', resolve));
  expect(out.trim().split('\n')).toHaveLength(100);
});

import { once } from 'node:events';
import { Agent } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { expect, test } from 'vitest';
import { guardOf, reviewIn, reviewOf, send, serve } from './serving.ts';

test('readyz fails first, while reviews are still answered and their connections closed', async () => {
  const guard = await serve({ linger: 400 });
  const agent = new Agent({ keepAlive: true, ca: guard.ca, maxSockets: 1 });
  const body = JSON.stringify(reviewOf({ ask: 'warn' }));
  const headers = { 'content-type': 'application/json' };
  const before = await send(guard.port, '/validate', { agent, body, headers });
  expect(before.headers.connection).toBe('keep-alive');
  expect((await guard.health('/readyz')).status).toBe(200);

  const closing = guard.close();
  expect((await guard.health('/readyz')).status).toBe(503);
  expect((await guard.health('/healthz')).status).toBe(200);
  const during = await send(guard.port, '/validate', { agent, body, headers });
  expect(during.status).toBe(200);
  expect(during.text).toBe(before.text);
  expect(during.headers.connection).toBe('close');
  // a connection that is new in these moments is taken as well
  expect((await send(guard.port, '/mutate', { ca: guard.ca, body, headers })).status).toBe(200);
  await closing;
  await expect(send(guard.port, '/validate', { ca: guard.ca, body, headers })).rejects.toThrow();
  await expect(guard.health('/healthz')).rejects.toThrow();
});

test('reviews that are under way are finished', async () => {
  const guarding = guardOf();
  let begun = 0;
  const guard = await serve({
    linger: 0,
    guard: () => {
      begun += 1;
      return guarding;
    },
  });
  const answers = [1, 2, 3].map(() => guard.post('/validate?timeout=5s', reviewOf({ ask: 'pause' })));
  // on a busy machine a handshake alone may take longer than any moment that one would wait
  while (begun < answers.length) await sleep(5);
  await guard.close();
  for (const answer of await Promise.all(answers)) {
    expect(reviewIn(answer).response.warnings?.[0]).toContain('asks for patience');
    expect(answer.headers.connection).toBe('close');
  }
});

test('idle connections do not hold it up, and stalled ones only for the grace period', async () => {
  const guard = await serve({ linger: 0, grace: 300 });
  await guard.post('/validate', reviewOf());
  const stalled = send(guard.port, '/validate', {
    ca: guard.ca,
    body: '{',
    headers: { 'content-type': 'application/json', 'content-length': '100' },
  });
  const cut = expect(stalled).rejects.toThrow();
  await sleep(100);
  const started = performance.now();
  await guard.close();
  expect(performance.now() - started).toBeLessThan(2000);
  await cut;
});

test('connections that were opened in reserve and never used do not hold it up', async () => {
  const guard = await serve({ linger: 0, grace: 30_000 });
  const reserve = connect({ host: '127.0.0.1', port: guard.port, ca: guard.ca, servername: 'localhost' });
  await once(reserve, 'secureConnect');
  const gone = once(reserve, 'close');
  // where it waited for the grace period, the test itself would run out of time
  await guard.close();
  await gone;
}, 20_000);

test('closing twice is closing once', async () => {
  const guard = await serve();
  await Promise.all([guard.close(), guard.close()]);
  await guard.close();
});

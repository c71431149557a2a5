import { mkdtemp } from 'node:fs/promises';
import { Agent } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { expect, test } from 'vitest';
import { localCertificate } from '../../src/admission/localca.ts';
import { createServer, PATIENCE } from '../../src/admission/server.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { capturedLogs, guardOf, reviewOf, send, serve } from './serving.ts';

test('idle connections are kept for longer than the API server keeps them', async () => {
  const { pair } = await localCertificate(await mkdtemp(join(tmpdir(), 'waywarden-')));
  const guard = guardOf();
  const { webhook, health } = createServer({
    guard: () => guard,
    tls: pair,
    ready: () => true,
    logs: capturedLogs().logs,
    metrics: createMetrics(),
  });
  await webhook.ready();
  // client-go closes them after 90 s (facts/admission.md §f)
  expect(webhook.server.keepAliveTimeout).toBe(PATIENCE.keepAlive);
  expect(PATIENCE.keepAlive).toBeGreaterThan(90_000);
  expect(webhook.server.headersTimeout).toBeGreaterThan(webhook.server.keepAliveTimeout);
  expect(webhook.server.requestTimeout).toBeGreaterThanOrEqual(webhook.server.headersTimeout);
  await webhook.close();
  await health.close();
});

test('many reviews go over one connection', async () => {
  await using guard = await serve();
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: guard.ca });
  const ports = new Set<number | undefined>();
  agent.on('free', (socket: TLSSocket) => ports.add(socket.localPort));
  const body = JSON.stringify(reviewOf());
  for (let count = 0; count < 50; count++) {
    const headers = { 'content-type': 'application/json' };
    expect((await send(guard.port, '/validate', { agent, body, headers })).status).toBe(200);
  }
  expect(ports.size).toBe(1);
  agent.destroy();
});

test('a connection that was opened in reserve lives as long as an idle one', async () => {
  // scaled down by a hundred: keepAlive 1.2 s, headers 1.25 s; used after 1 s
  await using guard = await serve({ patience: { keepAlive: 1200, headers: 1250 } });
  const socket = await opened(guard.port, guard.ca);
  await sleep(1000);
  const body = JSON.stringify(reviewOf({ uid: 'late' }));
  const answer = new Promise<string>((resolve, reject) => {
    socket.once('data', data => resolve(data.toString()));
    socket.once('error', reject);
    socket.once('end', () => reject(new Error('closed')));
  });
  socket.write(
    `POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  expect(await answer).toContain('"uid":"late","allowed":true');
  socket.destroy();
});

test('HTTP/1.1 is all that is offered', async () => {
  await using guard = await serve();
  const both = await opened(guard.port, guard.ca, ['h2', 'http/1.1']);
  expect(both.alpnProtocol).toBe('http/1.1');
  both.destroy();
  await expect(opened(guard.port, guard.ca, ['h2'])).rejects.toThrow();
});

function opened(port: number, ca: string, ALPNProtocols?: string[]): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca, ...(ALPNProtocols ? { ALPNProtocols } : {}) }, () =>
      resolve(socket),
    );
    socket.once('error', reject);
  });
}

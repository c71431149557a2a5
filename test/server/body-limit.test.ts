import { request as httpsRequest } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { expect, test } from 'vitest';
import { garbageCollector, type Running, reviewIn, reviewOf, serve } from './serving.ts';

const MIB = 1024 * 1024;

function ofSize(bytes: number): Buffer {
  const empty = JSON.stringify(reviewOf({ object: { data: '' } }));
  const body = empty.replace('"data":""', `"data":"${'x'.repeat(bytes - empty.length)}"`);
  return Buffer.from(body);
}

test('a review of 3 MiB twice over, and one of exactly 8 MiB, are judged', async () => {
  await using guard = await serve();
  for (const bytes of [6 * MIB, 8 * MIB]) {
    const body = ofSize(bytes);
    expect(body.length).toBe(bytes);
    const answer = await guard.post('/validate', body);
    expect(answer.status).toBe(200);
    expect(reviewIn(answer).response.allowed).toBe(true);
  }
});

test('one byte more is answered with 413', async () => {
  await using guard = await serve();
  const answer = await guard.post('/validate', ofSize(8 * MIB + 1));
  expect(answer.status).toBe(413);
  expect(answer.text).toMatch(/^WW_TOO_LARGE: .+\n$/);
  expect(answer.headers.connection).toBe('close');
});

/** Sends without an end for as long as the other side takes it; how much that was, and what came back. */
function pour(guard: Running, headers: Readonly<Record<string, string>>): Promise<{ sent: number; status: number }> {
  return new Promise((resolve, reject) => {
    let sent = 0;
    let status = 0;
    const chunk = Buffer.alloc(64 * 1024, 'x');
    const outgoing = httpsRequest(
      { host: '127.0.0.1', port: guard.port, path: '/validate', method: 'POST', ca: guard.ca, agent: false, headers },
      response => {
        status = response.statusCode ?? 0;
        response.resume();
      },
    );
    outgoing.on('error', error => (status === 0 ? reject(error) : undefined));
    outgoing.on('close', () => resolve({ sent, status }));
    const more = (): void => {
      if (outgoing.destroyed || sent > 200 * MIB) return;
      sent += chunk.length;
      if (outgoing.write(chunk)) setImmediate(more);
      else outgoing.once('drain', more);
    };
    more();
  });
}

test('a body that says it is larger is refused before it is read', async () => {
  await using guard = await serve();
  const { sent, status } = await pour(guard, {
    'content-type': 'application/json',
    'content-length': String(500 * MIB),
  });
  expect(status).toBe(413);
  // what the sockets of both sides hold
  expect(sent).toBeLessThan(16 * MIB);
});

test('a chunked body is read up to the limit and not beyond', async () => {
  await using guard = await serve();
  const { sent, status } = await pour(guard, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
  expect(status).toBe(413);
  expect(sent).toBeGreaterThan(8 * MIB);
  expect(sent).toBeLessThan(24 * MIB);
});

test('who goes on sending after a 413 is cut off', async () => {
  await using guard = await serve({ patience: { farewell: 200 } });
  const started = performance.now();
  await new Promise<void>((resolve, reject) => {
    const half = { host: '127.0.0.1', port: guard.port, ca: guard.ca, allowHalfOpen: true };
    const socket = connect(half, () => {
      socket.write(
        'POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n',
      );
      const timer = setInterval(() => socket.write(Buffer.alloc(65536)), 5);
      socket.on('error', () => {});
      socket.on('close', () => {
        clearInterval(timer);
        resolve();
      });
    });
    setTimeout(() => reject(new Error('still connected')), 5000).unref();
  });
  expect(performance.now() - started).toBeLessThan(4000);
});

test('what was refused for its size leaves no memory behind', async () => {
  await using guard = await serve({ patience: { farewell: 10 } });
  const collect = garbageCollector();
  const rounds = async (count: number): Promise<void> => {
    for (let round = 0; round < count; round++) {
      const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' };
      await Promise.all([1, 2, 3, 4].map(() => pour(guard, headers)));
    }
  };
  await rounds(1);
  // buffers of sockets go a moment after the sockets
  const settled = async (): Promise<number> => {
    await sleep(100);
    collect();
    await sleep(100);
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = await settled();
  await rounds(5);
  // 160 MiB have come and gone by then
  expect((await settled()) - before).toBeLessThan(16 * MIB);
  expect((await guard.post('/validate', reviewOf())).status).toBe(200);
}, 30_000);

test('bodies under way hold so much together and no more: the oldest is given up, and others are not disturbed', async () => {
  await using guard = await serve();
  const stalled = Array.from({ length: 12 }, () => {
    const socket = connect({ host: '127.0.0.1', port: guard.port, ca: guard.ca });
    const said = new Promise<string>(resolve => {
      let text = '';
      socket.on('data', data => {
        text += data.toString('latin1');
      });
      socket.on('error', () => {});
      socket.on('close', () => resolve(text));
    });
    const head = `POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${8 * MIB}\r\n\r\n`;
    const written = new Promise<void>(resolve => {
      socket.write(head);
      socket.write(Buffer.alloc(7 * MIB, ' '), () => resolve());
    });
    return { socket, said, written };
  });
  await Promise.all(stalled.map(({ written }) => written));
  // 84 MiB were sent and 64 may be held: three had to go, whoever they were
  const told = await new Promise<string[]>(resolve => {
    const answers: string[] = [];
    for (const { said } of stalled)
      void said.then(text => {
        answers.push(text);
        if (answers.length === 3) resolve(answers);
      });
  });
  for (const text of told) expect(text).toMatch(/^HTTP\/1\.1 503 .*WW_BUSY: .+\n$/s);
  expect((await guard.post('/validate', ofSize(6 * MIB))).status).toBe(200);
  expect((await guard.post('/validate', reviewOf())).status).toBe(200);
  for (const { socket } of stalled) socket.destroy();
}, 30_000);

test('uploads that hold a byte each do not let others hold more than all may together', async () => {
  await using guard = await serve();
  const upload = async (bytes: number) => {
    const socket = connect({ host: '127.0.0.1', port: guard.port, ca: guard.ca });
    let text = '';
    socket.on('data', data => {
      text += data.toString('latin1');
    });
    socket.on('error', () => {});
    await new Promise<void>(resolve => {
      socket.write(
        `POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${8 * MIB}\r\n\r\n`,
      );
      socket.write(Buffer.alloc(bytes, ' '), () => resolve());
    });
    return { socket, refused: () => text.startsWith('HTTP/1.1 503 ') };
  };
  const tiny = await Promise.all(Array.from({ length: 200 }, () => upload(1)));
  const large = await Promise.all(Array.from({ length: 9 }, () => upload(7.5 * MIB)));
  // one that is too much for all of them: the tiny ones, which are older, go at once, and make no room
  await expect.poll(() => large.filter(({ refused }) => refused()).length, { timeout: 10_000 }).toBe(1);
  expect(tiny.every(({ refused }) => refused())).toBe(true);
  for (const { socket } of [...tiny, ...large]) socket.destroy();
}, 30_000);

test('large reviews that wait for their turn are bounded, and all are answered', async () => {
  await using guard = await serve();
  const pad = { data: 'x'.repeat(2 * MIB) };
  // it takes all the time that it has, less the margin
  const first = guard.post('/validate?timeout=4s', reviewOf({ ask: 'wait', object: pad }));
  await sleep(100);
  const others = await Promise.all([1, 2, 3, 4, 5].map(() => guard.post('/validate?timeout=20s', ofSize(7 * MIB))));
  const busy = others.filter(({ status }) => status === 503);
  expect(busy.length).toBeGreaterThan(0);
  for (const { text } of busy) expect(text).toMatch(/^WW_BUSY: .+\n$/);
  for (const answer of others) if (!busy.includes(answer)) expect(reviewIn(answer).response.allowed).toBe(true);
  expect((await first).status).toBe(200);
  expect((await guard.post('/validate', ofSize(7 * MIB))).status).toBe(200);
}, 30_000);

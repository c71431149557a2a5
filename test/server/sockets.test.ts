// Connections that misbehave, beside one that does not: nothing of it may be seen there.
import { connect as connectPlain, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { expect, test } from 'vitest';
import type { Patience } from '../../src/admission/server.ts';
import { type Running, reviewIn, reviewOf, serve } from './serving.ts';

const PATIENCE: Partial<Patience> = { body: 400, headers: 600, keepAlive: 500, handshake: 300, farewell: 100 };

/** Asks on and on until `done` settles; each answer must be the right one and come soon. */
async function undisturbed(guard: Running, done: Promise<unknown>): Promise<number> {
  let going = true;
  void done.finally(() => {
    going = false;
  });
  let asked = 0;
  const times: number[] = [];
  while (going || asked < 10) {
    const ask = ['none', 'warn', 'deny'][asked % 3];
    const uid = `beside-${asked}`;
    const started = performance.now();
    const answer = await guard.post(asked % 2 === 0 ? '/validate' : '/mutate', reviewOf({ ask, uid }));
    const { response } = reviewIn(answer);
    expect(answer.status).toBe(200);
    expect(response.uid).toBe(uid);
    expect(response.allowed).toBe(ask !== 'deny');
    expect(response.warnings?.length ?? 0).toBe(ask === 'warn' ? 1 : 0);
    times.push(performance.now() - started);
    asked += 1;
  }
  await done;
  times.sort((a, b) => a - b);
  // wide enough for a machine that has other things to do
  expect(times[Math.floor(times.length / 2)]).toBeLessThan(300);
  expect(times.at(-1)).toBeLessThan(5000);
  return asked;
}

function opened(guard: Running): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port: guard.port, ca: guard.ca }, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** What a socket still says until it is closed, however that happens. */
function heard(socket: Socket): Promise<string> {
  return new Promise(resolve => {
    let text = '';
    socket.on('data', data => {
      text += data.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
}

const BODY = JSON.stringify(reviewOf({ uid: 'mine' }));
const head = (length: number, path = '/validate') =>
  `POST ${path} HTTP/1.1\r\nhost: guard\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;

test('a body that comes byte by byte is given up with 408', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const slow = (async () => {
    const socket = await opened(guard);
    const said = heard(socket);
    socket.write(head(BODY.length));
    for (const byte of BODY) {
      if (socket.destroyed) break;
      socket.write(byte);
      await sleep(20);
    }
    return said;
  })();
  await undisturbed(guard, slow);
  expect(await slow).toMatch(/^HTTP\/1\.1 408 .*WW_SLOW: /s);
});

test('a body that never comes, and headers that never end, are given up too', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const silent = (async () => {
    const socket = await opened(guard);
    const said = heard(socket);
    socket.write(head(BODY.length));
    return said;
  })();
  const dripping = (async () => {
    const socket = await opened(guard);
    const said = heard(socket);
    socket.write('POST /validate HTTP/1.1\r\n');
    for (let count = 0; count < 200 && !socket.destroyed; count++) {
      socket.write(`x-${count}: y\r\n`);
      await sleep(20);
    }
    return said;
  })();
  await undisturbed(guard, Promise.all([silent, dripping]));
  expect(await silent).toMatch(/^HTTP\/1\.1 408 .*WW_SLOW: /s);
  expect(await dripping).toMatch(/^HTTP\/1\.1 408 .*WW_SLOW: /s);
});

test('a connection that says nothing is closed', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const mute = opened(guard).then(heard);
  await undisturbed(guard, mute);
});

test('requests that are cut off in the middle are forgotten', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const cut = (async () => {
    for (let count = 0; count < 60; count++) {
      const socket = await opened(guard);
      const whole = head(BODY.length) + BODY;
      socket.on('error', () => {});
      socket.write(whole.slice(0, Math.floor((whole.length * count) / 60)));
      await sleep(2);
      if (count % 2 === 0) socket.destroy();
      else socket.end();
    }
  })();
  await undisturbed(guard, cut);
});

test('a sender that ends early gets 400', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const socket = await opened(guard);
  const said = heard(socket);
  socket.end(head(BODY.length) + BODY.slice(0, 10));
  expect(await said).toMatch(/^(HTTP\/1\.1 400 .*|)$/s);
  await undisturbed(guard, Promise.resolve());
});

test('a sender that has said all and closes his half gets his answer', async () => {
  await using guard = await serve({ patience: PATIENCE });
  for (let count = 0; count < 10; count++) {
    const socket = await opened(guard);
    const said = heard(socket);
    socket.end(head(BODY.length) + BODY);
    expect(await said).toMatch(/^HTTP\/1\.1 200 .*"allowed":/s);
  }
});

test('a body of many small chunks is put together', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const body = JSON.stringify(reviewOf({ ask: 'warn', labels: { long: 'x'.repeat(30_000) } }));
  const socket = await opened(guard);
  const said = heard(socket);
  socket.write('POST /validate HTTP/1.1\r\nhost: guard\r\ncontent-type: application/json\r\n');
  socket.write('transfer-encoding: chunked\r\nconnection: close\r\n\r\n');
  socket.write(`${[...body].map(character => `1\r\n${character}\r\n`).join('')}0\r\n\r\n`);
  expect(await said).toMatch(/^HTTP\/1\.1 200 .*"warnings":/s);
});

test('a million groups that are none are refused in a moment', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const review = reviewOf() as { request: { userInfo?: unknown } };
  review.request.userInfo = { username: 'jo', groups: Array.from({ length: 1_000_000 }, () => 1) };
  const answer = await guard.post('/validate', review);
  expect(answer.status).toBe(400);
  expect(answer.text).toMatch(/WW_NOT_A_REVIEW: .*groups/);
});

test('pipelined reviews are answered in their order, each with its own verdict', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const pipelined = (async () => {
    const socket = await opened(guard);
    const said = heard(socket);
    // the first takes longest
    const asks = ['pause', 'deny', 'warn', 'none', 'throw', 'none'];
    socket.write(
      asks
        .map((ask, index) => JSON.stringify(reviewOf({ ask, uid: `p-${index}` })))
        .map(body => head(body.length) + body)
        .join(''),
    );
    return said;
  })();
  await undisturbed(guard, pipelined);
  const text = await pipelined;
  expect(
    [...text.matchAll(/"uid":"(p-\d)","allowed":(true|false)/g)].map(([, uid, allowed]) => `${uid} ${allowed}`),
  ).toEqual(['p-0 true', 'p-1 false', 'p-2 true', 'p-3 true', 'p-4 true', 'p-5 true']);
});

test('what is no HTTP, no TLS or neither is turned away', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const plain = (text: string | Buffer) => {
    const socket = connectPlain(guard.port, '127.0.0.1');
    const said = heard(socket);
    socket.write(text);
    return said;
  };
  const secure = async (text: string | Buffer) => {
    const socket = await opened(guard);
    const said = heard(socket);
    socket.write(text);
    return said;
  };
  const noise = Buffer.from(Array.from({ length: 4096 }, (_, index) => (index * 73 + 11) % 256));
  const all = Promise.all([
    plain(head(BODY.length) + BODY),
    plain(noise),
    plain(Buffer.from([0x16, 0x03, 0x01])),
    plain(''),
    secure(noise),
    secure('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    secure('GET / HTTP/9.9\r\n\r\n'),
    secure(`POST /validate HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n`),
    secure(`POST /validate HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`),
    secure(`POST /validate HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n`),
    secure(`POST /validate HTTP/1.1\r\nhost: x\r\n${'x-long: '.padEnd(40_000, 'y')}\r\n\r\n`),
  ]);
  await undisturbed(guard, all);
  const [, , , , ...refused] = await all;
  for (const text of refused) expect(text).toMatch(/^HTTP\/1\.1 4\d\d .*\r\n\r\nWW_\w+: .+\n$/s);
  expect(refused.at(-1)).toMatch(/^HTTP\/1\.1 431 .*WW_HEADERS/s);
});

test('a connection that is closed after each review, and many at once, are served', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const many = Promise.all(
    Array.from({ length: 60 }, async (_, index) => {
      const socket = await opened(guard);
      const said = heard(socket);
      const body = JSON.stringify(reviewOf({ uid: `m-${index}`, ask: index % 2 === 0 ? 'deny' : 'none' }));
      socket.write(head(body.length).replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n') + body);
      expect(await said).toContain(`"uid":"m-${index}","allowed":${index % 2 !== 0}`);
    }),
  );
  await undisturbed(guard, many);
});

test('oversized reviews beside others', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const large = Promise.all(
    [1, 2, 3].map(async () => {
      const socket = await opened(guard);
      const said = heard(socket);
      socket.write(head(100 * 1024 * 1024));
      for (let count = 0; count < 100 && !socket.destroyed; count++) {
        socket.write(Buffer.alloc(100_000, 'x'));
        await sleep(1);
      }
      return said;
    }),
  );
  await undisturbed(guard, large);
  for (const text of await large) expect(text).toMatch(/^HTTP\/1\.1 413 .*WW_TOO_LARGE: /s);
});

test('headers that ask to continue are told to', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const socket = await opened(guard);
  const said = heard(socket);
  socket.write(head(BODY.length).replace('\r\n\r\n', '\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n'));
  await sleep(50);
  socket.write(BODY);
  expect(await said).toMatch(/^HTTP\/1\.1 100 Continue.*HTTP\/1\.1 200 OK.*"uid":"mine"/s);
});

test('a request without a Host is answered, and one that expects the impossible is told so in a line', async () => {
  await using guard = await serve({ patience: PATIENCE });
  const socket = await opened(guard);
  const said = heard(socket);
  socket.write(head(BODY.length).replace(/host: [^\r]*\r\n/i, 'connection: close\r\n') + BODY);
  expect(await said).toMatch(/^HTTP\/1\.1 200 OK.*"uid":"mine"/s);
  const other = await opened(guard);
  const answer = heard(other);
  other.write(head(BODY.length).replace('\r\n\r\n', '\r\nexpect: a-miracle\r\n\r\n') + BODY);
  expect(await answer).toMatch(/^HTTP\/1\.1 400 .*\r\n\r\n.*WW_BAD_REQUEST: .+\n/s);
});

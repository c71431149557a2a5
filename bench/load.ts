// The other process: sends reviews over keep-alive connections, one at a time on each, as the API server does. It writes whole requests
// into TLS sockets and reads answers off them, because an HTTP client would cost more than the server that is measured.
// usage: load.ts PORT CA BODY-FILE SECONDS CONNECTIONS [RATE]; prints one line of JSON. With a rate it sends that many a second,
// whatever the answers take, and counts the time from when each was due; without, as many as are answered.
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { connect, type TLSSocket } from 'node:tls';
import { VARIED } from './bodies.ts';

const [port = '', ca = '', bodyFile = '', seconds = '2', connections = '16', rate] = process.argv.slice(2);
const body = readFileSync(bodyFile);
const head = [
  'POST /validate?timeout=10s HTTP/1.1',
  `Host: localhost:${port}`,
  'Content-Type: application/json',
  'Accept: application/json, */*',
  `Content-Length: ${body.length}`,
];
const whole = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);
const places: number[] = [];
for (let at = whole.indexOf(VARIED); at >= 0; at = whole.indexOf(VARIED, at + 1)) places.push(at);
if (places.length === 0) throw new Error(`${bodyFile} has no ${VARIED}: its reviews would all be the same`);

let sent = 0;
/** A request that is no other's like. */
function next(): Buffer {
  const request = Buffer.from(whole);
  sent += 1;
  const number = String(sent).padStart(VARIED.length - 1, '0');
  for (const place of places) request.write(number, place + 1);
  return request;
}

const times: number[] = [];
let wrong = 0;

interface Connection {
  /** Sends a request and resolves at the end of its answer. */
  send(): Promise<void>;
  end(): void;
}

function opened(): Promise<Connection> {
  return new Promise((done, fail) => {
    let text = '';
    let answered = () => {};
    const socket: TLSSocket = connect(
      { host: '127.0.0.1', port: Number(port), ca: readFileSync(ca), servername: 'localhost' },
      () =>
        done({
          send: () =>
            new Promise(resolve => {
              answered = resolve;
              socket.write(next());
            }),
          end: () => socket.end(),
        }),
    );
    socket.setNoDelay(true);
    socket.on('error', fail);
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      if (end < 0) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1]);
      if (!(text.length >= end + 4 + length)) return;
      if (!text.startsWith('HTTP/1.1 200 ') || !text.includes('"allowed":true')) wrong += 1;
      text = '';
      answered();
    });
  });
}

const all = await Promise.all(Array.from({ length: Number(connections) }, opened));
const started = performance.now();
const until = started + Number(seconds) * 1000;

async function closedLoop(connection: Connection): Promise<void> {
  for (let now = started; now < until; ) {
    await connection.send();
    const then = performance.now();
    times.push(then - now);
    now = then;
  }
}

/** Sends at a steady rate. What finds no connection free waits for one, and its time counts from when it was due. */
async function openLoop(perSecond: number): Promise<void> {
  const free = [...all];
  const due: number[] = [];
  let asked = 0;
  async function use(connection: Connection): Promise<void> {
    for (let from = due.shift(); from !== undefined; from = due.shift()) {
      await connection.send();
      times.push(performance.now() - from);
    }
    free.push(connection);
  }
  const running: Promise<void>[] = [];
  for (let now = started; now < until; now = performance.now()) {
    for (; asked < ((now - started) * perSecond) / 1000; asked += 1) {
      due.push(started + (asked * 1000) / perSecond);
      const connection = free.pop();
      if (connection !== undefined) running.push(use(connection));
    }
    await new Promise(resolve => setTimeout(resolve, 1));
  }
  await Promise.all(running);
}

if (rate === undefined) await Promise.all(all.map(closedLoop));
else await openLoop(Number(rate));
const elapsed = (performance.now() - started) / 1000;
for (const connection of all) connection.end();
times.sort((a, b) => a - b);
const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
console.log(
  JSON.stringify({ count: times.length, perSecond: times.length / elapsed, p50: at(0.5), p99: at(0.99), wrong }),
);

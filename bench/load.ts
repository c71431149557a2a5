// The other process: sends one review again and again over keep-alive connections, as the API server does.
// usage: load.ts PORT CA BODY-FILE SECONDS CONNECTIONS [RATE]; prints one line of JSON.
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { performance } from 'node:perf_hooks';

const [port = '', ca = '', bodyFile = '', seconds = '2', connections = '4', rate] = process.argv.slice(2);
const body = readFileSync(bodyFile);
const agent = new Agent({
  keepAlive: true,
  maxSockets: Number(connections),
  ca: readFileSync(ca),
  servername: 'localhost',
});
const until = performance.now() + Number(seconds) * 1000;
const times: number[] = [];
let wrong = 0;
// the place of a number that makes each review another one
const varied = body.indexOf('v00000000');
let sent = 0;

function next(): Buffer {
  if (varied < 0) return body;
  const other = Buffer.from(body);
  sent += 1;
  other.write(String(sent).padStart(8, '0'), varied + 1);
  return other;
}

function send(): Promise<void> {
  const started = performance.now();
  return new Promise((done, fail) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port: Number(port),
        path: '/validate?timeout=10s',
        method: 'POST',
        agent,
        headers: { 'content-type': 'application/json', 'content-length': body.length, accept: 'application/json, */*' },
      },
      response => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', chunk => {
          text += chunk;
        });
        response.on('end', () => {
          times.push(performance.now() - started);
          if (response.statusCode !== 200 || !text.includes('"allowed":true')) wrong += 1;
          done();
        });
      },
    );
    outgoing.on('error', fail);
    outgoing.end(next());
  });
}

async function closedLoop(): Promise<void> {
  while (performance.now() < until) await send();
}

/** Sends at a steady rate whatever the answers take, so that a slow server cannot hide its queue. */
async function openLoop(perSecond: number): Promise<void> {
  const started = performance.now();
  const waiting: Promise<void>[] = [];
  for (let sent = 0; performance.now() < until; sent += 1) {
    const due = started + (sent * 1000) / perSecond;
    const pause = due - performance.now();
    if (pause > 1) await new Promise(done => setTimeout(done, pause));
    waiting.push(send());
  }
  await Promise.all(waiting);
}

const started = performance.now();
if (rate === undefined) await Promise.all(Array.from({ length: Number(connections) }, closedLoop));
else await openLoop(Number(rate));
const elapsed = (performance.now() - started) / 1000;
times.sort((a, b) => a - b);
const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
console.log(
  JSON.stringify({ count: times.length, perSecond: times.length / elapsed, p50: at(0.5), p99: at(0.99), wrong }),
);
agent.destroy();

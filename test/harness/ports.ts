import { createServer } from 'node:net';

// Below the ephemeral range (32768 and up on Linux), so that no outgoing connection takes a port between the moment it
// was found free and the moment a server listens on it.
const first = 20_000;
const last = 32_000;
const given = new Set<number>();

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)));
  });
}

/** A loopback port nobody listens on, never given twice by this process. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 1000; tries++) {
    const port = first + Math.floor(Math.random() * (last - first));
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port between ${first} and ${last}`);
}

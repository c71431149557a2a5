import type { Socket } from 'node:net';
import { dial, join, listen } from './tcp.ts';

export interface Balancer {
  port: number;
  /** The replicas that take new connections from now on; those that are open stay open. */
  use(ports: number[]): void;
  /** How many connections each replica was given. */
  connections(): Map<number, number>;
  stop(): Promise<void>;
}

/**
 * Stands in for a Service in front of several replicas: each new TCP connection goes to the next of them, and past those
 * that refuse it. Where all refuse, or there is none, the client's connection is reset.
 */
export async function startBalancer(ports: number[] = [], listenOn = 0): Promise<Balancer> {
  let replicas = ports;
  let turn = 0;
  const given = new Map<number, number>();

  async function accept(client: Socket): Promise<void> {
    const candidates = [...replicas];
    const first = turn++;
    for (let tried = 0; tried < candidates.length; tried++) {
      const port = candidates[(first + tried) % candidates.length];
      if (port === undefined) continue;
      try {
        const replica = await dial(port);
        given.set(port, (given.get(port) ?? 0) + 1);
        if (client.destroyed) replica.destroy();
        else join(client, replica);
        return;
      } catch {
        // refused: the next one
      }
    }
    client.resetAndDestroy();
  }

  const listener = await listen(listenOn, client => void accept(client));
  return {
    port: listener.port,
    use(next) {
      replicas = next;
    },
    connections: () => new Map(given),
    stop: listener.stop,
  };
}

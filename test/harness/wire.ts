import { dial, join, listen } from './tcp.ts';

export interface Wire {
  port: number;
  /** What is open now goes silent: nothing passes any more and nobody is told. New connections work. */
  silence(): void;
  /** What is open now is reset. */
  cut(): void;
  /** Whether new connections are reset at once. */
  refuse(yes: boolean): void;
  /** How many connections are open. */
  open(): number;
  stop(): Promise<void>;
}

/**
 * A wire to another port that can be damaged: between a replica and the API server for a watch that goes silent
 * (`kubeconfigFor(…, { port: wire.port })`), or between the API server and a replica for a backend that hangs.
 */
export async function startWire(target: number): Promise<Wire> {
  let refusing = false;
  const listener = await listen(0, client => {
    if (refusing) {
      client.resetAndDestroy();
      return;
    }
    dial(target).then(
      far => {
        join(client, far);
        client.once('silence', () => {
          for (const end of [client, far]) {
            end.unpipe();
            end.pause();
          }
        });
      },
      () => client.resetAndDestroy(),
    );
  });
  return {
    port: listener.port,
    silence() {
      for (const client of listener.open) client.emit('silence');
    },
    cut() {
      for (const client of listener.open) client.resetAndDestroy();
    },
    refuse(yes) {
      refusing = yes;
    },
    open: () => listener.open.size,
    stop: listener.stop,
  };
}

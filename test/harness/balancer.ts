import { connect, createServer, type Socket } from 'node:net';

export interface Balancer {
  port: number;
  /** The replicas that take new connections from now on; those that are open stay open. */
  use(ports: number[]): void;
  /** How many connections each replica was given. */
  connections(): Map<number, number>;
  stop(): Promise<void>;
}

function dial(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** Joins two sockets; when one breaks the other does too, when one ends so does its other half. */
function join(client: Socket, replica: Socket): void {
  for (const [from, to] of [
    [client, replica],
    [replica, client],
  ] as const) {
    from.pipe(to);
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
  }
}

/**
 * Stands in for a Service in front of several replicas: each new TCP connection goes to the next of them, and past those
 * that refuse it. Where all refuse, or there is none, the client's connection is reset.
 */
export async function startBalancer(ports: number[] = [], listenOn = 0): Promise<Balancer> {
  let replicas = ports;
  let turn = 0;
  const given = new Map<number, number>();
  const clients = new Set<Socket>();

  async function accept(client: Socket): Promise<void> {
    clients.add(client);
    client.once('close', () => clients.delete(client));
    client.on('error', () => {});
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

  const server = createServer({ allowHalfOpen: true }, client => void accept(client));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(listenOn, '127.0.0.1', resolve);
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : listenOn,
    use(next) {
      replicas = next;
    },
    connections: () => new Map(given),
    async stop() {
      for (const client of clients) client.destroy();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

import { connect, createServer, type Server, type Socket } from 'node:net';

export function dial(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

// noDelay: small writes would wait 40 ms for each other's acknowledgement, which on a real network path nobody holds back.

/** Joins two sockets; when one breaks the other does too, when one ends so does the other's half. */
export function join(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.pipe(to);
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
  }
}

export interface Listener {
  port: number;
  /** The connections that are open now, as the clients opened them. */
  open: Set<Socket>;
  stop(): Promise<void>;
}

/** Listens on a loopback port and hands over each connection. */
export async function listen(port: number, onConnection: (client: Socket) => void): Promise<Listener> {
  const open = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true, noDelay: true }, client => {
    open.add(client);
    client.once('close', () => open.delete(client));
    client.on('error', () => {}); // its end is told by 'close'
    onConnection(client);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : port,
    open,
    async stop() {
      for (const client of open) client.destroy();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

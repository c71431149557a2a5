// A running guard: both listeners, its certificate followed, and an end in which nobody is left without an answer.
import type { IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Logs } from '../telemetry/logs.ts';
import { createMetrics, type Metrics } from '../telemetry/metrics.ts';
import type { Observe } from './answer.ts';
import type { Guard } from './judge.ts';
import { createServer, type Patience } from './server.ts';
import { type CertificateSource, expiryOf, leafOf, type Pair } from './tls.ts';

export interface ServeOptions {
  /** Asked at each review: the Mesh and the settings may be others by then. */
  readonly guard: () => Guard;
  readonly certificate: CertificateSource;
  readonly logs: Logs;
  readonly metrics?: Metrics;
  /** Where reviews come in. Port 0 is any free one. Default: every address, 8443. */
  readonly listen?: { readonly host?: string; readonly port?: number };
  /** Where `/healthz`, `/readyz` and `/metrics` are. Default: every address, 8080. */
  readonly health?: { readonly host?: string; readonly port?: number };
  /** Whether the Mesh is known. Default: always. */
  readonly ready?: () => boolean;
  /** What `/readyz` says beside its answer, a line each. Default: nothing. */
  readonly doubts?: () => readonly string[];
  /** Groups that the webhook configuration lets pass unjudged, for the log. Default: none. */
  readonly breakGlassGroups?: () => readonly string[];
  /** Told of every verdict, after the answer was made; may not throw. */
  readonly observe?: Observe;
  readonly patience?: Partial<Patience>;
  /**
   * Milliseconds in which `close` still takes reviews, until every API server has seen that we go. 0 where none of them is
   * behind a Service. Default 5000.
   */
  readonly linger?: number;
  /** Milliseconds after which `close` cuts connections off that are still busy. Default 10,000. */
  readonly grace?: number;
}

export interface Serving {
  readonly port: number;
  readonly healthPort: number;
  /** The CA to trust, where it is our own. */
  readonly caFile?: string;
  readonly metrics: Metrics;
  /** Another guard from the next review on. */
  replaceGuard(guard: () => Guard): void;
  /** Drains and closes: `/readyz` fails first, reviews that are under way are answered. Safe to call more than once. */
  close(): Promise<void>;
}

const EVERY_ADDRESS = '::';

/** Starts to listen. Rejects where a port is taken or the certificate is no pair; nothing is left open then. */
export async function startServing(options: ServeOptions): Promise<Serving> {
  const { certificate, logs, metrics = createMetrics(), ready = () => true, linger = 5000, grace = 10_000 } = options;
  let guard = options.guard;
  const { webhook, health, swap, drain } = createServer({
    guard: () => guard(),
    tls: certificate.pair,
    ready,
    logs,
    metrics,
    ...(options.doubts === undefined ? {} : { doubts: options.doubts }),
    ...(options.breakGlassGroups === undefined ? {} : { breakGlassGroups: options.breakGlassGroups }),
    ...(options.observe === undefined ? {} : { observe: options.observe }),
    ...(options.patience === undefined ? {} : { patience: options.patience }),
  });
  metrics.certificate(expiryOf(leafOf(certificate.pair)));
  let port: number;
  let healthPort: number;
  try {
    healthPort = await listen(health, options.health?.host, options.health?.port ?? 8080);
    port = await listen(webhook, options.listen?.host, options.listen?.port ?? 8443);
  } catch (error) {
    await Promise.all([webhook.close(), health.close()]);
    throw error;
  }

  function take(pair: Pair): void {
    try {
      swap(pair);
      const expires = expiryOf(leafOf(pair));
      metrics.certificate(expires);
      metrics.reloaded('certificate', 'ok');
      logs.logger.info({ expires: expires.toISOString() }, 'another certificate is served from now on');
    } catch (error) {
      keepOld(error instanceof Error ? error.message : String(error));
    }
  }
  function keepOld(reason: string): void {
    metrics.reloaded('certificate', 'failed');
    logs.logger.error({ reason }, 'the old certificate is kept');
  }
  const unused = new Set<Socket>();
  let leaving = false;
  webhook.server.on('secureConnection', (socket: Socket) => {
    // a handshake that ends after we have closed
    if (leaving) return socket.destroy();
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  webhook.server.on('request', ({ socket }: IncomingMessage) => unused.delete(socket));
  const unfollow = certificate.follow(found => {
    if ('pair' in found) take(found.pair);
    else keepOld(found.broken);
  });

  async function end(): Promise<void> {
    drain();
    logs.logger.info('shutting down: reviews that still come are answered');
    if (linger > 0) await sleep(linger);
    unfollow();
    const cutOff = setTimeout(() => {
      webhook.server.closeAllConnections();
      health.server.closeAllConnections();
    }, grace);
    leaving = true;
    const closed = webhook.close();
    // what API servers opened in reserve and never used: Node waits for its first request
    for (const socket of unused) socket.destroy();
    // the health listener goes last: somebody may still want to know how it goes
    await closed;
    await health.close();
    clearTimeout(cutOff);
    logs.logger.info('closed');
    logs.flush();
  }
  let ending: Promise<void> | undefined;

  return {
    port,
    healthPort,
    ...(certificate.caFile === undefined ? {} : { caFile: certificate.caFile }),
    metrics,
    replaceGuard(next) {
      guard = next;
    },
    close() {
      ending ??= end();
      return ending;
    },
  };
}

async function listen(app: FastifyInstance, host: string | undefined, port: number): Promise<number> {
  try {
    await app.listen({ port, host: host ?? EVERY_ADDRESS });
  } catch (error) {
    // a machine without IPv6
    if (
      host !== undefined ||
      !['EAFNOSUPPORT', 'EADDRNOTAVAIL'].includes(String((error as NodeJS.ErrnoException).code))
    ) {
      throw error;
    }
    await app.listen({ port, host: '0.0.0.0' });
  }
  return (app.server.address() as AddressInfo).port;
}

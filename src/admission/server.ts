// The HTTPS server for the API server, and the plain one for the kubelet and Prometheus. Small plugins, put together here.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext } from 'node:tls';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { type Answering, answer, type Webhook } from './answer.ts';
import { type Body, readBodies } from './body.ts';
import { passBreakGlass } from './breakglass.ts';
import { type Budget, budgets, deadlineOf } from './deadline.ts';
import { catalogued, type ErrorCode, errorLine, type RefusedRequest, refusal } from './errors.ts';
import type { Pair } from './tls.ts';

/** How long the server is patient, in milliseconds. */
export interface Patience {
  /** An idle connection stays; above the API server's 90 s, or it writes into one that is just being closed. */
  readonly keepAlive: number;
  /**
   * The headers of a request. Node counts it from the first byte, but for a connection that was never used from its
   * beginning; the API server opens some in reserve and keeps them 90 s too. So it is above `keepAlive`.
   */
  readonly headers: number;
  /** The body, from the last header on. */
  readonly body: number;
  /** A TLS handshake. */
  readonly handshake: number;
  /** A sender who is told that the body is too large may hang up by himself. */
  readonly farewell: number;
}

export const PATIENCE: Patience = {
  keepAlive: 120_000,
  headers: 125_000,
  body: 30_000,
  handshake: 10_000,
  farewell: 1000,
};

/** Object and old object may have 3 MiB each, and the API server's own fields come on top. */
const BODY_LIMIT = 8 * 1024 * 1024;

/** Bytes of bodies under way, and characters of large ones that wait to be judged: a pod has 512 MiB for all it does. */
const SUM_LIMIT = 64 * 1024 * 1024;
const QUEUE_LIMIT = 32 * 1024 * 1024;

export interface ServerOptions extends Answering {
  readonly tls: Pair;
  /** Whether `/readyz` may say yes. */
  readonly ready: () => boolean;
  /** What `/readyz` says beside its answer, a line each. */
  readonly doubts?: () => readonly string[];
  readonly breakGlassGroups?: () => readonly string[];
  readonly patience?: Partial<Patience>;
}

/** Characters from which bodies are judged one after the other. */
const LARGE = 1024 * 1024;

const JSON_TYPE = 'application/json; charset=utf-8';
const LINE_TYPE = 'text/plain; charset=utf-8';

/** What both listeners know of the process. */
interface Lifecycle {
  draining: boolean;
}

export interface Servers {
  /** `/validate`, `/mutate` and `/break-glass`, over TLS. */
  readonly webhook: FastifyInstance;
  /** `/healthz`, `/readyz` and `/metrics`, in plain HTTP. */
  readonly health: FastifyInstance;
  /** Another certificate for new handshakes; connections that stand are kept. Throws where it is no pair. */
  swap(pair: Pair): void;
  /** From now on `/readyz` fails and every answer closes its connection. */
  drain(): void;
}

/** Builds both servers; neither listens yet. */
export function createServer(options: ServerOptions): Servers {
  const lifecycle: Lifecycle = { draining: false };
  const patience: Patience = { ...PATIENCE, ...options.patience };
  const { webhook, swap } = secure(options, patience);
  errors(webhook, options, patience, ['/validate', '/mutate', '/break-glass']);
  readBodies(webhook, { limit: BODY_LIMIT, sum: SUM_LIMIT, patience: patience.body });
  admission(webhook, options, lifecycle);

  const health = fastify({
    ...COMMON,
    clientErrorHandler: refuseConnection(options, patience.farewell),
    frameworkErrors: refuseUrl(options),
  });
  errors(health, options, patience, []);
  healthRoutes(health, options, lifecycle);
  metricsRoute(health, options);

  return {
    webhook,
    health,
    swap,
    drain: () => {
      lifecycle.draining = true;
    },
  };
}

const COMMON = {
  logger: false,
  // while the server closes, reviews that still arrive are answered, and their connections closed
  return503OnClosing: false,
  forceCloseConnections: 'idle',
  exposeHeadRoutes: false,
} as const;

/** TLS: HTTP/1.1 is all that is offered, which is all that the API server speaks to a Service (facts/admission.md §f). */
function secure(options: ServerOptions, patience: Patience) {
  const settings = ({ cert, key }: Pair) => ({ cert, key, minVersion: 'TLSv1.2' as const });
  const webhook = fastify({
    ...COMMON,
    https: {
      ...settings(options.tls),
      ALPNProtocols: ['http/1.1'],
      allowHalfOpen: true,
      // one listener, one host: Node would answer 400 with nothing in it
      requireHostHeader: false,
      handshakeTimeout: patience.handshake,
      headersTimeout: patience.headers,
      connectionsCheckingInterval: Math.ceil(Math.min(5000, patience.headers / 4)),
    },
    keepAliveTimeout: patience.keepAlive,
    // never below headersTimeout: Node would take the one for the other (ConnectionsList::Expired in node_http_parser.cc)
    requestTimeout: patience.headers + patience.body,
    routerOptions: { querystringParser: budgets() },
    clientErrorHandler: refuseConnection(options, patience.farewell),
    frameworkErrors: refuseUrl(options),
  });
  const server = webhook.server as unknown as Server & { httpAllowHalfOpen: boolean };
  // whoever has said all and closes his half still waits for the answer, which may be a moment away
  server.httpAllowHalfOpen = true;
  // anything but 100-continue, which Node answers itself
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const known = refusal('WW_BAD_REQUEST');
    note(options, known, known);
    response.writeHead(known.statusCode, { 'content-type': LINE_TYPE, connection: 'close' }).end(errorLine(known));
  });
  return {
    webhook: webhook as unknown as FastifyInstance,
    swap: (pair: Pair) => {
      // tried first: setSecureContext of a broken pair would leave the server without any
      createSecureContext(settings(pair));
      server.setSecureContext(settings(pair));
    },
  };
}

/** The two webhooks, and the one beside them that judges nothing. */
function admission(app: FastifyInstance, options: ServerOptions, lifecycle: Lifecycle): void {
  // nearly every answer is there at once: a promise for each would cost as much as routing does
  const route = (webhook: Webhook) =>
    function review(request: FastifyRequest, reply: FastifyReply): Promise<string> | undefined {
      const body = request.body as Body | undefined;
      if (lifecycle.draining) reply.header('connection', 'close');
      if (body === undefined) throw refusal('WW_CONTENT_TYPE');
      const { text, whole, arrived } = body;
      const deadline = deadlineOf(arrived, request.query as Budget);
      const arrival = { text, whole, arrived, deadline };
      const response =
        text.length > LARGE
          ? oneByOne(text.length, () => answer(options, webhook, arrival))
          : answer(options, webhook, arrival);
      if (typeof response !== 'string') return response.then(later => ready(reply, later));
      // no hook waits for what is sent, which fastify would ask for at each step of it
      reply.hijack();
      if (waiting.length === 0) setImmediate(sendAll);
      waiting.push({ reply, response });
      return undefined;
    };
  // answers to what arrived together are written together: each write may wake up whoever waits at the other end, which costs more
  // than half of a review
  let waiting: { readonly reply: FastifyReply; readonly response: string }[] = [];
  function sendAll(): void {
    const all = waiting;
    waiting = [];
    for (const { reply, response } of all) {
      const length = Buffer.byteLength(response);
      const head = { 'content-type': JSON_TYPE, 'content-length': length };
      reply.raw.writeHead(200, lifecycle.draining ? { ...head, connection: 'close' } : head).end(response);
    }
  }
  // parsed, a large body is many times its size: several at once would not fit into the memory of a pod
  let last: Promise<unknown> = Promise.resolve();
  let queued = 0;
  function oneByOne(length: number, work: () => string | Promise<string>): Promise<string> {
    if (queued + length > QUEUE_LIMIT) throw refusal('WW_BUSY');
    queued += length;
    const mine = last.then(work).finally(() => {
      queued -= length;
    });
    last = mine.catch(() => {});
    return mine;
  }
  function ready(reply: FastifyReply, response: string): string {
    if (lifecycle.draining) reply.header('connection', 'close');
    reply.header('content-type', JSON_TYPE);
    return response;
  }
  app.post('/validate', route('validate'));
  app.post('/mutate', route('mutate'));
  // at once, whatever waits: a recovery is under way
  app.post('/break-glass', (request, reply) => {
    const body = request.body as Body | undefined;
    if (body === undefined) throw refusal('WW_CONTENT_TYPE');
    reply.send(ready(reply, passBreakGlass(options, body.text)));
  });
}

function healthRoutes(app: FastifyInstance, { ready, doubts = () => [] }: ServerOptions, lifecycle: Lifecycle): void {
  app.get('/healthz', (_request, reply) => {
    say(reply, 200, 'ok\n');
  });
  app.get('/readyz', (_request, reply) => {
    const more = () =>
      doubts()
        .map(line => `${line}\n`)
        .join('');
    if (lifecycle.draining) say(reply, 503, 'shutting down\n');
    else if (ready()) say(reply, 200, `ok\n${more()}`);
    else say(reply, 503, `the mesh is not known yet\n${more()}`);
  });
}

function metricsRoute(app: FastifyInstance, { metrics }: ServerOptions): void {
  app.get('/metrics', async (_request, reply) => {
    reply.header('content-type', metrics.contentType);
    return metrics.text();
  });
}

/** Everything that goes wrong is answered from the catalogue. */
function errors(app: FastifyInstance, options: ServerOptions, patience: Patience, posted: readonly string[]): void {
  app.setErrorHandler((error, _request, reply) => {
    const known = catalogued(error);
    note(options, known, error);
    if (known.code === 'WW_TOO_LARGE' || known.code === 'WW_BUSY') partSlowly(reply, patience.farewell);
    say(reply, known.statusCode, errorLine(known));
  });
  app.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?', 1);
    if (request.method === 'POST' || !posted.includes(path)) throw refusal('WW_NOT_FOUND');
    reply.header('allow', 'POST');
    throw refusal('WW_METHOD');
  });
}

function say(reply: FastifyReply, status: number, line: string): void {
  reply.code(status).headers({ 'content-type': LINE_TYPE, 'x-content-type-options': 'nosniff' }).send(line);
}

function note({ logs, metrics }: ServerOptions, known: RefusedRequest, error: unknown): void {
  metrics.refused(known.code);
  if (known.code === 'WW_INTERNAL') logs.logger.error({ code: known.code, err: error }, 'a request failed');
  else logs.logger.warn({ code: known.code }, known.message);
}

/**
 * Nothing more is read, and what was not read is in the way: closing at once would reset the connection, and the answer would be
 * lost on the way. So our half is closed, and the other one after a moment.
 */
function partSlowly({ raw }: FastifyReply, moment: number): void {
  const { socket, req } = raw;
  if (socket === null) return;
  // the first read tells Node that somebody cares for the body, or it would read all of it to throw it away
  req.read(0);
  req.pause();
  socket.destroySoon = () => {
    socket.end();
    destroyAfter(socket, moment);
  };
}

/** A URL that cannot be decoded. */
function refuseUrl(options: ServerOptions) {
  return (error: Error, _request: FastifyRequest, reply: FastifyReply): void => {
    const known = refusal('WW_NOT_FOUND');
    note(options, known, error);
    say(reply, known.statusCode, errorLine(known));
  };
}

/** What no request could be made of. */
function refuseConnection(options: ServerOptions, moment: number) {
  return (error: NodeJS.ErrnoException, stream: Duplex): void => {
    const socket = stream as Socket;
    const { code = '' } = error;
    const http = code.startsWith('HPE_') || code === 'ERR_HTTP_REQUEST_TIMEOUT';
    if (!http || !socket.writable) {
      // no handshake, or nobody there any more: what is written now would wait for one
      if (code !== 'ECONNRESET') options.logs.logger.debug({ code }, 'a connection failed');
      socket.destroy();
      return;
    }
    const known = refusal(BY_NODE[code] ?? 'WW_BAD_REQUEST');
    note(options, known, error);
    const line = errorLine(known);
    socket.write(
      `HTTP/1.1 ${known.statusCode} ${STATUS_CODES[known.statusCode]}\r\ncontent-type: ${LINE_TYPE}\r\n` +
        `content-length: ${Buffer.byteLength(line)}\r\nconnection: close\r\n\r\n${line}`,
    );
    socket.destroySoon();
    destroyAfter(socket, moment);
  };
}

const BY_NODE: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'WW_HEADERS',
  ERR_HTTP_REQUEST_TIMEOUT: 'WW_SLOW',
};

/** For a peer who does not take what was written to him. */
function destroyAfter(socket: Socket, moment: number): void {
  const timer = setTimeout(() => socket.destroy(), moment);
  socket.once('close', () => clearTimeout(timer));
}

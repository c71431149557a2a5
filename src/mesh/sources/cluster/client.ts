// A small client of the API server: one JSON request, one line-wise stream. Logging in is @kubernetes/client-node's business;
// its informers neither page nor project, which is why lists and watches are our own.
import { existsSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';

/** An answer of the API server: the status code and the JSON body (undefined where it is none). */
export interface ApiAnswer {
  readonly status: number;
  readonly body: unknown;
  /** Size of the body in bytes. */
  readonly bytes: number;
  /** Warnings of the API server and of webhooks, as kubectl shows them. */
  readonly warnings: readonly string[];
  /** The API server's clock, in milliseconds since 1970; NaN where it does not tell. */
  readonly date: number;
}

/** The texts of `Warning` headers (RFC 9111 before its last edition: `299 - "text"`, with `\` before quotes). */
function warningsIn(header: string | undefined): readonly string[] {
  return [...(header ?? '').matchAll(/\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) =>
    text.replace(/\\(.)/g, '$1'),
  );
}

export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path with query, such as `/api/v1/namespaces?limit=200`. */
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
  /** Milliseconds until the request is given up. Default 10,000. */
  readonly timeout?: number;
}

export interface KubeClient {
  /** Where it talks to, for messages. */
  readonly server: string;
  /** Rejects with one line where there is no answer at all; every status code is an answer. */
  request(request: ApiRequest): Promise<ApiAnswer>;
  /**
   * Opens a watch and calls `onLine` with each line. Resolves with the status code once the stream has ended; rejects where the
   * connection broke. `onOpen` is called once the server has accepted (200).
   */
  stream(
    path: string,
    accept: string,
    onOpen: () => void,
    onLine: (line: string) => void,
    signal: AbortSignal,
  ): Promise<number>;
}

export interface ConnectOptions {
  /** A kubeconfig file; default: the pod's service account, else KUBECONFIG or ~/.kube/config, as kubectl does. */
  readonly kubeconfig?: string;
  readonly context?: string;
}

async function read(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function parsed(buffer: Buffer): unknown {
  try {
    return JSON.parse(buffer.toString('utf8')) as unknown;
  } catch {
    return undefined;
  }
}

/** Connects as kubectl would. Throws one line where no cluster is configured. */
export async function connect(options: ConnectOptions = {}): Promise<KubeClient> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  if (options.kubeconfig !== undefined) {
    if (!existsSync(options.kubeconfig)) throw new Error(`there is no kubeconfig ${options.kubeconfig}`);
    config.loadFromFile(options.kubeconfig);
  } else config.loadFromDefault();
  if (options.context !== undefined) config.setCurrentContext(options.context);
  const cluster = config.getCurrentCluster();
  if (cluster === null)
    throw new Error('no cluster is configured: give --kubeconfig FILE, or run in a pod with a service account');
  const base = new URL(cluster.server);
  const agents = new Map<string, Agent>();

  async function open(
    method: string,
    path: string,
    headers: Record<string, string>,
  ): Promise<ReturnType<typeof httpsRequest>> {
    const secure: RequestOptions = { headers };
    // each time anew: tokens of service accounts and of exec plugins change
    await config.applyToHTTPSOptions(secure);
    const tls = {
      ca: secure.ca,
      cert: secure.cert,
      key: secure.key,
      servername: secure.servername,
      rejectUnauthorized: secure.rejectUnauthorized,
    };
    const identity = JSON.stringify([String(secure.cert ?? ''), String(secure.ca ?? ''), secure.rejectUnauthorized]);
    let agent = agents.get(identity);
    if (agent === undefined) {
      for (const old of agents.values()) old.destroy();
      agents.clear();
      agent = new Agent({
        keepAlive: true,
        maxSockets: 128,
        ...Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined)),
      });
      agents.set(identity, agent);
    }
    const prefix = base.pathname === '/' ? '' : base.pathname.replace(/\/$/, '');
    const target = {
      host: base.hostname.replace(/^\[|\]$/g, ''),
      port: base.port || (base.protocol === 'http:' ? 80 : 443),
      path: prefix + path,
      method,
    };
    if (base.protocol === 'http:') return httpRequest({ ...target, headers: secure.headers });
    return httpsRequest({ ...target, headers: secure.headers, auth: secure.auth, agent });
  }

  return {
    server: cluster.server,
    async request({
      method = 'GET',
      path,
      body,
      contentType = 'application/json',
      accept = 'application/json',
      timeout = 10_000,
    }) {
      const payload =
        body === undefined ? undefined : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
      const request = await open(method, path, {
        accept,
        'user-agent': 'waywarden',
        ...(payload === undefined ? {} : { 'content-type': contentType, 'content-length': String(payload.length) }),
      });
      return new Promise<ApiAnswer>((done, fail) => {
        const timer = setTimeout(
          () => request.destroy(new Error(`no answer from ${cluster.server} within ${timeout} ms`)),
          timeout,
        );
        const failed = (error: Error) => {
          clearTimeout(timer);
          fail(new Error(`${method} ${path.split('?')[0]}: ${error.message}`));
        };
        request.on('error', failed);
        request.on('response', response => {
          read(response).then(buffer => {
            clearTimeout(timer);
            done({
              status: response.statusCode ?? 0,
              body: parsed(buffer),
              bytes: buffer.length,
              warnings: warningsIn(response.headers.warning),
              date: Date.parse(response.headers.date ?? ''),
            });
          }, failed);
        });
        request.end(payload);
      });
    },
    async stream(path, accept, onOpen, onLine, signal) {
      const request = await open('GET', path, { accept, 'user-agent': 'waywarden' });
      return new Promise<number>((done, fail) => {
        const stop = () => request.destroy();
        if (signal.aborted) stop();
        signal.addEventListener('abort', stop, { once: true });
        const settled = () => signal.removeEventListener('abort', stop);
        request.on('error', error => {
          settled();
          fail(error);
        });
        request.on('response', response => {
          const status = response.statusCode ?? 0;
          if (status === 200) onOpen();
          let rest = '';
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => {
            const lines = (rest + chunk).split('\n');
            rest = lines.pop() ?? '';
            if (status === 200) for (const line of lines) if (line !== '') onLine(line);
          });
          response.on('error', error => {
            settled();
            fail(error);
          });
          response.on('close', () => {
            settled();
            done(status);
          });
        });
        request.end();
      });
    },
  };
}

import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';

/** As much of a Kubernetes object as the harness needs to know. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    deletionTimestamp?: string;
    ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
  };
}

export interface Answer {
  status: number;
  body: unknown;
}

export interface WatchEvent<T extends KubeObject> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: T;
}

/** A small client of one API server: plain requests, lists and watches as one user. */
export interface Api {
  /** Sends a request and gives its answer, whatever its status. */
  send(method: string, path: string, body?: unknown, contentType?: string): Promise<Answer>;
  /** Like `send`, but a status of 400 or more is an error with a `status`, unless it is among `allow`. */
  call<T>(method: string, path: string, body?: unknown, options?: { type?: string; allow?: number[] }): Promise<T>;
  /**
   * Lists, then watches, for as long as it takes: after any break it lists again, telling what was deleted meanwhile.
   * Resolves after the first list with a function that ends it.
   */
  follow<T extends KubeObject>(path: string, onEvent: (event: WatchEvent<T>) => void): Promise<() => void>;
  /** The same API server for another user. */
  as(user: string, ...groups: string[]): Api;
  close(): void;
}

export interface ApiError extends Error {
  status: number;
}

export const mergePatch = 'application/merge-patch+json';
export const applyPatch = 'application/apply-patch+yaml';

function failure(method: string, path: string, answer: Answer): ApiError {
  const body = answer.body as { message?: string } | undefined;
  const error = new Error(`${method} ${path}: ${answer.status} ${body?.message ?? JSON.stringify(answer.body)}`);
  return Object.assign(error, { status: answer.status });
}

async function text(response: IncomingMessage): Promise<string> {
  let all = '';
  for await (const chunk of response.setEncoding('utf8')) all += chunk;
  return all;
}

export interface Access {
  server: string;
  /** PEM of the authority that signed the API server's certificate. */
  ca: string;
  token: string;
}

export function connect({ server, ca, token }: Access): Api {
  const agent = new Agent({ keepAlive: true, ca, maxSockets: 32 });
  // Watches hold their connection, so they must not take those of the requests.
  const watchAgent = new Agent({ keepAlive: false, ca });

  function client(impersonate: Record<string, string | string[]>): Api {
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json', ...impersonate };

    function open(method: string, path: string, body: unknown, type: string, via: Agent): Promise<IncomingMessage> {
      const payload = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
      return new Promise((resolve, reject) => {
        const sent = httpsRequest(
          server + path,
          {
            method,
            agent: via,
            headers:
              payload === undefined
                ? headers
                : { ...headers, 'content-type': type, 'content-length': Buffer.byteLength(payload) },
          },
          resolve,
        );
        sent.on('error', reject);
        sent.end(payload);
      });
    }

    async function send(method: string, path: string, body?: unknown, type = 'application/json'): Promise<Answer> {
      const response = await open(method, path, body, type, agent);
      const answer = await text(response);
      const isJson = response.headers['content-type']?.startsWith('application/json');
      return { status: response.statusCode ?? 0, body: isJson ? JSON.parse(answer) : answer };
    }

    return {
      send,
      async call<T>(method: string, path: string, body?: unknown, options: { type?: string; allow?: number[] } = {}) {
        const answer = await send(method, path, body, options.type);
        if (answer.status >= 400 && !options.allow?.includes(answer.status)) throw failure(method, path, answer);
        return answer.body as T;
      },
      follow: (path, onEvent) => follow(send, p => open('GET', p, undefined, '', watchAgent), path, onEvent),
      as: (user, ...groups) =>
        client({ 'impersonate-user': user, ...(groups.length ? { 'impersonate-group': groups } : {}) }),
      close() {
        agent.destroy();
        watchAgent.destroy();
      },
    };
  }
  return client({});
}

interface List<T> {
  metadata: { resourceVersion: string };
  items: T[];
}

async function follow<T extends KubeObject>(
  send: Api['send'],
  open: (path: string) => Promise<IncomingMessage>,
  path: string,
  onEvent: (event: WatchEvent<T>) => void,
): Promise<() => void> {
  let ended = false;
  let current: IncomingMessage | undefined;
  const known = new Map<string, T>();
  const key = (object: T) => `${object.metadata.namespace ?? ''}/${object.metadata.name}`;
  const tell = (event: WatchEvent<T>) => {
    if (event.type === 'DELETED') known.delete(key(event.object));
    else known.set(key(event.object), event.object);
    onEvent(event);
  };

  async function list(): Promise<string> {
    const answer = await send('GET', path);
    if (answer.status !== 200) throw failure('GET', path, answer);
    const { items, metadata } = answer.body as List<T>;
    const present = new Set(items.map(key));
    for (const [each, object] of known) if (!present.has(each)) tell({ type: 'DELETED', object });
    for (const object of items) {
      const before = known.get(key(object));
      if (before?.metadata.resourceVersion !== object.metadata.resourceVersion) {
        tell({ type: before ? 'MODIFIED' : 'ADDED', object });
      }
    }
    return metadata.resourceVersion;
  }

  async function watch(since: string): Promise<void> {
    const query = path.includes('?') ? '&' : '?';
    const response = await open(`${path}${query}watch=1&resourceVersion=${since}`);
    current = response;
    if (response.statusCode !== 200) throw new Error(`watch of ${path}: ${await text(response)}`);
    let partial = '';
    for await (const chunk of response.setEncoding('utf8')) {
      const lines = (partial + chunk).split('\n');
      partial = lines.pop() ?? '';
      for (const line of lines) {
        const event = JSON.parse(line) as { type: string; object: T };
        if (event.type === 'ERROR') return;
        if (!ended) tell(event as WatchEvent<T>);
      }
    }
  }

  let since = await list();
  const loop = async () => {
    while (!ended) {
      try {
        await watch(since);
      } catch {
        // The server went away: listing again, below, tells when it is back.
      }
      for (let pause = 50; !ended; pause = Math.min(pause * 2, 500)) {
        await new Promise(resolve => setTimeout(resolve, pause).unref());
        if (ended) return;
        try {
          since = await list();
          break;
        } catch {
          // not back yet
        }
      }
    }
  };
  void loop();
  return () => {
    ended = true;
    current?.destroy();
  };
}

// A guard on real sockets for tests: its own CA, ports of its own, and policies small enough to know by heart.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as z from 'zod';
import type { Guard } from '../../src/admission/judge.ts';
import { localCertificate } from '../../src/admission/localca.ts';
import { type ServeOptions, type Serving, startServing } from '../../src/admission/serve.ts';
import { definePolicy, PAUSE, type Policy } from '../../src/engine/policy.ts';
import { DEFAULT_SETTINGS, type Settings } from '../../src/engine/settings.ts';
import { createStore } from '../../src/mesh/store.ts';
import { type LogLevel, type Logs, logsInto } from '../../src/telemetry/logs.ts';

/** Judges Services by a label: what a test asks for is what it gets. */
export const ASKED = definePolicy({
  id: 'asked',
  title: 'Finds what the label `ask` of a Service asks for',
  subjects: ['Service'],
  reads: [],
  findings: {
    refused: { action: 'deny', seen: ['mutate', 'validate'], doc: 'asked to refuse' },
    doubtful: { action: 'warn', seen: ['mutate', 'validate'], doc: 'asked to warn' },
    repaired: { action: 'warn', seen: ['mutate'], doc: 'asked to repair' },
  },
  options: z.object({}),
  *check(subject, { mesh, stage }) {
    const ask = subject.labels['ask'];
    const common = { key: 'ask', fix: 'remove the label ask', evidence: [] };
    if (ask === 'deny') yield { ...common, finding: 'refused', effect: 'the label asks for a refusal' };
    if (ask === 'warn') yield { ...common, finding: 'doubtful', effect: 'the label asks for a warning' };
    if (ask === 'throw') throw new Error('thrown as asked');
    if (ask === 'wait') for (;;) yield PAUSE;
    if (ask === 'pause') {
      const end = performance.now() + 600;
      while (performance.now() < end) yield PAUSE;
      yield { ...common, finding: 'doubtful', effect: 'the label asks for patience' };
    }
    if (ask === 'crowd') {
      for (const { name } of mesh.list('Namespace')) yield { ...common, key: name, finding: 'doubtful', effect: name };
    }
    if (ask === 'patch' && stage === 'mutate') {
      yield {
        ...common,
        finding: 'repaired',
        effect: 'the label asks for a repair',
        patch: [{ op: 'add', path: '/metadata/labels/mended~1by', value: 'waywarden' }],
      };
    }
    if (ask === 'bad-patch' && stage === 'mutate') {
      yield {
        ...common,
        finding: 'repaired',
        effect: 'the label asks for a repair that cannot be',
        patch: [{ op: 'add', path: '/spec/not/there', value: 1 }],
      };
    }
  },
  *affected({ before, after }) {
    // a search for what a deletion leaves behind, which never ends
    if (before?.labels['ask'] === 'wait' && after === undefined) for (;;) yield PAUSE;
  },
});

/** Another one beside it, to see that the failure of one leaves the other alone. */
export const SECOND = definePolicy({
  id: 'second',
  title: 'Warns about Services with the label `second`',
  subjects: ['Service'],
  reads: [],
  findings: { seen: { action: 'deny', seen: ['mutate', 'validate'], doc: 'has the label' } },
  options: z.object({}),
  *check(subject) {
    if (subject.labels['second'] === undefined) return;
    yield { finding: 'seen', key: 'second', effect: 'it has the label second', fix: 'remove it', evidence: [] };
  },
  *affected() {},
});

export function guardOf(settings: Partial<Settings> = {}, policies: readonly Policy[] = [ASKED, SECOND]): Guard {
  return { policies, settings: { ...DEFAULT_SETTINGS, ...settings }, mesh: createStore({ complete: () => true }) };
}

export interface LoggedLine {
  readonly level: string;
  readonly msg?: string;
  readonly [key: string]: unknown;
}

export interface Running extends Serving, AsyncDisposable {
  readonly ca: string;
  readonly folder: string;
  readonly lines: readonly LoggedLine[];
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  health(path: string): Promise<Answer>;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface Review {
  readonly kind: string;
  readonly apiVersion: string;
  readonly response: {
    readonly uid: string;
    readonly allowed: boolean;
    readonly warnings?: readonly string[];
    readonly status?: { readonly code: number; readonly reason: string; readonly message: string };
    readonly patchType?: string;
    readonly patch?: string;
  };
}

/** The AdmissionReview of an answer. */
export const reviewIn = ({ text }: Answer): Review => JSON.parse(text) as Review;

/** Logs whose lines a test can read. */
export function capturedLogs(level: LogLevel = 'debug'): { readonly logs: Logs; readonly lines: LoggedLine[] } {
  const lines: LoggedLine[] = [];
  return { lines, logs: logsInto({ write: line => lines.push(JSON.parse(line) as LoggedLine) }, level) };
}

const folders = new Map<string, Promise<string>>();

/** A folder with a CA and a leaf, made once for a test file. */
function sharedFolder(): Promise<string> {
  const known = folders.get('certs');
  if (known !== undefined) return known;
  const made = mkdtemp(join(tmpdir(), 'waywarden-certs-'));
  folders.set('certs', made);
  process.once('exit', () => void made.then(folder => rm(folder, { recursive: true, force: true })));
  return made;
}

/** Starts a guard on ports of its own; `await using` closes it. */
export async function serve(options: Partial<ServeOptions> = {}): Promise<Running> {
  const folder = await sharedFolder();
  const { logs, lines } = capturedLogs();
  const certificate = options.certificate ?? (await localCertificate(folder));
  const guard = guardOf();
  const serving = await startServing({
    guard: () => guard,
    logs,
    linger: 0,
    grace: 2000,
    listen: { host: '127.0.0.1', port: 0 },
    health: { host: '127.0.0.1', port: 0 },
    ...options,
    certificate,
  });
  const ca = serving.caFile === undefined ? '' : await readFile(serving.caFile, 'utf8');
  const agent = new Agent({ keepAlive: true, ca });
  return {
    ...serving,
    ca,
    folder,
    lines,
    post: (path, body, headers = {}) =>
      send(serving.port, path, {
        agent,
        body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        headers: { 'content-type': 'application/json', ...headers },
      }),
    async health(path) {
      const response = await fetch(`http://127.0.0.1:${serving.healthPort}${path}`);
      return { status: response.status, headers: Object.fromEntries(response.headers), text: await response.text() };
    },
    async close() {
      await serving.close();
      agent.destroy();
    },
    async [Symbol.asyncDispose]() {
      await serving.close();
      agent.destroy();
    },
  };
}

export interface Sent {
  readonly agent?: Agent;
  readonly ca?: string;
  readonly method?: string;
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One HTTPS request. */
export function send(port: number, path: string, sent: Sent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { agent, ca, method = 'POST', body = '', headers = {} } = sent;
    const outgoing = httpsRequest(
      { host: '127.0.0.1', port, path, method, headers, ...(agent === undefined ? { agent: false, ca } : { agent }) },
      response => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
        response.on('error', reject);
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

export interface Asked {
  readonly ask?: string;
  readonly uid?: string;
  readonly name?: string;
  readonly operation?: string;
  readonly dryRun?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly object?: Readonly<Record<string, unknown>>;
}

/** The review of a Service with the label `ask`. */
export function reviewOf({ ask, uid, name = 'orders', operation = 'CREATE', dryRun, labels, object }: Asked = {}) {
  const kind = { group: '', version: 'v1', kind: 'Service' };
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop', labels: { ...(ask === undefined ? {} : { ask }), ...labels } },
    spec: { ports: [{ port: 80 }] },
    ...object,
  };
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: uid ?? 'a6a8f2ca-8a0f-4a9c-9ac5-3a0cbf9f7d10',
      kind,
      requestKind: kind,
      resource: { group: '', version: 'v1', resource: 'services' },
      name,
      namespace: 'shop',
      operation,
      userInfo: { username: 'ann', groups: ['system:authenticated'] },
      object: operation === 'DELETE' ? null : service,
      oldObject: operation === 'DELETE' ? service : null,
      ...(dryRun === undefined ? {} : { dryRun }),
    },
  };
}

/** Collects garbage now, for tests that count memory. */
export function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

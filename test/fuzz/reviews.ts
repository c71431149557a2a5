// Reviews of every shape against every policy: each must be answered with a valid AdmissionReview or a 4xx, in time, without a
// crash, without an internal error and without memory that grows.
//
//   npm run fuzz -- --runs 100000 --seed 1
import { readFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { policies } from '../../policies/index.ts';
import { patched } from '../../src/admission/judge.ts';
import { localCertificate } from '../../src/admission/localca.ts';
import { reviewSchema } from '../../src/admission/request.ts';
import { startServing } from '../../src/admission/serve.ts';
import { createServer } from '../../src/admission/server.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { text as asText, at } from '../../src/kube/json.ts';
import { splitGroupKind } from '../../src/kube/kind.ts';
import type { PatchOperation } from '../../src/kube/patch.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { createFileMesh } from '../../src/mesh/sources/files.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { capturedLogs, garbageCollector, send } from '../server/serving.ts';
import { corpus } from './corpus.ts';
import { type Mutation, mutated, mutatedText, mutation, type TextMutation, textMutation, textOf } from './mutations.ts';

/** Milliseconds: what the URL says, and by which each answer must be there. */
const TIMEOUT = 5000;
const MIB = 1024 * 1024;

interface Situation {
  readonly object: number;
  readonly old: number | undefined;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';
  readonly webhook: 'mutate' | 'validate';
  /** Mutations of the object, of the old object (where there is one it is the same object otherwise) and of the whole review. */
  readonly ofObject: readonly Mutation[];
  readonly ofOld: readonly Mutation[];
  readonly ofReview: readonly Mutation[];
  readonly ofText: readonly TextMutation[];
  /** Over a real socket; else through the same handler in this process. */
  readonly socket: boolean;
}

const rarely = <T>(arbitrary: fc.Arbitrary<T>, weight: number) =>
  fc.oneof(
    { weight: 100 - weight, arbitrary: fc.constant<readonly T[]>([]) },
    { weight, arbitrary: fc.array(arbitrary, { minLength: 1, maxLength: 3 }) },
  );

function situations(objects: number, socketShare: number): fc.Arbitrary<Situation> {
  return fc.record({
    object: fc.nat(objects - 1),
    old: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.nat(objects - 1) }),
    operation: fc.constantFrom('CREATE', 'CREATE', 'UPDATE', 'UPDATE', 'DELETE', 'CONNECT'),
    webhook: fc.constantFrom('mutate', 'validate'),
    ofObject: fc.array(mutation, { maxLength: 5 }),
    ofOld: rarely(mutation, 50),
    ofReview: rarely(mutation, 15),
    ofText: rarely(textMutation, 15),
    socket: fc.oneof(
      { weight: 1000 - Math.round(socketShare * 1000), arbitrary: fc.constant(false) },
      { weight: Math.round(socketShare * 1000), arbitrary: fc.constant(true) },
    ),
  });
}

const all = (value: unknown, mutations: readonly Mutation[]) =>
  mutations.reduce<unknown>((current, mutation) => mutated(current, mutation), value);

/** The body of a situation. */
function bodyOf(situation: Situation, objects: readonly unknown[]): string {
  const { operation } = situation;
  const original = objects[situation.object];
  const object = all(original, situation.ofObject);
  const old = situation.old === undefined ? all(original, situation.ofOld) : objects[situation.old];
  const identity = identify(original);
  const { group, kind } = splitGroupKind(identity?.kind ?? 'Pod');
  const names = { group, version: identity?.version ?? 'v1', kind };
  const review = {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: '0d8c9d3e-6b0c-4c5f-9f5d-6f7f3a8d3c11',
      kind: names,
      requestKind: names,
      resource: { group, version: names.version, resource: `${kind.toLowerCase()}s` },
      name: identity?.name,
      namespace: identity?.namespace,
      operation,
      userInfo: { username: 'fuzz', groups: ['system:authenticated'] },
      object: operation === 'DELETE' ? null : object,
      oldObject: operation === 'UPDATE' || operation === 'DELETE' ? old : null,
      dryRun: false,
      options: null,
    },
  };
  return situation.ofText.reduce(mutatedText, textOf(all(review, situation.ofReview)));
}

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

function fail(what: string): never {
  throw new Error(what);
}

const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** Throws where the answer is not what the contract says. */
function judgeAnswer(body: string, webhook: Situation['webhook'], { status, type, text }: Reply): void {
  if (status !== 200) {
    if (status < 400 || status > 499) fail(`status ${status}: ${text.slice(0, 200)}`);
    if (!type.startsWith('text/plain') || !/^WW_\w+: [^\n]+\n$/.test(text)) fail(`not one line of text: ${text}`);
  }
  if (Buffer.byteLength(body) > 8 * MIB) {
    if (status !== 413) fail(`more than 8 MiB was answered with ${status}`);
    return;
  }
  let sent: unknown;
  try {
    sent = JSON.parse(Buffer.from(body).toString());
  } catch {
    if (status !== 400) fail(`no JSON was answered with ${status}`);
    return;
  }
  const parsed = reviewSchema.safeParse(sent);
  if (parsed.success !== (status === 200))
    fail(`a review that is ${parsed.success ? 'well formed' : 'none'} got ${status}`);
  if (!parsed.success) return;
  if (!type.startsWith('application/json')) fail(`content type ${type}`);
  const answer = JSON.parse(text) as unknown;
  if (at(answer, 'apiVersion') !== 'admission.k8s.io/v1' || at(answer, 'kind') !== 'AdmissionReview') fail(text);
  const response = (key: string) => at(answer, 'response', key);
  if (response('uid') !== parsed.data.request.uid) fail('another uid');
  const allowed = response('allowed');
  if (typeof allowed !== 'boolean') fail('neither allowed nor denied');
  if (!allowed) {
    if (at(answer, 'response', 'status', 'code') !== 403) fail('a denial without code 403');
    if (at(answer, 'response', 'status', 'reason') !== 'Forbidden') fail('a denial without its reason');
    const message = asText(at(answer, 'response', 'status', 'message')) ?? '';
    if (message.length === 0 || !message.isWellFormed()) fail(`a denial that says ${JSON.stringify(message)}`);
    if (CONTROL.test(message.replaceAll('\n', ''))) fail('a denial with control characters');
  }
  const warnings = (response('warnings') ?? []) as readonly string[];
  let total = 0;
  for (const warning of warnings) {
    const length = [...warning].length;
    total += length;
    if (length === 0 || length > 256) fail(`a warning of ${length} characters`);
    if (CONTROL.test(warning) || !warning.isWellFormed()) fail(`control characters in ${JSON.stringify(warning)}`);
  }
  if (total > 2000) fail(`${total} characters of warnings`);
  const patch = asText(response('patch'));
  if ((patch === undefined) !== (response('patchType') === undefined))
    fail('a patch without its type, or a type alone');
  if (patch === undefined) return;
  if (webhook !== 'mutate' || !allowed) fail('a patch where none may be');
  patched(parsed.data.request.object, JSON.parse(Buffer.from(patch, 'base64').toString()) as PatchOperation[]);
}

export interface FuzzOptions {
  readonly runs: number;
  readonly seed: number;
  /** The part that goes over a real socket. */
  readonly socketShare?: number;
  /** Told now and then how far it is. */
  readonly progress?: (done: number) => void;
}

export interface FuzzResult {
  readonly runs: number;
  readonly overSockets: number;
  readonly answers: Readonly<Record<string, number>>;
  /** Milliseconds. */
  readonly slowest: number;
  /** Bytes that the heap grew by between the first tenth and the end, after collecting garbage. */
  readonly heapGrowth: number;
}

/** Runs the fuzzer; rejects with the smallest counterexample where an answer is not what it must be. */
export async function fuzz({ runs, seed, socketShare = 0.05, progress }: FuzzOptions): Promise<FuzzResult> {
  const { objects, state } = corpus();
  const mesh = createFileMesh({ controlPlanes: [] });
  for (const object of state) {
    const identity = identify(object);
    if (identity !== undefined) mesh.put(project(identity.kind, identity.namespace, object));
  }
  const guard = () => ({ policies, settings: DEFAULT_SETTINGS, mesh });
  const { logs, lines } = capturedLogs('error');
  const certificate = await localCertificate(join(tmpdir(), 'waywarden-fuzz-certs'));
  const address = { host: '127.0.0.1', port: 0 };
  const options = { guard, logs, certificate, listen: address, health: address, linger: 0 };
  const serving = await startServing(options);
  const here = createServer({ ...options, tls: certificate.pair, ready: () => true, metrics: createMetrics() });
  const ca = await readFile(certificate.caFile ?? '', 'utf8');
  const agent = new Agent({ keepAlive: true, ca, maxSockets: 4 });
  const headers = { 'content-type': 'application/json' };

  async function ask({ webhook, socket }: Situation, body: string): Promise<Reply> {
    const path = `/${webhook}?timeout=${TIMEOUT}ms`;
    if (socket) {
      const { status, headers: got, text } = await send(serving.port, path, { agent, body, headers });
      return { status, type: got['content-type'] ?? '', text };
    }
    const got = await here.webhook.inject({ method: 'POST', url: path, payload: body, headers });
    return { status: got.statusCode, type: String(got.headers['content-type']), text: got.payload };
  }

  const collect = garbageCollector();
  const answers: Record<string, number> = {};
  let done = 0;
  let overSockets = 0;
  let slowest = 0;
  let heapEarly = 0;
  const heap = (): number => {
    lines.length = 0;
    collect();
    return process.memoryUsage().heapUsed;
  };
  const property = fc.asyncProperty(situations(objects.length, socketShare), async situation => {
    const body = bodyOf(situation, objects);
    const started = performance.now();
    const reply = await ask(situation, body);
    const took = performance.now() - started;
    slowest = Math.max(slowest, took);
    if (took >= TIMEOUT) fail(`${Math.round(took)} ms`);
    judgeAnswer(body, situation.webhook, reply);
    const [failed] = lines.splice(0);
    if (failed !== undefined) fail(`an internal error: ${JSON.stringify(failed, undefined, 2)}`);
    const verdict =
      reply.status !== 200
        ? reply.text.split(':', 1)[0]
        : reply.text.includes('"allowed":false')
          ? 'deny'
          : reply.text.includes('"warnings":[')
            ? 'warn'
            : 'allow';
    answers[verdict ?? ''] = (answers[verdict ?? ''] ?? 0) + 1;
    done += 1;
    if (situation.socket) overSockets += 1;
    if (done === Math.ceil(runs / 10)) heapEarly = heap();
    if (done % 5000 === 0) progress?.(done);
  });
  try {
    await fc.assert(property, { numRuns: runs, seed, endOnFailure: false });
    return { runs: done, overSockets, answers, slowest, heapGrowth: heap() - heapEarly };
  } finally {
    agent.destroy();
    await serving.close();
    await here.webhook.close();
    await here.health.close();
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '100000' },
      seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    },
  });
  const seed = Number(values.seed);
  process.stderr.write(`seed ${seed}\n`);
  const result = await fuzz({
    runs: Number(values.runs),
    seed,
    progress: count => process.stderr.write(`${count}\n`),
  });
  console.log(JSON.stringify({ seed, ...result, heapGrowthMiB: Math.round(result.heapGrowth / MIB) }, undefined, 2));
  if (result.heapGrowth > 64 * MIB) fail('the heap has grown');
}

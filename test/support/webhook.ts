// A running webhook, asked over HTTPS as the API server asks it: mutate, apply the patch, validate what came out.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Guard } from '../../src/admission/judge.ts';
import { patched } from '../../src/admission/judge.ts';
import { localCertificate } from '../../src/admission/localca.ts';
import type { AdmissionRequest } from '../../src/admission/request.ts';
import { startServing } from '../../src/admission/serve.ts';
import { at, list, record, text, texts } from '../../src/kube/json.ts';
import type { PatchOperation } from '../../src/kube/patch.ts';
import { createLogs } from '../../src/telemetry/logs.ts';

export interface Answered {
  readonly verdict: 'allow' | 'warn' | 'deny';
  readonly warnings: readonly string[];
  readonly message: string;
  readonly patch: readonly PatchOperation[];
}

export interface RunningWebhook {
  /** What an answer to any body is. */
  post(path: string, body: string, contentType?: string): Promise<{ readonly status: number; readonly body: string }>;
  /** The worse of /mutate's answer and of /validate's on the patched object. */
  ask(guard: Guard, request: AdmissionRequest): Promise<Answered>;
  close(): Promise<void>;
}

function answerIn({ status, body }: { readonly status: number; readonly body: string }, uid: string): Answered {
  if (status !== 200) throw new Error(`${status}: ${body}`);
  const review: unknown = JSON.parse(body);
  const response = record(at(review, 'response'));
  if (at(review, 'apiVersion') !== 'admission.k8s.io/v1' || response?.['uid'] !== uid)
    throw new Error(`no answer: ${body}`);
  const warnings = texts(response['warnings']);
  const patch = text(response['patch']);
  if (patch !== undefined && response['patchType'] !== 'JSONPatch') throw new Error(`a patch of no type: ${body}`);
  return {
    verdict: response['allowed'] === true ? (warnings.length > 0 ? 'warn' : 'allow') : 'deny',
    warnings,
    message: text(at(response, 'status', 'message')) ?? '',
    patch:
      patch === undefined
        ? []
        : (list(JSON.parse(Buffer.from(patch, 'base64').toString())) as readonly PatchOperation[]),
  };
}

/** Starts a webhook on free ports with a certificate of its own. */
export async function runWebhook(guard: Guard): Promise<RunningWebhook> {
  const folder = mkdtempSync(join(tmpdir(), 'waywarden-webhook-'));
  const certificate = await localCertificate(folder);
  const serving = await startServing({
    guard: () => guard,
    certificate,
    logs: createLogs({ level: 'silent' }),
    listen: { host: '127.0.0.1', port: 0 },
    health: { host: '127.0.0.1', port: 0 },
    linger: 0,
  });
  const ca = readFileSync(serving.caFile ?? '');
  const agent = new Agent({ keepAlive: true, ca, maxSockets: 4 });

  const post: RunningWebhook['post'] = (path, body, contentType = 'application/json') =>
    new Promise((resolve, reject) => {
      const sent = httpsRequest(
        {
          agent,
          host: 'localhost',
          port: serving.port,
          path,
          method: 'POST',
          headers: { 'content-type': contentType, 'content-length': Buffer.byteLength(body) },
        },
        response => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('end', () =>
            resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() }),
          );
        },
      );
      sent.on('error', reject);
      sent.end(body);
    });

  const send = async (path: string, request: AdmissionRequest) =>
    answerIn(
      await post(
        `${path}?timeout=10s`,
        JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request }),
      ),
      request.uid,
    );

  return {
    post,
    async ask(next, request) {
      serving.replaceGuard(() => next);
      const first = await send('/mutate', request);
      if (first.verdict === 'deny') return first;
      const second = await send('/validate', { ...request, object: patched(request.object, first.patch) });
      const warnings = [...new Set([...first.warnings, ...second.warnings])];
      const verdict = second.verdict === 'allow' && warnings.length > 0 ? 'warn' : second.verdict;
      return { verdict, warnings, message: second.message, patch: first.patch };
    },
    async close() {
      agent.destroy();
      await serving.close();
      rmSync(folder, { recursive: true });
    },
  };
}

// What a check of the doctor comes to: what is so, and what to do about it.
import { text } from '../../kube/json.ts';
import type { ApiAnswer, ApiRequest, KubeClient } from '../../mesh/sources/cluster/client.ts';
import type { Installation } from '../cluster.ts';

export interface Symptom {
  /** `fail`: the guard does not guard, or stands in the way. `warn`: it will, or might. `unknown`: it could not be looked at. */
  readonly level: 'ok' | 'warn' | 'fail' | 'unknown';
  readonly about: string;
  readonly found: string;
  /** What to do, as a command where there is one. */
  readonly repair?: string;
}

/** What every check is given. */
export interface Patient extends Installation {
  readonly client: KubeClient;
}

export const WEBHOOKS = '/apis/admissionregistration.k8s.io/v1';
export const COLLECTIONS = {
  ValidatingWebhookConfiguration: `${WEBHOOKS}/validatingwebhookconfigurations`,
  MutatingWebhookConfiguration: `${WEBHOOKS}/mutatingwebhookconfigurations`,
} as const;

/** An answer of the API server: the object, undefined where it is not there, or why it could not be read. */
export type Looked = { readonly object: unknown } | { readonly why: string };

export function saidIn({ status, body }: ApiAnswer): string {
  return text((body as { readonly message?: unknown } | undefined)?.message) ?? `the API server answered ${status}`;
}

export async function look(client: KubeClient, request: ApiRequest | string): Promise<Looked> {
  const answer = await client.request(typeof request === 'string' ? { path: request } : request);
  if (answer.status === 404) return { object: undefined };
  return answer.status < 300 ? { object: answer.body } : { why: saidIn(answer) };
}

// One object by its name: read, then watched, and read anew whenever the watch ends, fails or falls silent.
import { setTimeout as sleep } from 'node:timers/promises';
import { at, text } from '../../kube/json.ts';
import type { KubeClient } from '../../mesh/sources/cluster/client.ts';

export interface FollowOptions {
  /** The collection, such as `/api/v1/namespaces/waywarden/secrets`. */
  readonly collection: string;
  readonly name: string;
  readonly signal: AbortSignal;
  /** Seconds after which it is read anew in any case. */
  readonly every: number;
  /** Told what could not be done; told undefined once it could. */
  readonly trouble: (reason: string | undefined) => void;
}

/** Calls `seen` with each state of the object; with undefined where it is not there. */
export async function followObject(
  client: KubeClient,
  { collection, name, signal, every, trouble }: FollowOptions,
  seen: (object: unknown) => void,
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      const { status, body } = await client.request({ path: `${collection}/${encodeURIComponent(name)}` });
      if (status !== 200 && status !== 404) throw new Error(refusal(status, body));
      trouble(undefined);
      seen(status === 200 ? body : undefined);
      if (status === 404) {
        await sleep(2_000, undefined, { signal });
        continue;
      }
      await watchOnce(client, { collection, name, signal, every }, text(at(body, 'metadata', 'resourceVersion')), seen);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      trouble(`${collection}/${name}: ${error instanceof Error ? error.message : String(error)}`);
      failures += 1;
      const pause = Math.min(5_000, 100 * 2 ** Math.min(failures, 10));
      await sleep(pause * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {});
    }
  }
}

async function watchOnce(
  client: KubeClient,
  { collection, name, signal, every }: Omit<FollowOptions, 'trouble'>,
  version: string | undefined,
  seen: (object: unknown) => void,
): Promise<void> {
  // with the name as field selector, a right on this one name is enough
  const query = `watch=1&fieldSelector=metadata.name%3D${encodeURIComponent(name)}&resourceVersion=${version ?? ''}&timeoutSeconds=${every}`;
  // a connection that died without a word is given up a little after the server would have ended it
  const silent = AbortSignal.timeout(every * 1_000 + 5_000);
  const broken = new AbortController();
  try {
    const status = await client.stream(
      `${collection}?${query}`,
      'application/json',
      () => {},
      line => {
        const event = parsed(line);
        const type = text(at(event, 'type'));
        if (type === 'ERROR' || type === undefined) broken.abort();
        else if (type === 'DELETED') seen(undefined);
        else if (type !== 'BOOKMARK') seen(at(event, 'object'));
      },
      AbortSignal.any([signal, silent, broken.signal]),
    );
    if (status !== 200) throw new Error(`the API server answered ${status} to a watch`);
  } catch (error) {
    if (!silent.aborted && !broken.signal.aborted) throw error;
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

/** One line for an answer that is none of those expected. */
export function refusal(status: number, body: unknown): string {
  return text(at(body, 'message')) ?? `the API server answered ${status}`;
}

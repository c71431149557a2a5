// Keeps one kind of a cluster in the store: lists it in pages, then watches, and never believes a silence.
import { performance } from 'node:perf_hooks';
import { setImmediate as breathe } from 'node:timers/promises';
import { at, record, records, same, text } from '../../../kube/json.ts';
import { type GroupKind, refKey } from '../../../kube/kind.ts';
import type { Meta } from '../../kinds/meta.ts';
import type { Store } from '../../store.ts';
import type { KubeClient } from './client.ts';

/**
 * `waiting`: not listed yet. `synced`: listed and watched. `absent`: the API server does not serve it. `forbidden`: we may not
 * list it. `failing`: the last attempt failed; what was known before is kept.
 */
export type KindState = 'waiting' | 'synced' | 'absent' | 'forbidden' | 'failing';

export interface KindStatus {
  readonly kind: GroupKind;
  readonly state: KindState;
  /** True once everything of the kind has been listed, or it is known to be absent. */
  readonly synced: boolean;
  /** Milliseconds since the last sign of life of its watch; Infinity before the first. */
  readonly age: number;
  readonly objects: number;
  /** Bytes received in the last list and since. */
  readonly bytes: number;
  /** What went wrong last, in one line. */
  readonly error?: string;
}

export interface Timing {
  /** Seconds that a watch is asked for. The API server sends a bookmark two seconds before its end, which proves the cache fresh. */
  readonly watchSeconds: number;
  /** Milliseconds of silence after which a watch is reopened and the kind listed anew. */
  readonly idleLimit: number;
  /** Milliseconds between two attempts for a kind that is absent or forbidden. */
  readonly retryAbsent: number;
  /** Longest pause between two attempts after failures, in milliseconds. */
  readonly backoffLimit: number;
}

export const TIMING: Timing = Object.freeze({
  watchSeconds: 40,
  idleLimit: 50_000,
  retryAbsent: 30_000,
  backoffLimit: 5_000,
});

export interface ReflectorOptions {
  readonly kind: GroupKind;
  readonly client: KubeClient;
  readonly store: Store;
  /** The collection's path where it is served; undefined where it is not. Asked before every list. */
  readonly path: () => Promise<string | undefined>;
  /**
   * Whether something says that the kind is served, such as its CRD: then an answer that it is not is a passing fault (a
   * CRD that is not established yet, an API server that is starting) and nothing is forgotten.
   */
  readonly expected?: () => boolean;
  /** Query that narrows the collection, such as `labelSelector=app%3Distiod`. */
  readonly query?: string;
  /** Asks for metadata alone (PartialObjectMetadata). */
  readonly metadataOnly?: boolean;
  readonly project: (object: unknown) => Meta;
  /** Which stored objects of the kind this reflector answers for; others it neither writes nor deletes. */
  readonly owns?: (object: Meta) => boolean;
  /** Called after each change of the store. */
  readonly changed?: (before: Meta | undefined, after: Meta | undefined) => void;
  readonly timing?: Timing;
}

export interface Reflector {
  readonly kind: GroupKind;
  status(): KindStatus;
  /** Resolves after the first list, or once the kind is known to be absent or forbidden. */
  readonly first: Promise<void>;
  /** Ends the pause after a failure or an absence: something says that it is worth a try. */
  wake(): void;
  stop(): void;
}

const PAGE = 250;
const METADATA_LIST = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const METADATA = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

/** How often in a row a kind must be refused before it is taken for gone: some three seconds. */
const BELIEVED = 5;

/** Half to all of a time, so that many clients do not come back together. */
const jittered = (milliseconds: number) => milliseconds * (0.5 + Math.random() / 2);

/** Thrown where the list must be made anew: the version is gone (410), or the watch fell silent. */
class Expired extends Error {}

export function reflect(options: ReflectorOptions): Reflector {
  const { kind, client, store, project, owns = () => true, timing = TIMING } = options;
  const stopped = new AbortController();
  let state: KindState = 'waiting';
  let synced = false;
  let lastSign = Number.NEGATIVE_INFINITY;
  let objects = 0;
  let bytes = 0;
  let error: string | undefined;
  let wakeUp: (() => void) | undefined;
  let firstDone: () => void = () => {};
  const first = new Promise<void>(done => {
    firstDone = done;
  });

  const alive = () => {
    lastSign = performance.now();
  };

  function put(object: unknown): string {
    const after = project(object);
    const key = refKey(after);
    if (!owns(after)) return key;
    const before = store.object(after);
    if (before !== undefined && same(before, after)) return key;
    store.put(after);
    if (before === undefined) objects += 1;
    options.changed?.(before, after);
    return key;
  }

  function remove(object: Meta): void {
    const before = store.object(object);
    if (before === undefined || !owns(before)) return;
    store.delete(object);
    objects -= 1;
    options.changed?.(before, undefined);
  }

  const mine = () => [...store.list(kind as never)].filter(object => owns(object as Meta)) as Meta[];

  /** Lists everything; returns the resource version to watch from. */
  async function list(path: string): Promise<string> {
    const seen = new Set<string>();
    let next: string | undefined;
    let version = '';
    let received = 0;
    do {
      const query = [
        `limit=${PAGE}`,
        options.query,
        next === undefined ? undefined : `continue=${encodeURIComponent(next)}`,
      ];
      const answer = await client.request({
        path: `${path}?${query.filter(part => part !== undefined).join('&')}`,
        accept: options.metadataOnly === true ? `${METADATA_LIST},application/json` : 'application/json',
        timeout: 30_000,
      });
      if (answer.status === 410) throw new Expired('the list took too long');
      if (answer.status === 404) throw Object.assign(new Error('not served'), { state: 'absent' as const });
      if (answer.status === 403 || answer.status === 401)
        throw Object.assign(new Error(text(at(answer.body, 'message')) ?? 'not allowed'), {
          state: 'forbidden' as const,
        });
      if (answer.status !== 200) throw new Error(`the API server answered ${answer.status}`);
      received += answer.bytes;
      let sinceBreath = performance.now();
      for (const item of records(at(answer.body, 'items'))) {
        seen.add(put(item));
        if (performance.now() - sinceBreath > 4) {
          await breathe();
          sinceBreath = performance.now();
        }
      }
      version = text(at(answer.body, 'metadata', 'resourceVersion')) ?? version;
      next = text(at(answer.body, 'metadata', 'continue')) || undefined;
      await breathe();
    } while (next !== undefined && !stopped.signal.aborted);
    for (const object of mine()) if (!seen.has(refKey(object))) remove(object);
    objects = mine().length;
    bytes = received;
    return version;
  }

  /** Watches from a version until the server ends it; returns the version reached. */
  async function watch(path: string, from: string): Promise<string> {
    let version = from;
    let failure: Error | undefined;
    const silent = new AbortController();
    const giveUp = AbortSignal.any([stopped.signal, silent.signal]);
    let idle = setTimeout(() => silent.abort(), timing.idleLimit);
    const heard = () => {
      alive();
      clearTimeout(idle);
      idle = setTimeout(() => silent.abort(), timing.idleLimit);
    };
    const seconds = Math.max(1, Math.round(timing.watchSeconds * (0.85 + Math.random() * 0.15)));
    const query = [
      'watch=1',
      'allowWatchBookmarks=true',
      `resourceVersion=${from}`,
      `timeoutSeconds=${seconds}`,
      options.query,
    ];
    try {
      const status = await client.stream(
        `${path}?${query.filter(part => part !== undefined).join('&')}`,
        options.metadataOnly === true ? `${METADATA},application/json` : 'application/json',
        heard,
        line => {
          heard();
          bytes += line.length;
          let event: unknown;
          try {
            event = JSON.parse(line);
          } catch {
            failure = new Error('the API server sent a line that is no JSON');
            return;
          }
          const object = at(event, 'object');
          switch (at(event, 'type')) {
            case 'ADDED':
            case 'MODIFIED':
              put(object);
              break;
            case 'DELETED':
              if (record(object) !== undefined) remove(project(object));
              break;
            case 'BOOKMARK':
              break;
            default:
              failure =
                at(object, 'code') === 410
                  ? new Expired('the version is gone')
                  : new Error(text(at(object, 'message')) ?? 'the watch failed');
              return;
          }
          version = text(at(object, 'metadata', 'resourceVersion')) ?? version;
        },
        giveUp,
      );
      if (failure !== undefined) throw failure;
      if (status === 410) throw new Expired('the version is gone');
      if (status === 404) throw Object.assign(new Error('no longer served'), { state: 'absent' as const });
      if (status === 403 || status === 401)
        throw Object.assign(new Error('not allowed to watch'), { state: 'forbidden' as const });
      if (status !== 200) throw new Error(`the API server answered ${status}`);
      if (silent.signal.aborted) throw new Expired('the watch fell silent');
      return version;
    } catch (thrown) {
      if (silent.signal.aborted) throw new Expired('the watch fell silent');
      throw thrown;
    } finally {
      clearTimeout(idle);
    }
  }

  function pause(milliseconds: number): Promise<void> {
    return new Promise(done => {
      const end = () => {
        clearTimeout(timer);
        stopped.signal.removeEventListener('abort', end);
        done();
      };
      const timer = setTimeout(end, jittered(milliseconds));
      wakeUp = end;
      stopped.signal.addEventListener('abort', end, { once: true });
    });
  }

  async function absent(): Promise<void> {
    state = 'absent';
    synced = true;
    alive();
    for (const object of mine()) remove(object);
    firstDone();
    await pause(timing.retryAbsent);
  }

  async function run(): Promise<void> {
    let failures = 0;
    /** How often in a row a kind that was there was not served, or not allowed. */
    let refused = 0;
    let served = false;
    let version: string | undefined;
    /** Grows up to the pause for kinds that are really absent or forbidden. */
    const refusedPause = () => Math.min(timing.retryAbsent, 200 * 2 ** refused);
    while (!stopped.signal.aborted) {
      try {
        const path = await options.path();
        if (path === undefined) throw Object.assign(new Error('not served'), { state: 'absent' as const });
        if (version === undefined) {
          version = await list(path);
          synced = true;
        }
        state = 'synced';
        refused = 0;
        served = true;
        error = undefined;
        alive();
        firstDone();
        const reached: string = await watch(path, version);
        version = reached;
        failures = 0;
      } catch (thrown) {
        if (stopped.signal.aborted) return;
        error = thrown instanceof Error ? thrown.message : String(thrown);
        const told = (thrown as { state?: KindState }).state;
        // an API server that starts answers 404 and 403 for a while: what was there is not gone before it was said a few times
        const believed = !served || refused >= BELIEVED;
        if (told === 'absent' && options.expected?.() !== true && believed) {
          version = undefined;
          served = false;
          error = undefined;
          await absent();
        } else if (told === 'forbidden') {
          state = 'forbidden';
          if (believed) synced = false;
          version = undefined;
          firstDone();
          refused += 1;
          await pause(refusedPause());
        } else if (thrown instanceof Expired) {
          version = undefined;
        } else {
          if (told === 'absent') {
            version = undefined;
            refused += 1;
          }
          state = 'failing';
          failures += 1;
          await pause(Math.min(timing.backoffLimit, 100 * 2 ** Math.min(failures, 10)));
        }
      }
    }
  }
  void run();

  return {
    kind,
    first,
    status: () => ({
      kind,
      state,
      synced,
      age: performance.now() - lastSign,
      objects,
      bytes,
      ...(error === undefined ? {} : { error }),
    }),
    wake: () => wakeUp?.(),
    stop: () => stopped.abort(),
  };
}

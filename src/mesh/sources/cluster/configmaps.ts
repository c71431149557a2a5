// ConfigMaps are read by name and on demand: Istio's own, and those that other objects refer to. Those with defaults for a class of
// Gateways have no name that is known: they are listed by their label, in the namespaces in which istiod looks for them. Never all of them.
import { performance } from 'node:perf_hooks';
import { at, records, same } from '../../../kube/json.ts';
import { type ObjectRef, refKey } from '../../../kube/kind.ts';
import { project } from '../../kinds.ts';
import type { Store } from '../../store.ts';
import type { KubeClient } from './client.ts';

export interface ConfigMaps {
  /** Reads these anew. Resolves with false where one could not be read (it stays as it was). */
  refresh(refs: readonly ObjectRef[], timeout: number): Promise<boolean>;
  /** Whether this name was asked for, so that its absence is a fact. */
  known(ref: ObjectRef): boolean;
  /** Reads all that is wanted, and forgets what no longer is. */
  round(): Promise<void>;
  /** Reads the defaults of classes anew. */
  refreshDefaults(): Promise<void>;
  /** True once those with defaults for a class of Gateways are known too. */
  defaultsKnown(): boolean;
  /** Milliseconds since every wanted ConfigMap was read last. */
  age(): number;
  stop(): void;
}

/** Milliseconds between two readings of every ConfigMap that is wanted. */
const EVERY = 20_000;
/** The same for Istio's own, which are few and decide about the whole mesh. */
const OFTEN = 1_000;

/** Which ConfigMaps are wanted, at the moment. */
export interface Wanted {
  all(): readonly ObjectRef[];
  /** Those of them that are Istio's own. */
  few(): readonly ObjectRef[];
  /** Namespaces in which istiod looks for the defaults of a class. */
  roots(): readonly string[];
}

const DEFAULTS = 'gateway.istio.io/defaults-for-class';

export function watchConfigMaps(client: KubeClient, store: Store, wanted: Wanted): ConfigMaps {
  const asked = new Set<string>();
  let lastRound = performance.now();
  let defaultsRead = false;

  function take(namespace: string, body: unknown): void {
    const found = project('ConfigMap', namespace, body);
    const before = store.object(found);
    if (before === undefined || !same(before, found)) store.put(found);
  }

  /** Reads the defaults of classes; the keys of what there is, undefined where they may not be listed. */
  async function readDefaults(): Promise<ReadonlySet<string> | undefined> {
    const found = new Set<string>();
    for (const namespace of wanted.roots()) {
      const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps?labelSelector=${encodeURIComponent(DEFAULTS)}`;
      const answer = await client.request({ path, timeout: 5_000 }).catch(() => undefined);
      if (answer?.status !== 200) return undefined;
      for (const item of records(at(answer.body, 'items'))) {
        take(namespace, item);
        found.add(refKey({ kind: 'ConfigMap', namespace, name: String(at(item, 'metadata', 'name')) }));
      }
    }
    return found;
  }

  async function refreshDefaults(): Promise<void> {
    const found = await readDefaults();
    defaultsRead = found !== undefined;
    if (found === undefined) return;
    for (const configMap of [...store.list('ConfigMap')]) {
      if (configMap.labels[DEFAULTS] !== undefined && !found.has(refKey(configMap))) store.delete(configMap);
    }
  }

  async function readOne(ref: ObjectRef, timeout: number): Promise<boolean> {
    try {
      const { status, body } = await client.request({
        path: `/api/v1/namespaces/${encodeURIComponent(ref.namespace)}/configmaps/${encodeURIComponent(ref.name)}`,
        timeout,
      });
      if (status === 404) store.delete(ref);
      else if (status === 200) take(ref.namespace, body);
      else return false;
      asked.add(refKey(ref));
      return true;
    } catch {
      return false;
    }
  }

  const refresh = async (refs: readonly ObjectRef[], timeout: number) => {
    const read = await Promise.all(
      refs.filter(ref => ref.name !== '' && ref.namespace !== '').map(ref => readOne(ref, timeout)),
    );
    return read.every(Boolean);
  };

  async function round(): Promise<void> {
    const refs = wanted.all();
    const defaults = await readDefaults();
    defaultsRead = defaults !== undefined;
    const names = new Set([...refs.map(refKey), ...(defaults ?? [])]);
    for (const configMap of [...store.list('ConfigMap')]) if (!names.has(refKey(configMap))) store.delete(configMap);
    for (const key of asked) if (!names.has(key)) asked.delete(key);
    let good = true;
    for (let from = 0; from < refs.length; from += 8) good = (await refresh(refs.slice(from, from + 8), 5_000)) && good;
    if (good) lastRound = performance.now();
  }

  let reading = false;
  const timers = [
    setInterval(() => void round(), EVERY),
    setInterval(() => {
      if (reading) return;
      reading = true;
      // those of classes too: whoever writes them writes their Gateways next
      const both = Promise.all([refresh(wanted.few(), 5_000), refreshDefaults()]);
      void both.finally(() => {
        reading = false;
      });
    }, OFTEN),
  ];
  for (const timer of timers) timer.unref();
  return {
    refresh,
    round,
    refreshDefaults,
    defaultsKnown: () => defaultsRead,
    known: ref => asked.has(refKey(ref)),
    age: () => performance.now() - lastRound,
    stop() {
      for (const timer of timers) clearInterval(timer);
    },
  };
}

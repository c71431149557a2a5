// ConfigMaps are read by name and on demand: Istio's own, and those that other objects refer to. Never all of them.
import { performance } from 'node:perf_hooks';
import { same } from '../../../kube/json.ts';
import { type ObjectRef, refKey } from '../../../kube/kind.ts';
import { project } from '../../kinds.ts';
import type { Store } from '../../store.ts';
import type { KubeClient } from './client.ts';

export interface ConfigMaps {
  /** Reads these anew. Resolves with false where one could not be read (it stays as it was). */
  refresh(refs: readonly ObjectRef[], timeout: number): Promise<boolean>;
  /** Whether this name was asked for, so that its absence is a fact. */
  known(ref: ObjectRef): boolean;
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
}

export function watchConfigMaps(client: KubeClient, store: Store, wanted: Wanted): ConfigMaps {
  const asked = new Set<string>();
  let lastRound = performance.now();

  async function readOne(ref: ObjectRef, timeout: number): Promise<boolean> {
    try {
      const { status, body } = await client.request({
        path: `/api/v1/namespaces/${encodeURIComponent(ref.namespace)}/configmaps/${encodeURIComponent(ref.name)}`,
        timeout,
      });
      if (status === 404) store.delete(ref);
      else if (status === 200) {
        const found = project('ConfigMap', ref.namespace, body);
        const before = store.object(ref);
        if (before === undefined || !same(before, found)) store.put(found);
      } else return false;
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
    const names = new Set(refs.map(refKey));
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
      void refresh(wanted.few(), 5_000).finally(() => {
        reading = false;
      });
    }, OFTEN),
  ];
  for (const timer of timers) timer.unref();
  return {
    refresh,
    known: ref => asked.has(refKey(ref)),
    age: () => performance.now() - lastRound,
    stop() {
      for (const timer of timers) clearInterval(timer);
    },
  };
}

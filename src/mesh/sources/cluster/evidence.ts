// The second look before a denial, limited in rate: a client that is refused in a loop must not load the API server through us.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GroupKind, ObjectRef } from '../../../kube/kind.ts';
import type { ClusterSource, Reread } from './source.ts';

export interface EvidenceOptions {
  /** Milliseconds after the last sign of life of its watch at which a kind is too old to deny by. Default 60,000. */
  readonly limit?: number;
  /** Objects read again a second, at most. Default 100. */
  readonly perSecond?: number;
}

/** What `confirm.ts` asks of a live cluster. */
export function createEvidence(source: ClusterSource, { limit = 60_000, perSecond = 100 }: EvidenceOptions = {}) {
  let tokens = perSecond;
  let filled = performance.now();
  return {
    age: () =>
      Math.max(
        0,
        ...source
          .status()
          .filter(({ state }) => state === 'synced')
          .map(({ age }) => age),
      ),
    doubtful: (kinds: Iterable<GroupKind>): readonly GroupKind[] => source.freshness(kinds, limit).doubtful,
    async reread(refs: readonly ObjectRef[], timeout: number): Promise<Reread> {
      const until = performance.now() + timeout;
      for (;;) {
        const now = performance.now();
        tokens = Math.min(perSecond, tokens + ((now - filled) * perSecond) / 1000);
        filled = now;
        if (tokens >= refs.length) break;
        if (now >= until) return 'failed';
        await sleep(Math.min(until - now, (1000 * refs.length) / perSecond));
      }
      tokens -= refs.length;
      return source.reread(refs, Math.max(1, until - performance.now()));
    },
    prepareDefaults: (): Promise<void> => source.prepareDefaults(),
    prepare: (refs: readonly ObjectRef[], timeout: number): Promise<void> => source.prepare(refs, timeout),
  };
}

import { type Balancer, startBalancer } from './balancer.ts';
import { type ServeOptions, type Serving, startServe } from './serve.ts';

export interface Replicas {
  /** Where the Service in front of them listens. */
  port: number;
  balancer: Balancer;
  /** Those that run now, oldest first. */
  list(): Serving[];
  /** Replaces every replica as a Deployment with maxSurge 1 and maxUnavailable 0 does: one new, then one old less. */
  roll(options?: Partial<ServeOptions>): Promise<void>;
  /** Starts one more. */
  add(options?: Partial<ServeOptions>): Promise<Serving>;
  /** Ends one: no new connections first, as when a pod leaves its Service, and the signal right after. */
  remove(serving: Serving, signal?: NodeJS.Signals): Promise<number | string>;
  stop(): Promise<void>;
}

/** Several `waywarden serve` behind one balancer, started at the same moment. It ends with them, also where it was there before. */
export async function startReplicas(count: number, options: ServeOptions, before?: Balancer): Promise<Replicas> {
  const balancer = before ?? (await startBalancer());
  let all: Serving[] = [];
  const route = () => balancer.use(all.map(each => each.ports.https));

  const add: Replicas['add'] = async more => {
    const serving = await startServe({ ...options, ...more });
    all.push(serving);
    route();
    return serving;
  };
  const removeOne: Replicas['remove'] = async (serving, signal = 'SIGTERM') => {
    all = all.filter(each => each !== serving);
    route();
    return serving.stop(signal);
  };
  const stop = async () => {
    await Promise.all(all.map(each => each.stop('SIGKILL')));
    await balancer.stop();
  };

  const started = await Promise.allSettled(Array.from({ length: count }, () => add()));
  const failed = started.find(each => each.status === 'rejected');
  if (failed) {
    await stop();
    throw failed.reason;
  }
  return {
    port: balancer.port,
    balancer,
    list: () => [...all],
    async roll(more) {
      for (const old of [...all]) {
        await add(more);
        await removeOne(old);
      }
    },
    add,
    remove: removeOne,
    stop,
  };
}

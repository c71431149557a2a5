import { join } from 'node:path';
import { binary } from './binaries.ts';
import type { Cluster } from './cluster.ts';
import { type Output, run } from './process.ts';

/** Runs helm against a cluster to its end, with none of this machine's repositories and plugins. */
export async function helm(cluster: Cluster, ...args: string[]): Promise<Output> {
  const home = join(cluster.dir, 'helm');
  return run(await binary('helm'), args, {
    env: {
      PATH: process.env['PATH'],
      HOME: home,
      KUBECONFIG: cluster.kubeconfig,
      HELM_CACHE_HOME: join(home, 'cache'),
      HELM_CONFIG_HOME: join(home, 'config'),
      HELM_DATA_HOME: join(home, 'data'),
    },
  });
}

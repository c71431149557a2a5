// Builds the programs that the end-to-end tests and the oracle run, so that no test has to wait for it.
// usage: node test/harness/build.ts [all | kubernetes | istio | helm]…
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ensureSet, type SetName, setFolder, setNames } from './binaries.ts';

const groups: Record<string, SetName[]> = {
  all: setNames,
  kubernetes: ['etcd', 'kubernetes'],
  istio: ['istio-1.31', 'istio-1.30'],
  helm: ['helm'],
};

/** With KUBEBUILDER_ASSETS etcd need not be built; Kubernetes must, since no controller manager comes with those. */
function given(set: SetName): boolean {
  const assets = process.env['KUBEBUILDER_ASSETS'];
  return set === 'etcd' && assets !== undefined && existsSync(join(assets, 'etcd'));
}

const asked = process.argv.slice(2);
for (const name of asked.length ? asked : ['all']) {
  const sets = groups[name] ?? setNames.filter(set => set === name);
  if (sets.length === 0) {
    console.error(`nothing is called ${name}; there are ${[...Object.keys(groups), ...setNames].join(', ')}`);
    process.exit(2);
  }
  for (const set of sets) {
    if (given(set)) continue;
    try {
      await ensureSet(set, console.log);
    } catch (error) {
      console.error(error instanceof Error ? error.message : error);
      process.exit(1);
    }
    console.log(`${set}: ${setFolder(set)}`);
  }
}

// Our model of Istio against the real istiod, over random meshes.
// usage: npm run oracle -- [--meshes 100] [--seed 1] [--istio 1.31] [--batch 30] [--keep]
import { parseArgs } from 'node:util';
import { stringify } from 'yaml';
import { at, records } from '../../src/kube/json.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { createStore } from '../../src/mesh/store.ts';
import type { IstioMinor } from '../harness/binaries.ts';
import { type Cluster, startCluster } from '../harness/cluster.ts';
import { installCrds } from '../harness/crds.ts';
import { type Istiod, startIstiod } from '../harness/istio.ts';
import { type Manifest, sendObjects } from '../harness/objects.ts';
import { compare, type Difference } from './compare.ts';
import { type Observation, observe } from './observe.ts';
import { part, type Situation, situation } from './situation.ts';

const { values } = parseArgs({
  options: {
    meshes: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    istio: { type: 'string', default: '1.31' },
    batch: { type: 'string', default: '30' },
    shrink: { type: 'boolean', default: true },
  },
  allowNegative: true,
});
const MESHES = Number(values.meshes);
const SEED = Number(values.seed);
const BATCH = Number(values.batch);

/** What istiod and the nodes are told, in turns: each batch stands on the next. */
const SETTINGS: readonly {
  readonly name: string;
  readonly env: Record<string, string>;
  readonly kubelets: readonly string[];
}[] = [
  { name: 'native sidecars by themselves', env: {}, kubelets: ['v1.36.3'] },
  { name: 'native sidecars off', env: { ENABLE_NATIVE_SIDECARS: 'false' }, kubelets: ['v1.36.3'] },
  { name: 'one old node', env: {}, kubelets: ['v1.36.3', 'v1.32.4'] },
  { name: 'native sidecars forced', env: { ENABLE_NATIVE_SIDECARS: 'true' }, kubelets: ['v1.36.3', 'v1.32.4'] },
];

/** What stands in the cluster beside the meshes: istiod, its webhooks and settings, nodes, classes, CRDs. */
const SURROUNDINGS = [
  '/apis/apps/v1/namespaces/istio-system/deployments',
  '/apis/apps/v1/namespaces/istio-system/daemonsets',
  '/api/v1/namespaces/istio-system/configmaps',
  '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
  '/apis/gateway.networking.k8s.io/v1/gatewayclasses',
  '/api/v1/nodes',
] as const;
const KIND_OF: Readonly<Record<string, string>> = {
  deployments: 'apps/v1 Deployment',
  daemonsets: 'apps/v1 DaemonSet',
  configmaps: 'v1 ConfigMap',
  mutatingwebhookconfigurations: 'admissionregistration.k8s.io/v1 MutatingWebhookConfiguration',
  gatewayclasses: 'gateway.networking.k8s.io/v1 GatewayClass',
  nodes: 'v1 Node',
};

async function surroundings(cluster: Cluster): Promise<readonly Manifest[]> {
  const lists = await Promise.all(
    SURROUNDINGS.map(async path => {
      const [apiVersion, kind] = (KIND_OF[path.slice(path.lastIndexOf('/') + 1)] ?? '').split(' ');
      return records(at((await cluster.api.send('GET', path)).body, 'items')).map(
        item => ({ ...item, apiVersion, kind }) as unknown as Manifest,
      );
    }),
  );
  return lists.flat();
}

interface Run {
  readonly situation: Situation;
  readonly asked: number;
  /** istiod's answers, as `Kind: question: answer`. */
  readonly answers: readonly string[];
  readonly differences: readonly Difference[];
}

/** Sends meshes side by side, waits until istiod has made up its mind, compares, and lets the namespaces go. */
async function run(cluster: Cluster, istiod: Istiod, situations: readonly Situation[]): Promise<readonly Run[]> {
  const accounts = (name: string): Manifest => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'default', namespace: name },
  });
  const objects = situations.flatMap(({ objects: own }) => own);
  const namespaces = objects.filter(({ kind }) => kind === 'Namespace');
  const outcomes = await sendObjects(
    cluster.api,
    [...objects, ...namespaces.map(({ metadata }) => accounts(metadata.name))],
    { how: 'create', parallel: 12 },
  );
  const refused = new Set(
    outcomes
      .filter(({ status, object }) => status >= 400 && object.kind !== 'ServiceAccount')
      .map(({ object }) => object),
  );
  const around = await surroundings(cluster);
  const seen = await observe(cluster.api, istiod);
  const runs = situations.map(one => ({ situation: one, ...judged(one, around, seen, refused) }));
  // nobody waits for them: a namespace takes five seconds to go
  await sendObjects(cluster.api, namespaces, { how: 'delete', parallel: 12 });
  return runs;
}

function judged(one: Situation, around: readonly Manifest[], seen: Observation, refused: ReadonlySet<Manifest>) {
  const there = one.objects.filter(object => !refused.has(object));
  const store = createStore({ complete: kind => kind !== 'Namespace' });
  for (const object of [...around, ...there]) {
    const identity = identify(object);
    if (identity === undefined) continue;
    // the status of a Gateway is istiod's to give; pods are judged as they were sent, before any proxy was put into them
    const stored =
      object.kind === 'Gateway' ? seen.stored.get(`Gateway/${identity.namespace}/${identity.name}`) : undefined;
    store.put(
      project(
        identity.kind,
        identity.namespace,
        stored === undefined ? object : { ...object, status: stored['status'] },
      ),
    );
  }
  return compare(store, there, seen);
}

/** Takes objects away as long as a difference about the same question stays; all candidates of a round side by side. */
async function shrink(cluster: Cluster, istiod: Istiod, found: Run): Promise<Run> {
  const question = (difference: Difference) => difference.about.replace(/^(\S+) \S+-([ab])/, '$1 $2');
  const wanted = new Set(found.differences.map(question));
  let smallest = found;
  let kept = found.situation.objects.map((_object, index) => index);
  for (let round = 0; round < 12; round += 1) {
    const candidates = kept.map((leave, index) =>
      part(found.situation, `s${round}x${index}m${found.situation.seed}`, at => kept.includes(at) && at !== leave),
    );
    const runs = await run(cluster, istiod, candidates);
    const better = runs.findIndex(({ differences }) =>
      differences.some(difference => wanted.has(question(difference))),
    );
    if (better < 0) break;
    smallest = runs[better] as Run;
    kept = kept.filter((_kept, index) => index !== better);
  }
  return smallest;
}

function printed({ situation: one, differences }: Run): string {
  const told = differences.map(({ about, model, istio }) => `  ${about}: the model says ${model}, istiod ${istio}`);
  return [`seed ${one.seed}:`, ...told, one.objects.map(object => stringify(object)).join('---\n')].join('\n');
}

/** How often each answer was given to each question: an oracle that hears only one answer proves nothing. */
const answers = new Map<string, number>();
let tried = 0;
let asked = 0;
let differing = 0;
const cluster = await startCluster({ nodes: [] });
try {
  await installCrds(cluster, { gatewayApi: '1.6.1', channel: 'experimental', istio: values.istio, inference: true });
  let istiod: Istiod | undefined;
  let nodes: readonly string[] = [];
  for (let batch = 0; tried < MESHES; batch += 1) {
    const settings = SETTINGS[batch % SETTINGS.length];
    if (settings === undefined) break;
    for (const node of nodes) await cluster.kubelet.removeNode(node);
    nodes = settings.kubelets.map((_version, index) => `node-${index}`);
    for (const [index, version] of settings.kubelets.entries())
      await cluster.kubelet.addNode({ name: `node-${index}`, version });
    await istiod?.stop();
    istiod = await startIstiod(cluster, { version: values.istio as IstioMinor, env: settings.env });
    const size = Math.min(BATCH, MESHES - tried);
    const situations = Array.from({ length: size }, (_, index) =>
      situation(SEED + tried + index, `m${SEED + tried + index}`),
    );
    const runs = await run(cluster, istiod, situations);
    tried += size;
    asked += runs.reduce((sum, one) => sum + one.asked, 0);
    for (const one of runs) for (const answer of one.answers) answers.set(answer, (answers.get(answer) ?? 0) + 1);
    const bad = runs.filter(({ differences }) => differences.length > 0);
    differing += bad.length;
    console.log(`${tried} of ${MESHES} meshes (Istio ${values.istio}, ${settings.name}): ${bad.length} differ`);
    for (const [index, one] of bad.entries()) {
      if (index >= 3) {
        console.log(printed({ ...one, situation: { ...one.situation, objects: [] } }));
        continue;
      }
      const small = values.shrink ? await shrink(cluster, istiod, one) : one;
      console.log(printed({ ...small, situation: { ...small.situation, seed: one.situation.seed } }));
    }
  }
  await istiod?.stop();
} finally {
  await cluster.stop();
}
for (const [answer, times] of [...answers].sort()) console.log(`${String(times).padStart(7)}  ${answer}`);
console.log(
  `${asked} questions, seeds ${SEED} to ${SEED + tried - 1}: npm run oracle -- --meshes 1 --seed SEED --istio ${values.istio}`,
);
console.log(`${tried} meshes, ${differing} differences`);
process.exitCode = differing > 0 || tried < MESHES ? 1 : 0;

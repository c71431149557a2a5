// Our model of Istio against the real istiod, over random meshes and over the shared cases.
// usage: npm run oracle -- [--meshes 100] [--seed 1] [--istio 1.31] [--settings NAME] [--batch 30] [--no-shrink]
//        npm run oracle -- --cases --meshes 0 [--folder ../shared/cases] [--istio 1.31] [--settings NAME]
import { parseArgs } from 'node:util';
import { stringify } from 'yaml';
import type { IstioMinor } from '../harness/binaries.ts';
import { type Cluster, startCluster } from '../harness/cluster.ts';
import { installCrds } from '../harness/crds.ts';
import { type Istiod, startIstiod } from '../harness/istio.ts';
import { applyObjects, type Manifest } from '../harness/objects.ts';
import { caseMeshes } from './cases.ts';
import { TAIL_NAMESPACE } from './observe.ts';
import { type Bench, type Run, runAll } from './run.ts';
import { AUTHORIZER, istiodOptions, type Settings, settingsOf } from './settings.ts';
import { shrink } from './shrink.ts';
import { type Situation, situation } from './situation.ts';
import { revisionTag } from './tags.ts';
import { watchStored } from './watched.ts';
import { CLASSES } from './words/gateways.ts';

const { values } = parseArgs({
  options: {
    meshes: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    istio: { type: 'string', default: '1.31' },
    settings: { type: 'string' },
    batch: { type: 'string', default: '30' },
    cases: { type: 'boolean', default: false },
    folder: { type: 'string', default: new URL('../../../shared/cases', import.meta.url).pathname },
    shrink: { type: 'boolean', default: true },
  },
  allowNegative: true,
});
const ISTIO = values.istio as IstioMinor;
const SEED = Number(values.seed);
const MESHES = Number(values.meshes);
const BATCH = Number(values.batch);
/** Differing meshes of a batch that are shrunk; of more the differences are told. */
const SHRUNK = 3;

function printed({ situation: one, differences }: Run, title: string, small: boolean): string {
  const told = differences.map(({ about, model, istio }) => `  ${about}: the model says ${model}, istiod ${istio}`);
  const objects = small ? [one.objects.map(object => stringify(object)).join('---\n')] : [];
  return [title, ...told, ...objects].join('\n');
}

/** A cluster whose istiod is another one for each batch. */
async function prepare(cluster: Cluster) {
  const watched = await watchStored(cluster.api);
  let istiod: Istiod | undefined;
  let nodes: readonly string[] = [];
  let tags: readonly Manifest[] = [];
  return {
    async become(settings: Settings): Promise<Bench> {
      for (const node of nodes) await cluster.kubelet.removeNode(node);
      nodes = settings.kubelets.map((_version, index) => `node-${index}`);
      for (const [index, version] of settings.kubelets.entries()) {
        await cluster.kubelet.addNode({ name: `node-${index}`, version });
      }
      await istiod?.stop();
      for (const { metadata } of tags) {
        const path = `/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/${metadata.name}`;
        await cluster.api.call('DELETE', path, undefined, { allow: [404] });
      }
      istiod = await startIstiod(cluster, { version: ISTIO, ...istiodOptions(settings) });
      tags = await Promise.all((settings.tags ?? []).map(tag => revisionTag(cluster, tag)));
      await applyObjects(cluster.api, [TAIL_NAMESPACE, AUTHORIZER, ...CLASSES]);
      return { cluster, watched, istiod };
    },
    async stop(): Promise<void> {
      watched.stop();
      await istiod?.stop();
    },
  };
}

/** How often each answer was given to each question: an oracle that hears only one answer proves nothing. */
const answers = new Map<string, number>();
let tried = 0;
let asked = 0;
let differing = 0;

function count(runs: readonly Run[]): void {
  tried += runs.length;
  asked += runs.reduce((sum, one) => sum + one.asked, 0);
  for (const one of runs) for (const answer of one.answers) answers.set(answer, (answers.get(answer) ?? 0) + 1);
}

async function tell(
  runs: readonly Run[],
  settings: Settings,
  runner: (situations: readonly Situation[]) => Promise<readonly Run[]>,
) {
  const bad = runs.filter(({ differences }) => differences.length > 0);
  differing += bad.length;
  for (const [index, one] of bad.entries()) {
    const { title } = one.situation;
    const replay = title.startsWith('seed ') ? `--meshes 1 --seed ${title.slice(5)}` : '--cases --meshes 0';
    const small = values.shrink && index < SHRUNK;
    const head = `${title}: npm run oracle -- ${replay} --istio ${ISTIO} --settings ${settings.name}`;
    console.log(printed(small ? await shrink(one, runner) : one, head, small));
  }
  return bad.length;
}

const cluster = await startCluster({ nodes: [] });
try {
  await installCrds(cluster, { gatewayApi: '1.6.1', channel: 'experimental', istio: ISTIO, inference: true });
  const { become, stop } = await prepare(cluster);
  if (values.cases) {
    const settings = settingsOf(0, values.settings);
    const bench = await become(settings);
    const cases = caseMeshes(values.folder, ISTIO);
    const runner = (situations: readonly Situation[]) => runAll(bench, situations);
    const runs = await runner(cases.map(one => one.situation));
    const inputs = new Map(cases.map(one => [one.situation.title, one.input]));
    const about = runs.filter(one => (one.about.get(inputs.get(one.situation.title) ?? '') ?? 0) > 0);
    count(runs);
    const bad = await tell(runs, settings, runner);
    console.log(
      `${runs.length} cases (Istio ${ISTIO}, ${settings.name}), in ${about.length} of them asked about the input itself: ${bad} differ`,
    );
  }
  for (let done = 0, batch = 0; done < MESHES; batch += 1) {
    const started = Date.now();
    const settings = settingsOf(batch, values.settings);
    const bench = await become(settings);
    const size = Math.min(BATCH, MESHES - done);
    const situations = Array.from({ length: size }, (_, index) => situation(SEED + done + index, ISTIO));
    const runner = (some: readonly Situation[]) => runAll(bench, some);
    const runs = await runner(situations);
    done += size;
    count(runs);
    const bad = await tell(runs, settings, runner);
    const seconds = Math.round((Date.now() - started) / 1000);
    console.log(`${done} of ${MESHES} meshes (Istio ${ISTIO}, ${settings.name}, ${seconds} s): ${bad} differ`);
  }
  await stop();
} finally {
  await cluster.stop();
}
for (const [answer, times] of [...answers].sort()) console.log(`${String(times).padStart(7)}  ${answer}`);
const seeds = MESHES === 0 ? 'cases' : `seeds ${SEED} to ${SEED + MESHES - 1}`;
console.log(`${asked} questions, Istio ${ISTIO}, ${seeds}`);
console.log(`${tried} meshes, ${differing} differences`);
process.exitCode = differing > 0 ? 1 : 0;

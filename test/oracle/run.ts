// Meshes side by side in one cluster: sent, waited for, compared, and taken away.
import { setTimeout as sleep } from 'node:timers/promises';
import { at, records } from '../../src/kube/json.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { createStore } from '../../src/mesh/store.ts';
import type { Cluster } from '../harness/cluster.ts';
import type { Istiod } from '../harness/istio.ts';
import { type Manifest, sendObjects } from '../harness/objects.ts';
import { type Compared, compareOne, type Difference } from './compare/compare.ts';
import { type Observation, observe } from './observe.ts';
import type { Situation } from './situation.ts';
import type { Watched } from './watched.ts';

export interface Run extends Compared {
  readonly situation: Situation;
  /** What the API server would not have, and why. */
  readonly refused: ReadonlyMap<Manifest, string>;
}

/** What stands in the cluster beside the meshes: istiod, its webhooks and settings, nodes, classes. */
const SURROUNDINGS: readonly (readonly [path: string, apiVersion: string, kind: string])[] = [
  ['/apis/apps/v1/namespaces/istio-system/deployments', 'apps/v1', 'Deployment'],
  ['/apis/apps/v1/namespaces/istio-system/daemonsets', 'apps/v1', 'DaemonSet'],
  ['/api/v1/namespaces/istio-system/configmaps', 'v1', 'ConfigMap'],
  [
    '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
    'admissionregistration.k8s.io/v1',
    'MutatingWebhookConfiguration',
  ],
  ['/apis/gateway.networking.k8s.io/v1/gatewayclasses', 'gateway.networking.k8s.io/v1', 'GatewayClass'],
  ['/api/v1/nodes', 'v1', 'Node'],
];

/** A cluster, who watches what is stored in it, and the istiod that is there now. */
export interface Bench {
  readonly cluster: Cluster;
  readonly watched: Watched;
  readonly istiod: Istiod;
}

async function surroundings({ api }: Cluster): Promise<readonly Manifest[]> {
  const lists = await Promise.all(
    SURROUNDINGS.map(async ([path, apiVersion, kind]) =>
      records(at((await api.send('GET', path)).body, 'items')).map(
        item => ({ ...item, apiVersion, kind }) as unknown as Manifest,
      ),
    ),
  );
  return lists.flat();
}

/** Kinds that are made by istiod for Gateways, or that count by what istiod wrote into them. */
const STATUS = new Set(['Gateway']);
const DATED = new Set(['ServiceEntry', 'PeerAuthentication', 'VirtualService', 'DestinationRule']);

/** An object as a live Mesh would have it: pods and templates as they were sent, before any proxy was put into them. */
function asLive(object: Manifest, seen: Observation): Manifest {
  const stored = seen.stored.get(`${object.kind}/${object.metadata.namespace ?? ''}/${object.metadata.name}`);
  if (stored === undefined) return object;
  if (STATUS.has(object.kind)) return { ...object, status: stored['status'] };
  if (!DATED.has(object.kind)) return object;
  const { creationTimestamp } = stored.metadata as { creationTimestamp?: string };
  return { ...object, metadata: { ...object.metadata, creationTimestamp } as Manifest['metadata'] };
}

function namespaceNames({ objects }: Situation): ReadonlySet<string> {
  return new Set(objects.filter(({ kind }) => kind === 'Namespace').map(({ metadata }) => metadata.name));
}

/** What istiod made in the namespaces of a mesh: the Deployments and Services of its gateways. */
function made(names: ReadonlySet<string>, seen: Observation): readonly Manifest[] {
  return [...seen.stored.values()].filter(
    ({ kind, metadata }) =>
      (kind === 'Deployment' || kind === 'Service') &&
      names.has(metadata.namespace ?? '') &&
      metadata.labels?.['gateway.istio.io/managed'] !== undefined,
  );
}

function judged(
  one: Situation,
  around: readonly Manifest[],
  seen: Observation,
  outcomes: ReadonlyMap<Manifest, string>,
): Run {
  const refused = new Map(
    one.objects.flatMap(object => {
      const message = outcomes.get(object);
      return message === undefined ? [] : [[object, message] as const];
    }),
  );
  const names = namespaceNames(one);
  const store = createStore({ complete: () => true });
  const projected = (object: Manifest) => {
    const identity = identify(object);
    return identity === undefined ? undefined : project(identity.kind, identity.namespace, asLive(object, seen));
  };
  for (const object of [...around, ...made(names, seen), ...one.objects.filter(object => !refused.has(object))]) {
    const meta = projected(object);
    if (meta !== undefined) store.put(meta);
  }
  const answers: string[] = [];
  const differences: Difference[] = [];
  const about = new Map<string, number>();
  for (const object of one.objects) {
    const message = refused.get(object);
    const meta = message === undefined ? undefined : projected(object);
    if (meta !== undefined) store.put(meta);
    const compared = compareOne(store, object, seen, message);
    if (meta !== undefined) store.delete(meta);
    answers.push(...compared.answers);
    differences.push(...compared.differences);
    about.set(`${object.kind} ${object.metadata.namespace ?? ''}/${object.metadata.name}`, compared.answers.length);
  }
  return { situation: one, asked: answers.length, answers, differences, about, refused };
}

/** A difference has to last: istiod is looked at again after so many quiet milliseconds. */
const AGAIN = [4_000, 10_000];

/** Sends meshes side by side, waits until istiod has made up its mind, compares, and takes the objects away. */
export async function run(
  { cluster, watched, istiod }: Bench,
  situations: readonly Situation[],
): Promise<readonly Run[]> {
  const objects = situations.flatMap(({ objects: own }) => own);
  const namespaces = objects.filter(({ kind }) => kind === 'Namespace');
  const accounts = namespaces.map(
    ({ metadata }): Manifest => ({
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'default', namespace: metadata.name },
    }),
  );
  const send = (some: Manifest[]) => sendObjects(cluster.api, some, { how: 'create', parallel: 12 });
  // times are in whole seconds, and of two of one age istiod takes either
  const young = situations.flatMap(one =>
    one.objects.filter(({ kind, metadata }) => `${kind} ${metadata.name}` === one.younger),
  );
  const sent = await send([...objects.filter(object => !young.includes(object)), ...accounts]);
  if (young.length > 0) {
    await sleep(1_100);
    sent.push(...(await send(young)));
  }
  try {
    // an account may be the controller's, who was faster
    const refused = new Map(
      sent
        .filter(({ status, object }) => status >= 400 && object.kind !== 'ServiceAccount')
        .map(({ object, status, message }) => [object, `${status} ${message}`] as const),
    );
    const names = new Set(situations.flatMap(one => [...namespaceNames(one)]));
    const look = async (quiet?: number) => {
      const seen = await observe(cluster.api, watched, istiod, name => names.has(name), quiet);
      const around = await surroundings(cluster);
      return situations.map(one => judged(one, around, seen, refused));
    };
    let runs = await look();
    for (const quiet of AGAIN) {
      if (runs.every(({ differences }) => differences.length === 0)) break;
      runs = await look(quiet);
    }
    return runs;
  } finally {
    // namespaces stay: each that goes is searched for objects of every kind there is, which costs more than all the rest
    await sendObjects(
      cluster.api,
      objects.filter(({ kind }) => kind !== 'Namespace'),
      { how: 'delete', parallel: 12 },
    );
  }
}

/** The same, those that must be there by themselves one after the other. */
export async function runAll(bench: Bench, situations: readonly Situation[]): Promise<readonly Run[]> {
  const together = situations.filter(({ alone }) => !alone);
  const runs = together.length === 0 ? [] : [...(await run(bench, together))];
  for (const one of situations) if (one.alone) runs.push(...(await run(bench, [one])));
  return runs;
}

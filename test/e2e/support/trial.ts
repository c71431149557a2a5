// A case of a policy, done by somebody with kubectl.
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { at, type JsonObject, record, text } from '../../../src/kube/json.ts';
import { crdFiles } from '../../harness/crds.ts';
import { parseManifests } from '../../harness/objects.ts';
import { until } from '../../harness/wait.ts';
import { allCases, type PolicyCase } from '../../support/cases.ts';
import { ALL_CRDS, BREAK_GLASS, type Installed, type InstallOptions, install } from './installation.ts';
import { type Said, saidBy } from './said.ts';
import { createWorld, NotHeld, settled } from './world.ts';

export interface Trial {
  readonly guard: Installed;
  /** Makes the state of a case, writes its input with kubectl, and takes that away again. Says too why it could not be done. */
  tried(one: PolicyCase): Promise<Said>;
}

/** Cases that are about an admission request, those with definitions of their own together. */
export function admissionCases(): readonly PolicyCase[] {
  const crdsIn = (one: PolicyCase) =>
    JSON.stringify([...one.state, one.input].filter(({ kind }) => kind === 'CustomResourceDefinition'));
  return allCases()
    .filter(({ stage }) => stage === undefined)
    .sort((a, b) => crdsIn(a).localeCompare(crdsIn(b)));
}

/** A cluster in which states stay what they are: nobody makes pods of Deployments, and nothing is collected. */
export async function startTrial(options: InstallOptions = {}): Promise<Trial> {
  const guard = await install({
    cluster: {
      nodes: [],
      withoutControllers: [
        'deployment-controller',
        'replicaset-controller',
        'daemonset-controller',
        'statefulset-controller',
        'job-controller',
        'cronjob-controller',
        'garbage-collector-controller',
        'disruption-controller',
        'horizontal-pod-autoscaler-controller',
        'endpointslice-controller',
        'namespace-controller',
      ],
      apiServerFlags: ['--disable-admission-plugins=ServiceAccount,NamespaceLifecycle'],
    },
    ...options,
  });
  const definitions = (await crdFiles(ALL_CRDS)).flatMap(file => parseManifests(readFileSync(file, 'utf8')));
  const world = createWorld(guard.cluster.api.as('preparing', 'system:masters', BREAK_GLASS), definitions);
  const plain = record(parse(readFileSync(guard.configFile, 'utf8'))) ?? {};
  let configured = '{}';

  /** Gives the replica the configuration of a case, and waits until it holds. */
  async function configure(config: JsonObject | undefined): Promise<void> {
    const wanted = JSON.stringify(config ?? {});
    if (wanted === configured) return;
    configured = wanted;
    const times = () => guard.replicas.list()[0]?.output().split('the configuration has changed and holds').length ?? 0;
    const before = times();
    writeFileSync(guard.configFile, stringify({ ...plain, ...config }));
    await until('the configuration to hold', () => times() > before);
  }

  async function write(operation: string, object: JsonObject): Promise<Said> {
    const { kubectl } = guard.cluster;
    if (operation === 'DELETE') {
      const namespace = text(at(object, 'metadata', 'namespace'));
      const name = text(at(object, 'metadata', 'name')) ?? '';
      const where = namespace === undefined ? [] : ['-n', namespace];
      const { code, stderr } = await kubectl('delete', resourceArgument(object), name, ...where, '--wait=false');
      return saidBy(code, stderr);
    }
    const verb = operation === 'UPDATE' ? 'replace' : 'create';
    const { code, stderr } = await kubectl(verb, '-f', '-', '--validate=warn', { input: JSON.stringify(object) });
    return saidBy(code, stderr);
  }

  async function perform(one: PolicyCase): Promise<Said> {
    const { operation } = one.request;
    const object = record(operation === 'DELETE' ? one.request.oldObject : one.request.object);
    if (object === undefined) throw new NotHeld('there is no object');
    if (operation === 'CONNECT' || (one.request.subResource ?? '') !== '') throw new NotHeld('no write of an object');
    await configure(record(record(parse(readFileSync(one.file, 'utf8')))?.['config']));
    const old = record(one.request.oldObject);
    const isCrd = object['kind'] === 'CustomResourceDefinition';
    const configMaps = await world.become(
      [...one.state.filter(other => old === undefined || !isSame(other, object)), ...(old === undefined ? [] : [old])],
      object,
      isCrd && operation === 'CREATE' ? text(at(object, 'metadata', 'name')) : undefined,
    );
    const { group, version } = one.request.requestKind ?? one.request.kind;
    const sent = await world.sent({ ...object, apiVersion: group === '' ? version : `${group}/${version}` });
    await settled(guard.figures);
    // Istio's own ConfigMaps are read once a second
    if (configMaps) await sleep(1_200);
    try {
      return await write(operation, sent);
    } finally {
      await world.forget(object);
    }
  }

  return {
    guard,
    async tried(one) {
      try {
        return await perform(one);
      } catch (error) {
        if (!(error instanceof NotHeld)) throw error;
        return { verdict: 'refused by the API server', text: error.message };
      }
    },
  };
}

function isSame(one: JsonObject, other: JsonObject): boolean {
  const identity = (object: JsonObject) => [
    object['kind'],
    at(object, 'metadata', 'name'),
    at(object, 'metadata', 'namespace') ?? 'default',
  ];
  return JSON.stringify(identity(one)) === JSON.stringify(identity(other));
}

/** KIND.VERSION.GROUP, as kubectl takes it. */
function resourceArgument(object: JsonObject): string {
  const kind = text(object['kind']) ?? '';
  const [group, version] = (text(object['apiVersion']) ?? '').split('/');
  return version === undefined ? kind : `${kind}.${version}.${group}`;
}

// Every case of every policy that a real API server can hold: its state is made in a cluster, its input written with kubectl, and
// what kubectl prints must be what `review` says. Those that cannot be held are listed in cases-not-held.ts, each with its reason.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { at, type JsonObject, record, text } from '../../src/kube/json.ts';
import { crdFiles } from '../harness/crds.ts';
import { parseManifests } from '../harness/objects.ts';
import { until } from '../harness/wait.ts';
import { allCases, type PolicyCase } from '../support/cases.ts';
import { NOT_HELD } from './cases-not-held.ts';
import { ALL_CRDS, BREAK_GLASS, type Installed, install } from './support/installation.ts';
import { type Said, saidBy } from './support/said.ts';
import { createWorld, NotHeld, settled, type World } from './support/world.ts';

let guard: Installed;
let world: World;
let plain: string;

beforeAll(async () => {
  guard = await install({
    cluster: {
      nodes: [],
      // a state stays what it is: nobody makes pods of Deployments, and nothing is collected
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
      ],
      apiServerFlags: ['--disable-admission-plugins=ServiceAccount,NamespaceLifecycle'],
    },
  });
  const definitions = (await crdFiles(ALL_CRDS)).flatMap(file => parseManifests(readFileSync(file, 'utf8')));
  world = createWorld(guard.cluster.api.as('preparing', 'system:masters', BREAK_GLASS), definitions);
  plain = readFileSync(guard.configFile, 'utf8');
});
afterAll(() => guard?.stop());

let configured = '';
/** Gives the replica the configuration of a case, and waits until it holds. */
async function configure(config: JsonObject | undefined): Promise<void> {
  const wanted = JSON.stringify(config ?? {});
  if (wanted === configured || (configured === '' && config === undefined)) return;
  configured = wanted;
  const lines = () => guard.replicas.list()[0]?.output().split('the configuration has changed and holds').length ?? 0;
  const before = lines();
  writeFileSync(guard.configFile, stringify({ ...(record(parse(plain)) ?? {}), ...config }));
  await until('the configuration to hold', () => lines() > before);
}

const RESOURCE = (object: JsonObject) => {
  const [group = '', version = ''] = (text(object['apiVersion']) ?? '').includes('/')
    ? (text(object['apiVersion']) ?? '').split('/')
    : ['', text(object['apiVersion']) ?? ''];
  return group === '' ? (text(object['kind']) ?? '') : `${text(object['kind'])}.${version}.${group}`;
};

async function write(operation: string, object: JsonObject): Promise<Said> {
  const input = JSON.stringify(object);
  const { kubectl } = guard.cluster;
  if (operation === 'DELETE') {
    const namespace = text(at(object, 'metadata', 'namespace'));
    const where = namespace === undefined ? [] : ['-n', namespace];
    const { code, stderr } = await kubectl(
      'delete',
      RESOURCE(object),
      text(at(object, 'metadata', 'name')) ?? '',
      ...where,
      '--wait=false',
    );
    return saidBy(code, stderr);
  }
  const { code, stderr } = await kubectl(operation === 'UPDATE' ? 'replace' : 'create', '-f', '-', '--validate=warn', {
    input,
  });
  return saidBy(code, stderr);
}

/** The kubectl of a person: what the case says, done. */
async function tried(one: PolicyCase): Promise<Said> {
  const { operation } = one.request;
  const object = record(operation === 'DELETE' ? one.request.oldObject : one.request.object);
  if (object === undefined) throw new NotHeld('there is no object');
  if (operation === 'CONNECT' || (one.request.subResource ?? '') !== '') throw new NotHeld('no write of an object');
  const raw = record(parse(readFileSync(one.file, 'utf8')));
  await configure(record(raw?.['config']));
  const old = record(one.request.oldObject);
  const crd =
    object['kind'] === 'CustomResourceDefinition' && operation === 'CREATE'
      ? (text(at(object, 'metadata', 'name')) ?? '')
      : undefined;
  await world.become(
    [
      ...one.state.filter(other => old === undefined || !sameObject(other, object)),
      ...(old === undefined ? [] : [old]),
    ],
    object,
    crd,
  );
  const sent = await world.sent(object);
  await settled(guard.figures);
  try {
    return await write(operation, sent);
  } finally {
    await world.forget(object);
  }
}

function sameObject(one: JsonObject, other: JsonObject): boolean {
  return (
    ['kind'].every(field => one[field] === other[field]) &&
    at(one, 'metadata', 'name') === at(other, 'metadata', 'name') &&
    (at(one, 'metadata', 'namespace') ?? 'default') === (at(other, 'metadata', 'namespace') ?? 'default')
  );
}

const crdsIn = (one: PolicyCase) =>
  JSON.stringify([...one.state, one.input].filter(({ kind }) => kind === 'CustomResourceDefinition'));
const cases = allCases()
  .filter(({ stage }) => stage === undefined)
  .sort((a, b) => crdsIn(a).localeCompare(crdsIn(b)));

const tally = { held: 0, not: 0 };
describe('the policies’ own cases, by kubectl', () => {
  const only = process.env['CASES'];
  const chosen = cases.filter(({ policy, name }) => only === undefined || `${policy.id}/${name}`.includes(only));
  test.each(chosen.map(one => ({ id: `${one.policy.id}/${one.name}`, one })))('$id', async ({ id, one }) => {
    let said: Said;
    try {
      said = await tried(one);
    } catch (error) {
      if (!(error instanceof NotHeld)) throw error;
      said = { verdict: 'refused by the API server', text: error.message };
    }
    const reason = NOT_HELD[id];
    const record_ = process.env['RECORD'];
    if (record_ !== undefined) appendFileSync(record_, `${JSON.stringify({ id, expected: one.verdict, ...said })}\n`);
    if (reason === undefined) {
      expect(said.verdict, said.text).toBe(one.verdict);
      if (one.finding !== undefined && one.verdict !== 'allow') expect(said.text).toContain(one.policy.id);
      tally.held += 1;
    } else {
      expect(said.verdict, `${id} can be held now: take it out of cases-not-held.ts`).not.toBe(one.verdict);
      tally.not += 1;
    }
  });

  test('none is forgotten', () => {
    const known = new Set(cases.map(({ policy, name }) => `${policy.id}/${name}`));
    expect(Object.keys(NOT_HELD).filter(id => !known.has(id))).toEqual([]);
    expect(tally.held + tally.not).toBe(chosen.length);
    console.log(
      `${tally.held} cases tried by kubectl as their policies say; ${tally.not} that a real API server cannot hold`,
    );
  });
});

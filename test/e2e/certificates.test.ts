// Certificates in a real cluster: the chart's own objects and rights, a real API server that calls real replicas.
import { createHash, X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { helmBinary, manifest } from '../../scripts/rules.ts';
import { type ClusterCertificates, clusterCertificates } from '../../src/admission/certificates/cluster.ts';
import { issueAuthority, issueLeaf } from '../../src/admission/certificates/issue.ts';
import { keepRegistration } from '../../src/admission/certificates/registration.ts';
import { bundleOf, fromData, type Lifetimes } from '../../src/admission/certificates/state.ts';
import { type Serving, startServing } from '../../src/admission/serve.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { connect } from '../../src/mesh/sources/cluster/client.ts';
import { createStore } from '../../src/mesh/store.ts';
import { createLogs } from '../../src/telemetry/logs.ts';
import { mergePatch } from '../harness/api.ts';
import { type Balancer, startBalancer } from '../harness/balancer.ts';
import { binary } from '../harness/binaries.ts';
import { type Cluster, startCluster } from '../harness/cluster.ts';
import { installCrds } from '../harness/crds.ts';
import { exposeLocal, setWebhookPort } from '../harness/expose.ts';
import { applyObjects, type Manifest, parseManifests } from '../harness/objects.ts';
import { until } from '../harness/wait.ts';

const NAMESPACE = 'waywarden';
const VALIDATING = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/waywarden';
const MUTATING = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/waywarden';
const SECRET = `/api/v1/namespaces/${NAMESPACE}/secrets/waywarden-certificates`;
const POLICIES = '/apis/security.istio.io/v1/namespaces/default/authorizationpolicies';

interface Entry {
  readonly name: string;
  readonly failurePolicy: string;
  readonly clientConfig: { readonly caBundle?: string };
  readonly rules?: readonly unknown[];
}

let cluster: Cluster;
let balancer: Balancer;
let objects: Manifest[];
let kubeconfig: string;

beforeAll(async () => {
  await binary('helm');
  cluster = await startCluster();
  await installCrds(cluster, { gatewayApi: '1.4.0', channel: 'experimental', istio: '1.31', inference: true });
  balancer = await startBalancer();
  objects = parseManifests(manifest(helmBinary() ?? '', 'enforce'));
  setWebhookPort(objects, NAMESPACE, 'waywarden', balancer.port);
  await applyObjects(cluster.api, objects);
  await exposeLocal(cluster, NAMESPACE, 'waywarden', balancer.port);
  kubeconfig = await cluster.kubeconfigFor(NAMESPACE, 'waywarden');
});
afterAll(async () => {
  await balancer?.stop();
  await cluster?.stop();
});

const entries = async (path: string) => (await cluster.api.call<{ webhooks: readonly Entry[] }>('GET', path)).webhooks;
const everyEntry = async () => [...(await entries(VALIDATING)), ...(await entries(MUTATING))];
const pemOf = (entry: Entry | undefined) => Buffer.from(entry?.clientConfig.caBundle ?? '', 'base64').toString();
const names = (bundle: string) =>
  (bundle.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map(pem => new X509Certificate(pem).subject);

async function held() {
  const { data = {} } = await cluster.api.call<{ data?: Record<string, string> }>('GET', SECRET);
  return fromData(
    Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()])),
  );
}

let counter = 0;
/** Writes a policy, as a dry run; gives what the API server says against it. */
async function write(): Promise<string> {
  counter += 1;
  const { status, body } = await cluster.api.send('POST', `${POLICIES}?dryRun=All`, {
    apiVersion: 'security.istio.io/v1',
    kind: 'AuthorizationPolicy',
    metadata: { name: `policy-${counter}` },
    spec: {},
  });
  return status === 201 ? '' : `${status} ${(body as { message?: string }).message}`;
}

/** Writes policies one after the other in a few lanes until `work` is done; gives how many, and what was refused. */
async function underLoad(
  work: () => Promise<void>,
): Promise<{ readonly calls: number; readonly refused: readonly string[] }> {
  let going = true;
  let calls = 0;
  const refused: string[] = [];
  const lane = async () => {
    while (going) {
      const answer = await write();
      calls += 1;
      if (answer !== '') refused.push(answer);
      await sleep(10);
    }
  };
  const lanes = [lane(), lane(), lane()];
  try {
    await work();
  } finally {
    going = false;
    await Promise.all(lanes);
  }
  return { calls, refused };
}

/** How many reviews all replicas have answered. */
async function reviews(): Promise<number> {
  const figures = await Promise.all(replicas.map(({ serving }) => serving.metrics.text()));
  const counts = figures.flatMap(text => [...text.matchAll(/^waywarden_reviews_total\{[^}]*\} (\d+)$/gm)]);
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

interface Replica {
  readonly certificates: ClusterCertificates;
  readonly serving: Serving;
  stop(): Promise<void>;
}

const logs = createLogs({ level: 'silent' });
const steps: string[] = [];
const troubles: string[] = [];

async function startReplica(lifetimes?: Lifetimes): Promise<Replica> {
  const certificates = await clusterCertificates({
    client: await connect({ kubeconfig }),
    namespace: NAMESPACE,
    service: 'waywarden',
    secret: 'waywarden-certificates',
    configurations: 'waywarden',
    address: { host: '127.0.0.1', port: balancer.port },
    ...(lifetimes === undefined ? {} : { lifetimes }),
    report(event) {
      if (event.event === 'step') steps.push(event.step);
      if (event.event === 'trouble' && event.reason !== undefined) troubles.push(event.reason);
    },
  });
  const serving = await startServing({
    guard: () => ({ policies: [], settings: DEFAULT_SETTINGS, mesh: createStore({ complete: () => true }) }),
    certificate: certificates.certificate,
    logs,
    listen: { host: '127.0.0.1', port: 0 },
    health: { host: '127.0.0.1', port: 0 },
    linger: 0,
    grace: 500,
  });
  return {
    certificates,
    serving,
    async stop() {
      certificates.stop();
      await serving.close();
    },
  };
}

let replicas: readonly Replica[] = [];
async function start(lifetimes?: Lifetimes): Promise<void> {
  steps.length = 0;
  troubles.length = 0;
  replicas = await Promise.all([startReplica(lifetimes), startReplica(lifetimes), startReplica(lifetimes)]);
  balancer.use(replicas.map(({ serving }) => serving.port));
}
async function stop(): Promise<void> {
  balancer.use([]);
  await Promise.all(replicas.map(replica => replica.stop()));
  replicas = [];
}

async function emptied(path: string): Promise<void> {
  const webhooks = await entries(path);
  const patch = webhooks.flatMap((entry, index) =>
    entry.clientConfig.caBundle === undefined
      ? []
      : [{ op: 'remove', path: `/webhooks/${index}/clientConfig/caBundle` }],
  );
  expect(patch).toHaveLength(webhooks.length);
  await cluster.api.call('PATCH', path, patch, { type: 'application/json-patch+json' });
}

describe('certificates without a helper', () => {
  it('refuses nothing before a replica is ready: the entries that fail closed have no rules', async () => {
    const closed = (await everyEntry()).filter(({ failurePolicy }) => failurePolicy === 'Fail');
    expect(closed.map(({ name, rules }) => [name, rules ?? []])).toEqual([
      ['closed.validate.waywarden.dev', []],
      ['closed.mutate.waywarden.dev', []],
    ]);
    expect(await write()).toBe('');
  });

  it('makes one CA where three replicas start together, and serves one leaf', async () => {
    await start();
    expect(steps).toEqual(['make']);
    const { certificates } = { certificates: await held() };
    const leaves = replicas.map(({ certificates: { certificate } }) =>
      createHash('sha256').update(certificate.pair.cert).digest('hex'),
    );
    expect(new Set(leaves).size).toBe(1);
    expect(certificates?.leaf.cert).toBe(replicas[0]?.certificates.certificate.pair.cert);
    await until('the caBundle', async () =>
      (await everyEntry()).every(entry => pemOf(entry) === (certificates && bundleOf(certificates))),
    );
    await until('the rules', async () =>
      (await everyEntry())
        .filter(({ failurePolicy }) => failurePolicy === 'Fail')
        .every(({ rules }) => (rules ?? []).length > 0),
    );
    await until('replicas to know', () =>
      replicas.every(
        ({ certificates: { registration } }) => registration.status().closed && registration.status().trusted,
      ),
    );
    expect(replicas.map(({ certificates: each }) => each.trouble())).toEqual([undefined, undefined, undefined]);
  });

  it('is called by the API server, which trusts it', async () => {
    // the API server learns of the rules a moment after they are stored
    await until('a call', async () => (await write()) === '' && (await reviews()) > 0);
  });

  it('owns the caBundle and the rules of closed entries, and no other field', async () => {
    for (const path of [VALIDATING, MUTATING]) {
      const { metadata } = await cluster.api.call<{
        metadata: {
          managedFields: { manager: string; fieldsV1: { 'f:webhooks'?: Record<string, Record<string, unknown>> } }[];
        };
      }>('GET', path);
      const owned = (manager: string) =>
        Object.entries(metadata.managedFields.find(each => each.manager === manager)?.fieldsV1['f:webhooks'] ?? {}).map(
          ([key, fields]) => [JSON.parse(key.slice(2)).name.split('.')[0], fields],
        );
      const bundle = { '.': {}, 'f:name': {}, 'f:clientConfig': { 'f:caBundle': {} } };
      expect(owned('waywarden-ca-bundle').map(([, fields]) => fields)).toEqual((await entries(path)).map(() => bundle));
      expect(owned('waywarden-rules')).toEqual([['closed', { '.': {}, 'f:name': {}, 'f:rules': {} }]]);
    }
  });

  it('heals a caBundle that somebody empties within two seconds', async () => {
    for (const path of [VALIDATING, MUTATING]) {
      await emptied(path);
      await until('the caBundle', async () => (await entries(path)).every(entry => pemOf(entry) !== ''), {
        timeout: 2_000,
      });
    }
    expect(await write()).toBe('');
  });

  it('heals the rules of closed entries, and a Secret that somebody empties', async () => {
    await cluster.api.call('PATCH', VALIDATING, [{ op: 'replace', path: '/webhooks/0/rules', value: [] }], {
      type: 'application/json-patch+json',
    });
    await until('the rules', async () => ((await entries(VALIDATING))[0]?.rules ?? []).length > 0, { timeout: 3_000 });
    const before = await held();
    await cluster.api.call('PATCH', SECRET, { data: null }, { type: mergePatch });
    await until('the Secret', async () => (await held())?.leaf.cert === before?.leaf.cert, { timeout: 3_000 });
    expect((await held())?.authority.key).toBe(before?.authority.key);
  });

  it('keeps what it wrote when the manifests are applied again, by kubectl and server-side', async () => {
    const yaml = objects
      .filter(({ kind }) => kind.endsWith('WebhookConfiguration') || kind === 'Secret')
      .map(object => JSON.stringify(object))
      .join('\n---\n');
    const before = JSON.stringify([await everyEntry(), await held()]);
    await cluster.apply(yaml);
    await cluster.apply(yaml);
    await cluster.apply(yaml, '--server-side', '--field-manager=harness');
    expect(JSON.stringify([await everyEntry(), await held()])).toBe(before);
    expect(steps).toEqual(['make']);
  });

  it('refuses writes of the mesh when every replica is gone, and says so', async () => {
    await stop();
    expect(await write()).toMatch(/^500 .*failed calling webhook "closed\.(mutate|validate)\.waywarden\.dev"/);
  });

  it('renews leaves and changes the CA under load, without a refused call', async () => {
    await cluster.api.call('PATCH', SECRET, { data: null }, { type: mergePatch });
    await start({ authority: 30_000, leaf: 12_000, overlap: 3_000 });
    await until('trust', () => replicas.every(({ certificates: { registration } }) => registration.status().trusted));
    await until('the first call', async () => (await write()) === '');
    const first = await held();
    const seen = new Set<string>();
    const bundles = new Set<number>();
    const { calls, refused } = await underLoad(async () => {
      await until(
        'another CA, and the old one gone',
        async () => {
          const bundle = pemOf((await entries(VALIDATING))[0]);
          bundles.add(names(bundle).length);
          for (const { certificates } of replicas) seen.add(certificates.certificate.status().expires.toISOString());
          return (
            bundle !== '' &&
            first !== undefined &&
            !names(bundle).some(name => name === new X509Certificate(first.authority.cert).subject)
          );
        },
        { timeout: 60_000, every: 100 },
      );
      await sleep(1_000);
    });
    expect(refused).toEqual([]);
    expect(calls).toBeGreaterThan(200);
    // mutate and validate
    expect(await reviews()).toBeGreaterThan(calls);
    expect(troubles.filter(reason => !reason.startsWith('a new CA waits'))).toEqual([]);
    expect([...bundles].sort()).toEqual([1, 2]);
    expect(seen.size).toBeGreaterThan(2);
    expect(steps.filter(step => step !== 'renew')).toEqual(['make', 'announce', 'promote', 'retire']);
    await stop();
  });

  it('changes the CA when somebody asks for it', async () => {
    await cluster.api.call('PATCH', SECRET, { data: null }, { type: mergePatch });
    await start({ authority: 3_600_000, leaf: 600_000, overlap: 1_500 });
    await until('the first call', async () => (await write()) === '');
    const first = await held();
    const { refused } = await underLoad(async () => {
      await cluster.kubectl(
        'annotate',
        'secret',
        'waywarden-certificates',
        '-n',
        NAMESPACE,
        'waywarden.dev/rotate-ca=now',
      );
      await until('the change to end', () => steps.includes('retire'), { timeout: 20_000 });
      await sleep(500);
    });
    expect(refused).toEqual([]);
    expect(steps).toEqual(['make', 'announce', 'promote', 'retire']);
    expect((await held())?.authority.cert).not.toBe(first?.authority.cert);
    await stop();
  });

  it('leaves a caBundle to whoever else writes it, and closes the door only where it fits', async () => {
    const term = { now: Date.now(), life: 3_600_000 };
    const authority = await issueAuthority(term);
    const pair = await issueLeaf(authority, ['waywarden.waywarden.svc'], term);
    const serving = await startServing({
      guard: () => ({ policies: [], settings: DEFAULT_SETTINGS, mesh: createStore({ complete: () => true }) }),
      certificate: { pair, follow: () => () => {} },
      logs,
      listen: { host: '127.0.0.1', port: 0 },
      health: { host: '127.0.0.1', port: 0 },
      linger: 0,
      grace: 500,
    });
    balancer.use([serving.port]);
    const written = async (ca: string) => {
      for (const path of [VALIDATING, MUTATING]) {
        const webhooks = await entries(path);
        const value = Buffer.from(ca).toString('base64');
        const patch = webhooks.map((_, index) => ({
          op: 'add',
          path: `/webhooks/${index}/clientConfig/caBundle`,
          value,
        }));
        const opened = [{ op: 'add', path: '/webhooks/0/rules', value: [] }];
        await cluster.api.call('PATCH', path, [...patch, ...opened], { type: 'application/json-patch+json' });
      }
    };
    await written((await issueAuthority(term)).cert);
    const registration = keepRegistration({
      client: await connect({ kubeconfig }),
      name: 'waywarden',
      service: { namespace: NAMESPACE, name: 'waywarden' },
      address: { host: '127.0.0.1', port: balancer.port },
    });
    await sleep(2_500);
    expect(registration.status()).toEqual({ trusted: true, closed: false, trouble: [] });
    await written(authority.cert);
    await until('the door to be closed', () => registration.status().closed, { timeout: 4_000 });
    await until('a call', async () => (await write()) === '');
    await emptied(VALIDATING);
    await sleep(1_500);
    expect((await entries(VALIDATING)).map(pemOf)).toEqual(['', '', '', '', '']);
    expect(registration.status().trusted).toBe(false);
    registration.stop();
    await serving.close();
  });
});

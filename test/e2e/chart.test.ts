// The chart in a real cluster: what helm says of it, what its ServiceAccount may do, and whom it can never lock out.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { policies } from '../../policies/index.ts';
import { DEPLOY, helmBinary, helmTemplate } from '../../scripts/rules.ts';
import { type ClusterCertificates, clusterCertificates } from '../../src/admission/certificates/cluster.ts';
import { startServing } from '../../src/admission/serve.ts';
import { kindsRead } from '../../src/engine/kinds.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { connect } from '../../src/mesh/sources/cluster/client.ts';
import { createClusterSource } from '../../src/mesh/sources/cluster/source.ts';
import { createStore } from '../../src/mesh/store.ts';
import { createLogs } from '../../src/telemetry/logs.ts';
import { mergePatch } from '../harness/api.ts';
import { type Balancer, startBalancer } from '../harness/balancer.ts';
import { binary } from '../harness/binaries.ts';
import { type Cluster, startCluster } from '../harness/cluster.ts';
import { installCrds } from '../harness/crds.ts';
import { exposeLocal, setWebhookPort } from '../harness/expose.ts';
import { helm } from '../harness/helm.ts';
import { applyObjects, parseManifests } from '../harness/objects.ts';
import { until } from '../harness/wait.ts';

const CHART = join(DEPLOY, 'chart');
const VALIDATING = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/waywarden';
const MUTATING = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/waywarden';

interface Entry {
  readonly name: string;
  readonly failurePolicy: string;
  readonly clientConfig: { readonly caBundle?: string };
  readonly rules?: readonly unknown[];
}

const everyEntry = async ({ api }: Cluster) => {
  const both = await Promise.all(
    [VALIDATING, MUTATING].map(path => api.call<{ webhooks: readonly Entry[] }>('GET', path)),
  );
  return both.flatMap(({ webhooks }) => webhooks);
};

/** A replica that serves with no policies, behind the balancer. */
async function startReplica(cluster: Cluster, balancer: Balancer) {
  const certificates: ClusterCertificates = await clusterCertificates({
    client: await connect({ kubeconfig: await cluster.kubeconfigFor('waywarden', 'waywarden') }),
    namespace: 'waywarden',
    service: 'waywarden',
    secret: 'waywarden-certificates',
    configurations: 'waywarden',
    address: { host: '127.0.0.1', port: balancer.port },
  });
  const serving = await startServing({
    guard: () => ({ policies: [], settings: DEFAULT_SETTINGS, mesh: createStore({ complete: () => true }) }),
    certificate: certificates.certificate,
    logs: createLogs({ level: 'silent' }),
    listen: { host: '127.0.0.1', port: 0 },
    health: { host: '127.0.0.1', port: 0 },
    linger: 0,
    grace: 500,
  });
  balancer.use([serving.port]);
  await until('the door to be closed', () => {
    const { closed, trusted } = certificates.registration.status();
    return closed && trusted;
  });
  return {
    async stop() {
      balancer.use([]);
      certificates.stop();
      await serving.close();
    },
  };
}

describe('installed by helm', () => {
  let cluster: Cluster;
  let balancer: Balancer;
  beforeAll(async () => {
    await binary('helm');
    cluster = await startCluster({ nodes: [{ name: 'a' }, { name: 'b' }] });
    await installCrds(cluster, { gatewayApi: '1.4.0', channel: 'experimental', istio: '1.31', inference: true });
    balancer = await startBalancer();
  });
  afterAll(async () => {
    await balancer?.stop();
    await cluster?.stop();
  });

  it('comes up, says how it is used, and passes its own test', async () => {
    const installed = await helm(
      cluster,
      'install',
      'waywarden',
      CHART,
      '-n',
      'waywarden',
      '--create-namespace',
      '--wait',
      '--timeout',
      '60s',
    );
    expect([installed.code, installed.stderr]).toEqual([0, expect.not.stringContaining('Error')]);
    expect(installed.stdout).toContain('kubectl apply --dry-run=server -f FILE');
    const tested = await helm(cluster, 'test', 'waywarden', '-n', 'waywarden', '--timeout', '60s');
    expect([tested.code, tested.stdout]).toEqual([0, expect.stringMatching(/Phase:\s+Succeeded/)]);
  });

  it('is upgraded without a conflict, and keeps what the guard wrote', async () => {
    const replica = await startReplica(cluster, balancer);
    const before = await everyEntry(cluster);
    const upgrade = async (...values: string[]) => {
      const { code, stderr } = await helm(
        cluster,
        'upgrade',
        'waywarden',
        CHART,
        '-n',
        'waywarden',
        '--reset-values',
        ...values.flatMap(value => ['--set', value]),
      );
      expect([code, stderr]).toEqual([0, expect.not.stringMatching(/conflict|Error/)]);
    };
    await upgrade('replicas=3');
    expect(await everyEntry(cluster)).toEqual(before);
    await upgrade('mode=audit', 'admission.reviewCacerts=true', 'admission.breakGlassGroups={mesh-emergency}');
    const audit = await everyEntry(cluster);
    expect(new Set(audit.map(({ failurePolicy }) => failurePolicy))).toEqual(new Set(['Ignore']));
    expect(
      audit.every(({ clientConfig, rules }) => clientConfig.caBundle !== undefined && (rules ?? []).length > 0),
    ).toBe(true);
    await upgrade('events.enabled=false');
    await upgrade();
    expect(await everyEntry(cluster)).toEqual(before);
    await replica.stop();
  });

  it('lets the guard read every kind that the policies read', async () => {
    const kubeconfig = await cluster.kubeconfigFor('waywarden', 'waywarden');
    const source = createClusterSource({ client: await connect({ kubeconfig }), kinds: kindsRead(policies) });
    try {
      await source.first;
      // an API server that has just learnt of a kind answers 429 for a moment; what it forbids it goes on forbidding
      const unread = () => source.status().filter(({ state }) => state !== 'synced' && state !== 'absent');
      await expect.poll(unread, { timeout: 20_000 }).toEqual([]);
      expect(source.status().filter(({ kind, state }) => kind === 'Namespace' && state === 'synced')).toHaveLength(1);
    } finally {
      source.stop();
    }
  });

  it('lets it do nothing else', async () => {
    const kubeconfig = await cluster.kubeconfigFor('waywarden', 'waywarden');
    const may = async (...words: string[]) =>
      (await cluster.kubectl('auth', 'can-i', ...words, { kubeconfig })).stdout.trim();
    const asked = [
      ['list', 'secrets', '-A'],
      ['get', 'secrets', '-n', 'istio-system'],
      ['get', 'secret/other', '-n', 'waywarden'],
      ['create', 'secrets', '-n', 'waywarden'],
      ['watch', 'configmaps', '-A'],
      ['patch', 'configmaps', '-A'],
      ['patch', 'pods', '-A'],
      ['create', 'leases', '-n', 'waywarden'],
      ['patch', 'validatingwebhookconfigurations/another'],
      ['delete', 'validatingwebhookconfigurations/waywarden'],
      ['update', 'clusterroles'],
    ];
    expect(await Promise.all(asked.map(words => may(...words)))).toEqual(asked.map(() => 'no'));
    expect(await may('update', 'secret/waywarden-certificates', '-n', 'waywarden')).toBe('yes');
    expect(await may('patch', 'validatingwebhookconfigurations/waywarden')).toBe('yes');
  });

  it('says what to do where its Secret is gone', async () => {
    expect((await cluster.kubectl('delete', 'secret', 'waywarden-certificates', '-n', 'waywarden')).code).toBe(0);
    const client = await connect({ kubeconfig: await cluster.kubeconfigFor('waywarden', 'waywarden') });
    const options = { client, namespace: 'waywarden', service: 'waywarden', secret: 'waywarden-certificates' };
    await expect(clusterCertificates({ ...options, configurations: 'waywarden', patience: 300 })).rejects.toThrow(
      'there is no Secret waywarden/waywarden-certificates, and the guard may not make one: apply its manifest again',
    );
  });

  it('takes everything away again', async () => {
    expect((await helm(cluster, 'uninstall', 'waywarden', '-n', 'waywarden')).code).toBe(0);
    for (const path of [VALIDATING, MUTATING]) expect((await cluster.api.send('GET', path)).status).toBe(404);
    const left = await cluster.kubectl(
      'get',
      'secret,configmap,deployment,networkpolicy,pdb',
      '-n',
      'waywarden',
      '-l',
      'app.kubernetes.io/name=waywarden',
      '-o',
      'name',
    );
    expect(left.stdout).toBe('');
  });
});

describe('with every replica gone', () => {
  let cluster: Cluster;
  let balancer: Balancer;
  const pod = (name: string, namespace: string) =>
    cluster.api.send('POST', `/api/v1/namespaces/${namespace}/pods`, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name },
      spec: { containers: [{ name: 'app', image: 'app' }] },
    });
  const policy = (name: string, finalizers: readonly string[] = []) => ({
    apiVersion: 'security.istio.io/v1',
    kind: 'AuthorizationPolicy',
    metadata: { name, finalizers },
    spec: {},
  });
  const POLICIES = '/apis/security.istio.io/v1/namespaces/apps/authorizationpolicies';

  beforeAll(async () => {
    cluster = await startCluster({ nodes: [{ name: 'a' }] });
    await installCrds(cluster, { gatewayApi: '1.4.0', channel: 'experimental', istio: '1.31', inference: true });
    balancer = await startBalancer();
    const values = ['namespace.create=true', 'admission.breakGlassGroups={mesh-emergency}'].flatMap(value => [
      '--set',
      value,
    ]);
    const objects = parseManifests(helmTemplate(helmBinary() ?? '', '--skip-tests', ...values));
    setWebhookPort(objects, 'waywarden', 'waywarden', balancer.port);
    await applyObjects(cluster.api, objects);
    await exposeLocal(cluster, 'waywarden', 'waywarden', balancer.port);
    for (const name of ['apps', 'istio-system', 'going']) await cluster.kubectl('create', 'namespace', name);
    const replica = await startReplica(cluster, balancer);
    await until(
      'a stored policy',
      async () => (await cluster.api.send('POST', POLICIES, policy('kept', ['example.com/wait']))).status === 201,
    );
    await cluster.api.call('POST', POLICIES.replace('apps', 'going'), policy('going'));
    await replica.stop();
    await until(
      'the door to be shut',
      async () => (await cluster.api.send('POST', POLICIES, policy('refused'))).status === 500,
    );
  });
  afterAll(async () => {
    await balancer?.stop();
    await cluster?.stop();
  });

  it('a policy of the mesh is refused', async () => {
    const { stderr } = await cluster.kubectl('apply', '-n', 'apps', '-f', '-', {
      input: JSON.stringify(policy('refused')),
    });
    expect(stderr).toContain('failed calling webhook "closed.');
  });

  it('pods are created in kube-system, in Istio’s namespace, in the guard’s own and anywhere else', async () => {
    const made = async (namespace: string) => {
      await until(
        'the ServiceAccount',
        async () =>
          (await cluster.api.send('GET', `/api/v1/namespaces/${namespace}/serviceaccounts/default`)).status === 200,
      );
      return (await pod('probe', namespace)).status;
    };
    expect(await Promise.all(['kube-system', 'istio-system', 'apps'].map(made))).toEqual([201, 201, 201]);
    const rolled = await cluster.kubectl('rollout', 'restart', 'deployment/waywarden', '-n', 'waywarden');
    expect(rolled.code).toBe(0);
    const status = await cluster.kubectl(
      'rollout',
      'status',
      'deployment/waywarden',
      '-n',
      'waywarden',
      '--timeout=30s',
    );
    expect([status.code, status.stdout]).toEqual([0, expect.stringContaining('successfully rolled out')]);
  });

  it('policies are deleted, finalizers taken off, namespaces go completely', async () => {
    expect((await cluster.api.send('DELETE', `${POLICIES}/kept`)).status).toBe(200);
    const freed = await cluster.api.send('PATCH', `${POLICIES}/kept`, { metadata: { finalizers: null } }, mergePatch);
    expect(freed.status).toBe(200);
    expect((await cluster.api.send('GET', `${POLICIES}/kept`)).status).toBe(404);
    expect((await cluster.kubectl('delete', 'namespace', 'going', '--timeout=60s')).code).toBe(0);
  });

  it('a break-glass group writes what it must', async () => {
    const emergency = cluster.api.as('anna', 'system:masters', 'mesh-emergency');
    expect((await emergency.send('POST', POLICIES, policy('repaired'))).status).toBe(201);
    const nobody = cluster.api.as('otto', 'system:masters');
    expect((await nobody.send('POST', POLICIES, policy('refused'))).status).toBe(500);
  });

  it('deleting the manifest opens everything at once', async () => {
    const { code } = await cluster.kubectl('delete', '-f', join(DEPLOY, 'enforce.yaml'), '--wait=false');
    expect(code).toBe(0);
    await until(
      'the door to open',
      async () => (await cluster.api.send('POST', POLICIES, policy('free'))).status === 201,
      { timeout: 5_000 },
    );
  });
});

// With no replica left nobody is locked out: what a cluster needs goes on, and what is refused says what to do.
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { mergePatch } from '../harness/api.ts';
import { run } from '../harness/process.ts';
import { until } from '../harness/wait.ts';
import { BREAK_GLASS, type Installed, install, NAMESPACE } from './support/installation.ts';
import { ambientNamespace, answers, app, installAmbient, namespace, noAdmin } from './support/mesh.ts';

let guard: Installed;
beforeAll(async () => {
  guard = await install({ replicas: 2 });
  await installAmbient(guard.cluster);
  // installed beside Istio, and somebody has put its namespace into the mesh
  await guard.cluster.kubectl('label', 'namespace', NAMESPACE, 'istio.io/dataplane-mode=ambient', '--overwrite');
  await guard.cluster.apply(ambientNamespace('orders') + app('orders') + namespace('leaving') + app('leaving'));
  await guard.cluster.apply(noAdmin('leaving').replace('paths: ["/admin*"]', 'ports: ["8080"]'));
});
afterAll(() => guard?.stop());

const kubectl: Installed['cluster']['kubectl'] = (...args) => guard.cluster.kubectl(...args);
const doctor = (...args: string[]) =>
  run(
    'node_modules/.bin/node',
    ['dist/main.js', 'doctor', '--kubeconfig', guard.cluster.kubeconfig, '--namespace', NAMESPACE, ...args],
    {
      env: { PATH: process.env['PATH'] },
    },
  );
const pod = (where: string) => `
apiVersion: v1
kind: Pod
metadata: { generateName: recovery-, namespace: ${where} }
spec:
  securityContext: { runAsNonRoot: true, seccompProfile: { type: RuntimeDefault } }
  containers:
    - name: app
      image: registry.example.test/recovery:1
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }
`;

describe('while replicas run', () => {
  it('the guard’s own pods are left out of the mesh, though its namespace is in it', async () => {
    await until('pods', async () => {
      const { stdout } = await kubectl('get', 'pods', '-n', NAMESPACE, '-o', 'json');
      const { items } = JSON.parse(stdout) as { items: { metadata: { annotations?: Record<string, string> } }[] };
      return (
        items.length >= 2 &&
        items.every(({ metadata }) => metadata.annotations?.['ambient.istio.io/redirection'] !== 'enabled')
      );
    });
  });

  it('doctor finds a healthy installation', async () => {
    const { code, stdout, stderr } = await doctor();
    expect(stdout).toMatch(/^ok .*a dry-run request: reached the guard, which refused it as it should$/m);
    expect(stdout).toMatch(/^ok .*certificates: the chain verifies, for waywarden\.waywarden\.svc/m);
    expect(stdout).toMatch(/^ok .*rules of the webhooks: ask about all \d+ kinds/m);
    expect(stdout).toMatch(/^ok .*break-glass: what members of its group write is not judged, and counted$/m);
    expect(stdout).toMatch(/^ok .*rights of the ServiceAccount: waywarden has all \d+ that it needs$/m);
    expect(stdout).toMatch(/^ok .*Istio in this cluster: istiod default 1\.31\.1, .*ztunnel 1\.31\.1/m);
    expect(stdout).toMatch(/^ok .*clock:/m);
    expect(stdout).toMatch(/\n0 failures, /);
    expect([code, stderr]).toEqual([0, '']);
  });

  it('a member of the break-glass group may write what others may not, and somebody hears of it', async () => {
    const input = noAdmin('orders', 'in-an-emergency');
    const uses = async (operation: string) =>
      (await guard.figures()).get(
        `waywarden_break_glass_total{operation="${operation}",kind="AuthorizationPolicy.security.istio.io"}`,
      ) ?? 0;
    await answers(guard.cluster, input, ({ code }) => code === 1);
    const refused = await kubectl('apply', '-f', '-', { input });
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('denied the request')]);
    const allowed = noAdmin('orders', 'by-port').replace('paths: ["/admin*"]', 'ports: ["8080"]');
    expect((await kubectl('apply', '-f', '-', { input: allowed })).code).toBe(0);
    expect((await guard.unasked('apply', '--dry-run=server', '-f', '-', { input })).code).toBe(0);
    expect([await uses('CREATE'), await uses('DELETE')]).toEqual([0, 0]);

    const written = await guard.unasked('apply', '-f', '-', { input });
    expect([written.code, written.stderr]).toEqual([0, '']);
    expect([await uses('CREATE'), await uses('DELETE')]).toEqual([1, 0]);
    expect((await guard.unasked('delete', 'authorizationpolicy', 'in-an-emergency', '-n', 'orders')).code).toBe(0);
    expect([await uses('CREATE'), await uses('DELETE')]).toEqual([1, 1]);
    expect((await kubectl('delete', 'authorizationpolicy', 'by-port', '-n', 'orders')).code).toBe(0);
    expect([await uses('CREATE'), await uses('DELETE')]).toEqual([1, 1]);

    const order = ({ level, operation }: Record<string, unknown>) => `${level} ${operation}`;
    const lines = () =>
      guard.replicas
        .list()
        .flatMap(replica => replica.output().split('\n'))
        .filter(line => line.includes('"webhook":"break-glass"'))
        .map(line => JSON.parse(line) as Record<string, unknown>)
        .filter(({ name }) => name === 'in-an-emergency')
        .sort((a, b) => order(a).localeCompare(order(b)));
    // lines are held back for half a second
    await until('the lines', () => lines().length >= 3);
    const use = {
      user: 'preparing',
      group: BREAK_GLASS,
      kind: 'AuthorizationPolicy.security.istio.io',
      namespace: 'orders',
      name: 'in-an-emergency',
    };
    expect(lines()).toEqual([
      expect.objectContaining({ ...use, level: 'info', operation: 'CREATE', dryRun: true }),
      expect.objectContaining({ ...use, level: 'warn', operation: 'CREATE', dryRun: false }),
      expect.objectContaining({ ...use, level: 'warn', operation: 'DELETE', dryRun: false }),
    ]);
  });

  it('doctor says what is wrong, and how to repair it', async () => {
    const rights = '/apis/rbac.authorization.k8s.io/v1/clusterroles/waywarden';
    const before = await guard.cluster.api.call<{ rules: unknown[] }>('GET', rights);
    await guard.cluster.api.call('PATCH', rights, { rules: before.rules.slice(1) }, { type: mergePatch });
    await guard.cluster.api.call(
      'PATCH',
      `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/waywarden`,
      { spec: { replicas: 1 } },
      { type: mergePatch },
    );
    await guard.cluster.api.call(
      'PATCH',
      '/apis/apps/v1/namespaces/istio-system/daemonsets/ztunnel',
      {
        spec: {
          template: { spec: { containers: [{ name: 'istio-proxy', image: 'docker.io/istio/ztunnel:1.45.0' }] } },
        },
      },
      { type: 'application/strategic-merge-patch+json' },
    );
    const { code, stdout } = await until('the rights', async () => {
      const output = await doctor();
      return output.stdout.includes('may not') ? output : undefined;
    });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^FAIL .*rights of the ServiceAccount: waywarden may not .*list namespaces/m);
    expect(stdout).toMatch(/do: helm upgrade waywarden/);
    expect(stdout).toMatch(/^warning .*there is one replica/m);
    expect(stdout).toMatch(/^warning .*ztunnel 1\.45\.0.*newer than what this Waywarden knows, which ends at 1\.31$/m);
    await guard.cluster.api.call('PATCH', rights, { rules: before.rules }, { type: mergePatch });
    await guard.cluster.api.call(
      'PATCH',
      `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/waywarden`,
      { spec: { replicas: 2 } },
      { type: mergePatch },
    );
  });
});

describe('with every replica stopped', () => {
  const POLICIES = '/apis/security.istio.io/v1/namespaces/orders/authorizationpolicies';
  const policy = (name: string) => parse(noAdmin('orders', name).replace(/---$/, '')) as object;
  let took = 0;
  const member = async (method: string, path: string, body?: object) => {
    const api = guard.cluster.api.as('preparing', 'system:masters', BREAK_GLASS);
    const began = performance.now();
    const answer = await api.send(method, path, body);
    took = performance.now() - began;
    return answer;
  };

  beforeAll(async () => {
    await Promise.all(guard.replicas.list().map(replica => guard.replicas.remove(replica, 'SIGKILL')));
  });

  it.each(['kube-system', 'istio-system', NAMESPACE, 'orders'])('pods are created in %s', async where => {
    const { code, stderr } = await kubectl('create', '-f', '-', { input: pod(where) });
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('waywarden.dev')]);
  });

  it('nodes and leases are updated', async () => {
    const node = guard.cluster.api.as('system:node:node-1', 'system:nodes', 'system:authenticated');
    const status = await node.send(
      'PATCH',
      '/api/v1/nodes/node-1/status',
      { metadata: { annotations: { alive: 'yes' } } },
      mergePatch,
    );
    expect(status.status).toBe(200);
    const lease = await guard.cluster.api.send(
      'POST',
      '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases',
      {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'node-9' },
        spec: { holderIdentity: 'node-9' },
      },
    );
    expect(lease.status).toBe(201);
  });

  it('the guard’s own Deployment rolls', async () => {
    expect((await kubectl('rollout', 'restart', 'deployment/waywarden', '-n', NAMESPACE)).code).toBe(0);
    const { code, stderr } = await kubectl(
      'rollout',
      'status',
      'deployment/waywarden',
      '-n',
      NAMESPACE,
      '--timeout=60s',
    );
    expect([code, stderr]).toEqual([0, '']);
  });

  it('a namespace with mesh policies in it goes completely', async () => {
    expect((await kubectl('delete', 'namespace', 'leaving', '--timeout=60s')).code).toBe(0);
    expect((await kubectl('get', 'namespace', 'leaving')).code).toBe(1);
  });

  it.each([
    ['a workload', ['scale', 'deployment', 'web', '-n', 'orders', '--replicas=2']],
    ['a namespace', ['label', 'namespace', 'orders', 'team=orders']],
    ['Istio itself', ['rollout', 'restart', 'deployment/istiod', '-n', 'istio-system']],
  ])('%s can be changed', async (_, args) => {
    expect((await kubectl(...args)).code).toBe(0);
  });

  it('a mesh policy is refused, and the message names whom to ask', async () => {
    const { code, stderr } = await kubectl('apply', '-f', '-', { input: noAdmin('orders') });
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /failed calling webhook "closed\.(mutate|validate)\.waywarden\.dev".*waywarden\.waywarden\.svc/,
    );
  });

  it('a member of the break-glass group may write it all the same, at once', async () => {
    const { code } = await guard.unasked('apply', '--dry-run=server', '-f', '-', { input: noAdmin('orders') });
    expect(code).toBe(0);
    expect((await member('POST', POLICIES, policy('repaired'))).status).toBe(201);
    expect(took).toBeLessThan(900);
  });

  it('and a second later, where whoever is there instead never answers', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    guard.replicas.balancer.use([(silent.address() as AddressInfo).port]);
    expect((await member('DELETE', `${POLICIES}/repaired`)).status).toBe(200);
    expect(took).toBeGreaterThan(900);
    expect(took).toBeLessThan(3_000);
    guard.replicas.balancer.use([]);
    silent.close();
  });

  it('doctor sees it, unlocks, and locks again', async () => {
    const seen = await doctor();
    expect(seen.code).toBe(1);
    expect(seen.stdout).toMatch(/^FAIL .*a dry-run request: the API server cannot reach the guard/m);
    expect(seen.stdout).toMatch(/waywarden doctor --unlock/);

    const unlocked = await doctor('--unlock');
    expect(unlocked.code).toBe(0);
    expect(unlocked.stdout).toMatch(
      /ValidatingWebhookConfiguration waywarden: closed\.validate\.waywarden\.dev is Ignore now, and was Fail/,
    );
    expect(unlocked.stdout).toMatch(
      /MutatingWebhookConfiguration waywarden: closed\.mutate\.waywarden\.dev is Ignore now/,
    );
    expect(unlocked.stdout).toMatch(/waywarden doctor --lock/);
    await until(
      'the API server to hear of it',
      async () => (await kubectl('apply', '-f', '-', { input: noAdmin('orders') })).code === 0,
    );
    expect((await doctor('--unlock')).stdout).toMatch(/^every entry fails open already/);

    await guard.replicas.add();
    await guard.replicas.add();
    const warned = await doctor();
    expect(warned.stdout).toMatch(/^warning .*entries that should fail closed fail open/m);
    const locked = await doctor('--lock');
    expect(locked.stdout).toMatch(/closed\.validate\.waywarden\.dev is Fail now, and was Ignore/);
    expect((await doctor('--lock')).stdout).toMatch(/^nothing was unlocked/);
    const { metadata } = await guard.cluster.api.call<{
      metadata: { managedFields: { manager: string; fieldsV1: unknown }[] };
    }>('GET', '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/waywarden');
    const left = metadata.managedFields.find(({ manager }) => manager === 'waywarden-doctor');
    expect(JSON.stringify(left?.fieldsV1 ?? {})).not.toContain('failurePolicy');
    await until('a refusal', async () => {
      const { stderr } = await kubectl('apply', '--dry-run=server', '-f', '-', { input: noAdmin('orders', 'another') });
      return stderr.includes('denied the request: AuthorizationPolicy orders/another');
    });
  });
});

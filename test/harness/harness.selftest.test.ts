import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject } from './api.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { installCrds } from './crds.ts';
import { exposeLocal } from './expose.ts';
import { helm } from './helm.ts';
import { type Istiod, startIstiod } from './istio.ts';
import type { Pod } from './podstatus.ts';
import { startReplicas } from './replicas.ts';
import { until } from './wait.ts';
import { startWire } from './wire.ts';

const deployment = (name: string, namespace: string, replicas = 1) => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: ${name}, namespace: ${namespace} }
spec:
  replicas: ${replicas}
  selector: { matchLabels: { app: ${name} } }
  template:
    metadata: { labels: { app: ${name} } }
    spec: { containers: [{ name: app, image: app }] }
`;

const namespace = (name: string, labels: Record<string, string> = {}) => `
apiVersion: v1
kind: Namespace
metadata: { name: ${name}, labels: ${JSON.stringify(labels)} }
---`;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ nodes: [{ name: 'node-1' }, { name: 'old', version: 'v1.28.3' }] });
});
afterAll(async () => {
  await cluster?.stop();
  expect(existsSync(cluster.dir)).toBe(false);
});

async function podsOf(where: Cluster, inNamespace: string): Promise<Pod[]> {
  return (await where.api.call<{ items: Pod[] }>('GET', `/api/v1/namespaces/${inNamespace}/pods`)).items;
}

describe('a cluster', () => {
  it('runs the pods of a Deployment, a DaemonSet and a Job', async () => {
    await cluster.apply(`${namespace('work')}
${deployment('web', 'work', 3)}---
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: agent, namespace: work }
spec:
  selector: { matchLabels: { app: agent } }
  template:
    metadata: { labels: { app: agent } }
    spec: { containers: [{ name: app, image: app }] }
---
apiVersion: batch/v1
kind: Job
metadata: { name: once, namespace: work }
spec: { template: { spec: { restartPolicy: Never, containers: [{ name: app, image: app }] } } }
`);
    const waits = await Promise.all([
      cluster.kubectl('rollout', 'status', 'deployment/web', '-n', 'work', '--timeout=20s'),
      cluster.kubectl('rollout', 'status', 'daemonset/agent', '-n', 'work', '--timeout=20s'),
      cluster.kubectl('wait', '--for=condition=Complete', 'job/once', '-n', 'work', '--timeout=20s'),
    ]);
    expect(waits.map(each => each.code)).toEqual([0, 0, 0]);
    const agents = (await podsOf(cluster, 'work')).filter(pod => pod.metadata.labels?.['app'] === 'agent');
    expect(agents.map(pod => pod.spec.nodeName).sort()).toEqual(['node-1', 'old']);
    const addresses = (await podsOf(cluster, 'work')).map(pod => pod.status?.podIP);
    expect(new Set(addresses).size).toBe(addresses.length);
  });

  it('has nodes with the kubelets asked for, and their leases', async () => {
    const { stdout } = await cluster.kubectl('get', 'nodes', '--no-headers');
    expect(stdout).toMatch(/node-1\s+Ready\s.*v1\.36/);
    expect(stdout).toMatch(/old\s+Ready\s.*v1\.28\.3/);
    const leases = await cluster.kubectl('get', 'leases', '-n', 'kube-node-lease', '-o', 'name');
    expect(leases.stdout.trim().split('\n')).toHaveLength(2);
  });

  it('marks pods as istio-cni does, and takes the mark away with the label', async () => {
    await cluster.apply(`${namespace('mesh', { 'istio.io/dataplane-mode': 'ambient' })}\n${deployment('web', 'mesh')}`);
    const mark = async () => (await podsOf(cluster, 'mesh'))[0]?.metadata.annotations?.['ambient.istio.io/redirection'];
    await until('the mark', async () => (await mark()) === 'enabled');
    await cluster.kubectl('label', 'namespace', 'mesh', 'istio.io/dataplane-mode-');
    await until('the mark to go', async () => (await mark()) === undefined);
  });

  it('holds pods back until they are let go', async () => {
    const release = cluster.kubelet.hold(pod => pod.metadata.name === 'late');
    await cluster.kubectl('run', 'late', '--image=app');
    const phase = async () => (await cluster.kubectl('get', 'pod', 'late', '-o', 'jsonpath={.status.phase}')).stdout;
    await new Promise(resolve => setTimeout(resolve, 500));
    expect(await phase()).toBe('Pending');
    release();
    await until('the pod to run', async () => (await phase()) === 'Running');
  });

  it('deletes a namespace completely', async () => {
    const { code } = await cluster.kubectl('delete', 'namespace', 'work', '--timeout=60s');
    expect(code).toBe(0);
    expect((await cluster.kubectl('get', 'namespace', 'work')).stderr).toContain('NotFound');
  });

  it('gives a ServiceAccount the rights it has and no more', async () => {
    const kubeconfig = await cluster.kubeconfigFor('default', 'default');
    const { stdout } = await cluster.kubectl('auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}', {
      kubeconfig,
    });
    expect(stdout).toBe('system:serviceaccount:default:default');
    expect((await cluster.kubectl('get', 'pods', { kubeconfig })).stderr).toContain('Forbidden');
  });

  it('takes a Helm chart, and waits for its hooks and its pods', async () => {
    const chart = join(cluster.dir, 'chart');
    mkdirSync(join(chart, 'templates'), { recursive: true });
    writeFileSync(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: tiny\nversion: 0.1.0\n');
    writeFileSync(join(chart, 'templates', 'web.yaml'), deployment('tiny', 'charts'));
    writeFileSync(
      join(chart, 'templates', 'hook.yaml'),
      `
apiVersion: v1
kind: Pod
metadata: { name: before, annotations: { helm.sh/hook: pre-install } }
spec: { restartPolicy: Never, containers: [{ name: app, image: app }] }
`,
    );
    const args = ['install', 'tiny', chart, '-n', 'charts', '--create-namespace', '--wait', '--timeout', '30s'];
    const { code, stderr } = await helm(cluster, ...args);
    expect([code, stderr]).toEqual([0, '']);
    expect((await cluster.kubectl('rollout', 'status', 'deployment/tiny', '-n', 'charts', '--timeout=1s')).code).toBe(
      0,
    );
  });

  it('can be watched over a wire that goes silent', async () => {
    const wire = await startWire(cluster.port);
    try {
      const kubeconfig = await cluster.kubeconfigFor('kube-system', 'generic-garbage-collector', { port: wire.port });
      const args = ['get', 'namespaces', '--watch-only', '--no-headers', '-o', 'name', '--request-timeout=4s'];
      const whole = cluster.kubectl(...args, { kubeconfig });
      await until('the watch', () => wire.open() > 0);
      await new Promise(resolve => setTimeout(resolve, 300));
      await cluster.apply(namespace('heard'));
      await new Promise(resolve => setTimeout(resolve, 300));
      wire.silence();
      await cluster.apply(namespace('unheard'));
      const { stdout } = await whole;
      expect(stdout).toContain('namespace/heard');
      expect(stdout).not.toContain('namespace/unheard');
      const again = await cluster.kubectl('get', 'namespace', 'unheard', { kubeconfig });
      expect(again.code).toBe(0);
    } finally {
      await wire.stop();
    }
  });

  it('goes on after its API server was restarted and after etcd was paused', async () => {
    await cluster.restartApiServer();
    await cluster.restartApiServer('SIGKILL');
    cluster.pauseEtcd();
    const stuck = await cluster.kubectl('create', 'configmap', 'stuck', '--request-timeout=1s');
    expect(stuck.code).toBe(1);
    cluster.resumeEtcd();
    await cluster.apply(deployment('after', 'default', 2));
    const { code } = await cluster.kubectl('rollout', 'status', 'deployment/after', '--timeout=30s');
    expect(code).toBe(0);
  });

  it('has another one beside it', async () => {
    const second = await startCluster();
    try {
      await second.apply(deployment('only-here', 'default'));
      expect((await second.kubectl('rollout', 'status', 'deployment/only-here', '--timeout=20s')).code).toBe(0);
      expect((await cluster.kubectl('get', 'deployment', 'only-here')).stderr).toContain('NotFound');
    } finally {
      await second.stop();
    }
    expect(existsSync(second.dir)).toBe(false);
    expect((await cluster.kubectl('get', 'namespaces')).code).toBe(0);
  });
});

describe('Istio 1.31', () => {
  let istiod: Istiod;
  beforeAll(async () => {
    await installCrds(cluster, { gatewayApi: '1.6.1', channel: 'experimental', istio: '1.31', inference: true });
    istiod = await startIstiod(cluster, { version: '1.31', env: { ENABLE_NATIVE_SIDECARS: 'true' } });
  });
  afterAll(() => istiod?.stop());

  it('gives a waypoint an address and tells ztunnel of it', async () => {
    await cluster.apply(`${namespace('shop', { 'istio.io/dataplane-mode': 'ambient', 'istio.io/use-waypoint': 'waypoint' })}
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: waypoint, namespace: shop }
spec:
  gatewayClassName: istio-waypoint
  listeners: [{ name: mesh, port: 15008, protocol: HBONE }]
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { selector: { app: web }, ports: [{ name: http, port: 80 }] }
---${deployment('web', 'shop')}`);
    const bound = await until('web to have its waypoint', async () => {
      const { services } = await istiod.ambientz();
      return services.find(each => each['name'] === 'web' && each['namespace'] === 'shop' && each['waypoint']);
    });
    expect(bound['waypoint']).toMatchObject({ hostname: { hostname: 'waypoint.shop.svc.cluster.local' } });
    type Gateway = KubeObject & { status: { addresses?: { type: string }[] } };
    const path = '/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/waypoint';
    const addresses = async () => (await cluster.api.call<Gateway>('GET', path)).status.addresses;
    expect((await until('its address', addresses)).map(each => each.type)).toContain('IPAddress');
  });

  it('tells a waypoint what to do', async () => {
    const pod = (await podsOf(cluster, 'shop')).find(each => each.metadata.name.startsWith('waypoint-'));
    const { name = '', labels } = pod?.metadata ?? {};
    const proxy = { type: 'waypoint', ip: pod?.status?.podIP ?? '', pod: name, namespace: 'shop', labels } as const;
    const { LDS = [], CDS = [] } = await istiod.xds(proxy, 'LDS', 'CDS');
    expect(LDS.length).toBeGreaterThan(0);
    expect(JSON.stringify(CDS)).toContain('web.shop.svc.cluster.local');
  });

  it('injects a native sidecar where the namespace asks for one', async () => {
    await cluster.apply(`${namespace('classic', { 'istio-injection': 'enabled' })}\n${deployment('web', 'classic')}`);
    const pod = await until('the pod', async () => (await podsOf(cluster, 'classic'))[0]);
    expect(pod.spec.initContainers?.map(each => each.name)).toContain('istio-proxy');
  });

  it("has Istio's own validation", async () => {
    const policy = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: { name: bad, namespace: shop }
spec: { rules: [{ from: [{ source: { ipBlocks: [nonsense] } }] }] }`;
    await expect(cluster.apply(policy)).rejects.toThrow(/validation\.istio\.io.*bad IP address/s);
  });

  it('has a second control plane of 1.30 under a revision', async () => {
    const canary = await startIstiod(cluster, {
      version: '1.30',
      revision: 'canary',
      env: { ENABLE_NATIVE_SIDECARS: 'false' },
    });
    await cluster.apply(`${namespace('older', { 'istio.io/rev': 'canary' })}\n${deployment('web', 'older')}`);
    const pod = await until('the pod', async () => (await podsOf(cluster, 'older'))[0]);
    expect(pod.spec.containers.map(each => each.name)).toContain('istio-proxy');
    await canary.stop();
  });
});

// What `waywarden serve` is to the harness, in a few lines: allows everything, and says which process it was.
const stub = `
import { createServer } from 'node:https';
import { createServer as plain } from 'node:http';
import { readFileSync } from 'node:fs';
const [https, health, certificate] = process.argv.slice(2);
const pem = readFileSync(certificate);
createServer({ key: pem, cert: pem, keepAliveTimeout: 120_000 }, async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const { request: { uid } } = JSON.parse(text);
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: { uid, allowed: true, warnings: ['seen by ' + process.pid] } };
  response.setHeader('content-type', 'application/json').end(JSON.stringify(review));
}).listen(Number(https), '127.0.0.1');
plain((request, response) => response.end('ok')).listen(Number(health), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
`;

describe('replicas behind a Service', () => {
  it('answer the API server while one is killed and while all are replaced', async () => {
    const { generate } = await import('selfsigned');
    const pem = await generate([{ name: 'commonName', value: 'guard.guard.svc' }], {
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'guard.guard.svc' }] }],
    });
    const program = join(cluster.dir, 'stub.mjs');
    const certificate = join(cluster.dir, 'stub.pem');
    writeFileSync(program, stub);
    writeFileSync(certificate, `${pem.private}\n${pem.cert}`);
    const replicas = await startReplicas(3, {
      program,
      args: ports => [String(ports.https), String(ports.health), certificate],
    });
    try {
      await cluster.apply(namespace('guard'));
      await exposeLocal(cluster, 'guard', 'guard', replicas.port);
      await cluster.apply(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: { name: guard }
webhooks:
  - name: guard.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    timeoutSeconds: 5
    clientConfig:
      caBundle: ${Buffer.from(pem.cert).toString('base64')}
      service: { namespace: guard, name: guard, path: /validate, port: ${replicas.port} }
    rules: [{ apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: [CREATE] }]
    namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: guard } }
`);
      const create = (name: string) => cluster.kubectl('create', 'configmap', name, '-n', 'guard');
      await until('the webhook to be asked', async () =>
        (await create(`first-${Date.now()}`)).stderr.includes('seen by'),
      );
      replicas.list()[0]?.kill('SIGKILL');
      await until('the kill', () => !replicas.list()[0]?.alive());
      const before = new Set(replicas.list().map(each => each.pid));
      expect((await create('after-kill')).stderr).toContain('seen by');
      await replicas.roll();
      expect(replicas.list().some(each => before.has(each.pid))).toBe(false);
      const { stderr, code } = await create('after-roll');
      expect(code).toBe(0);
      expect(replicas.list().map(each => `Warning: seen by ${each.pid}\n`)).toContain(stderr);
    } finally {
      await replicas.stop();
    }
    expect((await cluster.kubectl('create', 'configmap', 'alone', '-n', 'guard')).stderr).toContain(
      'failed calling webhook',
    );
  });
});

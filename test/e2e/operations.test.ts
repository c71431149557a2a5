// Every way in which people write objects: what kubectl prints for each.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyObjects, type Manifest } from '../harness/objects.ts';
import { until } from '../harness/wait.ts';
import { type Installed, install } from './support/installation.ts';
import { ambientNamespace, answers, app, installAmbient, namespace, noAdmin, stateOf } from './support/mesh.ts';

let guard: Installed;
beforeAll(async () => {
  guard = await install({ replicas: 2 });
  await installAmbient(guard.cluster);
  await guard.cluster.apply(ambientNamespace('orders') + app('orders'));
  await answers(guard.cluster, noAdmin('orders'), ({ code }) => code === 1);
});
afterAll(() => guard?.stop());

/** Istio's injector as an object: nobody is there to answer, so nobody must wait for it. */
function unanswered(object: Manifest): Manifest {
  const webhooks = (object['webhooks'] as object[]).map(entry => ({
    ...entry,
    failurePolicy: 'Ignore',
    timeoutSeconds: 1,
  }));
  return { ...object, webhooks };
}

const kubectl: Installed['cluster']['kubectl'] = (...args) => guard.cluster.kubectl(...args);
const DENIED =
  /admission webhook "closed\.validate\.waywarden\.dev" denied the request: AuthorizationPolicy orders\/no-admin: /;
const byPort = noAdmin('orders').replace('paths: ["/admin*"]', 'ports: ["8080"]');
const exists = async (...what: string[]) => (await kubectl('get', ...what, '-o', 'name')).code === 0;

describe('a policy that nothing enforces is refused', () => {
  it.each([
    ['apply', ['apply', '-f', '-']],
    ['apply --server-side', ['apply', '--server-side', '-f', '-']],
    ['create', ['create', '-f', '-']],
    ['apply --dry-run=server', ['apply', '--dry-run=server', '-f', '-']],
    ['create --dry-run=server', ['create', '--dry-run=server', '-f', '-']],
    ['diff', ['diff', '-f', '-']],
  ])('by %s, with effect, evidence and fix', async (_, args) => {
    const { code, stderr } = await kubectl(...args, { input: noAdmin('orders') });
    expect(code).toBeGreaterThan(0);
    expect(stderr).toMatch(DENIED);
    expect(stderr).toMatch(/^ {2}Evidence: .*Deployment orders\/web/m);
    expect(stderr).toMatch(/^ {2}Fix: /m);
    expect(await exists('authorizationpolicy', 'no-admin', '-n', 'orders')).toBe(false);
  });

  it.each([
    ['apply', ['apply', '-f', '-']],
    ['apply --server-side', ['apply', '--server-side', '--force-conflicts', '-f', '-']],
    ['replace', ['replace', '-f', '-']],
    ['replace --dry-run=server', ['replace', '--dry-run=server', '-f', '-']],
    ['diff', ['diff', '-f', '-']],
  ])('by %s where it was enforced before', async (_, args) => {
    await guard.cluster.apply(byPort);
    const { code, stderr } = await kubectl(...args, { input: noAdmin('orders') });
    expect(code).toBeGreaterThan(0);
    expect(stderr).toMatch(DENIED);
    const { stdout } = await kubectl('get', 'authorizationpolicy', 'no-admin', '-n', 'orders', '-o', 'json');
    expect(JSON.parse(stdout).spec.rules).toEqual([{ to: [{ operation: { ports: ['8080'] } }] }]);
  });

  it.each([
    ['json', [{ op: 'replace', path: '/spec/rules/0/to/0/operation', value: { paths: ['/admin'] } }]],
    ['merge', { spec: { rules: [{ to: [{ operation: { paths: ['/admin'] } }] }] } }],
  ])('by patch --type=%s', async (type, patch) => {
    await guard.cluster.apply(byPort);
    const { code, stderr } = await kubectl(
      'patch',
      'authorizationpolicy',
      'no-admin',
      '-n',
      'orders',
      `--type=${type}`,
      '-p',
      JSON.stringify(patch),
    );
    expect(code).toBe(1);
    expect(stderr).toMatch(DENIED);
  });

  it('by an update as `kubectl edit` makes it, with the resourceVersion that was read', async () => {
    await guard.cluster.apply(byPort);
    const { stdout } = await kubectl('get', 'authorizationpolicy', 'no-admin', '-n', 'orders', '-o', 'json');
    const edited = stdout.replace(/"ports": \[\s*"8080"\s*\]/, '"paths": ["/admin"]');
    expect(edited).not.toBe(stdout);
    const { code, stderr } = await kubectl('replace', '-f', '-', { input: edited });
    expect(code).toBe(1);
    expect(stderr).toMatch(DENIED);
  });
});

describe('what makes nothing worse passes', () => {
  it('labels, annotations, scale and delete of what was wrong before', async () => {
    await kubectl('delete', 'authorizationpolicy', 'no-admin', '-n', 'orders', '--ignore-not-found');
    expect((await guard.unasked('create', '-f', '-', { input: noAdmin('orders') })).code).toBe(0);
    for (const args of [
      ['label', 'authorizationpolicy', 'no-admin', '-n', 'orders', 'team=web'],
      ['annotate', 'authorizationpolicy', 'no-admin', '-n', 'orders', 'note=web'],
      ['scale', 'deployment', 'web', '-n', 'orders', '--replicas=3'],
      ['rollout', 'restart', 'deployment/web', '-n', 'orders'],
      ['delete', 'authorizationpolicy', 'no-admin', '-n', 'orders'],
    ]) {
      const { code, stderr } = await kubectl(...args);
      expect([code, stderr], args.join(' ')).toEqual([0, expect.not.stringContaining('denied the request')]);
    }
  });
});

describe('versions', () => {
  it('judges AuthorizationPolicy v1beta1 as what it is', async () => {
    await kubectl('delete', 'authorizationpolicy', 'no-admin', '-n', 'orders', '--ignore-not-found');
    const { code, stderr } = await kubectl('apply', '-f', '-', {
      input: noAdmin('orders').replace('security.istio.io/v1', 'security.istio.io/v1beta1'),
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(DENIED);
  });

  const upstream = (version: string) => `
apiVersion: gateway.networking.k8s.io/${version}
kind: BackendTLSPolicy
metadata: { name: upstream, namespace: orders }
spec:
  targetRefs: [{ group: "", kind: Service, name: web }]
  validation: { hostname: web.example.test, wellKnownCACertificates: System }
`;
  it('refuses BackendTLSPolicy v1alpha3, though the API server would convert it', async () => {
    const { code, stderr } = await kubectl('apply', '-f', '-', { input: upstream('v1alpha3') });
    expect(code).toBe(1);
    expect(stderr).toMatch(/denied the request: BackendTLSPolicy orders\/upstream: .*/);
    expect(stderr).toContain('stale-api-version');
    const current = await kubectl('apply', '-f', '-', { input: upstream('v1') });
    expect([current.code, current.stderr]).toEqual([0, expect.not.stringContaining('stale-api-version')]);
  });
});

describe('InferencePool', () => {
  const pool = (endpointPickerRef: string, more = '') => `
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: { name: chat, namespace: orders }
spec:
  selector: { matchLabels: { app: web } }
  targetPorts: [{ number: 8000 }]
  endpointPickerRef: { ${endpointPickerRef} }
  ${more}
`;
  it('without the picker’s port is repaired, and stored so', async () => {
    await guard.cluster.apply(`
apiVersion: v1
kind: Service
metadata: { name: picker, namespace: orders }
spec: { selector: { app: picker }, ports: [{ name: grpc, port: 9002, appProtocol: kubernetes.io/h2c }] }
`);
    await until('the Service to be known', async () => {
      const { code, stderr } = await kubectl('apply', '--dry-run=server', '-f', '-', { input: pool('name: picker') });
      if (code !== 0) throw new Error(stderr);
      return true;
    });
    const { code, stderr } = await kubectl('apply', '-f', '-', { input: pool('name: picker') });
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^Warning: .*port/m)]);
    const { stdout } = await kubectl(
      'get',
      'inferencepool',
      'chat',
      '-n',
      'orders',
      '-o',
      'jsonpath={.spec.endpointPickerRef.port.number}',
    );
    expect(stdout).toBe('9002');
  });

  it('with a removed field says what the API server says, under strict validation', async () => {
    const { code, stderr } = await kubectl('apply', '--validate=strict', '-f', '-', {
      input: pool('name: picker, port: { number: 9002 }', 'targetPortNumber: 8000'),
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(/unknown field "spec\.targetPortNumber"/);
  });
});

describe('what the author cannot see', () => {
  /** Somebody's own mutation puts a second proxy into each pod: the templates of Deployments do not show it. */
  const MUTATION = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: { name: second-proxy }
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: { matchLabels: { istio-injection: enabled } }
    resourceRules: [{ apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods] }]
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          [JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "istio-proxy", image: "auto"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: { name: second-proxy }
spec: { policyName: second-proxy }
`;
  const odd = `
apiVersion: apps/v1
kind: Deployment
metadata: { name: odd, namespace: sidecars }
spec:
  selector: { matchLabels: { app: odd } }
  template:
    metadata: { labels: { app: odd } }
    spec:
      initContainers: [{ name: istio-proxy, image: auto, restartPolicy: Always }]
      containers: [{ name: app, image: registry.example.test/odd:1 }]
`;
  const pods = async () => (await kubectl('get', 'pods', '-n', 'sidecars', '-o', 'name')).stdout;

  it('a denied pod shows in the condition of its Deployment, and as an Event', async () => {
    await applyObjects(
      guard.cluster.api,
      stateOf('sidecar')
        .filter(({ kind }) => kind.endsWith('WebhookConfiguration'))
        .map(unanswered),
    );
    await guard.cluster.apply(namespace('sidecars', { 'istio-injection': 'enabled' }));
    await guard.cluster.apply(MUTATION);
    // the API server learns of mutations a moment later
    await until('the mutation', async () => {
      const pod = {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'probe' },
        spec: { containers: [{ name: 'app', image: 'app' }] },
      };
      const { body } = await guard.cluster.api.send('POST', '/api/v1/namespaces/sidecars/pods?dryRun=All', pod);
      return JSON.stringify(body).includes('"istio-proxy"');
    });
    const created = await kubectl('create', '-f', '-', { input: odd });
    expect([created.code, created.stderr]).toEqual([0, expect.not.stringContaining('denied the request')]);
    const condition = await until('the condition', async () => {
      const { stdout } = await kubectl('get', 'deployment', 'odd', '-n', 'sidecars', '-o', 'json');
      const { conditions = [] } = JSON.parse(stdout).status as { conditions?: { type: string; message: string }[] };
      return conditions.find(({ type }) => type === 'ReplicaFailure')?.message;
    });
    expect(condition).toMatch(/waywarden\.dev" denied the request: Pod sidecars\//);
    expect(await pods()).toBe('');
    const events = await until('the Event', async () => {
      const { stdout } = await kubectl(
        'get',
        'events',
        '-n',
        'sidecars',
        '--field-selector=reason=WaywardenDenied',
        '-o',
        'json',
      );
      const { items } = JSON.parse(stdout) as {
        items: { involvedObject: { kind: string; name: string }; message: string }[];
      };
      return items.length > 0 ? items : undefined;
    });
    expect(events[0]?.involvedObject.kind).toBe('ReplicaSet');
    expect(events[0]?.involvedObject.name).toMatch(/^odd-/);
    expect(events[0]?.message).toMatch(/^refused Pod sidecars\//);
    // the controller tries again and again; it is said once by each replica
    expect(events.length).toBeLessThanOrEqual(2);
  });

  it('a dry run leaves no Event', async () => {
    const before = (await kubectl('get', 'events', '-A', '-o', 'name')).stdout;
    const account = 'system:serviceaccount:argocd:controller';
    await kubectl('apply', '--dry-run=server', '--as', account, '--as-group=system:masters', '-f', '-', {
      input: noAdmin('orders', 'synced'),
    });
    await sleep(300);
    const waywarden = (text: string) => text.split('\n').filter(line => line.includes('waywarden.'));
    expect(waywarden((await kubectl('get', 'events', '-A', '-o', 'name')).stdout)).toEqual(waywarden(before));
    const synced = await kubectl('apply', '--as', account, '--as-group=system:masters', '-f', '-', {
      input: noAdmin('orders', 'synced'),
    });
    expect(synced.code).toBe(1);
    await until('the Event', async () => {
      const { stdout } = await kubectl(
        'get',
        'events',
        '-n',
        'orders',
        '--field-selector=reason=WaywardenDenied',
        '-o',
        'jsonpath={.items[*].involvedObject.name}',
      );
      return stdout === 'synced';
    });
  });
});

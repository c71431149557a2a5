// `check` judges a set: in any order, with what the manifests bring themselves, and without claiming what nobody knows.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { check } from '../src/cli/check.ts';
import { DEFAULT_CONFIG } from '../src/config/default.ts';
import { spoken } from '../src/kube/kind.ts';
import type { CheckReport } from '../src/report/report.ts';

const folder = mkdtempSync(join(tmpdir(), 'waywarden-check-'));
afterAll(() => rmSync(folder, { recursive: true }));

const EXAMPLES = join(import.meta.dirname, '../examples');
const MESH = join(EXAMPLES, 'mesh.yaml');

function written(name: string, content: string): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

function said({ findings }: CheckReport): readonly string[] {
  return findings
    .map(({ finding }) => `${spoken(finding.subject)}: ${finding.action} ${finding.finding} ${finding.key}`)
    .sort();
}

/** Refused unless a waypoint serves the Service. */
function readOnly(namespace: string, service: string): string {
  return `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: { name: read-only, namespace: ${namespace} }
spec:
  targetRefs: [{ group: "", kind: Service, name: ${service} }]
  rules: [{ to: [{ operation: { methods: [GET] } }] }]
`;
}

test('what one manifest brings, another may rely on', async () => {
  const policy = written('policy.yaml', readOnly('shop', 'storefront'));
  const { findings, notices } = await check([policy, MESH], [], DEFAULT_CONFIG);
  expect({ findings, notices }).toEqual({ findings: [], notices: [] });
  expect(said(await check([policy], [MESH], DEFAULT_CONFIG))).toEqual([]);
});

test('what is missing in a set with an istiod is missing', async () => {
  const policy = written('policy.yaml', readOnly('payments', 'ledger'));
  expect(said(await check([policy, MESH], [], DEFAULT_CONFIG))).toMatchObject([
    expect.stringMatching(/^AuthorizationPolicy payments\/read-only: deny target-without-waypoint/),
  ]);
});

test('without an istiod nothing is refused for want of something, and what was skipped is said; a release changes nothing there', async () => {
  const policy = written('policy.yaml', readOnly('payments', 'ledger'));
  for (const declared of [DEFAULT_CONFIG.declared, { ...DEFAULT_CONFIG.declared, istio: '1.31' }]) {
    const { findings, notices } = await check([policy], [], { ...DEFAULT_CONFIG, declared });
    expect(findings.filter(({ finding }) => finding.action === 'deny')).toEqual([]);
    expect(notices.join()).toContain('some checks were skipped');
  }
});

test('the order of objects and files does not matter', async () => {
  const documents = readFileSync(MESH, 'utf8').split(/^---\n/m);
  const mistakes = ['deny-that-denies-nothing', 'target-without-waypoint', 'both-data-planes'].map(name =>
    readFileSync(join(EXAMPLES, 'mistakes', `${name}.yaml`), 'utf8'),
  );
  const expected = said(await check([MESH, join(EXAMPLES, 'mistakes')], [], DEFAULT_CONFIG)).filter(line =>
    /no-admin|read-only|reporting/.test(line),
  );
  expect(expected).toHaveLength(3);
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray([...documents, ...mistakes], { minLength: documents.length + 3 }),
      fc.nat(20),
      async (order, cut) => {
        const files = [order.slice(0, cut), order.slice(cut)].map((part, index) =>
          written(`${index}.yaml`, part.join('---\n')),
        );
        expect(said(await check(files, [], DEFAULT_CONFIG))).toEqual(expected);
      },
    ),
    { numRuns: 25 },
  );
});

test('a change in the set that takes something from the state is told with the object it hits', async () => {
  const state = written('state.yaml', `${readFileSync(MESH, 'utf8')}---\n${readOnly('shop', 'storefront')}`);
  const change = written(
    'change.yaml',
    'apiVersion: v1\nkind: Namespace\nmetadata: { name: shop, labels: { istio.io/dataplane-mode: ambient } }\n',
  );
  const { findings } = await check([change], [state], DEFAULT_CONFIG);
  const hit = findings.find(({ finding }) => finding.subject.name === 'read-only');
  expect(hit).toMatchObject({ finding: { action: 'deny', standing: 'new' }, position: { file: state } });
});

test('an object that stands in two files is judged as the last has it, and that is said', async () => {
  const one = written(
    'one.yaml',
    'apiVersion: v1\nkind: Namespace\nmetadata: { name: a, labels: { istio.io/dataplane-mod: ambient } }\n',
  );
  const two = written('two.yaml', 'apiVersion: v1\nkind: Namespace\nmetadata: { name: a }\n');
  const { findings, notices } = await check([one, two], [], DEFAULT_CONFIG);
  expect(findings).toEqual([]);
  expect(notices).toEqual([
    `waywarden: Namespace a stands there more than once, and only the last is judged (${two}:1:1)`,
  ]);
});

const WAYPOINT = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: ledger, namespace: payments }
spec:
  gatewayClassName: istio-waypoint
  listeners: [{ name: mesh, port: 15008, protocol: HBONE }]
`;
const BOUND = `apiVersion: v1
kind: Service
metadata: { name: ledger, namespace: payments, labels: { istio.io/use-waypoint: ledger } }
spec: { clusterIP: 10.96.0.9, selector: { app: ledger }, ports: [{ name: http, port: 80, targetPort: 8080 }] }
`;
const RUNNING = 'status: { addresses: [{ type: IPAddress, value: 10.96.0.10 }] }\n';
const HPA = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: { name: ledger, namespace: payments }
spec: { minReplicas: 2, maxReplicas: 4, scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: ledger } }
`;

test('a waypoint that comes with what it is for counts as it will be once it runs', async () => {
  const set = written('new-shop.yaml', [WAYPOINT, BOUND, HPA, readOnly('payments', 'ledger')].join('---\n'));
  expect(said(await check([set], [MESH], DEFAULT_CONFIG))).toEqual([]);
});

test('what the cluster knows of the status of an object stays as it is', async () => {
  const live = [`${WAYPOINT}${RUNNING}`, BOUND, HPA, readOnly('payments', 'ledger')].join('---\n');
  const unchanged = written('gateway.yaml', WAYPOINT);
  expect(said(await check([unchanged], [MESH, written('live.yaml', live)], DEFAULT_CONFIG))).toEqual([]);
  // a waypoint that the cluster knows to be without an address is not there because Git names it again
  const pending = written('pending.yaml', live.replace(RUNNING, 'status: { conditions: [] }\n'));
  const again = await check(
    [written('second.yaml', readOnly('payments', 'ledger').replace('read-only', 'second')), unchanged],
    [MESH, pending],
    DEFAULT_CONFIG,
  );
  expect(said(again).join()).toContain('waypoint-pending');
});

test('namespaces that are left alone are left alone here too', async () => {
  const policy = written('policy.yaml', readOnly('payments', 'ledger'));
  const settings = { ...DEFAULT_CONFIG.settings, unguarded: ['payments'] };
  expect(said(await check([policy], [MESH], { ...DEFAULT_CONFIG, settings }))).toEqual([]);
});

test("values of Istio's charts are judged as settings, with their lines", async () => {
  const file = written('istiod.yaml', 'pilot:\n  env:\n    METRIC_ROTATION_INTERVAL: 1m\n');
  const config = { ...DEFAULT_CONFIG, declared: { ...DEFAULT_CONFIG.declared, istio: '1.31' } };
  const { findings } = await check([], [], config, undefined, [{ chart: 'istiod', file }]);
  expect(findings).toMatchObject([{ finding: { finding: 'setting-removed' }, position: { file, line: 3, column: 5 } }]);
  await expect(check([], [], config, undefined, [{ chart: 'istod', file }])).rejects.toThrow('did you mean "istiod"');
});

test('several files of values for one chart are merged as helm does it, and each finding has the place of its file', async () => {
  const config = { ...DEFAULT_CONFIG, declared: { ...DEFAULT_CONFIG.declared, istio: '1.31' } };
  const env = (lines: string) => `pilot:\n  env:\n${lines}`;
  const base = written('base.yaml', env('    METRIC_ROTATION_INTERVAL: 1m\n    PILOT_ENABLE_AMBIENT: maybe\n'));
  const prod = written('prod.yaml', `# production\n${env('    PILOT_ENABLE_AMBIENT: "true"\n')}`);
  const judged = async (...files: readonly string[]) => {
    const charts = ['istiod', 'istio-discovery'];
    const values = files.map((file, index) => ({ chart: charts[index % 2] ?? '', file }));
    const { findings, notices } = await check([], [], config, undefined, values);
    const found = findings.map(({ finding, position }) => [finding.finding, position?.file, position?.line]);
    return { found, notices };
  };
  const rotation = ['setting-removed', base, 3];
  expect(await judged(base, prod)).toMatchObject({ found: [rotation], notices: [] });
  expect((await judged(prod, base)).found).toEqual([rotation, ['not-a-boolean', base, 4]]);
  const wrong = written('wrong.yaml', `# later\n${env('    PILOT_ENABLE_AMBIENT: perhaps\n')}`);
  expect((await judged(base, prod, wrong)).found).toEqual([rotation, ['not-a-boolean', wrong, 4]]);
});

test.each([
  ['', 'there are no values in it'],
  ['- a\n', ':1:1: this is no mapping, and not the values of a chart'],
  ['apiVersion: v1\nkind: Namespace\n', ':1:1: this is a Kubernetes object, and not the values of a chart'],
])('%j are no values of a chart', async (content, expected) => {
  const file = written('no-values.yaml', content);
  await expect(check([], [], DEFAULT_CONFIG, undefined, [{ chart: 'istiod', file }])).rejects.toThrow(expected);
});

test('values of no file', async () => {
  await expect(check([], [], DEFAULT_CONFIG, undefined, [{ chart: 'istiod', file: '' }])).rejects.toThrow('CHART=FILE');
});

test('releases beyond what is known are said once', async () => {
  const beyond = { ...DEFAULT_CONFIG, declared: { ...DEFAULT_CONFIG.declared, istio: '1.99' } };
  const { notices } = await check([written('policy.yaml', readOnly('payments', 'ledger'))], [], beyond);
  expect(notices.filter(notice => notice.includes('1.99'))).toHaveLength(1);
});

test('a waypoint that KEDA scales has the autoscaler that KEDA makes, though Git has none', async () => {
  const scaled = (least: string) => `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: scaled, namespace: shop }
spec: { gatewayClassName: istio-waypoint, listeners: [{ name: mesh, port: 15008, protocol: HBONE }] }
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: { name: scaled, namespace: shop }
spec: { scaleTargetRef: { name: scaled }, ${least}maxReplicaCount: 6, triggers: [] }
`;
  const enough = written('scaled.yaml', scaled('minReplicaCount: 2, '));
  expect(said(await check([enough], [MESH], DEFAULT_CONFIG))).toEqual([]);
  const one = written('scaled-from-one.yaml', scaled('minReplicaCount: 1, '));
  const report = await check([one], [MESH], DEFAULT_CONFIG);
  expect(report.findings.map(({ finding, position }) => [finding.finding, position?.line])).toEqual([
    ['hpa-minimum-one', 6],
  ]);
  expect(report.objects).toBe(2);
  // KEDA's default is none: its autoscaler begins at one
  const none = written('scaled-from-none.yaml', scaled(''));
  expect(said(await check([none], [MESH], DEFAULT_CONFIG))).toMatchObject([expect.stringContaining('hpa-minimum-one')]);
});

test('what is said of several control planes does not depend on the order of the files', async () => {
  const istiod = (revision: string, release: string) =>
    written(
      `istiod-${revision}.yaml`,
      `apiVersion: apps/v1
kind: Deployment
metadata: { name: istiod-${revision}, namespace: istio-system, labels: { app: istiod, istio.io/rev: ${revision} } }
spec:
  selector: { matchLabels: { app: istiod, istio.io/rev: ${revision} } }
  template:
    metadata: { labels: { app: istiod, istio.io/rev: ${revision} } }
    spec: { containers: [{ name: discovery, image: 'docker.io/istio/pilot:${release}', env: [{ name: REVISION, value: ${revision} }] }] }
`,
    );
  const ztunnel = written(
    'ztunnel-of-two.yaml',
    `apiVersion: apps/v1
kind: DaemonSet
metadata: { name: ztunnel, namespace: istio-system, labels: { app: ztunnel } }
spec:
  selector: { matchLabels: { app: ztunnel } }
  template:
    metadata: { labels: { app: ztunnel } }
    spec: { containers: [{ name: istio-proxy, image: 'docker.io/istio/ztunnel:1.28.3' }] }
`,
  );
  const planes = [istiod('older', '1.30.5'), istiod('newer', '1.31.1')];
  const texts = async (files: readonly string[]) =>
    (await check(files, [], DEFAULT_CONFIG)).findings.map(({ finding }) => `${finding.effect} ${finding.fix}`);
  const one = await texts([...planes, ztunnel]);
  expect(one).toEqual([expect.stringContaining('behind istiod newer 1.31.1')]);
  expect(await texts([ztunnel, ...planes.reverse()])).toEqual(one);
});

// `node test/e2e/measure.ts [--namespaces 10000] [--services 20000] [--pods 20000]`: figures for docs/measured.md, from a real API
// server on this machine. Build first: node scripts/build.ts
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Api } from '../harness/api.ts';
import type { Manifest } from '../harness/objects.ts';
import { until } from '../harness/wait.ts';
import build from './support/build.ts';
import { BREAK_GLASS, type Installed, install, VALIDATING } from './support/installation.ts';
import {
  ambientNamespace,
  answers,
  app,
  installAmbient,
  noAdmin,
  onService,
  program,
  waypoint,
} from './support/mesh.ts';

const { values } = parseArgs({
  options: {
    namespaces: { type: 'string', default: '10000' },
    services: { type: 'string', default: '20000' },
    pods: { type: 'string', default: '20000' },
    rounds: { type: 'string', default: '400' },
  },
});
const count = { namespaces: Number(values.namespaces), services: Number(values.services), pods: Number(values.pods) };
const rounds = Number(values.rounds);

const policy = (name: string) => ({
  apiVersion: 'security.istio.io/v1',
  kind: 'AuthorizationPolicy',
  metadata: { name },
  spec: {
    targetRefs: [{ kind: 'Service', group: '', name: 'web' }],
    action: 'DENY',
    rules: [{ to: [{ operation: { paths: ['/admin*'] } }] }],
  },
});

const quantile = (sorted: readonly number[], q: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0;
const shown = (milliseconds: number) => `${milliseconds.toFixed(1)} ms`;

/** Milliseconds of one dry-run write. */
async function once(api: Api, name: string): Promise<number> {
  const began = performance.now();
  const { status, body } = await api.send(
    'POST',
    '/apis/security.istio.io/v1/namespaces/measured/authorizationpolicies?dryRun=All',
    policy(name),
  );
  if (status !== 201) throw new Error(JSON.stringify(body));
  return performance.now() - began;
}

/** What a client of the API sees with the webhook and without it: one in turn with the other, in one run. */
async function latency({ cluster }: Installed): Promise<void> {
  const asked = cluster.api;
  const unasked = cluster.api.as('measuring', 'system:masters', BREAK_GLASS);
  const times: { asked: number[]; unasked: number[] } = { asked: [], unasked: [] };
  for (let round = -50; round < rounds; round += 1) {
    const withWebhook = await once(asked, `asked-${round}`);
    const without = await once(unasked, `unasked-${round}`);
    if (round < 0) continue;
    times.asked.push(withWebhook);
    times.unasked.push(without);
  }
  for (const list of Object.values(times)) list.sort((a, b) => a - b);
  for (const q of [0.5, 0.9, 0.99]) {
    const on = quantile(times.asked, q);
    const off = quantile(times.unasked, q);
    console.log(
      `latency p${q * 100}: ${shown(on)} with, ${shown(off)} without the webhook (mutate and validate): ratio ${(on / off).toFixed(2)}`,
    );
  }
}

/** What kubectl takes, start of the process included. */
async function kubectlLatency({ cluster, unasked }: Installed): Promise<void> {
  const input = JSON.stringify({ ...policy('by-kubectl'), metadata: { name: 'by-kubectl', namespace: 'measured' } });
  const times: { on: number[]; off: number[] } = { on: [], off: [] };
  for (let round = 0; round < 20; round += 1) {
    let began = performance.now();
    await cluster.kubectl('apply', '--dry-run=server', '-f', '-', { input });
    times.on.push(performance.now() - began);
    began = performance.now();
    await unasked('apply', '--dry-run=server', '-f', '-', { input });
    times.off.push(performance.now() - began);
  }
  for (const list of Object.values(times)) list.sort((a, b) => a - b);
  console.log(
    `kubectl apply --dry-run=server, median: ${shown(quantile(times.on, 0.5))} with, ${shown(quantile(times.off, 0.5))} without: ratio ${(quantile(times.on, 0.5) / quantile(times.off, 0.5)).toFixed(2)}`,
  );
}

/** From the answer to a change to the first verdict that knows of it. */
async function changeToVerdict({ cluster }: Installed): Promise<void> {
  const times: number[] = [];
  const path = '/api/v1/namespaces/measured/services/web';
  for (let round = 0; round < 40; round += 1) {
    const to = round % 2 === 0 ? null : 'waypoint';
    await cluster.api
      .as('measuring', 'system:masters', BREAK_GLASS)
      .call(
        'PATCH',
        path,
        { metadata: { labels: { 'istio.io/use-waypoint': to } } },
        { type: 'application/merge-patch+json' },
      );
    const began = performance.now();
    await until(
      'the verdict',
      async () => {
        const { status } = await cluster.api.send(
          'POST',
          '/apis/security.istio.io/v1/namespaces/measured/authorizationpolicies?dryRun=All',
          policy(`change-${round}`),
        );
        return (status === 201) === (to !== null);
      },
      { every: 1, timeout: 10_000 },
    );
    times.push(performance.now() - began);
  }
  times.sort((a, b) => a - b);
  console.log(
    `from a change to a verdict that knows of it: median ${shown(quantile(times, 0.5))}, longest ${shown(times.at(-1) ?? 0)} (${times.length} changes, the time of the request included)`,
  );
}

async function fill({ cluster }: Installed): Promise<void> {
  const api = cluster.api.as('measuring', 'system:masters', BREAK_GLASS);
  const send = async (jobs: Iterable<readonly [string, Manifest]>) => {
    const waiting = jobs[Symbol.iterator]();
    const worker = async () => {
      for (let next = waiting.next(); next.done !== true; next = waiting.next()) {
        const [path, object] = next.value;
        const { status, body } = await api.send('POST', path, object);
        if (status >= 400 && status !== 409) throw new Error(JSON.stringify(body));
      }
    };
    await Promise.all(Array.from({ length: 24 }, worker));
  };
  const name = (index: number) => `team-${index % count.namespaces}`;
  const began = performance.now();
  const labels = (index: number): Record<string, string> =>
    index % 3 === 0 ? { 'istio.io/dataplane-mode': 'ambient' } : {};
  await send(
    (function* namespaces() {
      for (let index = 0; index < count.namespaces; index += 1)
        yield [
          '/api/v1/namespaces',
          { apiVersion: 'v1', kind: 'Namespace', metadata: { name: name(index), labels: labels(index) } },
        ] as const;
    })(),
  );
  console.log(`${count.namespaces} namespaces after ${Math.round((performance.now() - began) / 1000)} s`);
  await send(
    (function* services() {
      for (let index = 0; index < count.services; index += 1)
        yield [
          `/api/v1/namespaces/${name(index)}/services`,
          {
            apiVersion: 'v1',
            kind: 'Service',
            metadata: {
              name: `web-${index}`,
              namespace: name(index),
              labels: { app: `web-${index}`, team: name(index) },
            },
            spec: {
              clusterIP: 'None',
              selector: { app: `web-${index}` },
              ports: [{ name: 'http', port: 80, targetPort: 8080 }],
            },
          },
        ] as const;
    })(),
  );
  console.log(`${count.services} services after ${Math.round((performance.now() - began) / 1000)} s`);
  await send(
    (function* pods() {
      for (let index = 0; index < count.pods; index += 1)
        yield [
          `/api/v1/namespaces/${name(index)}/pods`,
          {
            apiVersion: 'v1',
            kind: 'Pod',
            metadata: {
              name: `web-${index}`,
              namespace: name(index),
              labels: { app: `web-${index}`, 'pod-template-hash': `${index}` },
            },
            spec: {
              containers: [{ name: 'app', image: 'registry.example.test/web:1.4.2', ports: [{ containerPort: 8080 }] }],
            },
          },
        ] as const;
    })(),
  );
  console.log(`${count.pods} pods after ${Math.round((performance.now() - began) / 1000)} s`);
}

/** Figures are against writes that nobody is asked about, and those of a break-glass group are counted: from now on they are not. */
async function uncount({ cluster }: Installed): Promise<void> {
  const { webhooks } = await cluster.api.call<{ webhooks: readonly { readonly name: string }[] }>('GET', VALIDATING);
  const index = webhooks.findIndex(({ name }) => name.startsWith('break-glass.'));
  const emptied = [{ op: 'replace', path: `/webhooks/${index}/rules`, value: [] }];
  await cluster.api.call('PATCH', VALIDATING, emptied, { type: 'application/json-patch+json' });
}

build();
const guard = await install({
  cluster: {
    nodes: [],
    withoutControllers: [
      'endpoints-controller',
      'endpointslice-controller',
      'endpointslice-mirroring-controller',
      'root-ca-certificate-publisher-controller',
    ],
    apiServerFlags: ['--disable-admission-plugins=ServiceAccount'],
  },
});
try {
  await uncount(guard);
  await installAmbient(guard.cluster);
  await guard.cluster.apply(
    ambientNamespace('measured') + app('measured', { 'istio.io/use-waypoint': 'waypoint' }) + waypoint('measured'),
  );
  await program(guard.cluster, 'measured');
  await answers(
    guard.cluster,
    noAdmin('measured', 'asked', onService),
    ({ code, stderr }) => code === 0 && stderr === '',
  );
  const megabytes = () => Math.max(...guard.replicas.list().map(replica => replica.memory())) / 1e6;
  console.log(`a small mesh: ${Math.round(megabytes())} MB resident`);
  await latency(guard);
  await kubectlLatency(guard);
  await changeToVerdict(guard);

  // by whom no webhook is asked: filling would be measured otherwise
  await fill(guard);
  const known = async () => (await guard.figures()).get('waywarden_mesh_objects{kind="Pod"}') ?? 0;
  await until(
    'everything to be known',
    async () => {
      const there = await known();
      if (there < count.pods) throw new Error(`${there} pods`);
      return true;
    },
    { timeout: 120_000, every: 1000 },
  );
  await sleep(5_000);
  console.log(
    `${count.namespaces} namespaces, ${count.services} services, ${count.pods} pods, followed as they came: ${Math.round(megabytes())} MB resident`,
  );
  await latency(guard);
  await changeToVerdict(guard);

  const [old] = guard.replicas.list();
  const began = performance.now();
  const fresh = await guard.replicas.add();
  console.log(`a replica that starts in this mesh is ready after ${((performance.now() - began) / 1000).toFixed(1)} s`);
  if (old !== undefined) await guard.replicas.remove(old);
  await sleep(10_000);
  console.log(
    `it is ${Math.round(fresh.memory() / 1e6)} MB resident after a list, with ${(await guard.figures()).get('nodejs_heap_size_used_bytes') ?? 0} bytes of heap in use`,
  );
} finally {
  await guard.stop();
}

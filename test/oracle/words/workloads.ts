import type { Manifest } from '../../harness/objects.ts';
import { APPS, type Entries, labelled, type Mood, without } from './mood.ts';

const ANNOTATIONS: readonly (readonly [string, readonly string[]])[] = [
  ['sidecar.istio.io/proxyCPU', ['nonsense', '100m']],
  ['inject.istio.io/templates', ['sidecar', 'gateway', 'nowhere', 'sidecar,nowhere']],
  ['traffic.sidecar.istio.io/excludeInboundPorts', ['x', '', '9000, 9001']],
  ['traffic.sidecar.istio.io/includeOutboundIPRanges', ['*', '10.0.0.0/8', '10.0.0.0']],
  ['status.sidecar.istio.io/port', ['15020', '-1']],
  ['proxy.istio.io/config', ['concurrency: 2', 'concurrency: [', 'noSuchKey: 1', 'concurrency: two']],
  ['sidecar.istio.io/interceptionMode', ['REDIRECT', 'NOWHERE']],
  ['prometheus.istio.io/merge-metrics', ['false', 'no']],
];

/** What a pod consists of, by itself or in a template: every way into the mesh and out of it, and into the injector. */
function pod({ random, maybe, useWaypoint, sound }: Mood): { readonly metadata: Entries; readonly spec: Entries } {
  const odd = sound ? 0.5 : 1;
  const app = { name: 'app', image: 'registry.example.test/app:1', ports: [{ containerPort: 8080 }] };
  const proxies = [
    { name: 'istio-proxy', image: 'auto' },
    { name: 'istio-proxy', image: 'registry.example.test/envoy-edge:v1', args: ['-c', '/etc/envoy.yaml'] },
    { name: 'istio-proxy', image: 'docker.io/istio/proxyv2:1.26.3' },
  ];
  const [annotation, values] = random.pick(ANNOTATIONS);
  return {
    metadata: {
      labels: labelled({
        app: random.pick(APPS),
        version: maybe(0.4, random.pick(['v1', 'v2'])),
        'istio.io/dataplane-mode': maybe(0.25 * odd, random.pick(['none', 'ambient', 'None'])),
        'sidecar.istio.io/inject': maybe(0.25 * odd, random.pick(['true', 'true', 'false', 'True'])),
        'istio.io/rev': maybe(0.08 * odd, random.pick(['default', 'elsewhere', 'prod'])),
        ...useWaypoint(0.12),
      }),
      annotations: labelled({
        'sidecar.istio.io/nativeSidecar': maybe(0.15, random.pick(['true', 'false', 'False'])),
        'sidecar.istio.io/inject': maybe(0.08, random.pick(['true', 'false'])),
        [annotation]: maybe(0.2, random.pick(values)),
      }),
    },
    spec: without({
      hostNetwork: maybe(0.06, true),
      containers: [app, ...random.some([random.pick(proxies)], 0.1)],
      initContainers: maybe(0.05, [random.pick(proxies)]),
    }),
  };
}

export function barePod(mood: Mood, at: string, name: string): Manifest {
  const { metadata, spec } = pod(mood);
  return { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name, namespace: at }, spec };
}

export function deployment(mood: Mood, at: string, name: string): Manifest {
  const { metadata, spec } = pod(mood);
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace: at },
    spec: {
      selector: { matchLabels: { deployment: name } },
      template: { metadata: { ...metadata, labels: { ...(metadata['labels'] as Entries), deployment: name } }, spec },
    },
  };
}

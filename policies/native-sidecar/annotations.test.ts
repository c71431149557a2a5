// Values that istiod's injector takes and refuses (pkg/kube/inject/validate.go).
import { expect, test } from 'vitest';
import { refusedAnnotations } from './annotations.ts';

const refuses = (annotation: string, value: string) => [...refusedAnnotations({ [annotation]: value })].length > 0;

test.each<[string, readonly string[], readonly string[]]>([
  ['sidecar.istio.io/proxyCPU', ['100m', '1', '.5', '1e3', '2Gi'], ['100 m', '', 'lots', '1GB', '1\n']],
  ['sidecar.istio.io/proxyMemoryLimit', ['128Mi', '1G'], ['128MB', '-']],
  ['sidecar.istio.io/interceptionMode', ['REDIRECT', 'TPROXY', 'NONE'], ['redirect', '']],
  ['status.sidecar.istio.io/port', ['15020', ' 0 ', '65535'], ['65536', '-1', 'http', '']],
  ['readiness.status.sidecar.istio.io/periodSeconds', ['0', '4294967295'], ['4294967296', '5s', ' 5', '']],
  ['traffic.sidecar.istio.io/excludeInboundPorts', ['', ' ', '80, 443'], ['80,', '*', 'http']],
  ['traffic.sidecar.istio.io/includeInboundPorts', ['*', '', '80'], ['80-90', '*,80']],
  ['traffic.sidecar.istio.io/includeOutboundIPRanges', ['*', '', '10.0.0.0/8,fd00::/8'], ['10.0.0.1', '*,10.0.0.0/8']],
  [
    'traffic.sidecar.istio.io/excludeOutboundIPRanges',
    ['', '10.0.0.0/8'],
    ['*', '10.0.0.0/8, 10.1.0.0/16', '10.0.0.0/33', '10.0.0.0/08'],
  ],
  ['prometheus.istio.io/merge-metrics', ['true', 'F', '0'], ['yes', '', 'TrUe']],
  [
    'proxy.istio.io/config',
    [
      '',
      '# nothing',
      'concurrency: 2',
      'noSuchKey: [1]',
      'drainDuration: 1m30s',
      'proxyMetadata: { A: "true" }',
      'status_port: 15021',
      'meshId: null',
    ],
    [
      'concurrency 2',
      '[a]',
      'a: [',
      'concurrency: two',
      'drainDuration: 45',
      'proxyMetadata: { A: true }',
      'proxyMetadata: { A: 1 }',
      'holdApplicationUntilProxyStarts: "true"',
      'tracing: zipkin',
      'status_port: many',
    ],
  ],
  ['sidecar.istio.io/logLevel', ['anything'], []],
])('%s', (annotation, taken, refused) => {
  expect(taken.filter(value => refuses(annotation, value))).toEqual([]);
  expect(refused.filter(value => !refuses(annotation, value))).toEqual([]);
});

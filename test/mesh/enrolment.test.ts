// Who enforces at a workload, by every way in and out of the mesh.
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { ambient, cniSettings, enforcerOf, enrolsByDefault } from '../../src/mesh/enrolment.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import type { Declared } from '../../src/mesh/mesh.ts';
import { createStore, type Store } from '../../src/mesh/store.ts';

function meshOf(yaml: string, complete = true, declared?: Declared): Store {
  const store = createStore({
    complete: kind => complete && kind !== 'Namespace',
    ...(declared === undefined ? {} : { declared }),
  });
  for (const document of parseAllDocuments(yaml)) {
    const object = document.toJS() as unknown;
    const identity = identify(object);
    if (identity === undefined) throw new Error(`no object: ${yaml}`);
    store.put(project(identity.kind, identity.namespace, object));
  }
  return store;
}

const istiod = (env = '{ name: PILOT_ENABLE_AMBIENT, value: "true" }') => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: istiod, namespace: istio-system, labels: { app: istiod } }
spec:
  template:
    metadata: { labels: { app: istiod } }
    spec: { containers: [{ name: discovery, image: "docker.io/istio/pilot:1.31.1", env: [${env}] }] }
---`;
const ZTUNNEL = `
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: ztunnel, namespace: mesh-agents, labels: { app: ztunnel } }
spec:
  template:
    metadata: { labels: { app: ztunnel } }
    spec: { containers: [{ name: istio-proxy, image: "docker.io/istio/ztunnel:1.31.1" }] }
---`;
const cni = (data: string) => `
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: istio-cni-node, namespace: cni, labels: { k8s-app: istio-cni-node } }
spec:
  template:
    metadata: { labels: { k8s-app: istio-cni-node } }
    spec: { containers: [{ name: install-cni, image: "docker.io/istio/install-cni:1.31.1" }] }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: istio-cni-config, namespace: cni }
data: { ${data} }
---`;
const namespace = (name: string, labels = 'istio.io/dataplane-mode: ambient') => `
apiVersion: v1
kind: Namespace
metadata: { name: ${name}, labels: { ${labels} } }
---`;
const app = ({ ns = 'shop', labels = '', annotations = '', spec = '', container = '' } = {}) => `
apiVersion: apps/v1
kind: Deployment
metadata: { name: app, namespace: ${ns} }
spec:
  template:
    metadata: { labels: { app: app${labels} }, annotations: { ${annotations} } }
    spec: { ${spec}containers: [{ name: app, image: app }${container}] }`;

const AMBIENT = istiod() + ZTUNNEL;
const SHOP = AMBIENT + namespace('shop');

function enforcer(yaml: string, complete = true) {
  const mesh = meshOf(yaml, complete);
  const found = [...mesh.workloads({ app: 'app' })][0] as Workload;
  const { by, likely } = enforcerOf(mesh, found);
  return likely === undefined ? by : `${by}, likely ${likely}`;
}

describe('ambient mode', () => {
  test.each([
    ['captures the pods of a namespace', SHOP + app(), 'ztunnel'],
    [
      'captures pods by their own label',
      AMBIENT + namespace('shop', '') + app({ labels: ', istio.io/dataplane-mode: ambient' }),
      'ztunnel',
    ],
    ['lets pods out by their own label', SHOP + app({ labels: ', istio.io/dataplane-mode: none' }), 'nobody'],
    ['knows no other value', AMBIENT + namespace('shop', 'istio.io/dataplane-mode: Ambient') + app(), 'nobody'],
    ['never captures the host network', SHOP + app({ spec: 'hostNetwork: true, ' }), 'nobody'],
    ['leaves kube-system alone', AMBIENT + namespace('kube-system') + app({ ns: 'kube-system' }), 'nobody'],
    ['leaves alone what istio-cni is told to', SHOP + cni('EXCLUDE_NAMESPACES: "kube-system,shop"') + app(), 'nobody'],
    [
      'follows selectors of its own',
      `${AMBIENT}${namespace('shop', 'mesh: please')}${cni(
        'AMBIENT_ENABLEMENT_SELECTOR: "[{ namespaceSelector: { matchLabels: { mesh: please } } }]"',
      )}${app()}`,
      'ztunnel',
    ],
    ['is off where istio-cni says so', SHOP + cni('AMBIENT_ENABLED: "false"') + app(), 'nobody'],
    ['enrols nobody without istiod and ztunnel for it', istiod('') + namespace('shop') + app(), 'nobody'],
    ['waits for a ztunnel', istiod() + namespace('shop') + app(), 'unknown, likely ztunnel'],
    [
      'takes a word that is no boolean for no',
      istiod('{ name: PILOT_ENABLE_AMBIENT, value: "yes" }') + namespace('shop') + app(),
      'nobody',
    ],
    ['is unknown in a namespace that nobody described', AMBIENT + app(), 'unknown'],
  ])('%s', (_, yaml, expected) => {
    expect(enforcer(yaml)).toBe(expected);
  });

  test('is likely, and no more, where the state is not complete', () => {
    expect(enforcer(namespace('shop') + app(), false)).toBe('unknown, likely ztunnel');
  });

  test('does not reach where no istiod looks', () => {
    const config = `
apiVersion: v1
kind: ConfigMap
metadata: { name: istio, namespace: istio-system }
data: { mesh: "discoverySelectors: [{ matchLabels: { mesh: in } }]" }
---`;
    expect(enforcer(SHOP + config + app())).toBe('nobody');
    expect(enforcer(AMBIENT + namespace('shop', 'istio.io/dataplane-mode: ambient, mesh: in') + config + app())).toBe(
      'ztunnel',
    );
  });

  test('is asked of a namespace, too', () => {
    const mesh = meshOf(SHOP + namespace('quiet', 'a: b') + app());
    expect(enrolsByDefault(mesh, 'shop')).toBe(true);
    expect(enrolsByDefault(mesh, 'quiet')).toBe(false);
    expect(enrolsByDefault(mesh, 'nobody-said')).toBe('unknown');
    expect(mesh.fact(ambient).controlPlanes).toHaveLength(1);
    expect(mesh.fact(cniSettings).ambient).toBeUndefined();
  });
});

describe('a proxy of its own goes before ambient mode', () => {
  const WEBHOOK = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: { name: istio-sidecar-injector, labels: { app: sidecar-injector, istio.io/rev: default } }
webhooks:
  - name: namespace.sidecar-injector.istio.io
    clientConfig: { service: { name: istiod, namespace: istio-system, path: /inject } }
    rules: [{ operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods] }]
    namespaceSelector: { matchExpressions: [{ key: istio-injection, operator: In, values: [enabled] }] }
---`;
  const both = namespace('shop', 'istio.io/dataplane-mode: ambient, istio-injection: enabled');

  test('injected', () => {
    expect(enforcer(AMBIENT + WEBHOOK + both + app())).toBe('sidecar');
  });

  test('injected by hand', () => {
    expect(enforcer(SHOP + app({ annotations: 'sidecar.istio.io/status: "{}"' }))).toBe('sidecar');
  });

  test('an injector that nobody has seen is no proof', () => {
    expect(enforcer(AMBIENT + both + app())).toBe('unknown, likely ztunnel');
  });

  test('a gateway that somebody wrote', () => {
    const container = ', { name: istio-proxy, image: "docker.io/istio/proxyv2:1.31.1", args: [proxy, router] }';
    expect(enforcer(SHOP + app({ container }))).toBe('gateway');
  });

  test('the pods of a waypoint, by label or by the class of their Gateway', () => {
    const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: w, namespace: shop }
spec: { gatewayClassName: istio-waypoint }
---`;
    const named = ', gateway.networking.k8s.io/gateway-name: w';
    expect(enforcer(SHOP + app({ labels: `${named}, gateway.istio.io/managed: istio.io-mesh-controller` }))).toBe(
      'waypoint',
    );
    expect(enforcer(SHOP + gateway + app({ labels: named }))).toBe('waypoint');
  });
});

test('a pod known by its metadata alone is captured where istio-cni says so', () => {
  const pod = (annotations: string) => `
apiVersion: v1
kind: Pod
metadata: { name: app, namespace: shop, creationTimestamp: "2026-01-10T10:00:00Z", labels: { app: app }, annotations: { ${annotations} } }`;
  expect(enforcer(SHOP + pod('ambient.istio.io/redirection: enabled'))).toBe('ztunnel');
  expect(enforcer(SHOP + pod(''))).toBe('unknown, likely nobody');
});

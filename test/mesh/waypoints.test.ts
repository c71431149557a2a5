// Which waypoint serves what, with the reasons that istiod would give.
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { Gateway } from '../../src/mesh/kinds/gateways.ts';
import type { Service, ServiceEntry } from '../../src/mesh/kinds/services.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { createStore, type Store } from '../../src/mesh/store.ts';
import {
  allowsNamespace,
  candidatesOf,
  hasAddress,
  ingressUsesWaypoint,
  isBoundTo,
  isGatewayName,
  namersOf,
  servicesOf,
  speaksHbone,
  waypointFor,
  waypointOf,
} from '../../src/mesh/waypoints.ts';

const BASE = `
apiVersion: apps/v1
kind: Deployment
metadata: { name: istiod, namespace: istio-system, labels: { app: istiod } }
spec:
  template:
    metadata: { labels: { app: istiod } }
    spec: { containers: [{ name: discovery, image: "docker.io/istio/pilot:1.31.1", env: [{ name: PILOT_ENABLE_AMBIENT, value: "true" }] }] }
---
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: ztunnel, namespace: istio-system, labels: { app: ztunnel } }
spec: { template: { metadata: { labels: { app: ztunnel } }, spec: { containers: [{ name: istio-proxy, image: "docker.io/istio/ztunnel:1.31.1" }] } } }
---`;

function meshOf(yaml: string, complete = true): Store {
  const store = createStore({ complete: kind => complete && kind !== 'Namespace' });
  for (const document of parseAllDocuments(BASE + yaml)) {
    const object = document.toJS() as unknown;
    const identity = identify(object);
    if (identity !== undefined) store.put(project(identity.kind, identity.namespace, object));
  }
  return store;
}

const namespace = (name: string, labels = '') => `
apiVersion: v1
kind: Namespace
metadata: { name: ${name}, labels: { a: b${labels} } }
---`;
const service = (labels = '', name = 'api', spec = '') => `
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: shop, labels: { ${labels} } }
spec: { selector: { app: api }, ports: [{ port: 80 }]${spec} }
---`;
const gateway = ({
  name = 'waypoint',
  ns = 'shop',
  labels = '',
  annotations = '',
  listeners = '{ name: mesh, port: 15008, protocol: HBONE }',
  ready = true,
  className = 'istio-waypoint',
} = {}) => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: ${name}, namespace: ${ns}, labels: { ${labels} }, annotations: { ${annotations} } }
spec: { gatewayClassName: ${className}, listeners: [${listeners}] }
status: { addresses: [${ready ? '{ type: IPAddress, value: 10.0.0.1 }' : ''}] }
---`;
const mesh15008 = (allowed: string) =>
  `{ name: mesh, port: 15008, protocol: HBONE, allowedRoutes: { namespaces: { ${allowed} } } }`;

const USE = 'istio.io/use-waypoint: waypoint';
const SHARED = 'istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra';

function ofService(yaml: string, complete = true): string {
  const mesh = meshOf(yaml, complete);
  const { state, reason, namedBy } = waypointOf(mesh, mesh.get('Service', 'shop', 'api') as Service, 'service');
  return [state, ...(reason === undefined ? [] : [reason]), ...(namedBy === undefined ? [] : [namedBy.kind])].join(' ');
}

describe('the waypoint of a Service', () => {
  test.each([
    ['is its own', namespace('shop') + gateway() + service(USE), 'bound Service'],
    ['is that of its namespace', namespace('shop', `, ${USE}`) + gateway() + service(), 'bound Namespace'],
    ['is none without a label', namespace('shop') + gateway() + service(), 'none'],
    [
      'is given up with none',
      namespace('shop', `, ${USE}`) + gateway() + service('istio.io/use-waypoint: none'),
      'opted-out Service',
    ],
    [
      'is not given up with None',
      namespace('shop', `, ${USE}`) + gateway() + service('istio.io/use-waypoint: None'),
      'never WaypointIsNotReady Service',
    ],
    [
      'never falls back to that of the namespace',
      namespace('shop', `, ${USE}`) + gateway() + service('istio.io/use-waypoint: mine'),
      'pending WaypointIsNotReady Service',
    ],
    [
      'is none where the label is empty',
      namespace('shop', `, ${USE}`) + gateway() + service('istio.io/use-waypoint: ""'),
      'never WaypointIsNotReady Service',
    ],
    [
      'waits for an address',
      namespace('shop') + gateway({ ready: false }) + service(USE),
      'pending WaypointIsNotReady Service',
    ],
    ['is unknown where the namespace is', gateway() + service(), 'unknown'],
    [
      'may stand elsewhere and take all',
      namespace('shop', `, ${SHARED}`) +
        gateway({ name: 'shared', ns: 'infra', listeners: mesh15008('from: All') }) +
        service(),
      'bound Namespace',
    ],
    [
      'takes its own namespace only by default',
      namespace('shop', `, ${SHARED}`) + gateway({ name: 'shared', ns: 'infra' }) + service(),
      'refused AttachmentDenied Namespace',
    ],
    [
      'reads the namespace from the object of the label alone',
      namespace('shop', ', istio.io/use-waypoint-namespace: infra') +
        gateway({ name: 'shared', ns: 'infra', listeners: mesh15008('from: All') }) +
        service('istio.io/use-waypoint: shared'),
      'pending WaypointIsNotReady Service',
    ],
    [
      'must be for Services',
      namespace('shop') + gateway({ labels: 'istio.io/waypoint-for: workload' }) + service(USE),
      'wrong-traffic-type UnsupportedTrafficType Service',
    ],
    [
      'is for nothing with an unknown word',
      namespace('shop') + gateway({ labels: 'istio.io/waypoint-for: services' }) + service(USE),
      'wrong-traffic-type UnsupportedTrafficType Service',
    ],
    [
      'is not needed by a waypoint itself',
      namespace('shop', `, ${USE}`) + gateway() + service('gateway.istio.io/managed: istio.io-mesh-controller'),
      'none',
    ],
    [
      'is any Gateway with an address',
      namespace('shop') +
        gateway({ className: 'istio', listeners: '{ name: http, port: 80, protocol: HTTP }' }) +
        service(USE),
      'bound Service',
    ],
    [
      'is refused with the reason of today while it is not ready',
      namespace('shop', `, ${SHARED}`) + gateway({ name: 'shared', ns: 'infra', ready: false }) + service(),
      'refused WaypointIsNotReady Namespace',
    ],
  ])('%s', (_, yaml, expected) => {
    expect(ofService(yaml)).toBe(expected);
  });

  test('is unknown where the Gateways are', () => {
    expect(ofService(namespace('shop') + service(USE), false)).toBe('unknown Service');
  });

  test('is nobody where ambient mode is off', () => {
    const mesh = createStore({ complete: () => true });
    const yaml = `${BASE.replace('value: "true"', 'value: "false"').split('---')[0]}---${namespace('shop')}${gateway()}${service(USE)}`;
    for (const document of parseAllDocuments(yaml)) {
      const object = document.toJS() as unknown;
      const identity = identify(object);
      if (identity !== undefined) mesh.put(project(identity.kind, identity.namespace, object));
    }
    expect(waypointOf(mesh, mesh.get('Service', 'shop', 'api') as Service, 'service').state).toBe('none');
  });
});

describe('allowedRoutes', () => {
  const allowed = (listeners: string, of: string, labels = '', annotations = '') => {
    const mesh = meshOf(namespace('shop', labels) + gateway({ ns: 'infra', listeners, annotations }));
    return allowsNamespace(mesh, mesh.get('Gateway.gateway.networking.k8s.io', 'infra', 'waypoint') as Gateway, of)
      .allowed;
  };

  test('of the HBONE listener on 15008 decide', () => {
    expect(allowed(mesh15008('from: All'), 'shop')).toBe(true);
    expect(allowed(mesh15008('from: Same'), 'shop')).toBe(false);
    expect(allowed(mesh15008('from: Same'), 'infra')).toBe(true);
    expect(
      allowed(
        `{ name: mesh, port: 15008, protocol: HBONE }, ${mesh15008('from: All').replace('15008', '15009')}`,
        'shop',
      ),
    ).toBe(false);
    expect(
      allowed('{ name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }', 'shop'),
    ).toBe(false);
  });

  test('select namespaces by label', () => {
    const web = mesh15008('from: Selector, selector: { matchLabels: { team: web } }');
    expect(allowed(web, 'shop', ', team: web')).toBe(true);
    expect(allowed(web, 'shop')).toBe(false);
    expect(allowed(web, 'nobody-said')).toBe('unknown');
    expect(allowed(mesh15008('from: Selector'), 'shop')).toBe(false);
    const named = mesh15008('from: Selector, selector: { matchLabels: { kubernetes.io/metadata.name: shop } }');
    expect(allowed(named, 'shop')).toBe(true);
  });

  test('of the bound listener go first', () => {
    const listeners = `{ name: mesh, port: 15008, protocol: HBONE }, { name: proxy, port: 15088, protocol: istio.io/PROXY, allowedRoutes: { namespaces: { from: All } } }`;
    const binding = (value: string) => `ambient.istio.io/waypoint-inbound-binding: ${value}`;
    expect(allowed(listeners, 'shop', '', binding('PROXY/15088'))).toBe(true);
    expect(allowed(listeners, 'shop', '', binding('PROXY'))).toBe(true);
    expect(allowed(listeners, 'shop', '', binding('NONE'))).toBe(false);
    expect(allowed(listeners, 'shop', '', binding('HBONE/15088'))).toBe(false);
  });
});

test('workloads have waypoints for workloads, and inherit others without a word', () => {
  const pod = (labels: string) => `
apiVersion: v1
kind: Pod
metadata: { name: api, namespace: shop, labels: { app: api${labels} } }
spec: { containers: [{ name: app, image: app }] }
---`;
  const of = (yaml: string) => {
    const mesh = meshOf(yaml);
    const { state, reason } = waypointOf(mesh, mesh.get('Pod', 'shop', 'api') as Workload, 'workload');
    return `${state} ${reason ?? ''}`.trim();
  };
  const all = gateway({ labels: 'istio.io/waypoint-for: all' });
  expect(of(namespace('shop', `, ${USE}`) + all + pod(''))).toBe('bound');
  expect(of(namespace('shop', `, ${USE}`) + gateway() + pod(''))).toBe('none');
  expect(of(namespace('shop') + gateway() + pod(`, ${USE}`))).toBe('wrong-traffic-type UnsupportedTrafficType');
});

test('serviceEntryVisibility keeps entries from waypoints elsewhere, from 1.31 on', () => {
  const entry = (labels: string) => `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: partner, namespace: shop, labels: { ${labels} } }
spec: { hosts: [partner.test], resolution: DNS }
---`;
  const config = (mesh: string) => `
apiVersion: v1
kind: ConfigMap
metadata: { name: istio, namespace: istio-system }
data: { mesh: "${mesh}" }
---`;
  const shared = namespace('shop') + gateway({ name: 'shared', ns: 'infra', listeners: mesh15008('from: All') });
  const of = (yaml: string) => {
    const mesh = meshOf(yaml);
    const found = mesh.get('ServiceEntry.networking.istio.io', 'shop', 'partner') as ServiceEntry;
    const { state, reason } = waypointOf(mesh, found, 'service');
    return `${state} ${reason ?? ''}`.trim();
  };
  const own = 'serviceEntryVisibility: { defaultVisibility: NAMESPACE }';
  expect(of(shared + entry(SHARED) + config('{}'))).toBe('bound');
  expect(of(shared + entry(SHARED) + config(own))).toBe('refused CrossNamespaceWaypointForbidden');
  expect(of(shared + gateway() + entry(USE) + config(own))).toBe('bound');
  const first =
    'serviceEntryVisibility: { defaultVisibility: NAMESPACE, policies: [{ visibility: PUBLIC, matchingRules: [{ namespaceSelector: { matchLabels: { a: b } } }] }] }';
  expect(of(shared + entry(SHARED) + config(first))).toBe('bound');
});

test('what stands where no istiod looks has no waypoint, whatever its labels say', () => {
  const of = (labels: string) => {
    const mesh = meshOf(`${namespace('shop', labels)}${gateway()}${service(USE)}
apiVersion: v1
kind: ConfigMap
metadata: { name: istio, namespace: istio-system }
data: { mesh: "discoverySelectors: [{ matchLabels: { watched: here } }]" }
---`);
    return waypointOf(mesh, mesh.get('Service', 'shop', 'api') as Service, 'service').state;
  };
  expect(of('')).toBe('none');
  expect(of(', watched: here')).toBe('bound');
});

describe('what names a Gateway', () => {
  const mesh = meshOf(
    namespace('shop', `, ${USE}`) +
      gateway() +
      service() +
      service('istio.io/use-waypoint: none', 'out') +
      service(USE, 'own') +
      service('istio.io/use-waypoint: other', 'other'),
  );
  const waypoint = { namespace: 'shop', name: 'waypoint' };

  test('are objects with its name in their label', () => {
    expect([...namersOf(mesh, waypoint)].map(({ kind, name }) => `${kind} ${name}`).sort()).toEqual([
      'Namespace shop',
      'Service own',
    ]);
  });

  test('brings the Services that it may serve', () => {
    const found = [...candidatesOf(mesh, waypoint)];
    expect(
      found
        .filter(({ binding }) => isBoundTo(binding, waypoint))
        .map(({ object }) => object.name)
        .sort(),
    ).toEqual(['api', 'own']);
  });

  test('does not count a route or a policy that refers to it', () => {
    mesh.put(
      project('AuthorizationPolicy.security.istio.io', 'shop', {
        metadata: { name: 'p' },
        spec: { targetRefs: [{ group: 'gateway.networking.k8s.io', kind: 'Gateway', name: 'waypoint' }] },
      }),
    );
    expect([...namersOf(mesh, waypoint)]).toHaveLength(2);
  });
});

test('a Gateway can be a waypoint for what its class says, and by a binding of its own', () => {
  const gatewayClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: other, labels: { istio.io/waypoint-for: all }, annotations: { ambient.istio.io/waypoint-inbound-binding: PROXY/15088 } }
spec: { controllerName: example.test/other }
---`;
  const http = '{ name: http, port: 80, protocol: HTTP }';
  const mesh = meshOf(
    gatewayClass +
      gateway({ className: 'other', listeners: http }) +
      gateway({ name: 'plain', listeners: http, labels: 'istio.io/waypoint-for: workload' }),
  );
  const of = (name: string) => mesh.get('Gateway.gateway.networking.k8s.io', 'shop', name) as Gateway;
  expect(waypointFor(mesh, of('waypoint'))).toBe('all');
  expect(speaksHbone(mesh, of('waypoint'))).toBe(true);
  expect(waypointFor(mesh, of('plain'))).toBe('workload');
  expect(speaksHbone(mesh, of('plain'))).toBe(false);
});

test('addresses', () => {
  const of = (spec: string, labels = '') => {
    const mesh = meshOf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: e, namespace: shop, labels: { ${labels} } }
spec: { hosts: [e.test], ${spec} }`);
    return hasAddress(mesh, mesh.get('ServiceEntry.networking.istio.io', 'shop', 'e') as ServiceEntry).has;
  };
  expect(of('resolution: NONE')).toBe(false);
  expect(of('location: MESH_EXTERNAL')).toBe(false);
  expect(of('resolution: NONE, addresses: [10.1.0.0/16]')).toBe(true);
  expect(of('resolution: DNS')).toBe(true);
  expect(of('resolution: STATIC')).toBe(true);
  expect(of('resolution: DNS', 'networking.istio.io/enable-autoallocate-ip: "false"')).toBe(false);
  const hosts = (list: string, resolution: string) => {
    const mesh = meshOf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: e, namespace: shop }
spec: { hosts: ${list}, resolution: ${resolution} }`);
    return hasAddress(mesh, mesh.get('ServiceEntry.networking.istio.io', 'shop', 'e') as ServiceEntry).has;
  };
  expect(hosts('["*.test"]', 'STATIC')).toBe(false);
  expect(hosts('["*.test", e.test]', 'STATIC')).toBe(true);
  expect(hosts('["*.test"]', 'DYNAMIC_DNS')).toBe(true);
  const services = meshOf(
    service() + service('', 'headless', ', clusterIP: None') + service('', 'ext', ', type: ExternalName'),
  );
  const has = (name: string) => hasAddress(services, services.get('Service', 'shop', name) as Service).has;
  expect([has('api'), has('headless'), has('ext')]).toEqual([true, false, false]);
});

test('gateways go through the waypoint by the label of the Service, else of its namespace', () => {
  const of = (ns: string, own: string) => {
    const mesh = meshOf(namespace('shop', ns) + service(own));
    return ingressUsesWaypoint(mesh, mesh.get('Service', 'shop', 'api') as Service);
  };
  const label = (value: string) => `istio.io/ingress-use-waypoint: "${value}"`;
  expect(of('', '')).toBe(false);
  expect(of('', label('true'))).toBe(true);
  expect(of(`, ${label('1')}`, '')).toBe(true);
  expect(of(`, ${label('true')}`, label('false'))).toBe(false);
  expect(of('', label('yes'))).toBe(false);
});

test('Services select workloads by all of their labels, and none without a selector', () => {
  const mesh = meshOf(`${service()}${service('', 'blank').replace('{ app: api }', '{}')}
apiVersion: v1
kind: Pod
metadata: { name: api, namespace: shop, labels: { app: api, v: "1" } }
spec: { containers: [] }`);
  expect([...servicesOf(mesh, mesh.get('Pod', 'shop', 'api') as Workload)].map(({ name }) => name)).toEqual(['api']);
});

test('names that a Gateway can have', () => {
  for (const name of ['waypoint', 'a.b-c', '1']) expect(isGatewayName(name)).toBe(true);
  for (const name of ['', 'None', 'a_b', '-a', 'a-', 'a..b', 'a/b', 'a'.repeat(254)])
    expect(isGatewayName(name)).toBe(false);
});

// The reviews and meshes that the bench measures with; written here, made of ordinary objects.

type Json = Record<string, unknown>;

function review(group: string, version: string, kind: string, resource: string, object: Json): Buffer {
  const gvk = { group, version, kind };
  const gvr = { group, version, resource };
  const metadata = object['metadata'] as Json;
  return Buffer.from(
    JSON.stringify({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      request: {
        uid: '705ab4f5-6393-11e8-b7cc-42010a800002',
        kind: gvk,
        resource: gvr,
        requestKind: gvk,
        requestResource: gvr,
        name: metadata['name'],
        namespace: metadata['namespace'],
        operation: 'CREATE',
        userInfo: {
          username: 'system:serviceaccount:kube-system:replicaset-controller',
          uid: '1',
          groups: ['system:serviceaccounts', 'system:authenticated'],
        },
        object,
        oldObject: null,
        dryRun: false,
        options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
      },
    }),
  );
}

const container = (name: string, more: Json = {}): Json => ({
  name,
  image: `registry.example.test/team/${name}:1.4.2`,
  ports: [{ name: 'http', containerPort: 8080, protocol: 'TCP' }],
  env: [
    { name: 'LOG_LEVEL', value: 'info' },
    { name: 'POD_NAME', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
  ],
  resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
  readinessProbe: {
    httpGet: { path: '/ready', port: 'http', scheme: 'HTTP' },
    timeoutSeconds: 1,
    periodSeconds: 10,
    successThreshold: 1,
    failureThreshold: 3,
  },
  volumeMounts: [
    { name: 'kube-api-access-x7x2x', readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' },
  ],
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
  imagePullPolicy: 'IfNotPresent',
  ...more,
});

/** What `load.ts` replaces by a number of its own in each request: no two reviews are equal, nor the names in them. */
export const VARIED = 'v00000000';

function pod(more: Json, metadata: Json): Json {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `web-7c9d8b6f5-${VARIED}`,
      generateName: 'web-7c9d8b6f5-',
      namespace: 'team-7',
      labels: {
        app: 'web',
        'pod-template-hash': '7c9d8b6f5',
        'app.kubernetes.io/name': 'web',
        'app.kubernetes.io/instance': `web-${VARIED}`,
      },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: 'web-7c9d8b6f5',
          uid: '0f0f0f0f-0000-4000-8000-000000000001',
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      ...metadata,
    },
    spec: {
      volumes: [
        {
          name: 'kube-api-access-x7x2x',
          projected: {
            sources: [
              { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
              { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
              {
                downwardAPI: {
                  items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
                },
              },
            ],
            defaultMode: 420,
          },
        },
      ],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      serviceAccountName: 'web',
      serviceAccount: 'web',
      securityContext: { runAsNonRoot: true, fsGroup: 2000 },
      schedulerName: 'default-scheduler',
      tolerations: [
        { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
        { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
      ],
      priority: 0,
      enableServiceLinks: true,
      preemptionPolicy: 'PreemptLowerPriority',
      ...more,
    },
    status: {},
  };
}

/** Fields owned by a manager, as the API server writes them, until the object is about so large. */
function managedFields(bytes: number): readonly Json[] {
  const fields: Json = {};
  for (let index = 0; JSON.stringify(fields).length < bytes; index += 1) {
    fields[`f:setting-${index}`] = {
      '.': {},
      'f:value': {},
      'f:resources': { '.': {}, 'f:limits': { 'f:memory': {} } },
    };
  }
  return [
    {
      manager: 'kube-controller-manager',
      operation: 'Update',
      apiVersion: 'v1',
      time: '2026-01-10T10:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:metadata': fields },
    },
  ];
}

/** An ordinary pod of a Deployment: about 2.7 KB as a review. */
export const pod2k = review('', 'v1', 'Pod', 'pods', pod({ containers: [container('web')] }, {}));

/** A pod with an injected native sidecar and managedFields: about 8 KB as a review. */
export const pod8k = review(
  '',
  'v1',
  'Pod',
  'pods',
  pod(
    {
      containers: [container('web'), container('log-shipper')],
      initContainers: [
        container('istio-init', {
          image: 'docker.io/istio/proxyv2:1.31.1',
          args: ['istio-iptables', '-p', '15001', '-z', '15006', '-u', '1337', '-m', 'REDIRECT'],
        }),
        container('istio-proxy', {
          image: 'docker.io/istio/proxyv2:1.31.1',
          restartPolicy: 'Always',
          args: ['proxy', 'sidecar', '--domain', '$(POD_NAMESPACE).svc.cluster.local'],
        }),
      ],
    },
    {
      annotations: {
        'sidecar.istio.io/status':
          '{"initContainers":["istio-init","istio-proxy"],"containers":null,"volumes":["istio-envoy"],"imagePullSecrets":null,"revision":"default"}',
      },
      managedFields: managedFields(2200),
    },
  ),
);

/** An AuthorizationPolicy that is judged against the workloads that it selects, and that works. */
export const authorizationPolicy = review('security.istio.io', 'v1', 'AuthorizationPolicy', 'authorizationpolicies', {
  apiVersion: 'security.istio.io/v1',
  kind: 'AuthorizationPolicy',
  metadata: { name: `web-clients-${VARIED}`, namespace: 'team-7', labels: { 'app.kubernetes.io/managed-by': 'Helm' } },
  spec: {
    selector: { matchLabels: { app: 'web' } },
    action: 'ALLOW',
    rules: [
      {
        from: [
          { source: { principals: [`cluster.local/ns/team-8/sa/${VARIED}`, 'cluster.local/ns/team-7/sa/waypoint'] } },
        ],
        to: [{ operation: { ports: ['8080'] } }],
      },
      { from: [{ source: { namespaces: ['monitoring'] } }] },
    ],
  },
});

const meta = (name: string, namespace: string | undefined, labels: Json = {}): Json => ({
  name,
  ...(namespace === undefined ? {} : { namespace }),
  labels,
});

/** A cluster with so many ambient namespaces, two services and two Deployments in each, and a policy in every fifth. */
export function* cluster(namespaces: number): Iterable<Json> {
  const component = (
    kind: string,
    name: string,
    label: Json,
    containerName: string,
    image: string,
    env: readonly Json[],
  ): Json => ({
    apiVersion: 'apps/v1',
    kind,
    metadata: meta(name, 'istio-system', label),
    spec: {
      selector: { matchLabels: label },
      template: { metadata: { labels: label }, spec: { containers: [{ name: containerName, image, env }] } },
    },
  });
  yield { apiVersion: 'v1', kind: 'Namespace', metadata: meta('istio-system', undefined) };
  yield component(
    'Deployment',
    'istiod',
    { app: 'istiod', 'istio.io/rev': 'default' },
    'discovery',
    'docker.io/istio/pilot:1.31.1',
    [{ name: 'PILOT_ENABLE_AMBIENT', value: 'true' }],
  );
  yield component('DaemonSet', 'ztunnel', { app: 'ztunnel' }, 'istio-proxy', 'docker.io/istio/ztunnel:1.31.1', []);
  yield component(
    'DaemonSet',
    'istio-cni-node',
    { 'k8s-app': 'istio-cni-node' },
    'install-cni',
    'docker.io/istio/install-cni:1.31.1',
    [],
  );
  for (let index = 0; index < namespaces; index += 1) {
    const name = `team-${index}`;
    yield {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: meta(name, undefined, { 'istio.io/dataplane-mode': 'ambient', 'istio.io/use-waypoint': 'waypoint' }),
    };
    yield {
      apiVersion: 'gateway.networking.k8s.io/v1',
      kind: 'Gateway',
      metadata: meta('waypoint', name),
      spec: { gatewayClassName: 'istio-waypoint', listeners: [{ name: 'mesh', port: 15008, protocol: 'HBONE' }] },
      status: { addresses: [{ type: 'IPAddress', value: '10.96.0.9' }] },
    };
    for (const app of ['web', 'api']) {
      yield {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: meta(app, name),
        spec: { clusterIP: '10.96.1.1', selector: { app }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] },
      };
      yield {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: meta(app, name, { app }),
        spec: {
          replicas: 2,
          selector: { matchLabels: { app } },
          template: {
            metadata: { labels: { app, version: 'v1' } },
            spec: {
              containers: [
                { name: 'app', image: 'registry.example.test/team/app:1.4.2', ports: [{ containerPort: 8080 }] },
              ],
            },
          },
        },
      };
    }
    if (index % 5 === 0) {
      yield {
        apiVersion: 'security.istio.io/v1',
        kind: 'AuthorizationPolicy',
        metadata: meta('allow-web', name),
        spec: {
          targetRefs: [{ group: '', kind: 'Service', name: 'web' }],
          action: 'ALLOW',
          rules: [{ to: [{ operation: { methods: ['GET'] } }] }],
        },
      };
    }
  }
}

/** So many ordinary manifests in files of their own, as a repository of a team holds them. */
export function* manifests(count: number): Iterable<Json> {
  for (const object of cluster(Math.ceil(count / 6))) yield object;
}

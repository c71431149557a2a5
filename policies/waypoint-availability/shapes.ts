// What the keys of a Gateway's ConfigMap may hold, as far as it is checked (k8s.io/api, Kubernetes 1.36).

/** A mapping with the fields of some type. */
export interface Mapping {
  readonly fields: { readonly [field: string]: Shape };
  /** True where it has more fields than are told here. */
  readonly open?: true;
  /** Null takes it away, and the API server refuses what is left. */
  readonly needed?: true;
  /** Without which the API server refuses it; asked where `$patch: replace` puts it in the place of Istio's own. */
  readonly requires?: readonly string[];
  /** istiod reads it itself, and deploys nothing where it cannot. */
  readonly read?: true;
}

/** A list that is merged by a key of its items. */
export interface List {
  readonly items: Mapping;
  readonly by: string;
  /** Of which items Istio's templates have; 'none' where they have no such list. A patch for anything else is taken as it is, nulls too. */
  readonly there: readonly string[] | 'none';
  readonly needed?: true;
  /** True where the API server takes items without the key. */
  readonly keyless?: true;
}

/** One of a few texts: what istiod or the API server takes as the kind and version of what is made. */
export interface Constant {
  readonly only: readonly string[];
}

/**
 * Metadata that istiod compares with its own and never lets anybody change (applyOverlay in
 * pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go; tried with 1.30 and 1.31). `empty`: what istiod leaves empty; `owners`: its
 * own reference, which null takes away; `fields`: of the API server's own; the others: the name or the namespace that the object has.
 */
export interface Untouchable {
  readonly untouchable: 'empty' | 'owners' | 'fields' | 'name' | 'namespace' | 'gateway';
}

/**
 * `texts` is a mapping of texts, such as annotations; `kept` the same that null must not take away; `words` a list of texts; `objects` a
 * list of mappings.
 */
export type Shape =
  | Mapping
  | List
  | Constant
  | Untouchable
  | 'any'
  | 'text'
  | 'image'
  | 'texts'
  | 'kept'
  | 'flag'
  | 'number'
  | 'words'
  | 'object'
  | 'objects';

const all = <Of extends Shape>(shape: Of, names: string) =>
  Object.fromEntries(names.split(' ').map(name => [name, shape] as const));
const fields = (names: string) => all('any', names);

const OBJECT_META =
  'generateName uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds';
const METADATA: Mapping = {
  fields: {
    name: { untouchable: 'name' },
    namespace: { untouchable: 'namespace' },
    ...all<Untouchable>({ untouchable: 'empty' }, `${OBJECT_META} finalizers`),
    ownerReferences: { untouchable: 'owners' },
    managedFields: { untouchable: 'fields' },
    selfLink: 'text',
    labels: 'texts',
    annotations: 'texts',
  },
  needed: true,
  read: true,
};
// of a template it takes them and forgets them
const POD_METADATA: Mapping = {
  fields: {
    ...fields(`name namespace finalizers ownerReferences managedFields selfLink ${OBJECT_META}`),
    annotations: 'texts',
    labels: 'kept',
  },
  needed: true,
  requires: ['labels'],
};

/** Variables of Istio's templates that come from the pod or the container: a `value` beside is refused (files/waypoint.yaml, kube-gateway.yaml). */
export const FROM_ELSEWHERE: readonly string[] =
  'ISTIO_META_NODE_NAME POD_NAME POD_NAMESPACE INSTANCE_IP SERVICE_ACCOUNT HOST_IP ISTIO_CPU_LIMIT GOMEMLIMIT GOMAXPROCS'.split(
    ' ',
  );
const VARIABLES: readonly string[] = [
  ...FROM_ELSEWHERE,
  ...'CA_ADDR ISTIO_META_APP_CONTAINERS ISTIO_META_CLUSTER_ID ISTIO_META_ENABLE_HBONE ISTIO_META_INTERCEPTION_MODE ISTIO_META_MESH_ID ISTIO_META_NETWORK ISTIO_META_OWNER ISTIO_META_POD_PORTS ISTIO_META_REQUESTED_NETWORK_VIEW ISTIO_META_SERVICE_ACCOUNT ISTIO_META_WORKLOAD_NAME PILOT_CERT_PROVIDER PROXY_CONFIG TRUST_DOMAIN'.split(
    ' ',
  ),
];
const ENV: Mapping = { fields: { name: 'text', value: 'text', valueFrom: 'object' } };
const PORT: Mapping = {
  fields: { ...all('text', 'name protocol hostIP'), ...all('number', 'containerPort hostPort') },
};
const MOUNT: Mapping = {
  fields: {
    ...all('text', 'name mountPath subPath subPathExpr mountPropagation recursiveReadOnly'),
    readOnly: 'flag',
  },
};
const CONTAINER: Mapping = {
  fields: {
    ...all('text', 'workingDir restartPolicy terminationMessagePath terminationMessagePolicy imagePullPolicy'),
    ...all('words', 'command args'),
    ...all('objects', 'envFrom resizePolicy restartPolicyRules volumeDevices'),
    ...all('object', 'resources livenessProbe readinessProbe startupProbe lifecycle securityContext'),
    ...all('flag', 'stdin stdinOnce tty'),
    image: 'image',
    name: 'text',
    env: { items: ENV, by: 'name', there: VARIABLES },
    ports: { items: PORT, by: 'containerPort', there: ['15020', '15021', '15090'] },
    volumeMounts: { items: MOUNT, by: 'mountPath', there: ['/var/run/secrets/istio', '/etc/istio/proxy'] },
  },
};
const ANYTHING: Mapping = { fields: {}, open: true };
const POD_SPEC: Mapping = {
  fields: {
    ...all(
      'text',
      'restartPolicy dnsPolicy serviceAccountName serviceAccount nodeName hostname hostnameOverride subdomain schedulerName priorityClassName runtimeClassName preemptionPolicy',
    ),
    ...all('number', 'terminationGracePeriodSeconds activeDeadlineSeconds priority'),
    ...all(
      'flag',
      'automountServiceAccountToken hostNetwork hostPID hostIPC shareProcessNamespace enableServiceLinks setHostnameAsFQDN hostUsers',
    ),
    ...all('object', 'securityContext affinity dnsConfig overhead os resources'),
    ...all('objects', 'ephemeralContainers tolerations readinessGates schedulingGates resourceClaims'),
    nodeSelector: 'texts',
    volumes: { items: ANYTHING, by: 'name', there: ['istio-envoy', 'istio-data', 'istio-token', 'istio-podinfo'] },
    imagePullSecrets: { items: ANYTHING, by: 'name', there: 'none', keyless: true },
    hostAliases: { items: ANYTHING, by: 'ip', there: 'none' },
    topologySpreadConstraints: { items: ANYTHING, by: 'topologyKey', there: 'none' },
    containers: { items: CONTAINER, by: 'name', there: ['istio-proxy'], needed: true },
    initContainers: { items: CONTAINER, by: 'name', there: 'none' },
  },
  needed: true,
  requires: ['containers'],
};
const TEMPLATE: Mapping = {
  fields: { metadata: POD_METADATA, spec: POD_SPEC },
  needed: true,
  requires: ['metadata', 'spec'],
};
const root = (kind: string, apiVersion: string) => ({
  kind: { only: [kind] },
  apiVersion: { only: [apiVersion] },
  metadata: METADATA,
});

interface Known {
  readonly kind: string;
  readonly shape: Mapping;
}

/** A Deployment of kind DaemonSet, which istiod makes as well (tried with 1.30 and 1.31). */
export const DAEMON_SET: Known = {
  kind: 'DaemonSet',
  shape: {
    fields: {
      ...root('DaemonSet', 'apps/v1'),
      status: 'any',
      spec: {
        fields: { ...fields('selector updateStrategy minReadySeconds revisionHistoryLimit'), template: TEMPLATE },
        needed: true,
        requires: ['selector', 'template'],
      },
    },
  },
};

export const SHAPES: Readonly<Record<string, Known>> = {
  deployment: {
    kind: 'Deployment',
    shape: {
      fields: {
        ...root('Deployment', 'apps/v1'),
        status: 'any',
        spec: {
          fields: {
            ...fields('replicas minReadySeconds revisionHistoryLimit podReplacementPolicy'),
            ...all('object', 'selector strategy'),
            paused: 'flag',
            progressDeadlineSeconds: 'number',
            template: TEMPLATE,
          },
          needed: true,
          requires: ['selector', 'template'],
        },
      },
    },
  },
  service: {
    kind: 'Service',
    shape: {
      fields: {
        ...root('Service', 'v1'),
        status: 'any',
        spec: {
          fields: {
            ...all(
              'text',
              'clusterIP type sessionAffinity loadBalancerIP externalName externalTrafficPolicy ipFamilyPolicy loadBalancerClass internalTrafficPolicy trafficDistribution',
            ),
            ...all('words', 'clusterIPs externalIPs loadBalancerSourceRanges ipFamilies'),
            ...all('flag', 'publishNotReadyAddresses allocateLoadBalancerNodePorts'),
            healthCheckNodePort: 'number',
            sessionAffinityConfig: 'object',
            ports: {
              items: {
                fields: {
                  ...all('text', 'name protocol appProtocol'),
                  ...all('number', 'port nodePort'),
                  targetPort: 'any',
                },
              },
              by: 'port',
              there: ['15008', '15021'],
            },
            selector: 'texts',
          },
          needed: true,
        },
      },
    },
  },
  serviceAccount: {
    kind: 'ServiceAccount',
    shape: {
      fields: {
        ...root('ServiceAccount', 'v1'),
        secrets: { items: ANYTHING, by: 'name', there: 'none' },
        imagePullSecrets: 'objects',
        automountServiceAccountToken: 'flag',
      },
    },
  },
  horizontalPodAutoscaler: {
    kind: 'HorizontalPodAutoscaler',
    shape: {
      fields: {
        ...root('HorizontalPodAutoscaler', 'autoscaling/v2'),
        status: 'any',
        spec: {
          fields: {
            ...fields('minReplicas maxReplicas'),
            metrics: 'objects',
            behavior: 'object',
            scaleTargetRef: { fields: {}, open: true, needed: true, requires: ['kind', 'name'] },
          },
          needed: true,
          requires: ['scaleTargetRef', 'maxReplicas'],
        },
      },
    },
  },
  podDisruptionBudget: {
    kind: 'PodDisruptionBudget',
    shape: {
      fields: {
        ...root('PodDisruptionBudget', 'policy/v1'),
        status: 'any',
        spec: {
          fields: {
            ...fields('minAvailable maxUnavailable'),
            selector: 'object',
            unhealthyPodEvictionPolicy: 'text',
          },
        },
      },
    },
  },
};

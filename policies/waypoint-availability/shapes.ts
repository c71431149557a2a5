// What the keys of a Gateway's ConfigMap may hold, as far as it is checked (k8s.io/api, Kubernetes 1.36).

/** A mapping with the fields of some type. */
export interface Mapping {
  readonly fields: { readonly [field: string]: Shape };
  /** Null takes it away, and the API server refuses what is left. */
  readonly needed?: true;
  /** istiod reads it itself, and deploys nothing where it cannot. */
  readonly read?: true;
}

/** A list that is merged by a key of its items. */
export interface List {
  readonly items: Mapping;
  readonly by: string;
  /** Of which items Istio's templates have; 'none' where they have no such list. A patch for anything else is taken as it is, nulls too. */
  readonly there: string | 'none';
  readonly needed?: true;
}

/** `texts` is a mapping of texts, such as annotations. */
export type Shape = Mapping | List | 'any' | 'text' | 'texts';

const fields = (names: string) => Object.fromEntries(names.split(' ').map(name => [name, 'any'] as const));

const TEXTS = { labels: 'texts', annotations: 'texts' } as const;
const METADATA: Mapping = {
  fields: { ...fields('name namespace finalizers ownerReferences'), ...TEXTS },
  needed: true,
  read: true,
};
const POD_METADATA: Mapping = { fields: METADATA.fields, needed: true };
const ENV: Mapping = { fields: { name: 'text', value: 'text', valueFrom: 'any' } };
const CONTAINER: Mapping = {
  fields: {
    ...fields(
      'image command args workingDir ports envFrom resources resizePolicy restartPolicy restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty',
    ),
    name: 'text',
    env: { items: ENV, by: 'name', there: '' },
  },
};
const POD_SPEC: Mapping = {
  fields: {
    ...fields(
      'volumes ephemeralContainers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy serviceAccountName serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname hostnameOverride subdomain affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os hostUsers schedulingGates resourceClaims resources',
    ),
    nodeSelector: 'texts',
    containers: { items: CONTAINER, by: 'name', there: 'istio-proxy', needed: true },
    initContainers: { items: CONTAINER, by: 'name', there: 'none' },
  },
  needed: true,
};
const ROOT = { ...fields('apiVersion kind status'), metadata: METADATA };

export const SHAPES: Readonly<Record<string, { readonly kind: string; readonly shape: Mapping }>> = {
  deployment: {
    kind: 'Deployment',
    shape: {
      fields: {
        ...ROOT,
        spec: {
          fields: {
            ...fields(
              'replicas selector strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds podReplacementPolicy',
            ),
            template: { fields: { metadata: POD_METADATA, spec: POD_SPEC }, needed: true },
          },
          needed: true,
        },
      },
    },
  },
  service: {
    kind: 'Service',
    shape: {
      fields: {
        ...ROOT,
        spec: {
          fields: {
            ...fields(
              'ports clusterIP clusterIPs type externalIPs sessionAffinity loadBalancerIP loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig ipFamilies ipFamilyPolicy allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution',
            ),
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
        ...fields('apiVersion kind secrets imagePullSecrets automountServiceAccountToken'),
        metadata: METADATA,
      },
    },
  },
  horizontalPodAutoscaler: {
    kind: 'HorizontalPodAutoscaler',
    shape: {
      fields: {
        ...ROOT,
        spec: { fields: fields('scaleTargetRef minReplicas maxReplicas metrics behavior'), needed: true },
      },
    },
  },
  podDisruptionBudget: {
    kind: 'PodDisruptionBudget',
    shape: {
      fields: {
        ...ROOT,
        spec: { fields: fields('minAvailable maxUnavailable selector unhealthyPodEvictionPolicy') },
      },
    },
  },
};

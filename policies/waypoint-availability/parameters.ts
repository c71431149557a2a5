// The ConfigMaps from which istiod takes changes to what it makes for a Gateway: `parametersRef` and the defaults of a class.
import { type JsonObject, list, number, record } from '../../src/kube/json.ts';
import { nearest } from '../../src/kube/near.ts';
import { readYaml } from '../../src/kube/yaml.ts';
import type { ConfigMap } from '../../src/mesh/kinds/cluster.ts';

/** A part of such a ConfigMap that istiod cannot render. */
export interface Fault {
  /** The key and the path below it: `deployment.spec.replica`. */
  readonly path: string;
  /** What is wrong, as a clause: 'is no field of a Deployment'. */
  readonly what: string;
  readonly fix: string;
  /** False where a newer Kubernetes may know the field. */
  readonly certain: boolean;
}

export interface Parameters {
  readonly faults: readonly Fault[];
  /** `deployment.spec.replicas`. */
  readonly replicas?: number;
  /** Set where there is a `horizontalPodAutoscaler`; 1 where it has no `minReplicas`. */
  readonly autoscaledFrom?: number;
  readonly budget?: { readonly minAvailable?: number | string; readonly maxUnavailable?: number | string };
}

type Shape = { readonly [field: string]: Shape | 'any' };

const fields = (names: string): Shape => Object.fromEntries(names.split(' ').map(name => [name, 'any']));

const METADATA = fields('name namespace labels annotations finalizers ownerReferences');
const CONTAINER = fields(
  'name image command args workingDir ports envFrom env resources resizePolicy restartPolicy restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty',
);
const POD_SPEC: Shape = {
  ...fields(
    'volumes ephemeralContainers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname hostnameOverride subdomain affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os hostUsers schedulingGates resourceClaims resources',
  ),
  containers: CONTAINER,
  initContainers: CONTAINER,
};
const ROOT = fields('apiVersion kind status');
/** What each key may hold, as far as it is checked (k8s.io/api, Kubernetes 1.36). */
const SHAPES: Readonly<Record<string, { readonly kind: string; readonly shape: Shape }>> = {
  deployment: {
    kind: 'Deployment',
    shape: {
      ...ROOT,
      metadata: METADATA,
      spec: {
        ...fields(
          'replicas selector strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds podReplacementPolicy',
        ),
        template: { metadata: METADATA, spec: POD_SPEC },
      },
    },
  },
  service: {
    kind: 'Service',
    shape: {
      ...ROOT,
      metadata: METADATA,
      spec: fields(
        'ports selector clusterIP clusterIPs type externalIPs sessionAffinity loadBalancerIP loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig ipFamilies ipFamilyPolicy allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution',
      ),
    },
  },
  serviceAccount: {
    kind: 'ServiceAccount',
    shape: { ...fields('apiVersion kind secrets imagePullSecrets automountServiceAccountToken'), metadata: METADATA },
  },
  horizontalPodAutoscaler: {
    kind: 'HorizontalPodAutoscaler',
    shape: {
      ...ROOT,
      metadata: METADATA,
      spec: fields('scaleTargetRef minReplicas maxReplicas metrics behavior'),
    },
  },
  podDisruptionBudget: {
    kind: 'PodDisruptionBudget',
    shape: {
      ...ROOT,
      metadata: METADATA,
      spec: fields('minAvailable maxUnavailable selector unhealthyPodEvictionPolicy'),
    },
  },
};
const KEYS = Object.keys(SHAPES);
/** Unknown fields that are told: half a megabyte has room for many thousand. */
const AT_MOST = 20;

function* unknownFields(value: unknown, shape: Shape, path: string, kind: string): Iterable<Fault> {
  if (Array.isArray(value)) {
    for (const item of list(value)) yield* unknownFields(item, shape, path, kind);
    return;
  }
  const object = record(value);
  if (object === undefined) return;
  for (const field of Object.keys(object)) {
    if (field.startsWith('$')) continue; // directives of a strategic merge patch
    const inner = Object.hasOwn(shape, field) ? shape[field] : undefined;
    if (inner === undefined) {
      const near = nearest(field, Object.keys(shape));
      yield {
        path: `${path}.${field}`,
        what: `is no field of a ${kind}`,
        fix: near === undefined ? `remove ${field} from ${path}` : `write ${near} instead of ${field} in ${path}`,
        certain: near !== undefined,
      };
    } else if (inner !== 'any') yield* unknownFields(object[field], inner, `${path}.${field}`, kind);
  }
}

function read(configMap: ConfigMap): Parameters {
  const faults: Fault[] = [];
  const values: Record<string, JsonObject> = {};
  for (const key in configMap.data) {
    const known = Object.hasOwn(SHAPES, key) ? SHAPES[key] : undefined;
    if (known === undefined) {
      const near = nearest(key, KEYS);
      const fix = near === undefined ? `remove the key; istiod knows ${KEYS.join(', ')}` : `call the key ${near}`;
      faults.push({ path: key, what: 'is no key that istiod knows', fix, certain: true });
      continue;
    }
    const text = readYaml(configMap.data[key] ?? '');
    if ('error' in text) {
      if (text.error === undefined) continue;
      // the log of istiod says 'invalid JSON document', whatever the mistake
      const what = `is no YAML (${text.error})`;
      faults.push({ path: key, what, fix: `correct the YAML under ${key}`, certain: true });
      continue;
    }
    const object = record(text.value);
    if (object !== undefined) {
      values[key] = object;
      for (const fault of unknownFields(object, known.shape, key, known.kind)) {
        if (faults.length >= AT_MOST) break;
        faults.push(fault);
      }
    } else if (text.value !== null) {
      const fix = `write a mapping such as spec: under ${key}`;
      faults.push({ path: key, what: `is no object of a ${known.kind}`, fix, certain: true });
    }
  }
  const spec = (key: string) => record(values[key]?.['spec']);
  for (const [key, field] of [
    ['deployment', 'replicas'],
    ['horizontalPodAutoscaler', 'minReplicas'],
    ['horizontalPodAutoscaler', 'maxReplicas'],
  ] as const) {
    const amount = spec(key)?.[field];
    if (amount !== undefined && amount !== null && !Number.isInteger(amount)) {
      const fix = `write a whole number without quotes for ${field}`;
      faults.push({ path: `${key}.spec.${field}`, what: 'is no whole number', fix, certain: true });
    }
  }
  const replicas = number(spec('deployment')?.['replicas']);
  const budget = spec('podDisruptionBudget');
  const amount = (value: unknown) => (typeof value === 'string' ? value : number(value));
  const minAvailable = amount(budget?.['minAvailable']);
  const maxUnavailable = amount(budget?.['maxUnavailable']);
  return {
    faults,
    ...(replicas === undefined ? {} : { replicas }),
    ...(values['horizontalPodAutoscaler'] === undefined
      ? {}
      : { autoscaledFrom: number(spec('horizontalPodAutoscaler')?.['minReplicas']) ?? 1 }),
    ...(budget === undefined
      ? {}
      : {
          budget: {
            ...(minAvailable === undefined ? {} : { minAvailable }),
            ...(maxUnavailable === undefined ? {} : { maxUnavailable }),
          },
        }),
  };
}

const known = new WeakMap<ConfigMap, Parameters>();

/** What such a ConfigMap says; read once for each stored state of it. */
export function parametersOf(configMap: ConfigMap): Parameters {
  let found = known.get(configMap);
  if (found === undefined) {
    found = read(configMap);
    known.set(configMap, found);
  }
  return found;
}

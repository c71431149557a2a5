import { at, emptyRecord, type JsonObject, list, number, record, records, text, texts } from '../../kube/json.ts';
import type { GroupKind } from '../../kube/kind.ts';
import { NO_STRINGS, type StringMap } from '../../kube/labels.ts';
import { annotationsOf, labelsOf, type Meta, metaOf, type Owner, ownerOf } from './meta.ts';

export interface ContainerPort {
  readonly name: string;
  readonly number: number;
  readonly protocol: string;
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly ports: readonly ContainerPort[];
  /** Ports, by number or name, on which the kubelet probes it over the network. */
  readonly probes: readonly (number | string)[];
  /** `restartPolicy` of a container: 'Always' under initContainers makes a native sidecar. */
  readonly restartPolicy?: string;
  /** True where the command, the arguments or scuttle's environment end the proxy (`/quitquitquit`, `pkill pilot-agent`): of Jobs only. */
  readonly endsProxy: boolean;
  /** True where its arguments run Istio's proxy as a gateway (`proxy router`). */
  readonly router: boolean;
  /** Environment by name; kept for Istio's own components only. */
  readonly env: StringMap;
  /** Arguments; kept for Istio's own components only. */
  readonly args: readonly string[];
}

/** What a pod will be made from; for a bare Pod the pod itself. */
export interface PodTemplate {
  readonly labels: StringMap;
  readonly annotations: StringMap;
  readonly hostNetwork: boolean;
  readonly nodeName?: string;
  readonly nodeSelector: StringMap;
  /** True where a required node affinity narrows the nodes further; what it says is not kept. */
  readonly nodeAffinity: boolean;
  readonly serviceAccount: string;
  readonly restartPolicy?: string;
  readonly containers: readonly Container[];
  readonly initContainers: readonly Container[];
}

/** Istio's own components, recognised by label in any namespace, or undefined for everybody else's workload. */
export type MeshComponent = 'istiod' | 'ztunnel' | 'istio-cni' | 'gateway' | undefined;

/** Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, ReplicationController, Rollout or bare Pod. */
export interface Workload extends Meta {
  readonly template: PodTemplate;
  readonly component: MeshComponent;
  readonly replicas?: number;
  readonly owner?: Owner;
  /** True where only metadata is known (Pods and ReplicaSets of a live cluster): containers are not. */
  readonly metadataOnly: boolean;
}

export const WORKLOAD_KINDS = [
  'Pod',
  'Deployment.apps',
  'StatefulSet.apps',
  'DaemonSet.apps',
  'ReplicaSet.apps',
  'Job.batch',
  'CronJob.batch',
  'ReplicationController',
  'Rollout.argoproj.io',
] as const satisfies readonly GroupKind[];
export const WORKLOADS: ReadonlySet<GroupKind> = new Set(WORKLOAD_KINDS);
export type WorkloadKind = (typeof WORKLOAD_KINDS)[number];

// bounded, so that no command is read more than once over
const ENDS_PROXY =
  /quitquitquit|\/exit\b.{0,200}15020|15020.{0,200}\/exit\b|\bp?kill(?:all)?\b.{0,200}(?:envoy|pilot-agent|istio)|scuttle/is;

const NO_PROBES: readonly never[] = Object.freeze([]);

const PROBES = ['livenessProbe', 'readinessProbe', 'startupProbe'] as const;
const WAYS = ['httpGet', 'tcpSocket', 'grpc'] as const;

function probesOf(value: unknown): readonly (number | string)[] {
  let found: (number | string)[] | undefined;
  for (const name of PROBES) {
    const probe = at(value, name);
    if (probe === undefined) continue;
    for (const way of WAYS) {
      const port = at(probe, way, 'port');
      const known = number(port) ?? text(port);
      if (known === undefined || found?.includes(known)) continue;
      found ??= [];
      found.push(known);
    }
  }
  return found ?? NO_PROBES;
}

// scuttle is told by its environment where it is the image's entrypoint
const SCUTTLED = /^(?:ISTIO_QUIT_API|SCUTTLE_|ENVOY_ADMIN_API)/;

function isScuttled(environment: readonly unknown[]): boolean {
  for (const variable of environment) {
    const name = text(at(variable, 'name'));
    if (name !== undefined && SCUTTLED.test(name)) return true;
  }
  return false;
}

const NO_PORTS: Container['ports'] = Object.freeze([]);

function portsOf(values: readonly unknown[]): Container['ports'] {
  if (values.length === 0) return NO_PORTS;
  const ports: Container['ports'][number][] = [];
  for (const value of values) {
    const port = record(value);
    const containerPort = number(port?.['containerPort']);
    if (port === undefined || containerPort === undefined) continue;
    ports.push({ name: text(port['name']) ?? '', number: containerPort, protocol: text(port['protocol']) ?? 'TCP' });
  }
  return ports;
}

function environmentOf(variables: readonly unknown[]): StringMap {
  const env = emptyRecord<string>();
  for (const variable of records(variables)) {
    const name = text(variable['name']);
    if (name !== undefined) env[name] = text(variable['value']) ?? '';
  }
  return env;
}

function container(value: unknown, component: MeshComponent, job: boolean): Container {
  const written = texts(at(value, 'command'));
  const args = texts(at(value, 'args'));
  const command = args.length === 0 ? written : [...written, ...args];
  const restartPolicy = text(at(value, 'restartPolicy'));
  const environment = list(at(value, 'env'));
  return {
    name: text(at(value, 'name')) ?? '',
    image: text(at(value, 'image')) ?? '',
    ports: portsOf(list(at(value, 'ports'))),
    probes: probesOf(value),
    ...(restartPolicy === undefined ? {} : { restartPolicy }),
    endsProxy: job && (ENDS_PROXY.test(command.join(' ')) || isScuttled(environment)),
    router: command.includes('router') && command.includes('proxy'),
    env: component === undefined ? NO_STRINGS : environmentOf(environment),
    args: component === undefined ? [] : args,
  };
}

/** The container that a component of Istio has in every chart, and a part of the name of its image, which vendors keep. */
const OWN_CONTAINER = {
  istiod: { container: 'discovery', image: 'pilot' },
  ztunnel: { container: 'istio-proxy', image: 'ztunnel' },
  'istio-cni': { container: 'install-cni', image: 'install-cni' },
} as const;

function labelledAs(labels: StringMap, templateLabels: StringMap): keyof typeof OWN_CONTAINER | undefined {
  const app = templateLabels['app'] ?? labels['app'] ?? templateLabels['app.kubernetes.io/name'];
  if (app === 'istiod' || templateLabels['istio'] === 'pilot') return 'istiod';
  if (app === 'ztunnel') return 'ztunnel';
  const k8sApp = templateLabels['k8s-app'];
  return k8sApp === 'istio-cni-node' || app === 'istio-cni-node' || app === 'istio-cni' ? 'istio-cni' : undefined;
}

/** By its labels, which anybody may write, and its container. Of what is known by its metadata alone the labels tell. */
function componentOf(labels: StringMap, templateLabels: StringMap, spec: JsonObject | undefined): MeshComponent {
  const labelled = labelledAs(labels, templateLabels);
  if (labelled !== undefined) {
    const { container: name, image } = OWN_CONTAINER[labelled];
    const isIt = (one: JsonObject) => one['name'] === name || text(one['image'])?.includes(image) === true;
    if (spec === undefined || records(spec['containers']).some(isIt)) return labelled;
  }
  return templateLabels['gateway.networking.k8s.io/gateway-name'] === undefined ? undefined : 'gateway';
}

/** The pod template of a workload of any kind, as a JSON value. */
export function templateOf(kind: GroupKind, object: unknown): unknown {
  if (kind === 'Pod') return object;
  if (kind === 'CronJob.batch') return at(object, 'spec', 'jobTemplate', 'spec', 'template');
  return at(object, 'spec', 'template');
}

/** Where the pod template of a workload stands in the object, for positions and patches. */
export function templatePath(kind: GroupKind): readonly string[] {
  if (kind === 'Pod') return [];
  return kind === 'CronJob.batch' ? ['spec', 'jobTemplate', 'spec', 'template'] : ['spec', 'template'];
}

export function workload(kind: GroupKind, namespace: string, object: unknown): Workload {
  const meta = metaOf(kind, namespace, object);
  const template = templateOf(kind, object);
  const spec = record(at(template, 'spec'));
  const labels = kind === 'Pod' ? meta.labels : labelsOf(at(template, 'metadata'));
  const component = componentOf(meta.labels, labels, spec);
  const job = kind === 'Job.batch' || kind === 'CronJob.batch';
  const owner = ownerOf(object);
  const replicas = number(at(object, 'spec', 'replicas'));
  const nodeName = text(spec?.['nodeName']);
  const restartPolicy = text(spec?.['restartPolicy']);
  return {
    ...meta,
    template: {
      labels,
      annotations: kind === 'Pod' ? meta.annotations : annotationsOf(at(template, 'metadata')),
      hostNetwork: spec?.['hostNetwork'] === true,
      ...(nodeName === undefined || nodeName === '' ? {} : { nodeName }),
      nodeSelector: labelsOf({ labels: spec?.['nodeSelector'] }),
      nodeAffinity:
        record(at(spec, 'affinity', 'nodeAffinity', 'requiredDuringSchedulingIgnoredDuringExecution')) !== undefined,
      serviceAccount: text(spec?.['serviceAccountName']) ?? text(spec?.['serviceAccount']) ?? 'default',
      ...(restartPolicy === undefined ? {} : { restartPolicy }),
      containers: list(spec?.['containers']).map(item => container(item, component, job)),
      initContainers: list(spec?.['initContainers']).map(item => container(item, component, job)),
    },
    component,
    ...(replicas === undefined ? {} : { replicas }),
    ...(owner === undefined ? {} : { owner }),
    metadataOnly: spec === undefined,
  };
}

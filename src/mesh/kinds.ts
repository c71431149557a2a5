// Every kind of which the Mesh holds projections: how it is called, and how it is projected.
import { at, text } from '../kube/json.ts';
import { type GroupKind, groupKind, type ObjectRef, splitApiVersion } from '../kube/kind.ts';
import { kept } from './kept.ts';
import {
  type ConfigMap,
  type CustomResourceDefinition,
  configMap,
  customResourceDefinition,
  metadataOnly,
  type Namespace,
  type Node,
  namespace,
  node,
  type Specified,
  specified,
  type WebhookConfiguration,
  webhookConfiguration,
} from './kinds/cluster.ts';
import { type DestinationRule, destinationRule } from './kinds/destinationrules.ts';
import {
  type BackendTlsPolicy,
  backendTlsPolicy,
  type Gateway,
  type GatewayClass,
  gateway,
  gatewayClass,
  type IstioGateway,
  istioGateway,
  type ReferenceGrant,
  type Route,
  referenceGrant,
  route,
} from './kinds/gateways.ts';
import { type InferencePool, inferencePool, type PoolReferrer, poolReferrer } from './kinds/inference.ts';
import type { Meta } from './kinds/meta.ts';
import { type NetworkPolicy, networkPolicy } from './kinds/network.ts';
import { type AttachedConfig, attachedConfig, type VirtualService, virtualService } from './kinds/routing.ts';
import {
  type HorizontalPodAutoscaler,
  horizontalPodAutoscaler,
  type PodDisruptionBudget,
  podDisruptionBudget,
} from './kinds/scaling.ts';
import { type Secret, secret } from './kinds/secrets.ts';
import {
  type AuthorizationPolicy,
  authorizationPolicy,
  type PeerAuthentication,
  peerAuthentication,
} from './kinds/security.ts';
import {
  type Service,
  type ServiceEntry,
  service,
  serviceEntry,
  type WorkloadEntry,
  workloadEntry,
} from './kinds/services.ts';
import { type Workload, workload } from './kinds/workloads.ts';

/** The projection of each kind. */
export interface Projections {
  Namespace: Namespace;
  Node: Node;
  ConfigMap: ConfigMap;
  Secret: Secret;
  'CustomResourceDefinition.apiextensions.k8s.io': CustomResourceDefinition;
  'MutatingWebhookConfiguration.admissionregistration.k8s.io': WebhookConfiguration;
  'ValidatingWebhookConfiguration.admissionregistration.k8s.io': WebhookConfiguration;
  Service: Service;
  'ServiceEntry.networking.istio.io': ServiceEntry;
  'WorkloadEntry.networking.istio.io': WorkloadEntry;
  'DestinationRule.networking.istio.io': DestinationRule;
  'NetworkPolicy.networking.k8s.io': NetworkPolicy;
  'HorizontalPodAutoscaler.autoscaling': HorizontalPodAutoscaler;
  'PodDisruptionBudget.policy': PodDisruptionBudget;
  'CiliumClusterwideNetworkPolicy.cilium.io': Specified;
  Pod: Workload;
  'Deployment.apps': Workload;
  'StatefulSet.apps': Workload;
  'DaemonSet.apps': Workload;
  'ReplicaSet.apps': Workload;
  'Job.batch': Workload;
  'CronJob.batch': Workload;
  ReplicationController: Workload;
  'Rollout.argoproj.io': Workload;
  'Gateway.gateway.networking.k8s.io': Gateway;
  'GatewayClass.gateway.networking.k8s.io': GatewayClass;
  'Gateway.networking.istio.io': IstioGateway;
  'HTTPRoute.gateway.networking.k8s.io': Route;
  'GRPCRoute.gateway.networking.k8s.io': Route;
  'TCPRoute.gateway.networking.k8s.io': Route;
  'TLSRoute.gateway.networking.k8s.io': Route;
  'UDPRoute.gateway.networking.k8s.io': Route;
  'ReferenceGrant.gateway.networking.k8s.io': ReferenceGrant;
  'BackendTLSPolicy.gateway.networking.k8s.io': BackendTlsPolicy;
  'AuthorizationPolicy.security.istio.io': AuthorizationPolicy;
  'RequestAuthentication.security.istio.io': AttachedConfig;
  'WasmPlugin.extensions.istio.io': AttachedConfig;
  'TrafficExtension.extensions.istio.io': AttachedConfig;
  'EnvoyFilter.networking.istio.io': AttachedConfig;
  'Telemetry.telemetry.istio.io': AttachedConfig;
  'Sidecar.networking.istio.io': AttachedConfig;
  'VirtualService.networking.istio.io': VirtualService;
  'PeerAuthentication.security.istio.io': PeerAuthentication;
  'InferencePool.inference.networking.k8s.io': InferencePool;
  'InferencePool.inference.networking.x-k8s.io': InferencePool;
  'InferenceObjective.inference.networking.x-k8s.io': PoolReferrer;
  'InferenceModel.inference.networking.x-k8s.io': PoolReferrer;
  'InferenceObjective.llm-d.ai': PoolReferrer;
  'Istio.sailoperator.io': Specified;
  'IstioCNI.sailoperator.io': Specified;
  'ZTunnel.sailoperator.io': Specified;
  'IstioOperator.install.istio.io': Specified;
  'Values.helm.sh': Specified;
  'MutatingAdmissionPolicy.admissionregistration.k8s.io': Specified;
  'ClusterPolicy.kyverno.io': Specified;
  'Policy.kyverno.io': Specified;
  'MutatingPolicy.policies.kyverno.io': Specified;
  'ValidatingPolicy.policies.kyverno.io': Specified;
  'NamespacedMutatingPolicy.policies.kyverno.io': Specified;
  'NamespacedValidatingPolicy.policies.kyverno.io': Specified;
  'ValidatingAdmissionPolicy.admissionregistration.k8s.io': Specified;
  'Assign.mutations.gatekeeper.sh': Specified;
  'AssignImage.mutations.gatekeeper.sh': Specified;
  'ModifySet.mutations.gatekeeper.sh': Specified;
}

/** A kind with a projection of its own. */
export type Kind = keyof Projections;

/** Istio's own kinds that istiod makes configuration of, but for those of security. */
export const ISTIO_CONFIG_KINDS = [
  'VirtualService.networking.istio.io',
  'DestinationRule.networking.istio.io',
  'ServiceEntry.networking.istio.io',
  'WorkloadEntry.networking.istio.io',
  'Gateway.networking.istio.io',
  'Sidecar.networking.istio.io',
  'EnvoyFilter.networking.istio.io',
  'Telemetry.telemetry.istio.io',
  'WasmPlugin.extensions.istio.io',
  'TrafficExtension.extensions.istio.io',
] as const satisfies readonly Kind[];

type Project<P> = (kind: GroupKind, namespace: string, object: unknown) => P;

/** How one kind is called on the wire, and how it is projected. */
export interface KindFacts<P = Meta> {
  /** Resource name in URLs and rules. */
  readonly plural: string;
  readonly scope: 'Namespaced' | 'Cluster';
  /** The version to list and watch; the newest that is served is better where discovery tells. */
  readonly version: string;
  readonly project: Project<P>;
}

function entry<P extends Meta>(
  plural: string,
  version: string,
  project: Project<P>,
  scope: 'Namespaced' | 'Cluster' = 'Namespaced',
): KindFacts<P> {
  return { plural, scope, version, project };
}

export const KINDS: { readonly [K in Kind]: KindFacts<Projections[K]> } = {
  Namespace: entry('namespaces', 'v1', namespace, 'Cluster'),
  Node: entry('nodes', 'v1', node, 'Cluster'),
  ConfigMap: entry('configmaps', 'v1', configMap),
  Secret: entry('secrets', 'v1', secret),
  'CustomResourceDefinition.apiextensions.k8s.io': entry(
    'customresourcedefinitions',
    'v1',
    customResourceDefinition,
    'Cluster',
  ),
  'MutatingWebhookConfiguration.admissionregistration.k8s.io': entry(
    'mutatingwebhookconfigurations',
    'v1',
    webhookConfiguration,
    'Cluster',
  ),
  'ValidatingWebhookConfiguration.admissionregistration.k8s.io': entry(
    'validatingwebhookconfigurations',
    'v1',
    webhookConfiguration,
    'Cluster',
  ),
  Service: entry('services', 'v1', service),
  'ServiceEntry.networking.istio.io': entry('serviceentries', 'v1', serviceEntry),
  'WorkloadEntry.networking.istio.io': entry('workloadentries', 'v1', workloadEntry),
  'DestinationRule.networking.istio.io': entry('destinationrules', 'v1', destinationRule),
  'NetworkPolicy.networking.k8s.io': entry('networkpolicies', 'v1', networkPolicy),
  'HorizontalPodAutoscaler.autoscaling': entry('horizontalpodautoscalers', 'v2', horizontalPodAutoscaler),
  'PodDisruptionBudget.policy': entry('poddisruptionbudgets', 'v1', podDisruptionBudget),
  'CiliumClusterwideNetworkPolicy.cilium.io': entry('ciliumclusterwidenetworkpolicies', 'v2', specified, 'Cluster'),
  Pod: entry('pods', 'v1', workload),
  'Deployment.apps': entry('deployments', 'v1', workload),
  'StatefulSet.apps': entry('statefulsets', 'v1', workload),
  'DaemonSet.apps': entry('daemonsets', 'v1', workload),
  'ReplicaSet.apps': entry('replicasets', 'v1', workload),
  'Job.batch': entry('jobs', 'v1', workload),
  'CronJob.batch': entry('cronjobs', 'v1', workload),
  ReplicationController: entry('replicationcontrollers', 'v1', workload),
  'Rollout.argoproj.io': entry('rollouts', 'v1alpha1', workload),
  'Gateway.gateway.networking.k8s.io': entry('gateways', 'v1', gateway),
  'GatewayClass.gateway.networking.k8s.io': entry('gatewayclasses', 'v1', gatewayClass, 'Cluster'),
  'Gateway.networking.istio.io': entry('gateways', 'v1', istioGateway),
  'HTTPRoute.gateway.networking.k8s.io': entry('httproutes', 'v1', route),
  'GRPCRoute.gateway.networking.k8s.io': entry('grpcroutes', 'v1', route),
  'TCPRoute.gateway.networking.k8s.io': entry('tcproutes', 'v1alpha2', route),
  'TLSRoute.gateway.networking.k8s.io': entry('tlsroutes', 'v1alpha2', route),
  'UDPRoute.gateway.networking.k8s.io': entry('udproutes', 'v1alpha2', route),
  'ReferenceGrant.gateway.networking.k8s.io': entry('referencegrants', 'v1beta1', referenceGrant),
  'BackendTLSPolicy.gateway.networking.k8s.io': entry('backendtlspolicies', 'v1', backendTlsPolicy),
  'RequestAuthentication.security.istio.io': entry('requestauthentications', 'v1', attachedConfig),
  'WasmPlugin.extensions.istio.io': entry('wasmplugins', 'v1alpha1', attachedConfig),
  'TrafficExtension.extensions.istio.io': entry('trafficextensions', 'v1alpha1', attachedConfig),
  'EnvoyFilter.networking.istio.io': entry('envoyfilters', 'v1alpha3', attachedConfig),
  'Telemetry.telemetry.istio.io': entry('telemetries', 'v1', attachedConfig),
  'Sidecar.networking.istio.io': entry('sidecars', 'v1', attachedConfig),
  'VirtualService.networking.istio.io': entry('virtualservices', 'v1', virtualService),
  'AuthorizationPolicy.security.istio.io': entry('authorizationpolicies', 'v1', authorizationPolicy),
  'PeerAuthentication.security.istio.io': entry('peerauthentications', 'v1', peerAuthentication),
  'InferencePool.inference.networking.k8s.io': entry('inferencepools', 'v1', inferencePool),
  'InferencePool.inference.networking.x-k8s.io': entry('inferencepools', 'v1alpha2', inferencePool),
  'InferenceObjective.inference.networking.x-k8s.io': entry('inferenceobjectives', 'v1alpha2', poolReferrer),
  'InferenceModel.inference.networking.x-k8s.io': entry('inferencemodels', 'v1alpha2', poolReferrer),
  'InferenceObjective.llm-d.ai': entry('inferenceobjectives', 'v1alpha2', poolReferrer),
  'Istio.sailoperator.io': entry('istios', 'v1', specified, 'Cluster'),
  'IstioCNI.sailoperator.io': entry('istiocnis', 'v1', specified, 'Cluster'),
  'ZTunnel.sailoperator.io': entry('ztunnels', 'v1', specified, 'Cluster'),
  'IstioOperator.install.istio.io': entry('istiooperators', 'v1alpha1', specified),
  // no API server has this kind: it stands for the values of a chart that a file holds (policies/control-plane-settings/values.ts)
  'Values.helm.sh': entry('values', 'v1', specified, 'Cluster'),
  'MutatingAdmissionPolicy.admissionregistration.k8s.io': entry(
    'mutatingadmissionpolicies',
    'v1',
    specified,
    'Cluster',
  ),
  'ClusterPolicy.kyverno.io': entry('clusterpolicies', 'v1', specified, 'Cluster'),
  'Policy.kyverno.io': entry('policies', 'v1', specified),
  'MutatingPolicy.policies.kyverno.io': entry('mutatingpolicies', 'v1', specified, 'Cluster'),
  'ValidatingPolicy.policies.kyverno.io': entry('validatingpolicies', 'v1', specified, 'Cluster'),
  'NamespacedMutatingPolicy.policies.kyverno.io': entry('namespacedmutatingpolicies', 'v1', specified),
  'NamespacedValidatingPolicy.policies.kyverno.io': entry('namespacedvalidatingpolicies', 'v1', specified),
  'ValidatingAdmissionPolicy.admissionregistration.k8s.io': entry(
    'validatingadmissionpolicies',
    'v1',
    specified,
    'Cluster',
  ),
  'Assign.mutations.gatekeeper.sh': entry('assign', 'v1', specified, 'Cluster'),
  'AssignImage.mutations.gatekeeper.sh': entry('assignimage', 'v1alpha1', specified, 'Cluster'),
  'ModifySet.mutations.gatekeeper.sh': entry('modifyset', 'v1', specified, 'Cluster'),
};

/** Kinds that stand in files only: no API server has them, so that nothing of them is watched, asked about or allowed. */
export const FILE_KINDS: ReadonlySet<GroupKind> = new Set<Kind>(['Values.helm.sh']);

/** True for kinds with a projection of their own. Every other kind is judged by its metadata and version alone. */
export function isKind(kind: GroupKind): kind is Kind {
  return Object.hasOwn(KINDS, kind);
}

/** True where an object is of this kind, which tells its projection. */
export function isOf<K extends Kind>(object: Meta, kind: K): object is Projections[K] {
  return object.kind === kind;
}

/** Whether the objects of a kind stand in namespaces; for kinds we do not know, whether this one has a namespace. */
export function isNamespaced(kind: GroupKind, object: unknown): boolean {
  return isKind(kind) ? KINDS[kind].scope === 'Namespaced' : at(object, 'metadata', 'namespace') !== undefined;
}

/** Gatekeeper makes a kind of each ConstraintTemplate, so that nobody can list them beforehand. */
const CONSTRAINTS = '.constraints.gatekeeper.sh';

/**
 * Any object of any kind, projected, for an object that is looked at once and never kept: freezing costs as much as projecting.
 */
export function glimpse(kind: GroupKind, namespace: string, object: unknown): Meta {
  if (isKind(kind)) return KINDS[kind].project(kind, namespace, object);
  return (kind.endsWith(CONSTRAINTS) ? specified : metadataOnly)(kind, namespace, object);
}

/** Any object of any kind, projected to be kept: frozen, and sharing what it has in common with others. */
export function project(kind: GroupKind, namespace: string, object: unknown): Meta {
  return kept(glimpse(kind, namespace, object));
}

/**
 * The kind and identity of a Kubernetes object as it stands in a file; undefined where it is none.
 * A namespaced object without a namespace is in `default`.
 */
export function identify(object: unknown): (ObjectRef & { readonly version: string }) | undefined {
  const apiVersion = text(at(object, 'apiVersion'));
  const kindName = text(at(object, 'kind'));
  if (apiVersion === undefined || kindName === undefined || apiVersion === '' || kindName === '') return undefined;
  const { group, version } = splitApiVersion(apiVersion);
  const kind = groupKind(group, kindName);
  const written = text(at(object, 'metadata', 'namespace'));
  const namespace = isNamespaced(kind, object) ? (written ?? 'default') : '';
  return { kind, namespace, name: text(at(object, 'metadata', 'name')) ?? '', version };
}

// Releases and settings of what runs the mesh: istiod, ztunnel, istio-cni, the nodes and the CRDs.
import { at, record, records, text } from '../kube/json.ts';
import { type GroupKind, type ObjectRef, ref, splitGroupKind } from '../kube/kind.ts';
import { type LabelSelector, labelSelector, NO_STRINGS, type StringMap, selects } from '../kube/labels.ts';
import { yamlIn } from '../kube/yaml.ts';
import { CRD, type CustomResourceDefinition, WEBHOOKS, type WebhookConfiguration } from './kinds/cluster.ts';
import type { Meta } from './kinds/meta.ts';
import type { Workload } from './kinds/workloads.ts';
import { isKind, KINDS } from './kinds.ts';
import type { Fact, Mesh } from './mesh.ts';
import { componentKey } from './references.ts';

/** A release of Istio or Kubernetes; `patch` is undefined where the tag has none. */
export interface Release {
  readonly major: number;
  readonly minor: number;
  readonly patch?: number;
  /** The tag or version as found. */
  readonly text: string;
}

/** The last Istio release that Waywarden's facts were verified with. */
export const KNOWLEDGE = '1.31';
/** The first one. */
export const OLDEST = '1.26';

/**
 * The release that a tag or version says. A tag that begins MAJOR.MINOR has that minor, whatever follows (`1.29-alpha.abc`,
 * `1.28.1-distroless`, `v1.33.4-eks-1`); anything else (`latest`, a digest) is unknown.
 */
export function parseRelease(tag: string): Release | undefined {
  const match = /^v?(\d{1,3})\.(\d{1,4})(?:\.(\d{1,6}))?(?![\d])/.exec(tag);
  if (match === null) return undefined;
  const [, major, minor, patch] = match;
  return {
    major: Number(major),
    minor: Number(minor),
    ...(patch === undefined ? {} : { patch: Number(patch) }),
    text: tag,
  };
}

/** The release of an image reference: its tag's. An image by digest without a tag is unknown. */
export function imageRelease(image: string): Release | undefined {
  const withoutDigest = image.split('@')[0] ?? '';
  const colon = withoutDigest.lastIndexOf(':');
  return colon > withoutDigest.lastIndexOf('/') ? parseRelease(withoutDigest.slice(colon + 1)) : undefined;
}

/** Compares by major and minor, and by patch where `than` names one: negative, zero or positive. */
export function compareRelease(release: Release, than: string): number {
  const other = parseRelease(than);
  if (other === undefined) throw new RangeError(`no release: ${than}`);
  const minor = release.major - other.major || release.minor - other.minor;
  if (minor !== 0 || other.patch === undefined) return minor;
  // a tag without a patch (1.29-alpha) is before every patch of its minor
  return (release.patch ?? -1) - other.patch;
}

/** Whether a release is at least another; undefined where it is unknown. */
export function atLeast(release: Release | undefined, than: string): boolean | undefined {
  return release === undefined ? undefined : compareRelease(release, than) >= 0;
}

/** A control plane: one revision of istiod, seen in the cluster or declared in the configuration. */
export interface ControlPlane {
  readonly seen: boolean;
  /** The Deployment, where it was seen. */
  readonly deployment?: Meta;
  /** Where istiod runs; for a declared one the root namespace. */
  readonly namespace: string;
  /** 'default' where none is set. */
  readonly revision: string;
  /** Revision tags that point to it (MutatingWebhookConfigurations with `istio.io/tag`). */
  readonly tags: readonly string[];
  readonly release?: Release;
  /** Environment of istiod. Empty values are kept. */
  readonly env: StringMap;
  /** MeshConfig as JSON; undefined where it is not known. */
  readonly meshConfig?: unknown;
  /** True where istiod merges a second ConfigMap into MeshConfig (SHARED_MESH_CONFIG) that is not known here. */
  readonly sharedUnread?: true;
  readonly rootNamespace: string;
  readonly trustDomain: string;
  /** undefined: no discoverySelectors, every namespace is watched. */
  readonly discoverySelectors?: readonly LabelSelector[];
}

const DEFAULT_ROOT = 'istio-system';
const OFF = new Set(['0', 'f', 'F', 'false', 'FALSE', 'False']);
const ON = new Set(['1', 't', 'T', 'true', 'TRUE', 'True']);

/** Go's strconv.ParseBool; undefined for what it refuses. */
export function parseBool(value: string): boolean | undefined {
  return ON.has(value) ? true : OFF.has(value) ? false : undefined;
}

/** A boolean setting of istiod: what ParseBool refuses means the default, logged only (I§13). */
export function flag(controlPlane: ControlPlane, name: string, otherwise: boolean): boolean {
  const value = controlPlane.env[name];
  return (value === undefined ? undefined : parseBool(value)) ?? otherwise;
}

/** True where istiod serves ambient mode (PILOT_ENABLE_AMBIENT, pilot/pkg/features/ambient.go). */
export function servesAmbient(controlPlane: ControlPlane): boolean {
  return flag(controlPlane, 'PILOT_ENABLE_AMBIENT', false);
}

function parseYaml(source: string | undefined): unknown {
  return source === undefined ? undefined : yamlIn(source)?.value;
}

/** The container that runs an Istio component in a workload: by its usual name, else the first. */
function componentContainer(workload: Workload, name: string) {
  return workload.template.containers.find(container => container.name === name) ?? workload.template.containers[0];
}

function fromMeshConfig(meshConfig: unknown, istiodNamespace: string) {
  const selectors = at(meshConfig, 'discoverySelectors');
  return {
    rootNamespace: text(at(meshConfig, 'rootNamespace')) || istiodNamespace,
    trustDomain: text(at(meshConfig, 'trustDomain')) || 'cluster.local',
    ...(Array.isArray(selectors) && selectors.length > 0
      ? { discoverySelectors: selectors.flatMap(selector => labelSelector(selector) ?? []) }
      : {}),
  };
}

/** Name of the ConfigMap that a revision of istiod reads MeshConfig from: a suffix except for the default one (pilot/pkg/bootstrap/mesh.go). */
export function meshConfigName(revision: string): string {
  return revision === 'default' || revision === '' ? 'istio' : `istio-${revision}`;
}

/** The ConfigMap of a control plane's MeshConfig, as evidence: none for one that is only declared. */
export function meshConfigMaps({ seen, namespace, revision }: ControlPlane): readonly ObjectRef[] {
  return seen ? [{ kind: 'ConfigMap', namespace, name: meshConfigName(revision) }] : [];
}

/** The second ConfigMap of MeshConfig that istiod reads, in its own namespace; undefined where it reads none. */
export function sharedMeshConfig({ seen, namespace, env }: Pick<ControlPlane, 'seen' | 'namespace' | 'env'>) {
  const name = env['SHARED_MESH_CONFIG'] ?? '';
  return seen && name !== '' ? { kind: 'ConfigMap', namespace, name } : undefined;
}

/**
 * What istiod makes of both: its own goes before the shared one, key by key, but providers of both count
 * (pkg/config/mesh/mesh.go ApplyMeshConfig; managed control planes leave the shared one to their users).
 */
function merged(shared: unknown, own: unknown): unknown {
  const theirs = record(shared);
  if (theirs === undefined) return own;
  const ours = record(own) ?? {};
  const providers = [theirs, ours].flatMap(config => records(at(config, 'extensionProviders')));
  return { ...theirs, ...ours, ...(providers.length === 0 ? {} : { extensionProviders: providers }) };
}

function seenControlPlane(mesh: Mesh, istiod: Workload, tags: ReadonlyMap<string, readonly string[]>): ControlPlane {
  const container = componentContainer(istiod, 'discovery');
  const env = container?.env ?? NO_STRINGS;
  const revision =
    istiod.template.labels['istio.io/rev'] ?? istiod.labels['istio.io/rev'] ?? env['REVISION'] ?? 'default';
  const release = container === undefined ? undefined : imageRelease(container.image);
  const own = parseYaml(mesh.get('ConfigMap', istiod.namespace, meshConfigName(revision))?.data['mesh']);
  const sharedRef = sharedMeshConfig({ seen: true, namespace: istiod.namespace, env });
  // only those by whose change everything is judged again (src/mesh/changes.ts)
  const shared = sharedRef?.name.startsWith('istio-')
    ? mesh.get('ConfigMap', sharedRef.namespace, sharedRef.name)
    : undefined;
  const meshConfig = own === undefined ? undefined : merged(parseYaml(shared?.data['mesh']), own);
  return {
    seen: true,
    deployment: istiod,
    namespace: istiod.namespace,
    revision: revision === '' ? 'default' : revision,
    tags: tags.get(revision) ?? [],
    ...(release === undefined ? {} : { release }),
    env,
    ...(meshConfig === undefined ? {} : { meshConfig }),
    ...(sharedRef === undefined || shared !== undefined ? {} : { sharedUnread: true as const }),
    ...fromMeshConfig(meshConfig, istiod.namespace),
  };
}

const isInjector = ({ labels, webhooks }: WebhookConfiguration) =>
  labels['app'] === 'sidecar-injector' || webhooks.some(({ name }) => name.endsWith('sidecar-injector.istio.io'));

/**
 * Leaves out Deployments that only look like istiod, as anybody may write into a namespace: the injector of their revision is a Service
 * elsewhere, beside another istiod (the chart brings each revision an injector of its own). What no injector tells of stays.
 */
function withoutImpostors(mesh: Mesh, seen: readonly ControlPlane[]): readonly ControlPlane[] {
  if (seen.length < 2) return seen;
  const injectors = [...mesh.list(WEBHOOKS)].filter(isInjector);
  return seen.filter(({ revision, namespace }) => {
    // a tag is no other istiod's revision while its injector asks the one that it stands for
    const theirs = injectors.filter(
      ({ labels }) => (labels['istio.io/rev'] || 'default') === revision || labels['istio.io/tag'] === revision,
    );
    const services = theirs.flatMap(({ webhooks }) => webhooks.map(({ service }) => service?.namespace));
    // one that is reached by its address may be anywhere
    if (services.includes(undefined) || services.includes(namespace)) return true;
    return !seen.some(
      other => (other.revision === revision || other.tags.includes(revision)) && services.includes(other.namespace),
    );
  });
}

const byText = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0);

/** Every control plane that is seen (istiod Deployments in any namespace) or declared in the configuration. */
export const controlPlanes: Fact<readonly ControlPlane[]> = {
  name: 'controlPlanes',
  compute(mesh) {
    const tags = new Map<string, string[]>();
    for (const configuration of mesh.list(WEBHOOKS)) {
      const tag = configuration.labels['istio.io/tag'];
      const revision = configuration.labels['istio.io/rev'];
      if (tag !== undefined && revision !== undefined) tags.set(revision, [...(tags.get(revision) ?? []), tag]);
    }
    const seen: ControlPlane[] = [];
    for (const workload of mesh.referring(componentKey('istiod'))) {
      // pods and ReplicaSets of the same Deployment say nothing more
      if (workload.kind === 'Deployment.apps') seen.push(seenControlPlane(mesh, workload as Workload, tags));
    }
    // what is said of them is not to depend on the order in which files or lists have them
    seen.sort((one, other) => byText(one.revision, other.revision) || byText(one.namespace, other.namespace));
    const declared = mesh.declared.controlPlanes.map((plane): ControlPlane => {
      const release = plane.version === undefined ? undefined : parseRelease(plane.version);
      return {
        seen: false,
        namespace: plane.rootNamespace,
        revision: plane.revision,
        tags: plane.tags,
        ...(release === undefined ? {} : { release }),
        env: Object.assign(Object.create(null) as Record<string, string>, plane.env),
        ...(plane.meshConfig === undefined ? {} : { meshConfig: plane.meshConfig }),
        ...fromMeshConfig(plane.meshConfig, plane.rootNamespace),
      };
    });
    return [...withoutImpostors(mesh, seen), ...declared];
  },
};

/** The control plane that a Deployment of istiod is; undefined where it is none. */
export function planeOf(mesh: Mesh, istiod: Workload): ControlPlane | undefined {
  return mesh.fact(controlPlanes).find(({ deployment }) => deployment === istiod);
}

/** The Deployment of a control plane, as evidence: none for one that is only declared. */
export function deploymentOf({ deployment }: Pick<ControlPlane, 'deployment'>): readonly ObjectRef[] {
  return deployment === undefined ? [] : [ref(deployment)];
}

/** Whether a control plane watches a namespace: all of them, or those that a discovery selector selects (I§13). */
export function discovers(mesh: Mesh, controlPlane: ControlPlane, namespace: string): boolean | 'unknown' {
  if (controlPlane.discoverySelectors === undefined || namespace === controlPlane.rootNamespace) return true;
  const found = mesh.get('Namespace', '', namespace);
  if (found === undefined) return 'unknown';
  return controlPlane.discoverySelectors.some(selector => selects(selector, found.labels));
}

/** Whether a control plane takes an object with this `istio.io/rev` label for its own: none at all, or its revision (a tag does not count, I§12). */
export function ownsRevision(controlPlane: ControlPlane, object: Pick<Meta, 'labels'>): boolean {
  const revision = object.labels['istio.io/rev'];
  return revision === undefined || revision === controlPlane.revision;
}

/**
 * The control planes that could own an object of Istio's or the Gateway API's: by its revision label and its namespace. The list
 * of all of them itself where they all could, so that what follows from it can be remembered by it.
 */
export function ownersOf(mesh: Mesh, object: Pick<Meta, 'labels' | 'namespace'>): readonly ControlPlane[] {
  const all = mesh.fact(controlPlanes);
  const owns = (plane: ControlPlane) =>
    ownsRevision(plane, object) && discovers(mesh, plane, object.namespace) !== false;
  return all.every(owns) ? all : all.filter(owns);
}

/**
 * The control planes that could run a Gateway of the Gateway API, and serve it: by its revision label, else by that of its namespace, of
 * which both may be a tag; without one the default revision's (IsMine in pkg/revisions/tag_watcher.go). Where none is the default, any
 * could be.
 */
export function runnersOf(mesh: Mesh, gateway: Pick<Meta, 'labels' | 'namespace'>): readonly ControlPlane[] {
  const all = mesh.fact(controlPlanes).filter(plane => discovers(mesh, plane, gateway.namespace) !== false);
  const label =
    gateway.labels['istio.io/rev'] ?? mesh.get('Namespace', '', gateway.namespace)?.labels['istio.io/rev'] ?? '';
  const called = (name: string) => all.filter(({ revision, tags }) => revision === name || tags.includes(name));
  if (label !== '') return called(label);
  const defaults = called('default');
  return defaults.length > 0 ? defaults : all;
}

/** The namespaces whose policies hold for the whole mesh: one for each control plane, else the declared one. */
export const rootNamespaces: Fact<readonly string[]> = {
  name: 'rootNamespaces',
  compute(mesh) {
    const roots = new Set(mesh.fact(controlPlanes).map(plane => plane.rootNamespace));
    if (roots.size === 0) roots.add(mesh.declared.rootNamespace ?? DEFAULT_ROOT);
    return [...roots];
  },
};

/**
 * The namespaces in which a control plane here looks for defaults of a class of Gateways: where it runs, whatever MeshConfig calls the root
 * namespace (systemNamespace in pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go is the pod's own; tried with istiod 1.30 and
 * 1.31 and another rootNamespace). Without a control plane the root namespace is a guess.
 */
export const istiodNamespaces: Fact<readonly string[]> = {
  name: 'istiodNamespaces',
  compute(mesh) {
    const planes = mesh.fact(controlPlanes);
    return planes.length === 0 ? mesh.fact(rootNamespaces) : [...new Set(planes.map(({ namespace }) => namespace))];
  },
};

/**
 * The releases of Istio that read the configuration here: each control plane's, else the one given for files without an istiod
 * (`check --istio`). Empty where nothing is known; an unknown release is undefined in the list.
 */
export const istioReleases: Fact<readonly (Release | undefined)[]> = {
  name: 'istioReleases',
  compute(mesh) {
    const planes = mesh.fact(controlPlanes);
    if (planes.length > 0) return planes.map(plane => plane.release);
    return mesh.declared.istio === undefined ? [] : [parseRelease(mesh.declared.istio)];
  },
};

/** One ztunnel or istio-cni: a DaemonSet (what it rolls out to) or a pod (what runs). */
export interface NodeAgent {
  readonly workload: Workload;
  readonly release?: Release;
}

function nodeAgents(mesh: Mesh, component: 'ztunnel' | 'istio-cni', container: string): readonly NodeAgent[] {
  const found: NodeAgent[] = [];
  for (const object of mesh.referring(componentKey(component))) {
    if (object.kind !== 'DaemonSet.apps' && object.kind !== 'Pod') continue;
    const workload = object as Workload;
    const image = componentContainer(workload, container)?.image;
    const release = image === undefined ? undefined : imageRelease(image);
    found.push({ workload, ...(release === undefined ? {} : { release }) });
  }
  return found;
}

/** Every ztunnel DaemonSet and pod, in any namespace. */
export const ztunnels: Fact<readonly NodeAgent[]> = {
  name: 'ztunnels',
  compute: mesh => nodeAgents(mesh, 'ztunnel', 'istio-proxy'),
};

/** Every istio-cni DaemonSet and pod, in any namespace. */
export const cniAgents: Fact<readonly NodeAgent[]> = {
  name: 'cniAgents',
  compute: mesh => nodeAgents(mesh, 'istio-cni', 'install-cni'),
};

/** The kubelet of each node. Empty where the nodes are not known. */
export const kubelets: Fact<readonly { readonly node: string; readonly release?: Release }[]> = {
  name: 'kubelets',
  compute: mesh =>
    [...mesh.list('Node')].map(node => {
      const release = parseRelease(node.kubeletVersion);
      return { node: node.name, ...(release === undefined ? {} : { release }) };
    }),
};

/** The CRD that defines a kind; 'absent' only where CRDs are known here. */
export function crdOf(mesh: Mesh, kind: GroupKind): CustomResourceDefinition | 'absent' | 'unknown' {
  // a CRD's name is PLURAL.GROUP, which the API server enforces
  if (isKind(kind)) return mesh.find(CRD, '', `${KINDS[kind].plural}.${splitGroupKind(kind).group}`);
  for (const crd of mesh.list(CRD)) if (crd.defines === kind) return crd;
  return mesh.complete(CRD) ? 'absent' : 'unknown';
}

/** Names of MeshConfig's extension providers, of whatever kind; undefined where meshConfig is not known. */
export function extensionProviders(controlPlane: ControlPlane): ReadonlySet<string> | undefined {
  if (controlPlane.sharedUnread === true) return undefined;
  const config = record(controlPlane.meshConfig);
  if (config === undefined) return undefined;
  return new Set(records(config['extensionProviders']).flatMap(provider => text(provider['name']) ?? []));
}

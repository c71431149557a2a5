// Who enforces at the pods of a workload: ztunnel, a proxy of its own, or nobody. Sources: istio-cni's enablement selectors
// (cni/pkg/util/enablement_selector.go, manifests/charts/istio-cni), the injector (see injection.ts).
import { records, same } from '../kube/json.ts';
import { type LabelSelector, labelSelector, NO_STRINGS, type StringMap, selects } from '../kube/labels.ts';
import { yamlIn } from '../kube/yaml.ts';
import { injectionOf } from './injection.ts';
import type { Workload } from './kinds/workloads.ts';
import { managedAs } from './managed.ts';
import type { Fact, Mesh } from './mesh.ts';
import { type ControlPlane, cniAgents, controlPlanes, discovers, servesAmbient, ztunnels } from './releases.ts';

export const DATAPLANE_MODE = 'istio.io/dataplane-mode';
export const MANAGED = 'gateway.istio.io/managed';
const REDIRECTION = 'ambient.istio.io/redirection';
export const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';

/**
 * Who applies policies to what reaches a workload's pods. `ztunnel`: captured by ambient mode. `sidecar` and `gateway`: a proxy of
 * its own. `waypoint`: the pods are a waypoint. `nobody`: outside the mesh.
 */
export type Enforcer = 'ztunnel' | 'sidecar' | 'gateway' | 'waypoint' | 'nobody';

export interface Enrolment {
  readonly by: Enforcer | 'unknown';
  /** The reason, as a clause: 'its namespace has istio.io/dataplane-mode: ambient'. */
  readonly why: string;
  /** Where `by` is unknown: who it is if what is not known here is as usual. Good for a warning, never for a denial. */
  readonly likely?: Enforcer;
}

/** Which pods istio-cni enrols: those that one of the pairs selects. */
interface EnablementSelector {
  readonly pod: LabelSelector;
  readonly namespace: LabelSelector;
}

/** What istio-cni is told about ambient mode. */
export interface CniSettings {
  /** Namespaces that istio-cni leaves alone. */
  readonly excluded: readonly string[];
  readonly selectors: readonly EnablementSelector[];
  /** `AMBIENT_ENABLED`; undefined where its ConfigMap is not known. */
  readonly ambient?: boolean;
}

const EVERYTHING: LabelSelector = Object.freeze({ matchLabels: NO_STRINGS, matchExpressions: Object.freeze([]) });
const AMBIENT = Object.freeze({ [DATAPLANE_MODE]: 'ambient' });

/** The chart's defaults (manifests/charts/istio-cni/values.yaml, the same from 1.26 to 1.31). */
const DEFAULT_SELECTORS: readonly EnablementSelector[] = [
  { pod: { matchLabels: AMBIENT, matchExpressions: [] }, namespace: EVERYTHING },
  {
    pod: {
      matchLabels: NO_STRINGS,
      matchExpressions: [{ key: DATAPLANE_MODE, operator: 'NotIn', values: ['none'] }],
    },
    namespace: { matchLabels: AMBIENT, matchExpressions: [] },
  },
];
const DEFAULT_EXCLUDED = ['kube-system'];

function enablementSelectors(source: string | undefined): readonly EnablementSelector[] | undefined {
  if (source === undefined) return undefined;
  const selectors = records(yamlIn(source)?.value).map(pair => ({
    pod: labelSelector(pair['podSelector']) ?? EVERYTHING,
    namespace: labelSelector(pair['namespaceSelector']) ?? EVERYTHING,
  }));
  return selectors.length === 0 ? undefined : selectors;
}

/** istio-cni's settings from the `istio-cni-config` ConfigMap beside its DaemonSet; the chart's defaults where it is not known. */
export const cniSettings: Fact<CniSettings> = {
  name: 'cniSettings',
  compute(mesh) {
    const found = new Map<string, CniSettings>();
    for (const namespace of new Set(mesh.fact(cniAgents).map(agent => agent.workload.namespace))) {
      const data = mesh.get('ConfigMap', namespace, 'istio-cni-config')?.data;
      if (data !== undefined) found.set(namespace, settingsIn(data));
    }
    const [first, ...others] = found.values();
    const unset = { excluded: DEFAULT_EXCLUDED, selectors: DEFAULT_SELECTORS };
    if (first === undefined) return unset;
    if (others.every(other => same(other, first))) return first;
    // labels make an agent, which anybody can write: what stands beside a control plane, or in kube-system, is no tenant's
    const trusted = new Set([...mesh.fact(controlPlanes).map(plane => plane.namespace), 'kube-system']);
    for (const [namespace, settings] of found) if (trusted.has(namespace)) return settings;
    return unset;
  },
};

function settingsIn(data: StringMap): CniSettings {
  const excluded = data['EXCLUDE_NAMESPACES'];
  const ambient = data['AMBIENT_ENABLED'];
  return {
    excluded: excluded === undefined ? DEFAULT_EXCLUDED : excluded.split(',').map(name => name.trim()),
    selectors: enablementSelectors(data['AMBIENT_ENABLEMENT_SELECTOR']) ?? DEFAULT_SELECTORS,
    ...(ambient === undefined ? {} : { ambient: ambient === 'true' }),
  };
}

/** Whether ambient mode is there at all. */
export interface Ambient {
  readonly state: 'on' | 'off' | 'unknown';
  readonly why: string;
  /** The control planes that serve it. Empty where none is known: an istiod elsewhere may serve it all the same. */
  readonly controlPlanes: readonly ControlPlane[];
}

/**
 * Ambient mode needs an istiod with `PILOT_ENABLE_AMBIENT` (pilot/pkg/features/ambient.go) and a ztunnel on the nodes. Without
 * either, a label enrols nobody; with one of them it may be about to come.
 */
export const ambient: Fact<Ambient> = {
  name: 'ambient',
  compute(mesh) {
    const planes = mesh.fact(controlPlanes);
    const serving = planes.filter(servesAmbient);
    const ztunnel = mesh.fact(ztunnels).length > 0;
    const answer = (state: Ambient['state'], why: string): Ambient => ({ state, why, controlPlanes: serving });
    if (mesh.fact(cniSettings).ambient === false) return answer('off', 'istio-cni has AMBIENT_ENABLED: false');
    if (planes.length === 0) {
      return ztunnel
        ? answer('on', 'a ztunnel is running')
        : answer('unknown', 'no istiod and no ztunnel is known here');
    }
    if (serving.length > 0) {
      return ztunnel
        ? answer('on', 'istiod has PILOT_ENABLE_AMBIENT and a ztunnel is running')
        : answer('unknown', 'no ztunnel is running yet');
    }
    if (ztunnel) return answer('unknown', 'a ztunnel is running, but no istiod with PILOT_ENABLE_AMBIENT is known');
    return mesh.complete('DaemonSet.apps')
      ? answer('off', 'no istiod has PILOT_ENABLE_AMBIENT and no ztunnel is running')
      : answer('unknown', 'whether a ztunnel is running is not known here');
  },
};

/** Whether istio-cni would enrol pods with these labels, by its selectors; 'unknown' where the namespace's labels decide and are not known. */
export function selectedForAmbient(mesh: Mesh, namespace: string, podLabels: StringMap): boolean | 'unknown' {
  const { excluded, selectors } = mesh.fact(cniSettings);
  if (excluded.includes(namespace)) return false;
  const labels = mesh.get('Namespace', '', namespace)?.labels;
  let unknown = false;
  for (const { pod, namespace: wanted } of selectors) {
    if (!selects(pod, podLabels)) continue;
    if (wanted === EVERYTHING || (labels !== undefined && selects(wanted, labels))) return true;
    if (labels === undefined) unknown = true;
  }
  return unknown ? 'unknown' : false;
}

/** Whether a namespace enrols pods that say nothing themselves. */
export function enrolsByDefault(mesh: Mesh, namespace: string): boolean | 'unknown' {
  return selectedForAmbient(mesh, namespace, NO_STRINGS);
}

function byLabel(namespace: string, labels: StringMap): string {
  return labels[DATAPLANE_MODE] === undefined
    ? `namespace ${namespace} is in ambient mode`
    : `its pods have ${DATAPLANE_MODE}: ${labels[DATAPLANE_MODE]}`;
}

/** True for the pods of a waypoint: by the label that Istio gives them, else by the class of their Gateway. */
export function isWaypointWorkload(mesh: Mesh, workload: Workload): boolean {
  const { labels } = workload.template;
  const managed = labels[MANAGED];
  if (managed !== undefined) return /^istio\.io-(?:mesh|agentgateway-waypoint)-controller$/.test(managed);
  const name = labels[GATEWAY_NAME];
  const gateway =
    name === undefined ? undefined : mesh.get('Gateway.gateway.networking.k8s.io', workload.namespace, name);
  return gateway !== undefined && managedAs(mesh, gateway.className) === 'waypoint';
}

/** Whether ztunnel captures the pods of a workload that have no proxy of their own. */
function capture(mesh: Mesh, workload: Workload): Enrolment {
  const { labels, hostNetwork } = workload.template;
  // 1.29.7, 1.30.4 and 1.31 never try; earlier agents tried, and what reaches the pod is plaintext all the same (I§1e)
  if (hostNetwork) return { by: 'nobody', why: 'its pods use the host network' };
  const selected = selectedForAmbient(mesh, workload.namespace, labels);
  if (selected === false) {
    const why = mesh.fact(cniSettings).excluded.includes(workload.namespace)
      ? `istio-cni leaves namespace ${workload.namespace} alone`
      : labels[DATAPLANE_MODE] === 'none'
        ? `its pods have ${DATAPLANE_MODE}: none`
        : `namespace ${workload.namespace} is not in ambient mode`;
    return { by: 'nobody', why };
  }
  const served = mesh.fact(ambient);
  if (served.state === 'off') return { by: 'nobody', why: served.why };
  if (selected === 'unknown') {
    return { by: 'unknown', why: `the labels of namespace ${workload.namespace} are not known` };
  }
  if (served.state === 'unknown') return { by: 'unknown', why: served.why, likely: 'ztunnel' };
  // of a pod that is known by its metadata alone, what istio-cni wrote on it tells whether it could be captured
  if (workload.metadataOnly && workload.template.annotations[REDIRECTION] !== 'enabled') {
    return { by: 'unknown', why: 'istio-cni has not marked it as captured', likely: 'nobody' };
  }
  const planes = served.controlPlanes;
  if (planes.length > 0 && planes.every(plane => discovers(mesh, plane, workload.namespace) === false)) {
    return { by: 'nobody', why: `the discoverySelectors of istiod leave namespace ${workload.namespace} out` };
  }
  return { by: 'ztunnel', why: byLabel(workload.namespace, labels) };
}

/**
 * Who enforces at the pods of a workload. A proxy of its own goes before ambient mode: istio-cni leaves pods with a sidecar alone
 * (I§1e; tried with istiod 1.31).
 */
export function enforcerOf(mesh: Mesh, workload: Workload): Enrolment {
  if (isWaypointWorkload(mesh, workload)) return { by: 'waypoint', why: 'its pods are a waypoint' };
  const { component } = workload;
  if (component === 'ztunnel' || component === 'istio-cni')
    return { by: 'nobody', why: 'it is a part of Istio itself' };
  const injection = injectionOf(mesh, workload);
  if (injection.state === 'gateway') return { by: 'gateway', why: injection.why };
  if (injection.state === 'sidecar' && injection.certain) return { by: 'sidecar', why: injection.why };
  if (injection.state === 'custom') {
    return { by: 'unknown', why: `a template of its own decides: ${injection.why}`, likely: 'sidecar' };
  }
  const captured = capture(mesh, workload);
  if (injection.state === 'none') return captured;
  if (injection.state === 'sidecar') {
    // no injector webhook is in the state: the chart's would inject, but then ambient mode is as likely where both are asked for
    return captured.by === 'nobody'
      ? { by: 'sidecar', why: injection.why }
      : { by: 'unknown', why: 'no injector webhook is known here', likely: captured.likely ?? 'ztunnel' };
  }
  if (captured.by === 'nobody') return { by: 'unknown', why: injection.why };
  const likely = captured.by === 'unknown' ? captured.likely : captured.by;
  return { by: 'unknown', why: injection.why, ...(likely === undefined ? {} : { likely }) };
}

/** True where the workload that controls this one (a ReplicaSet's Deployment, a Pod's ReplicaSet) is in the Mesh and is judged instead. */
export function judgedByOwner(mesh: Mesh, workload: Workload): boolean {
  const { owner, namespace } = workload;
  return owner !== undefined && mesh.object({ kind: owner.kind, namespace, name: owner.name }) !== undefined;
}

// How many pods a waypoint has, and who says so.
import { same } from '../../src/kube/json.ts';
import { type ObjectRef, refKey } from '../../src/kube/kind.ts';
import type { ConfigMap } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import { AUTOSCALER, type HorizontalPodAutoscaler, type PodDisruptionBudget } from '../../src/mesh/kinds/scaling.ts';
import { deploymentName, managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { classDefaultsKey } from '../../src/mesh/references.ts';
import { controlPlanes, istiodNamespaces, runnersOf } from '../../src/mesh/releases.ts';
import { type Merged, mergeParameters, parametersOf } from './parameters.ts';

const DEPLOYMENT = 'Deployment.apps';

/** What istiod writes for a Gateway itself carries this label. */
export const MANAGED = 'gateway.istio.io/managed';

/** True where istiod runs a Deployment for this Gateway: one of Istio's classes, and a control plane that takes it for its own. */
export function isRunHere(mesh: Mesh, gateway: Gateway): boolean {
  const planes = mesh.fact(controlPlanes);
  return planes.length === 0 || runnersOf(mesh, gateway).length > 0;
}

/** A Gateway that is a waypoint: of the class, whatever its listeners. */
export function isWaypoint(mesh: Mesh, gateway: Gateway): boolean {
  return managedAs(mesh, gateway.className) === 'waypoint' && isRunHere(mesh, gateway);
}

/** The waypoints of a namespace whose Deployment has this name. */
export function* waypointsDeployedAs(mesh: Mesh, namespace: string, name: string): Iterable<Gateway> {
  for (const gateway of mesh.list(GATEWAY, namespace)) {
    if (isWaypoint(mesh, gateway) && deploymentName(gateway, 'waypoint') === name) yield gateway;
  }
}

export interface Scale {
  /** Pods that are there when nothing is asked of it; undefined where that is not known. */
  readonly least?: number;
  /** Who says so. */
  readonly from: readonly ObjectRef[];
  /** The autoscaler from a ConfigMap or an object; undefined where there is none. */
  readonly autoscaler?: HorizontalPodAutoscaler | 'parameters';
  /** True where the Deployment itself is set to no pods, so that an autoscaler rests. */
  readonly zero: boolean;
  readonly budget?: Merged['budget'];
  /** True where several ConfigMaps hold defaults of the class, do not say the same, and it is not known which of them istiod takes. */
  readonly undecided?: true;
  /** False where somebody unseen may say more. */
  readonly certain: boolean;
}

/**
 * Of the defaults of a class in one namespace those that istiod may take. It takes one: the oldest, and of several of the same second the first by
 * name (OldestObject in pkg/kube/controllers/common.go; tried with istiod 1.31). What has no creation time, in files, may be older or
 * younger than any other.
 */
function oldest(found: readonly ConfigMap[]): readonly ConfigMap[] {
  const dated: [number, ConfigMap][] = [];
  const undated: ConfigMap[] = [];
  for (const configMap of found) {
    const created = Date.parse(configMap.created);
    if (Number.isNaN(created)) undated.push(configMap);
    else dated.push([created, configMap]);
  }
  dated.sort(([a, { name: one }], [b, { name: other }]) => a - b || (one < other ? -1 : 1));
  return [...dated.slice(0, 1).map(([, configMap]) => configMap), ...undated];
}

/** The defaults of a class that istiod may take from its own namespace: one where that is decided, none where there are none. */
export function classDefaults(mesh: Mesh, className: string, istiodNamespace: string): readonly ConfigMap[] {
  const found: ConfigMap[] = [];
  for (const configMap of mesh.referring(classDefaultsKey(className), 'ConfigMap')) {
    if (configMap.namespace === istiodNamespace) found.push(configMap);
  }
  return oldest(found);
}

/** The ConfigMaps that say something of a Gateway, the weakest first: several lists where it is not decided which defaults of the class count. */
export function parameterSources(mesh: Mesh, gateway: Gateway): readonly (readonly ConfigMap[])[] {
  const own =
    gateway.parameters === undefined ? undefined : mesh.get('ConfigMap', gateway.namespace, gateway.parameters);
  const last = own === undefined ? [] : [own];
  const owners = runnersOf(mesh, gateway);
  const namespaces = owners.length === 0 ? mesh.fact(istiodNamespaces) : owners.map(plane => plane.namespace);
  return [...new Set(namespaces)].flatMap(namespace => {
    const defaults = classDefaults(mesh, gateway.className, namespace);
    return defaults.length === 0 ? [last] : defaults.map(one => [one, ...last]);
  });
}

/** How a waypoint scales: its ConfigMaps, autoscalers and Deployment, as far as they are here. */
export function scaleOf(mesh: Mesh, gateway: Gateway): Scale {
  const [first, ...others] = parameterSources(mesh, gateway).map(sources => scaleBy(mesh, gateway, sources));
  if (first === undefined) return { from: [], zero: false, certain: false };
  const { from, certain, ...scale } = first;
  if (others.every(({ from: _, certain: __, ...other }) => same(scale, other))) {
    return { ...first, certain: certain && others.every(other => other.certain) };
  }
  return { from, zero: false, undecided: true, certain: false };
}

function scaleBy(mesh: Mesh, gateway: Gateway, sources: readonly ConfigMap[]): Scale {
  const from: ObjectRef[] = [...sources];
  const { replicas, budget, unread, daemonSet, ...said } = mergeParameters(sources.map(parametersOf));
  let { autoscaledFrom } = said;
  const deployment = { kind: DEPLOYMENT, namespace: gateway.namespace, name: deploymentName(gateway, 'waypoint') };
  let autoscaler: HorizontalPodAutoscaler | 'parameters' | undefined =
    autoscaledFrom === undefined ? undefined : 'parameters';
  for (const object of mesh.referring(refKey(deployment), AUTOSCALER)) {
    // what istiod writes from the ConfigMap says nothing of its own
    if (object.labels[MANAGED] !== undefined && autoscaler === 'parameters') continue;
    from.push(object);
    autoscaledFrom = Math.max(object.minReplicas, typeof autoscaler === 'object' ? (autoscaledFrom ?? 0) : 0);
    autoscaler = object;
  }
  // istiod writes `replicas` only where a ConfigMap says so: else somebody may have scaled the Deployment itself
  const wanted = replicas ?? mesh.get(DEPLOYMENT, deployment.namespace, deployment.name)?.replicas ?? 1;
  const zero = wanted === 0;
  const least = zero ? 0 : (autoscaledFrom ?? wanted);
  const missing =
    gateway.parameters !== undefined && mesh.get('ConfigMap', gateway.namespace, gateway.parameters) === undefined;
  return {
    ...(missing || unread || daemonSet ? {} : { least }),
    from,
    ...(autoscaler === undefined ? {} : { autoscaler }),
    zero,
    ...(budget === undefined ? {} : { budget }),
    certain: mesh.complete('ConfigMap') && mesh.complete(AUTOSCALER),
  };
}

/** Whether a budget lets no pod go while `least` of them are there: drains of their nodes then wait for ever. */
export function letsNobodyGo(
  { minAvailable, maxUnavailable }: Pick<PodDisruptionBudget, 'minAvailable' | 'maxUnavailable'>,
  least: number,
): boolean {
  const share = (value: number | string): number | undefined => {
    if (typeof value === 'number') return value;
    const percent = /^(\d{1,4})%$/.exec(value)?.[1];
    // percentages are rounded up (pkg/controller/disruption)
    return percent === undefined ? undefined : Math.ceil((Number(percent) * least) / 100);
  };
  if (least === 0) return false;
  if (minAvailable !== undefined) {
    const kept = share(minAvailable);
    return kept !== undefined && kept >= least;
  }
  return maxUnavailable !== undefined && share(maxUnavailable) === 0;
}

// How many pods a waypoint has, and who says so.
import { type ObjectRef, refKey } from '../../src/kube/kind.ts';
import type { ConfigMap } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import { AUTOSCALER, type HorizontalPodAutoscaler, type PodDisruptionBudget } from '../../src/mesh/kinds/scaling.ts';
import { deploymentName, managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { classDefaultsKey } from '../../src/mesh/references.ts';
import { controlPlanes, ownersOf, rootNamespaces } from '../../src/mesh/releases.ts';
import { type Parameters, parametersOf } from './parameters.ts';

const DEPLOYMENT = 'Deployment.apps';

/** What istiod writes for a Gateway itself carries this label. */
export const MANAGED = 'gateway.istio.io/managed';

/** True where istiod runs a Deployment for this Gateway: one of Istio's classes, and a control plane that takes it for its own. */
export function isRunHere(mesh: Mesh, gateway: Gateway): boolean {
  const planes = mesh.fact(controlPlanes);
  return planes.length === 0 || ownersOf(mesh, gateway).length > 0;
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
  readonly budget?: Parameters['budget'];
  /** False where somebody unseen may say more. */
  readonly certain: boolean;
}

/** The ConfigMaps that say something of this Gateway, weakest first; 'missing' where the one it names is not here. */
export function parameterSources(mesh: Mesh, gateway: Gateway): readonly (ConfigMap | 'missing')[] {
  const roots = mesh.fact(rootNamespaces);
  const found: (ConfigMap | 'missing')[] = [];
  for (const configMap of mesh.referring(classDefaultsKey(gateway.className), 'ConfigMap')) {
    if (roots.includes(configMap.namespace)) found.push(configMap);
  }
  if (gateway.parameters !== undefined)
    found.push(mesh.get('ConfigMap', gateway.namespace, gateway.parameters) ?? 'missing');
  return found;
}

/** How a waypoint scales: its ConfigMaps, autoscalers and Deployment, as far as they are here. */
export function scaleOf(mesh: Mesh, gateway: Gateway): Scale {
  const from: ObjectRef[] = [];
  let replicas: number | undefined;
  let autoscaledFrom: number | undefined;
  let budget: Parameters['budget'];
  const sources = parameterSources(mesh, gateway);
  for (const source of sources) {
    if (source === 'missing') continue;
    const said = parametersOf(source);
    from.push(source);
    replicas = said.replicas ?? replicas;
    autoscaledFrom = said.autoscaledFrom ?? autoscaledFrom;
    budget = said.budget ?? budget;
  }
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
  return {
    ...(sources.includes('missing') ? {} : { least }),
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

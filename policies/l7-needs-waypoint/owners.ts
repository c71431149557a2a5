// Which control planes read a policy, and what that leaves certain.

import type { AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import {
  type ControlPlane,
  controlPlanes,
  flag,
  ownersOf,
  parseBool,
  rootNamespaces,
  servesAmbient,
} from '../../src/mesh/releases.ts';

/** Those that could read a policy. */
export interface Owners {
  /** All of them. Empty where no control plane is known at all. */
  readonly all: readonly ControlPlane[];
  /** Those that serve ambient mode, and with them ztunnel and the waypoints. */
  readonly ambient: readonly ControlPlane[];
  /** False where control planes are known and none reads the policy. */
  readonly any: boolean;
  /** The trust domains of those that serve ztunnel; empty where one of them is not known. */
  readonly trustDomains: readonly string[];
  /** True where some of them has selector policies enforced in front of waypoints (I§12). */
  readonly layered: boolean;
  /** True where some of them lets waypoints in whatever policies say. */
  readonly admitsWaypoints: boolean;
  /** False where each of them keeps policies by selector from the pods of Gateway API gateways (on by default). */
  readonly gatewaysHeedSelectors: boolean;
}

/** By the list of all control planes: nearly every policy is read by all of them. */
const known = new WeakMap<readonly ControlPlane[], Owners>();

export function readersOf(mesh: Mesh, policy: AuthorizationPolicy): Owners {
  const planes = mesh.fact(controlPlanes);
  const all = ownersOf(mesh, policy);
  const remembered = known.get(all);
  if (remembered !== undefined) return remembered;
  const ambient = all.filter(servesAmbient);
  const set = (name: string) => ambient.some(plane => flag(plane, name, false));
  const layered = set('ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES');
  const owners: Owners = {
    all,
    ambient,
    any: planes.length === 0 || all.length > 0,
    trustDomains: ambient.every(plane => plane.meshConfig !== undefined) ? ambient.map(plane => plane.trustDomain) : [],
    layered,
    admitsWaypoints: layered || set('PILOT_AUTO_ALLOW_WAYPOINT_POLICY'),
    gatewaysHeedSelectors:
      all.length === 0 || all.some(plane => flag(plane, 'ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY', true)),
  };
  if (all === planes) known.set(all, owners);
  return owners;
}

/** Whether a namespace is the root namespace of the control planes that read a policy there. */
export function isRoot(mesh: Mesh, owners: Owners, namespace: string): 'all' | 'some' | 'none' {
  const planes = owners.ambient.length > 0 ? owners.ambient : owners.all;
  const roots = planes.length > 0 ? planes.map(plane => plane.rootNamespace) : mesh.fact(rootNamespaces);
  const equal = roots.filter(root => root === namespace).length;
  return equal === 0 ? 'none' : equal === roots.length ? 'all' : 'some';
}

/** True for a policy that only says what it would do. A value that is no boolean is taken for false: the policy is enforced. */
export function isDryRun(policy: Pick<AuthorizationPolicy, 'annotations'>): boolean {
  return parseBool(policy.annotations['istio.io/dry-run'] ?? '') === true;
}

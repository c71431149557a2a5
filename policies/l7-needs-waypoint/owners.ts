// Which control planes read a policy, and what that leaves certain.

import type { AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import {
  type ControlPlane,
  controlPlanes,
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
}

export function readersOf(mesh: Mesh, policy: AuthorizationPolicy): Owners {
  const known = mesh.fact(controlPlanes);
  const all = ownersOf(mesh, policy);
  return { all, ambient: all.filter(servesAmbient), any: known.length === 0 || all.length > 0 };
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

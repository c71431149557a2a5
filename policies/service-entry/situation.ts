// What is known where a ServiceEntry is judged.
import type { PAUSE, Report } from '../../src/engine/policy.ts';
import type { ObjectRef } from '../../src/kube/kind.ts';
import type { ServiceEntry } from '../../src/mesh/kinds/services.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { type ControlPlane, deploymentOf } from '../../src/mesh/releases.ts';

export const DYNAMIC = 'DYNAMIC_DNS';

export type Finding =
  | 'passthrough-not-understood'
  | 'none-before-1.28'
  | 'dynamic-dns-needs-waypoint'
  | 'dynamic-dns-protocol'
  | 'dynamic-dns-invalid'
  | 'same-host-elsewhere'
  | 'host-twice'
  | 'no-address-for-waypoint'
  | 'no-endpoints'
  | 'exported-anyway'
  | 'range-before-1.30'
  | 'racing-needs-waypoint';

export type Found = Iterable<Report<Finding> | typeof PAUSE>;

export interface Situation {
  readonly entry: ServiceEntry;
  readonly mesh: Mesh;
  /** The control planes that own it and serve ambient mode; empty where it is not on. */
  readonly serving: readonly ControlPlane[];
  readonly owners: readonly ControlPlane[];
}

/** The Deployments of control planes, as evidence. */
export const deployments = (planes: readonly ControlPlane[]): readonly ObjectRef[] => planes.flatMap(deploymentOf);

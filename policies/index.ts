// Every policy. To add one: a folder, and a line here.
import type { Policy } from '../src/engine/policy.ts';
import { dataplaneModeConflict } from './dataplane-mode-conflict/policy.ts';
import { meshLabels } from './mesh-labels/policy.ts';
import { peerAuthenticationPolicy } from './peer-authentication/policy.ts';
import { waypointAvailability } from './waypoint-availability/policy.ts';

export const policies: readonly Policy[] = [
  dataplaneModeConflict,
  meshLabels,
  peerAuthenticationPolicy,
  waypointAvailability,
];

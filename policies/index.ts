// Every policy. To add one: a folder, and a line here.
import type { Policy } from '../src/engine/policy.ts';
import { backendTlsPolicyPolicy } from './backend-tls-policy/policy.ts';
import { caBundle } from './ca-bundle/policy.ts';
import { controlPlaneSettings } from './control-plane-settings/policy.ts';
import { crdBundle } from './crd-bundle/policy.ts';
import { dataplaneModeConflict } from './dataplane-mode-conflict/policy.ts';
import { dryRunSkew } from './dry-run-skew/policy.ts';
import { hbonePort } from './hbone-port/policy.ts';
import { inferencePoolEndpointPicker } from './inferencepool-endpoint-picker/policy.ts';
import { l7NeedsWaypoint } from './l7-needs-waypoint/policy.ts';
import { meshLabels } from './mesh-labels/policy.ts';
import { nativeSidecar } from './native-sidecar/policy.ts';
import { peerAuthenticationPolicy } from './peer-authentication/policy.ts';
import { releaseSkew } from './release-skew/policy.ts';
import { routeNeedsWaypoint } from './route-needs-waypoint/policy.ts';
import { serviceEntryPolicy } from './service-entry/policy.ts';
import { staleApiVersion } from './stale-api-version/policy.ts';
import { waypointAvailability } from './waypoint-availability/policy.ts';
import { waypointBinding } from './waypoint-binding/policy.ts';

export const policies: readonly Policy[] = [
  backendTlsPolicyPolicy,
  caBundle,
  controlPlaneSettings,
  crdBundle,
  dataplaneModeConflict,
  dryRunSkew,
  hbonePort,
  inferencePoolEndpointPicker,
  l7NeedsWaypoint,
  meshLabels,
  nativeSidecar,
  peerAuthenticationPolicy,
  releaseSkew,
  routeNeedsWaypoint,
  serviceEntryPolicy,
  staleApiVersion,
  waypointAvailability,
  waypointBinding,
];

// what `check --values` makes of the values of Istio's charts
export { CHART_NAMES, VALUES_PATH, valuesManifest } from './control-plane-settings/values.ts';

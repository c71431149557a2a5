// What ambient mode does not take of an entry without a waypoint, or before a release.
import { enrolsByDefault } from '../../src/mesh/enrolment.ts';
import { atLeast } from '../../src/mesh/releases.ts';
import { waypointOf } from '../../src/mesh/waypoints.ts';
import { DYNAMIC, deployments, type Found, type Situation } from './situation.ts';

const STRATEGY = 'istio.io/connect-strategy';

/** True for more than one address: /32 and /128 are one. */
function isRange(address: string): boolean {
  const bits = address.split('/')[1];
  return bits !== undefined && bits !== (address.includes(':') ? '128' : '32');
}

/** Ranges as addresses: ambient mode takes them from 1.30 on (release notes), in entries of NONE and STATIC. */
export function* ranges({ entry, mesh, serving }: Situation): Found {
  const index = entry.addresses.findIndex(isRange);
  if (index < 0 || serving.length === 0 || entry.resolution === DYNAMIC) return;
  if (!serving.every(plane => atLeast(plane.release, '1.30') === false)) return;
  // what 1.27 makes of NONE is a finding of its own
  if (entry.resolution === 'NONE' && serving.some(plane => atLeast(plane.release, '1.28') === false)) return;
  if (enrolsByDefault(mesh, entry.namespace) !== true) return;
  yield {
    finding: 'range-before-1.30',
    key: 'addresses',
    effect: `ambient clients do not use this entry for ${entry.addresses[index]}: before 1.30 ambient mode knows no ranges`,
    fix: 'upgrade to Istio 1.30, or list single addresses',
    evidence: deployments(serving),
    because: `istiod ${serving[0]?.release?.text ?? ''}`,
    path: `/spec/addresses/${index}`,
  };
}

/**
 * Racing connections is a waypoint's work, from 1.30 on (release notes): without one istiod sets WaypointMissing with
 * NoWaypointForRacingConnectStrategy (tried).
 */
export function* racing({ entry, mesh, serving }: Situation): Found {
  // the value is read in any case; every other one is the default (tried)
  if (entry.annotations[STRATEGY]?.toUpperCase() !== 'RACE_FIRST_TCP_CONNECT') return;
  if (serving.length === 0 || entry.resolution === DYNAMIC || enrolsByDefault(mesh, entry.namespace) !== true) return;
  // before it no waypoint would race, either
  if (serving.some(plane => atLeast(plane.release, '1.30') === false)) return;
  const binding = waypointOf(mesh, entry, 'service');
  if (binding.state !== 'none' && binding.state !== 'opted-out' && binding.state !== 'never') return;
  yield {
    finding: 'racing-needs-waypoint',
    key: STRATEGY,
    effect: `${STRATEGY} has no effect for ambient clients: a waypoint races connections, and this entry names none`,
    fix: 'label it istio.io/use-waypoint with a waypoint that accepts it, or remove the annotation',
    evidence: deployments(serving),
    because: binding.why,
    path: '/metadata/annotations',
  };
}

// Which ServiceEntries another object's change concerns.

import { matching } from '../../src/engine/policy.ts';
import { ref, refKey } from '../../src/kube/kind.ts';
import { alters } from '../../src/mesh/changes.ts';
import { ambient, cniSettings, enrolsByDefault } from '../../src/mesh/enrolment.ts';
import { WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import { SERVICE_ENTRY, type ServiceEntry } from '../../src/mesh/kinds/services.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { controlPlanes, ztunnels } from '../../src/mesh/releases.ts';
import { candidatesOf } from '../../src/mesh/waypoints.ts';

interface Meshes {
  readonly before: Mesh;
  readonly after: Mesh;
}

/** The entries that a waypoint may serve. */
function* servedBy(waypoint: Pick<Meta, 'namespace' | 'name'>, { before, after }: Meshes) {
  for (const mesh of [before, after]) {
    for (const { object } of candidatesOf(mesh, waypoint)) if (object.kind === SERVICE_ENTRY) yield ref(object);
  }
}

export function* affected(change: Change, { before, after }: Meshes) {
  const { kind, namespace, name } = change.ref;
  // no policy is a part of the mesh
  if (kind === AUTHORIZATION_POLICY) {
    for (const object of [change.before, change.after]) {
      for (const target of (object as AuthorizationPolicy | undefined)?.targets ?? []) {
        if (target.kind === SERVICE_ENTRY) yield ref(target);
      }
    }
    return;
  }
  const everywhere =
    kind === GATEWAY_CLASS ||
    kind === WEBHOOKS ||
    (kind === 'ConfigMap' && name.startsWith('istio')) ||
    alters({ before, after }, controlPlanes, ztunnels, cniSettings) ||
    before.fact(ambient).state !== after.fact(ambient).state;
  const joins = kind === 'Namespace' && enrolsByDefault(before, name) !== enrolsByDefault(after, name);
  if (everywhere || joins) {
    yield* matching(
      after.list(SERVICE_ENTRY),
      entry => everywhere || entry.exportTo.length > 0 || entry.namespace === name,
      200,
    );
  } else if (kind === 'Namespace') {
    for (const entry of after.list(SERVICE_ENTRY, name)) yield ref(entry);
  } else if (kind === SERVICE_ENTRY) {
    for (const object of [change.before, change.after]) {
      for (const host of new Set((object as ServiceEntry | undefined)?.hosts.map(hostKey))) {
        for (const entry of after.referring(host, SERVICE_ENTRY)) yield ref(entry);
      }
    }
  } else if (kind === 'Service') {
    for (const entry of after.referring(refKey(change.ref), SERVICE_ENTRY)) yield ref(entry);
  } else if (kind === GATEWAY) {
    yield* servedBy({ namespace, name }, { before, after });
  }
  if (everywhere || kind !== 'Namespace') return;
  // its labels, by discoverySelectors, and its end decide about the waypoints in it, too
  for (const mesh of [before, after]) {
    for (const waypoint of mesh.list(GATEWAY, name)) yield* servedBy(waypoint, { before, after });
  }
}

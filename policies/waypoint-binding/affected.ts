// Whose findings a change of something else may alter.

import { type ChangeContext, matching, PAUSE } from '../../src/engine/policy.ts';
import type { ObjectRef } from '../../src/kube/kind.ts';
import { alters } from '../../src/mesh/changes.ts';
import { ambient, cniSettings } from '../../src/mesh/enrolment.ts';
import { WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import { WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { controlPlanes } from '../../src/mesh/releases.ts';
import { bindingLabels, CANARY, namersOf, USE_WAYPOINT } from '../../src/mesh/waypoints.ts';

type Named = Iterable<ObjectRef | typeof PAUSE>;

const WORKLOAD_ENTRY = 'WorkloadEntry.networking.istio.io';

function names(object: Meta): boolean {
  const labels = bindingLabels(object);
  return labels[USE_WAYPOINT] !== undefined || labels[CANARY] !== undefined;
}

/** Everything of one namespace, or of all, that names a waypoint itself. */
function* namersIn(mesh: Mesh, namespace?: string): Named {
  for (const kind of ['Service', SERVICE_ENTRY, WORKLOAD_ENTRY] as const) {
    yield* matching(mesh.list(kind, namespace), names);
  }
  yield* matching(mesh.workloads({}, namespace), names);
}

function* everyNamer(mesh: Mesh): Named {
  yield* matching(mesh.list('Namespace'), names);
  yield* namersIn(mesh);
}

function* ofGateway(gateway: ObjectRef, { before, after }: ChangeContext): Named {
  for (const mesh of [before, after]) {
    for (const namer of namersOf(mesh, gateway)) {
      yield namer;
      // a canary is read beside the waypoint that is inherited
      if (namer.kind === 'Namespace') yield* namersIn(mesh, namer.name);
    }
  }
}

/** The Namespace of something, where it names a waypoint. */
function* holderOf(namespace: string, { after }: ChangeContext): Named {
  const holder = after.get('Namespace', '', namespace);
  if (holder !== undefined && names(holder)) yield holder;
}

/** The subjects whose findings a change may alter: too many rather than too few. */
export function* affected(change: Change, context: ChangeContext): Named {
  const { ref } = change;
  const { before, after } = context;
  if (ref.kind === GATEWAY) {
    yield* ofGateway(ref, context);
  } else if (ref.kind === GATEWAY_CLASS) {
    for (const mesh of [before, after]) {
      for (const gateway of mesh.list(GATEWAY)) {
        yield PAUSE;
        if (gateway.className === ref.name) yield* ofGateway(gateway, context);
      }
    }
  } else if (ref.kind === 'Namespace') {
    yield* namersIn(after, ref.name);
    // a Namespace that an istiod stops watching takes its waypoints with it
    for (const mesh of [before, after]) {
      for (const gateway of mesh.list(GATEWAY, ref.name)) yield* ofGateway(gateway, context);
    }
  } else if (ref.kind === 'Service' || ref.kind === SERVICE_ENTRY) {
    yield* holderOf(ref.namespace, context);
  } else if (ref.kind === WEBHOOKS) {
    // they tell which istiods are control planes, too
    if (alters(context, controlPlanes)) yield* everyNamer(after);
    else yield* matching(after.list('Namespace'), names);
  } else if (ref.kind === 'ConfigMap') {
    if (ref.name.startsWith('istio-sidecar-injector')) yield* matching(after.list('Namespace'), names);
    else if (ref.name.startsWith('istio') && alters(context, controlPlanes, ambient, cniSettings))
      yield* everyNamer(after);
  } else if (WORKLOADS.has(ref.kind)) {
    const component = [change.before, change.after].some(
      state => (state as Workload | undefined)?.component !== undefined,
    );
    if (component && alters(context, controlPlanes, ambient, cniSettings)) yield* everyNamer(after);
    yield* holderOf(ref.namespace, context);
    if (ref.kind === 'Pod' || (change.before !== undefined && change.after !== undefined)) return;
    // what a workload owns is judged where its owner is not there
    yield* matching(after.workloads({}, ref.namespace), object => {
      const { owner } = object;
      return owner?.kind === ref.kind && owner.name === ref.name && names(object);
    });
  }
}

// The subjects whose findings another object's change can alter.
import { type ChangeContext, PAUSE } from '../../src/engine/policy.ts';
import { type GroupKind, type ObjectRef, refKey } from '../../src/kube/kind.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { classOf, namespacesMatter, otherClasses, sameReaders } from '../../src/mesh/implementations.ts';
import { GATEWAY, GATEWAY_CLASS, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { INFERENCE_POOL } from '../../src/mesh/kinds/inference.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { sendsToPools } from './route.ts';

const ROUTES: ReadonlySet<GroupKind> = new Set(ROUTE_KINDS);
export const JUDGED_ROUTES = ['HTTPRoute.gateway.networking.k8s.io', 'GRPCRoute.gateway.networking.k8s.io'] as const;

type Named = Iterable<ObjectRef | typeof PAUSE>;

/** Every pool, and every route that sends to one; of a namespace only where given. */
function* all(mesh: Mesh, namespace?: string): Named {
  yield* mesh.list(INFERENCE_POOL, namespace);
  let count = 0;
  for (const kind of JUDGED_ROUTES) {
    for (const route of mesh.list(kind, namespace)) {
      if (sendsToPools(route)) yield route;
      count += 1;
      if (count % 50 === 0) yield PAUSE;
    }
  }
}

function* poolsOf({ parents, rules }: Route): Named {
  for (const target of [...parents, ...rules.flatMap(({ backends, mirrors }) => [...backends, ...mirrors])]) {
    if (target.kind === INFERENCE_POOL) yield target;
  }
}

function* behindGateway(mesh: Mesh, gateway: ObjectRef): Named {
  for (const object of mesh.referring(refKey(gateway))) {
    if (!ROUTES.has(object.kind)) continue;
    yield object;
    yield* poolsOf(object as Route);
    yield PAUSE;
  }
}

/** The subjects, beside the changed object, whose findings a change may alter. */
export function* affected(change: Change, { before, after }: ChangeContext): Named {
  const { kind, name } = change.ref;
  if (kind === 'Service') yield* after.referring(refKey(change.ref), INFERENCE_POOL);
  else if (ROUTES.has(kind)) {
    for (const object of [change.before, change.after]) if (object !== undefined) yield* poolsOf(object as Route);
  } else if (kind === GATEWAY) {
    yield* behindGateway(after, change.ref);
    yield* behindGateway(before, change.ref);
  } else if (kind === GATEWAY_CLASS) {
    const others = (mesh: Mesh) => mesh.fact(otherClasses)[0]?.name;
    if (classOf(before, name) !== classOf(after, name) || others(before) !== others(after)) yield* all(after);
  } else if (kind === 'Namespace') {
    const revision = (object: Meta | undefined) => object?.labels['istio.io/rev'];
    const watched = namespacesMatter(after) || namespacesMatter(before);
    if (watched) yield* all(after, name);
    // whose a Gateway is may be said by its namespace
    if (watched || revision(change.before) !== revision(change.after)) {
      for (const gateway of after.list(GATEWAY, name)) yield* behindGateway(after, gateway);
    }
  } else if (touchesControlPlane(change)) {
    if (!sameReaders(before, after)) yield* all(after);
  }
}

// The subjects whose findings another object's change can alter.
import { type ChangeContext, PAUSE } from '../../src/engine/policy.ts';
import { type GroupKind, type ObjectRef, refKey } from '../../src/kube/kind.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { classOf, namespacesMatter, otherClasses, sameReaders } from '../../src/mesh/implementations.ts';
import { CRD, type CustomResourceDefinition } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, GATEWAY_CLASS, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { ALPHA_INFERENCE_POOL, INFERENCE_POOL } from '../../src/mesh/kinds/inference.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { isOf, type Kind } from '../../src/mesh/kinds.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { GRANT, POLICY, REFERRERS } from './ownership.ts';
import { entryOf, TABLE_KINDS } from './table.ts';

const ROUTES: ReadonlySet<GroupKind> = new Set(ROUTE_KINDS);

/** Kinds of which something may be said without knowing the version of a request: all whose fate rests on more than that. */
const STANDING: readonly GroupKind[] = [
  ...new Set([...TABLE_KINDS.filter(kind => entryOf(kind) !== undefined), ...ROUTE_KINDS, GRANT, ...REFERRERS]),
];

type Named = Iterable<ObjectRef | typeof PAUSE>;

function* listed(mesh: Mesh, kinds: readonly GroupKind[], namespace?: string): Named {
  let count = 0;
  for (const kind of kinds) {
    // kinds without a projection of their own are held by their metadata, under the same name
    for (const object of mesh.list(kind as Kind, namespace)) {
      yield object;
      count += 1;
      if (count % 50 === 0) yield PAUSE;
    }
  }
}

/** What is judged by who uses a pool: the pool, its twin of the other group, what names it, and grants for it. */
function* aroundPool(mesh: Mesh, namespace: string, name: string): Named {
  for (const kind of [ALPHA_INFERENCE_POOL, INFERENCE_POOL]) {
    const ref = { kind, namespace, name };
    yield ref;
    for (const object of mesh.referring(refKey(ref))) if (!ROUTES.has(object.kind)) yield object;
  }
  yield* mesh.list(GRANT, namespace);
}

/** What is judged by the routes to it: pools and BackendTLSPolicies. */
function* behind(mesh: Mesh, route: Route): Named {
  const targets = route.rules.flatMap(({ backends, mirrors }) => [...backends, ...mirrors]);
  for (const target of [...route.parents, ...targets]) {
    if (target.kind === ALPHA_INFERENCE_POOL || target.kind === INFERENCE_POOL)
      yield* aroundPool(mesh, target.namespace, target.name);
    else yield* mesh.referring(refKey(target), POLICY);
  }
}

function* behindGateway(mesh: Mesh, gateway: ObjectRef): Named {
  for (const object of mesh.referring(refKey(gateway))) {
    if (!ROUTES.has(object.kind)) continue;
    yield object;
    yield* behind(mesh, object as Route);
    yield PAUSE;
  }
}

/** Whose Gateways are of a class, and whether anybody else is in the cluster at all. */
function sameClasses(change: Change, { before, after }: ChangeContext): boolean {
  return (
    classOf(before, change.ref.name) === classOf(after, change.ref.name) &&
    (before.fact(otherClasses).length === 0) === (after.fact(otherClasses).length === 0)
  );
}

/** The kinds that a CRD says something of: its own, and those that it takes the place of. */
function* definedBy(change: Change, { before, after }: ChangeContext): Named {
  const kinds = new Set<GroupKind>();
  for (const object of [change.before, change.after]) {
    if (object !== undefined && isOf(object, CRD)) kinds.add((object as CustomResourceDefinition).defines);
  }
  for (const kind of TABLE_KINDS) {
    const entry = entryOf(kind);
    if (entry?.successor !== undefined && kinds.has(entry.successor.kind)) kinds.add(kind);
    // a CRD is found by its name, whatever it says that it defines
    if (entry !== undefined && `${entry.plural}.${kind.slice(kind.indexOf('.') + 1)}` === change.ref.name)
      kinds.add(kind);
  }
  const own = [...kinds];
  // the CRD that goes or comes may be the one that makes the others known to be missing
  const wanted = before.complete(CRD) === after.complete(CRD) ? withPredecessors(own) : STANDING;
  yield* listed(after, wanted);
}

function withPredecessors(kinds: readonly GroupKind[]): readonly GroupKind[] {
  const older = TABLE_KINDS.filter(kind => kinds.includes(entryOf(kind)?.successor?.kind ?? ''));
  return [...new Set([...kinds, ...older])].filter(kind => entryOf(kind) !== undefined);
}

/** The subjects, beside the changed object, whose findings a change may alter. */
export function* affected(change: Change, context: ChangeContext): Named {
  const { before, after } = context;
  const { kind, namespace, name } = change.ref;
  const objects: readonly Meta[] = [change.before, change.after].filter(object => object !== undefined);
  if (kind === CRD) yield* definedBy(change, context);
  else if (kind === GATEWAY_CLASS) {
    if (!sameClasses(change, context)) yield* listed(after, STANDING);
  } else if (kind === GATEWAY) {
    yield* behindGateway(after, change.ref);
    yield* behindGateway(before, change.ref);
  } else if (ROUTES.has(kind)) {
    for (const object of objects) {
      yield* behind(after, object as Route);
      yield* behind(before, object as Route);
    }
  } else if (kind === ALPHA_INFERENCE_POOL || kind === INFERENCE_POOL) yield* aroundPool(after, namespace, name);
  else if (kind === 'Namespace') {
    if (namespacesMatter(after) || namespacesMatter(before)) yield* listed(after, STANDING, name);
  } else if (touchesControlPlane(change)) {
    if (!sameReaders(before, after)) yield* listed(after, STANDING);
  }
}

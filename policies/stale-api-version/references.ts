// Judges what refers to pools of the old group: routes, ReferenceGrants, and the kinds with a poolRef.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { type GroupKind, type ObjectRef, refKey, spoken } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { readersOf } from '../../src/mesh/implementations.ts';
import { ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { ALPHA_INFERENCE_POOL, INFERENCE_POOL } from '../../src/mesh/kinds/inference.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import { KNOWLEDGE } from '../../src/mesh/releases.ts';
import { doubtsOf, groundsOf, istio, planesOf } from './check.ts';
import { fateAt } from './fate.ts';
import type { FindingId } from './findings.ts';
import type { Options } from './options.ts';
import { GRANT, ownershipOf, REFERRERS } from './ownership.ts';
import { entryOf } from './table.ts';

const ROUTES: ReadonlySet<GroupKind> = new Set(ROUTE_KINDS);
const NEW_GROUP = 'inference.networking.k8s.io';

interface OldReference {
  readonly target: ObjectRef;
  readonly path: string;
  readonly effect: (release: string) => string;
  readonly fix: string;
}

function* inRoute(route: Route): Iterable<OldReference> {
  for (const [index, { backends, mirrors }] of route.rules.entries()) {
    for (const [place, backend] of backends.entries()) {
      // a share of nothing breaks nothing: Istio drops such backends first (I§13)
      if (backend.kind !== ALPHA_INFERENCE_POOL || backend.weight === 0) continue;
      yield {
        target: backend,
        path: pointer('spec', 'rules', index, 'backendRefs', place, 'group'),
        effect: release =>
          `${release} does not know this backend's group: requests sent to ${spoken(backend)} answer 500`,
        fix: `set the backendRef's group to ${NEW_GROUP}, with a v1 pool of that name`,
      };
    }
    for (const mirror of mirrors) {
      if (mirror.kind !== ALPHA_INFERENCE_POOL) continue;
      yield {
        target: mirror,
        path: pointer('spec', 'rules', index, 'filters'),
        effect: release =>
          `${release} does not know the group of this mirror: nothing is mirrored to ${spoken(mirror)}`,
        fix: `set the mirror's group to ${NEW_GROUP}, with a v1 pool of that name`,
      };
    }
  }
}

function* oldReferences(subject: Meta): Iterable<OldReference> {
  if (ROUTES.has(subject.kind)) {
    yield* inRoute(subject as Route);
    return;
  }
  if (isOf(subject, GRANT)) {
    for (const [index, { kind, name }] of subject.to.entries()) {
      if (kind !== ALPHA_INFERENCE_POOL) continue;
      // with the new group beside it, the old one is left for another implementation or for the way back
      if (subject.to.some(other => other.kind === INFERENCE_POOL && (other.name ?? name) === name)) continue;
      yield {
        target: { kind, namespace: subject.namespace, name: name ?? '*' },
        path: pointer('spec', 'to', index, 'group'),
        effect: release =>
          `the grant names the old group: ${release} reads pools of ${NEW_GROUP} only, which it does not cover`,
        fix: `set the group in spec.to to ${NEW_GROUP}`,
      };
    }
    return;
  }
  for (const kind of REFERRERS) {
    if (!isOf(subject, kind) || subject.pool?.kind !== ALPHA_INFERENCE_POOL) continue;
    yield {
      target: { kind: subject.pool.kind, namespace: subject.namespace, name: subject.pool.name },
      path: '/spec/poolRef',
      effect: release => `poolRef names a pool of the old group: ${release} serves pools of ${NEW_GROUP} only`,
      fix: `set poolRef.group to ${NEW_GROUP}, with a v1 pool of that name`,
    };
  }
}

/** The findings about what one subject refers to. */
export function* checkReferences(subject: Meta, { mesh }: CheckContext<Options>): Iterable<Report<FindingId>> {
  let grounds: ReturnType<typeof standing>;
  for (const { target, path, effect, fix } of oldReferences(subject)) {
    grounds ??= standing(subject, mesh);
    if (grounds === undefined) return;
    const { release, ...rest } = grounds;
    yield {
      finding: 'reference-to-stale-group',
      key: refKey(target),
      path,
      effect: effect(release),
      fix,
      ...rest,
      evidence: [...(target.name === '*' ? [] : [{ ...target, name: target.name }]), ...rest.evidence],
    };
  }
}

/** What a finding about an old reference rests on; undefined where there is none to be made. */
function standing(subject: Meta, mesh: CheckContext<Options>['mesh']) {
  const readers = readersOf(mesh, subject, KNOWLEDGE);
  const pool = entryOf(ALPHA_INFERENCE_POOL);
  if (readers === undefined || pool === undefined) return undefined;
  const unread = readers.releases.filter(release => fateAt(pool, release, undefined, undefined) === 'not-read');
  if (unread.length === 0) return undefined;
  const ownership = ownershipOf(mesh, subject);
  if (ownership === 'other') return undefined;
  const doubtful = ownership === 'doubtful';
  return {
    release: istio(unread[0]),
    evidence: [...planesOf(readers), ...doubtsOf(mesh, ownership)],
    ...groundsOf(readers, doubtful),
    certain: readers.certain && unread.length === readers.releases.length && !doubtful,
  };
}

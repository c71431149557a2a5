// Which kinds the API server asks the guard about, and which of them it must not store unasked. The webhooks' rules in the chart are
// written from here (scripts/rules.ts); what the guard reads is in kinds.ts.
import { type GroupKind, splitGroupKind } from '../kube/kind.ts';
import { FILE_KINDS, isKind, KINDS } from '../mesh/kinds.ts';
import type { Policy } from './policy.ts';

/** Asked about only where the installer wants it, by an entry of its own. */
const ON_REQUEST: ReadonlySet<GroupKind> = new Set(['Secret']);

/** The API server asks no webhook about these (apiserver, plugin/webhook/predicates/rules: IsExemptAdmissionConfigurationResource). */
const EXEMPT_GROUP = 'admissionregistration.k8s.io';

/**
 * Kinds whose objects come and go all day by the hands of controllers, and whose going takes no enforcement away: not asked about
 * on DELETE.
 */
const FLEETING: ReadonlySet<GroupKind> = new Set(['Pod', 'ReplicaSet.apps', 'Job.batch', 'Node']);

/** Kinds that a change is judged for: subjects, and what policies read, since a change there can break a subject. Sorted. */
export function judgedKinds(policies: readonly Policy[]): readonly GroupKind[] {
  return [...new Set(policies.flatMap(({ subjects, reads }) => [...subjects, ...reads]))].filter(isAsked).sort();
}

/** Kinds about whose deletion the API server asks. Sorted. */
export function deletionKinds(policies: readonly Policy[]): readonly GroupKind[] {
  return judgedKinds(policies).filter(kind => !FLEETING.has(kind));
}

/** Subjects of the policies that find something at `mutate`. Sorted. */
export function mutatedKinds(policies: readonly Policy[]): readonly GroupKind[] {
  const atMutate = policies.filter(({ findings }) =>
    Object.values(findings).some(({ seen }) => seen.includes('mutate')),
  );
  return [...new Set(atMutate.flatMap(({ subjects }) => subjects))].filter(isAsked).sort();
}

function isAsked(kind: GroupKind): boolean {
  return !ON_REQUEST.has(kind) && !FILE_KINDS.has(kind) && splitGroupKind(kind).group !== EXEMPT_GROUP;
}

/** True for kinds that nobody may write while no replica answers: where they are not what was written, security or traffic is at stake. */
export function failsClosed(id: GroupKind): boolean {
  const { group, kind } = splitGroupKind(id);
  return (
    group === 'security.istio.io' ||
    (kind === 'InferencePool' && /^inference\.networking\.(x-)?k8s\.io$/.test(group)) ||
    (kind === 'BackendTLSPolicy' && group === 'gateway.networking.k8s.io')
  );
}

/** The resource name of a kind: from the table, else by the rule of which every CRD among our subjects is made. */
export function resourceOf(id: GroupKind): string {
  if (isKind(id)) return KINDS[id].plural;
  const name = splitGroupKind(id).kind.toLowerCase();
  if (/[^aeiou]y$/.test(name)) return `${name.slice(0, -1)}ies`;
  return /(s|x|ch|sh)$/.test(name) ? `${name}es` : `${name}s`;
}

// CUSTOM asks an extension provider of MeshConfig. With one that is not defined there, or with two different ones at the same
// proxy, Envoy refuses what the rules match (pilot/pkg/security/authz/builder; the first tried with istiod 1.30 and 1.31).
import { type ObjectRef, ref } from '../../src/kube/kind.ts';
import { matchesLabels, type StringMap } from '../../src/kube/labels.ts';
import { enforcerOf, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import {
  type ControlPlane,
  extensionProviders,
  flag,
  meshConfigName,
  ownsRevision,
  rootNamespaces,
} from '../../src/mesh/releases.ts';
import type { Found } from './findings.ts';
import { isDryRun, type Owners } from './owners.ts';

function configMapOf(plane: ControlPlane): readonly ObjectRef[] {
  if (!plane.seen) return [];
  return [{ kind: 'ConfigMap', namespace: plane.namespace, name: meshConfigName(plane.revision) }];
}

/** The finding that a CUSTOM policy's provider is not defined; undefined where it is, or where MeshConfig is not known. */
export function unknownProvider(
  policy: AuthorizationPolicy,
  owners: Owners,
  enforcers: readonly ObjectRef[],
  certain: boolean,
): Found | undefined {
  // without rules it matches nothing
  if (policy.action !== 'CUSTOM' || policy.rules.length === 0) return undefined;
  const provider = policy.provider ?? '';
  const lacking = owners.all.filter(plane => extensionProviders(plane)?.has(provider) === false);
  const [first] = lacking;
  if (first === undefined) return undefined;
  return {
    finding: 'provider-unknown',
    key: provider,
    about: 'provider',
    effect: `MeshConfig defines no extension provider '${provider}': every request that these rules match is refused`,
    fix: `define '${provider}' under extensionProviders in MeshConfig, or correct provider.name`,
    evidence: [...configMapOf(first), ...enforcers],
    certain: certain && lacking.length === owners.all.length,
    path: '/spec/provider/name',
  };
}

/** Whether another CUSTOM policy asks another provider, so that a proxy with both refuses what they match. */
export function asksAnother(policy: AuthorizationPolicy, other: AuthorizationPolicy): boolean {
  return (
    other.action === 'CUSTOM' &&
    !isDryRun(other) &&
    (other.provider ?? '') !== (policy.provider ?? '') &&
    (other.name !== policy.name || other.namespace !== policy.namespace)
  );
}

/** The finding that two providers are asked at one proxy; undefined where every control plane allows it (1.30, a flag). */
export function twoProviders(
  policy: AuthorizationPolicy,
  owners: Owners,
  other: AuthorizationPolicy,
  enforcer: ObjectRef,
  certain: boolean,
): Found | undefined {
  if (policy.rules.length === 0 || owners.all.length === 0) return undefined;
  const allowing = owners.all.filter(plane => flag(plane, 'PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS', false));
  if (allowing.length === owners.all.length) return undefined;
  return {
    finding: 'several-providers',
    key: `${other.namespace}/${other.name}`,
    about: 'providers',
    effect: `'${policy.provider ?? ''}' and '${other.provider ?? ''}' are asked at one proxy, which asks neither and refuses what the rules match`,
    fix: 'use one provider in both, or set PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS (1.30)',
    evidence: [ref(other), enforcer],
    certain: certain && allowing.length === 0,
    path: '/spec/provider/name',
  };
}

/** Labels that two selectors want; undefined where they contradict. */
export function bothLabels(a: StringMap, b: StringMap | undefined): StringMap | undefined {
  const merged = Object.assign(Object.create(null) as Record<string, string>, a);
  for (const key in b) {
    const value = b[key] ?? '';
    if (merged[key] !== undefined && merged[key] !== value) return undefined;
    merged[key] = value;
  }
  return merged;
}

function isEnvoy(mesh: Mesh, workload: Workload): boolean {
  const { by } = enforcerOf(mesh, workload);
  return by === 'sidecar' || by === 'gateway';
}

/** The first policy with another provider that some proxy of a namespace has too, and that proxy. */
export function rivalIn(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  namespace: string,
): { readonly other: AuthorizationPolicy; readonly workload: Workload } | undefined {
  for (const home of new Set([namespace, ...mesh.fact(rootNamespaces)])) {
    for (const other of mesh.list(AUTHORIZATION_POLICY, home)) {
      if (!asksAnother(policy, other) || other.targets.length > 0) continue;
      if (!owners.all.some(plane => ownsRevision(plane, other))) continue;
      const labels = bothLabels(other.selector?.matchLabels ?? {}, policy.selector?.matchLabels);
      if (labels === undefined) continue;
      for (const workload of mesh.workloads(labels, namespace)) {
        if (!judgedByOwner(mesh, workload) && isEnvoy(mesh, workload)) return { other, workload };
      }
    }
  }
  return undefined;
}

/** True where a policy's selector, if it has one, selects these labels. */
export function selectsWorkload(policy: AuthorizationPolicy, labels: StringMap): boolean {
  const { selector } = policy;
  return selector === undefined || (selector.matchLabels !== undefined && matchesLabels(selector.matchLabels, labels));
}

// CUSTOM asks an extension provider of MeshConfig. With one that is not defined there or whose host istiod does not find, or with
// two different ones at the same proxy, Envoy refuses what the rules match (pilot/pkg/security/authz/builder; the first two tried
// with istiod 1.30 and 1.31).

import { type ObjectRef, ref, spoken } from '../../src/kube/kind.ts';
import { matchesLabels, type StringMap } from '../../src/kube/labels.ts';
import {
  type Authorizer,
  authorizersOf,
  isUnreached,
  reachedFrom,
  serviceOfHost,
  type Unreached,
} from '../../src/mesh/authorizers.ts';
import { enforcerOf, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { flag, meshConfigMaps, ownsRevision, rootNamespaces } from '../../src/mesh/releases.ts';
import type { Found } from './findings.ts';
import { isDryRun, type Owners } from './owners.ts';

/**
 * The finding that a CUSTOM policy's provider is not defined, or that the enforcers, which stand in one namespace, cannot ask it;
 * undefined where they can, or where MeshConfig is not known.
 */
export function unaskedProvider(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  enforcers: readonly ObjectRef[],
  certain: boolean,
): Found | undefined {
  return unknownProvider(policy, owners, enforcers, certain) ?? unreachedProvider(mesh, policy, owners, enforcers);
}

function unknownProvider(
  policy: AuthorizationPolicy,
  owners: Owners,
  enforcers: readonly ObjectRef[],
  certain: boolean,
): Found | undefined {
  // without rules it matches nothing
  if (policy.action !== 'CUSTOM' || policy.rules.length === 0) return undefined;
  const provider = policy.provider ?? '';
  const lacking = owners.all.filter(plane => authorizersOf(plane)?.has(provider) === false);
  const [first] = lacking;
  if (first === undefined) return undefined;
  return {
    finding: 'provider-unknown',
    key: provider,
    about: 'provider',
    effect: `MeshConfig defines no external authorizer '${provider}': every request that these rules match is refused`,
    fix: `define '${provider}' under extensionProviders in MeshConfig, or correct provider.name`,
    evidence: [...meshConfigMaps(first), ...enforcers],
    certain: certain && lacking.length === owners.all.length,
    path: '/spec/provider/name',
  };
}

/** How to write a host that istiod finds. */
function fixForHost(service: string): string {
  if (service.includes('/')) return 'correct the namespace before the host in MeshConfig, or leave it out';
  const wanted = serviceOfHost(service);
  if (wanted !== undefined) {
    return `create Service ${wanted.namespace}/${wanted.name}, or correct service of the provider in MeshConfig`;
  }
  return service.includes('.') && !/\.svc\.?$|[A-Z*]/.test(service)
    ? 'create a ServiceEntry with this host, or write NAME.NAMESPACE.svc.cluster.local'
    : 'write the whole host into MeshConfig: NAME.NAMESPACE.svc.cluster.local';
}

function unreached(
  provider: string,
  { service = '', port, failOpen }: Authorizer,
  asked: Unreached,
  namespace: string,
): Pick<Found, 'effect' | 'fix'> {
  if (asked.state === 'missing') {
    return {
      effect: `istiod finds no '${service}' to ask as '${provider}': every request that these rules match is refused`,
      fix: fixForHost(service),
    };
  }
  if (asked.state === 'several') {
    const [first = '', second = ''] = asked.namespaces;
    return {
      effect: `'${asked.host}' is in ${first} and in ${second}: istiod asks neither, and refuses what these rules match`,
      fix: `write service: ${first}/${asked.host} (or ${second}/…) for the provider in MeshConfig`,
    };
  }
  const name = spoken(asked.object);
  const then = failOpen ? 'requests pass unasked (failOpen)' : 'what these rules match is refused';
  if (asked.state === 'no-port') {
    return {
      effect: `${name} has no port ${port ?? ''}, where provider '${provider}' is asked: ${then}`,
      fix: `set port of the provider in MeshConfig to one that it has: ${asked.ports.slice(0, 5).join(', ')}`,
    };
  }
  if (asked.state === 'external-name') {
    return {
      effect: `no proxy can ask '${provider}' at ${name} of type ExternalName: ${then}`,
      fix: 'write the host that it stands for as service of the provider in MeshConfig',
    };
  }
  return {
    effect: `proxies in ${namespace} cannot ask '${provider}' (exportTo of ${name}): ${then}`,
    fix: `add ${namespace} to exportTo of ${name}`,
  };
}

/** A warning: Services come in any order, and the authorizer may be the next. */
function unreachedProvider(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  enforcers: readonly ObjectRef[],
): Found | undefined {
  if (policy.action !== 'CUSTOM' || policy.rules.length === 0) return undefined;
  const provider = policy.provider ?? '';
  const namespace = enforcers[0]?.namespace ?? policy.namespace;
  for (const plane of owners.all) {
    const authorizer = authorizersOf(plane)?.get(provider);
    const asked = authorizer === undefined ? undefined : reachedFrom(mesh, plane, authorizer, namespace);
    if (authorizer === undefined || asked === undefined || !isUnreached(asked)) continue;
    const wanted = serviceOfHost(authorizer.service ?? '');
    const about =
      'object' in asked ? [asked.object] : asked.state === 'missing' && wanted !== undefined ? [wanted] : [];
    return {
      finding: 'provider-unreached',
      key: provider,
      about: 'provider',
      ...unreached(provider, authorizer, asked, namespace),
      evidence: [...about, ...meshConfigMaps(plane), ...enforcers],
      path: '/spec/provider/name',
    };
  }
  return undefined;
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

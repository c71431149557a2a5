// Behind a waypoint the source that ztunnel sees is the waypoint: an ALLOW policy that lists the clients alone refuses all that
// comes through it (I§1b; istio.io's migration pages know the outage).
import { PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { NO_STRINGS, type StringMap } from '../../src/kube/labels.ts';
import { enforcerOf, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { GATEWAY, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import {
  AUTHORIZATION_POLICY,
  type AuthorizationPolicy,
  type AuthorizationRule,
  type Match,
} from '../../src/mesh/kinds/security.ts';
import type { Service } from '../../src/mesh/kinds/services.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { deploymentName, managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { ownsRevision, rootNamespaces } from '../../src/mesh/releases.ts';
import { namedWaypoint, USE_WAYPOINT, waypointOf } from '../../src/mesh/waypoints.ts';
import type { Search } from './findings.ts';
import { isDryRun, type Owners } from './owners.ts';
import { bothLabels, selectsWorkload } from './providers.ts';
import { hasL7 } from './ztunnel.ts';

/** Who a waypoint is for the policies behind it. */
interface Identity {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** As certificates have it, for each trust domain: TRUST-DOMAIN/ns/NAMESPACE/sa/NAME. */
  readonly principals: readonly string[];
}

/** What of a caller an attribute is about. */
type About = 'principal' | 'namespace' | 'account';

const POSITIVE: ReadonlyMap<string, About> = new Map([
  ['principals', 'principal'],
  ['namespaces', 'namespace'],
  ['serviceAccounts', 'account'],
]);
const NEGATIVE: ReadonlyMap<string, About> = new Map([
  ['notPrincipals', 'principal'],
  ['notNamespaces', 'namespace'],
  ['notServiceAccounts', 'account'],
]);
const WHEN: ReadonlyMap<string, About> = new Map([
  ['source.principal', 'principal'],
  ['source.namespace', 'namespace'],
]);

function namesCaller(source: Match): boolean {
  for (const key in source) if (POSITIVE.has(key) || NEGATIVE.has(key)) return true;
  return false;
}

/** True where a rule asks who the caller is. */
function asksIdentity({ from, when }: AuthorizationRule): boolean {
  return from?.every(namesCaller) === true || when?.some(({ key }) => WHEN.has(key)) === true;
}

/** True for an ALLOW policy of which ztunnel keeps a rule, and whose rules all ask who the caller is. */
export function limitsIdentity(policy: AuthorizationPolicy): boolean {
  if (policy.action !== 'ALLOW') return false;
  let kept = false;
  for (const rule of policy.rules) {
    if (hasL7(rule)) continue;
    if (!asksIdentity(rule)) return false;
    kept = true;
  }
  return kept;
}

function matches(pattern: string, value: string): boolean {
  if (pattern === '*') return true;
  if (pattern.startsWith('*')) return value.endsWith(pattern.slice(1));
  if (pattern.endsWith('*')) return value.startsWith(pattern.slice(0, -1));
  return pattern === value;
}

function isOneOf(patterns: readonly string[], about: About, who: Identity, policyNamespace: string): boolean {
  if (about === 'namespace') return patterns.some(pattern => matches(pattern, who.namespace));
  if (about === 'principal')
    return patterns.some(pattern => who.principals.some(principal => matches(pattern, principal)));
  return patterns.some(pattern => {
    const slash = pattern.indexOf('/');
    const namespace = slash < 0 ? policyNamespace : pattern.slice(0, slash);
    return namespace === who.namespace && pattern.slice(slash + 1) === who.serviceAccount;
  });
}

function sourceAdmits(source: Match, who: Identity, policyNamespace: string): boolean {
  for (const key in source) {
    const wanted = POSITIVE.get(key);
    const about = wanted ?? NEGATIVE.get(key);
    if (about === undefined) continue;
    if (isOneOf(source[key] ?? [], about, who, policyNamespace) !== (wanted !== undefined)) return false;
  }
  return true;
}

/** Whether a rule that ztunnel keeps lets this identity in, by some port or address. */
function ruleAdmits(rule: AuthorizationRule, who: Identity, policyNamespace: string): boolean {
  if (hasL7(rule)) return false;
  if (rule.from?.some(source => sourceAdmits(source, who, policyNamespace)) === false) return false;
  for (const { key, values, notValues } of rule.when ?? []) {
    const about = WHEN.get(key);
    if (about === undefined) continue;
    if (values.length > 0 && !isOneOf(values, about, who, policyNamespace)) return false;
    if (isOneOf(notValues, about, who, policyNamespace)) return false;
  }
  return true;
}

function identityOf(mesh: Mesh, gateway: Gateway, owners: Owners): Identity {
  const serviceAccount =
    gateway.annotations['gateway.istio.io/service-account'] ??
    deploymentName(gateway, managedAs(mesh, gateway.className));
  const domains = owners.ambient.length > 0 ? owners.ambient.map(plane => plane.trustDomain) : ['cluster.local'];
  const { namespace } = gateway;
  const principals = domains.map(domain => `${domain}/ns/${namespace}/sa/${serviceAccount}`);
  return { namespace, serviceAccount, principals };
}

/** Whether another ALLOW policy that ztunnel enforces at a workload lets an identity in. */
function admittedByOthers(
  mesh: Mesh,
  self: AuthorizationPolicy,
  workload: Workload,
  who: Identity,
  owners: Owners,
): boolean {
  for (const namespace of new Set([workload.namespace, ...mesh.fact(rootNamespaces)])) {
    for (const other of mesh.list(AUTHORIZATION_POLICY, namespace)) {
      if (other.action !== 'ALLOW' || (other.name === self.name && other.namespace === self.namespace)) continue;
      if (other.targets.length > 0 || isDryRun(other)) continue;
      if (!selectsWorkload(other, workload.template.labels)) continue;
      if (owners.ambient.length > 0 && !owners.ambient.some(plane => ownsRevision(plane, other))) continue;
      if (other.rules.some(rule => ruleAdmits(rule, who, other.namespace))) return true;
    }
  }
  return false;
}

function behind(mesh: Mesh, service: Service, labels: StringMap | undefined): Workload | undefined {
  if (Object.keys(service.selector).length === 0) return undefined;
  const wanted = bothLabels(service.selector, labels);
  if (wanted === undefined) return undefined;
  for (const workload of mesh.workloads(wanted, service.namespace)) {
    if (!judgedByOwner(mesh, workload) && enforcerOf(mesh, workload).by === 'ztunnel') return workload;
  }
  return undefined;
}

/** The waypoint that a Service or its Namespace names. */
function waypointNamedFor(mesh: Mesh, { labels, namespace }: Service): ObjectRef | undefined {
  const named =
    labels[USE_WAYPOINT] === undefined
      ? namedWaypoint(mesh.get('Namespace', '', namespace)?.labels ?? NO_STRINGS, namespace)
      : namedWaypoint(labels, namespace);
  return named === 'none' ? undefined : named;
}

/** The waypoints in front of selected workloads that a policy does not let in, one finding for each in a namespace. */
export function* identityRefused(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  labels: StringMap | undefined,
  namespace: string | undefined,
): Search {
  if (owners.admitsWaypoints) return;
  const said = new Set<string>();
  let admitted: Gateway | undefined;
  let steps = 0;
  for (const service of mesh.list('Service', namespace)) {
    steps += 1;
    if (steps % 50 === 0) yield PAUSE;
    // whoever lets the waypoint in needs to know no more; most Services name the same one
    const named = waypointNamedFor(mesh, service);
    if (named === undefined || (named.name === admitted?.name && named.namespace === admitted.namespace)) continue;
    const gateway = mesh.get(GATEWAY, named.namespace, named.name);
    if (gateway === undefined) continue;
    const who = identityOf(mesh, gateway, owners);
    if (policy.rules.some(rule => ruleAdmits(rule, who, policy.namespace))) {
      admitted = gateway;
      continue;
    }
    if (waypointOf(mesh, service, 'service').state !== 'bound') continue;
    const waypoint: ObjectRef = ref(gateway);
    const key = `${service.namespace} ${refKey(waypoint)}`;
    if (said.has(key)) continue;
    const workload = behind(mesh, service, labels);
    if (workload === undefined || admittedByOthers(mesh, policy, workload, who, owners)) continue;
    said.add(key);
    yield {
      finding: 'waypoint-identity-refused',
      key,
      effect: `ztunnel sees waypoint ${waypoint.namespace}/${waypoint.name} as the caller, and this policy does not let it in`,
      fix: `allow principal ${who.principals[0]}, and list the clients in a policy with targetRefs`,
      evidence: [ref(service), waypoint, ref(workload)],
      path: '/spec/rules',
    };
  }
}

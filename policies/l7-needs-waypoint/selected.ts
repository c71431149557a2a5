// Policies without targetRefs: judged by who enforces at the workloads that they select, namespace by namespace.
import { type CheckContext, PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, spoken } from '../../src/kube/kind.ts';
import { matchesLabels, NO_STRINGS, type StringMap } from '../../src/kube/labels.ts';
import {
  ambient,
  type Enrolment,
  enforcerOf,
  GATEWAY_NAME,
  isWaypointWorkload,
  judgedByOwner,
  MANAGED,
} from '../../src/mesh/enrolment.ts';
import { GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import type { AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { managedAs, waypointPodLabels } from '../../src/mesh/managed.ts';
import { isTerminating, type Mesh } from '../../src/mesh/mesh.ts';
import { atLeast } from '../../src/mesh/releases.ts';
import { waypointOf } from '../../src/mesh/waypoints.ts';
import type { Found, Search } from './findings.ts';
import { identityRefused, limitsIdentity } from './identity.ts';
import { isRoot, type Owners } from './owners.ts';
import { rivalIn, twoProviders, unaskedProvider } from './providers.ts';
import { type Misreading, misreadings } from './ztunnel.ts';

/** Who enforces at the workloads of one namespace that a policy selects: one example of each. */
interface Selected {
  ztunnel?: { readonly workload: Workload; readonly why: string };
  likely?: { readonly workload: Workload; readonly why: string };
  unknown?: { readonly workload: Workload; readonly why: string };
  envoy?: Workload;
}

type Grouped = Map<string, Selected>;

/** True for a waypoint, and for a gateway that istiod keeps selectors from. */
function isUnheeding(workload: Workload, by: Enrolment['by'], gatewaysHeed: boolean): boolean {
  return (
    by === 'waypoint' || (by === 'gateway' && !gatewaysHeed && workload.template.labels[GATEWAY_NAME] !== undefined)
  );
}

function note(mesh: Mesh, found: Selected, workload: Workload, gatewaysHeed: boolean): void {
  const { by, why, likely } = enforcerOf(mesh, workload);
  if (isUnheeding(workload, by, gatewaysHeed)) return;
  if (by === 'ztunnel') found.ztunnel ??= { workload, why };
  else if (by === 'sidecar' || by === 'gateway') found.envoy ??= workload;
  else if (by === 'unknown' && likely === 'ztunnel') found.likely ??= { workload, why };
  else if (by === 'unknown' && likely === undefined) found.unknown ??= { workload, why };
}

/** The workloads that labels select, in one namespace or in all, by namespace and enforcer. Yields PAUSE. */
function* grouped(
  mesh: Mesh,
  labels: StringMap | undefined,
  namespace: string | undefined,
  needsEnvoy: boolean,
  gatewaysHeed: boolean,
): Generator<typeof PAUSE, Grouped> {
  const groups: Grouped = new Map();
  let steps = 0;
  for (const workload of mesh.workloads(labels, namespace)) {
    steps += 1;
    if (steps % 50 === 0) yield PAUSE;
    let group = groups.get(workload.namespace);
    if (group === undefined) {
      group = {};
      groups.set(workload.namespace, group);
    }
    // one of each is enough
    if (group.ztunnel !== undefined && (!needsEnvoy || group.envoy !== undefined)) continue;
    if (isTerminating(mesh, workload.namespace)) continue;
    if (judgedByOwner(mesh, workload)) continue;
    note(mesh, group, workload, gatewaysHeed);
  }
  return groups;
}

function fixFor(mesh: Mesh, { finding, attributes }: Misreading, namespace: string): string {
  if (finding === 'trust-domains-dropped') {
    return 'use principals (TRUST-DOMAIN/ns/NAMESPACE/sa/NAME), or targetRefs and a waypoint';
  }
  if (attributes === 'principals spiffe')
    return 'write principals without spiffe://: TRUST-DOMAIN/ns/NAMESPACE/sa/NAME';
  if (finding === 'action-not-enforced' && attributes === 'AUDIT') {
    return `use targetRefs to a Service of ${namespace} that has a waypoint`;
  }
  const holder = mesh.get('Namespace', '', namespace);
  return holder !== undefined && waypointOf(mesh, holder, 'service').state === 'bound'
    ? `use targetRefs to the Services of ${namespace}, which has a waypoint`
    : `give ${namespace} a waypoint (istio.io/use-waypoint) and use targetRefs, not a selector`;
}

function evidenceOf(mesh: Mesh, namespace: string, workload: ObjectRef): readonly ObjectRef[] {
  const holder = mesh.get('Namespace', '', namespace);
  return [...(holder === undefined ? [] : [ref(holder)]), ref(workload)];
}

/** Whether releases that read `trustDomains` are here: before 1.30 nothing does, and the CRD prunes it. */
function trustDomainsKnown(owners: Owners): boolean | undefined {
  const planes = owners.ambient.length > 0 ? owners.ambient : owners.all;
  const answers = planes.map(plane => atLeast(plane.release, '1.30'));
  if (answers.length > 0 && answers.every(answer => answer === false)) return false;
  return answers.length > 0 && answers.every(answer => answer === true) ? true : undefined;
}

function* ofZtunnel(
  mesh: Mesh,
  owners: Owners,
  found: readonly Misreading[],
  namespace: string,
  selected: Selected,
  certain: boolean,
): Iterable<Found> {
  const example = selected.ztunnel ?? selected.likely;
  if (example === undefined) return;
  for (const misreading of found) {
    const known = misreading.finding === 'trust-domains-dropped' ? trustDomainsKnown(owners) : true;
    if (known === false) continue;
    yield {
      finding: misreading.finding,
      key: `${namespace} ${misreading.attributes}`,
      about: `${namespace} ${misreading.finding}`,
      effect: misreading.effect,
      fix: fixFor(mesh, misreading, namespace),
      evidence: evidenceOf(mesh, namespace, example.workload),
      because: example.why,
      certain: certain && selected.ztunnel !== undefined && known === true,
      path: misreading.path,
      ...(misreading.action === undefined ? {} : { action: misreading.action }),
    };
  }
}

function emptySelector(mesh: Mesh, namespace: string, selected: Selected, certain: boolean): Found | undefined {
  const example = selected.ztunnel ?? selected.likely;
  if (example === undefined) return undefined;
  return {
    finding: 'empty-selector',
    key: namespace,
    about: `${namespace} selector`,
    effect: 'selector: {} attaches to nothing in ambient mode: none of these rules holds, and the status says accepted',
    fix: 'remove selector (the policy is then for the whole namespace), or give it matchLabels',
    evidence: evidenceOf(mesh, namespace, example.workload),
    because: example.why,
    certain: certain && selected.ztunnel !== undefined,
    path: '/spec/selector',
  };
}

/** A waypoint whose pods a selector picks, by the labels that istiod gives them: their Deployment need not be in the state. */
function waypointPicked(mesh: Mesh, labels: StringMap, namespace: string | undefined): ObjectRef | undefined {
  if (labels[GATEWAY_NAME] === undefined && labels[MANAGED] === undefined) return undefined;
  for (const gateway of mesh.list(GATEWAY, namespace)) {
    if (managedAs(mesh, gateway.className) !== 'waypoint') continue;
    if (matchesLabels(labels, waypointPodLabels(gateway))) return gateway;
  }
  return undefined;
}

function unheeded(gateway: ObjectRef, waypoint: boolean, certain: boolean): Found {
  return {
    finding: 'target-cannot-bind',
    key: `selector ${gateway.namespace}`,
    effect: waypoint
      ? 'a waypoint applies no policy that comes by selector: none of these rules is enforced there'
      : 'istiod keeps policies by selector from Gateway API gateways: none of these rules is enforced there',
    fix: waypoint
      ? 'replace selector by targetRefs: the waypoint Gateway, or the Services behind it'
      : 'replace selector by targetRefs to the Gateway',
    evidence: [gateway],
    ...(waypoint ? {} : { because: 'ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY is false' }),
    certain,
    path: '/spec/selector',
  };
}

/** A waypoint or a gateway that pays no heed to selectors, where these labels select nothing else. Yields PAUSE. */
function* unheedingAlone(
  mesh: Mesh,
  labels: StringMap,
  namespace: string | undefined,
  gatewaysHeed: boolean,
): Generator<typeof PAUSE, Workload | 'others' | undefined> {
  let found: Workload | undefined;
  let steps = 0;
  for (const workload of mesh.workloads(labels, namespace)) {
    steps += 1;
    if (steps % 50 === 0) yield PAUSE;
    if (isTerminating(mesh, workload.namespace) || judgedByOwner(mesh, workload)) continue;
    const pods = workload.template.labels;
    const ofIstio = pods[GATEWAY_NAME] !== undefined || pods[MANAGED] !== undefined;
    if (!ofIstio || !isUnheeding(workload, enforcerOf(mesh, workload).by, gatewaysHeed)) return 'others';
    found ??= workload;
  }
  return found;
}

/** Where a policy selects workloads. */
interface Scope {
  /** Whether it stands in the root namespace of those who read it. */
  readonly root: ReturnType<typeof isRoot>;
  /** Its own namespace; undefined where that may be the root namespace, and the policy for all. */
  readonly where: string | undefined;
}

function scopeOf(mesh: Mesh, owners: Owners, { namespace }: AuthorizationPolicy): Scope {
  const root = isRoot(mesh, owners, namespace);
  return { root, where: root === 'none' ? namespace : undefined };
}

/** A selector that picks nothing but waypoints, or gateways that pay no heed to selectors. */
function* ofUnheeding(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  labels: StringMap,
  { root, where }: Scope,
): Search {
  const alone = yield* unheedingAlone(mesh, labels, where, owners.gatewaysHeedSelectors);
  if (alone === 'others') return;
  const unheeding = alone ?? waypointPicked(mesh, labels, where);
  const isWaypoint = alone === undefined || isWaypointWorkload(mesh, alone);
  // layered policies are enforced in front of a waypoint, but for CUSTOM ones (tried with istiod 1.31)
  if (unheeding === undefined || (isWaypoint && owners.layered && policy.action !== 'CUSTOM')) return;
  yield unheeded(ref(unheeding), isWaypoint, unheeding.namespace === policy.namespace || root === 'all');
}

/** Judges a policy that has no targetRefs. */
export function* checkSelected(policy: AuthorizationPolicy, owners: Owners, context: CheckContext<unknown>): Search {
  const { mesh } = context;
  const { selector } = policy;
  const labels = selector?.matchLabels;
  const empty = selector !== undefined && labels === undefined;
  const scope = scopeOf(mesh, owners, policy);
  const found = misreadings(policy, owners.trustDomains);
  const custom = policy.action === 'CUSTOM';
  const limits = limitsIdentity(policy);
  if (found.length > 0 || empty || custom) {
    yield* byEnforcer(policy, owners, scope, found, context);
  }
  if (limits && !empty && mesh.fact(ambient).state !== 'off') {
    yield* identityRefused(mesh, policy, owners, labels, scope.where);
  }
  if (labels !== undefined && Object.keys(labels).length > 0) yield* ofUnheeding(mesh, policy, owners, labels, scope);
}

/** What becomes of a policy that ztunnel reads otherwise than it is written, by who enforces where. */
function* byEnforcer(
  policy: AuthorizationPolicy,
  owners: Owners,
  { root, where }: Scope,
  found: readonly Misreading[],
  { mesh, skipped }: CheckContext<unknown>,
): Search {
  const labels = policy.selector?.matchLabels;
  const empty = policy.selector !== undefined && labels === undefined;
  const custom = policy.action === 'CUSTOM';
  const groups = yield* grouped(mesh, labels, where, custom, owners.gatewaysHeedSelectors);
  let provider = false;
  let rival = false;
  for (const [namespace, selected] of groups) {
    const certain = namespace === policy.namespace || root === 'all';
    const unsupported = found.filter(misreading => misreading.finding === 'action-not-enforced');
    if (empty && unsupported.length === 0) {
      const report = emptySelector(mesh, namespace, selected, certain);
      if (report !== undefined) yield report;
    } else {
      yield* ofZtunnel(mesh, owners, empty ? unsupported : found, namespace, selected, certain);
    }
    if (found.length > 0 && selected.ztunnel === undefined && selected.likely === undefined) {
      const { unknown } = selected;
      if (unknown !== undefined && mesh.fact(ambient).state !== 'off') {
        skipped(`who enforces at ${spoken(unknown.workload)} (${unknown.why})`);
      }
    }
    if (custom && !provider && selected.envoy !== undefined) {
      const report = unaskedProvider(mesh, policy, owners, [ref(selected.envoy)], certain);
      if (report !== undefined) yield report;
      provider = report !== undefined;
    }
    if (custom && !rival && selected.envoy !== undefined) {
      const found = rivalIn(mesh, policy, owners, namespace);
      const report =
        found === undefined ? undefined : twoProviders(policy, owners, found.other, ref(found.workload), certain);
      if (report !== undefined) yield report;
      rival = report !== undefined;
    }
  }
  if (
    found.length > 0 &&
    !mesh.complete('Pod') &&
    groups.size === 0 &&
    waypointPicked(mesh, labels ?? NO_STRINGS, where) === undefined
  ) {
    skipped(`which workloads ${spoken(policy)} selects`);
  }
}

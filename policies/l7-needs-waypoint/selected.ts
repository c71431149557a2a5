// Policies without targetRefs: judged by who enforces at the workloads that they select, namespace by namespace.
import { type CheckContext, PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, spoken } from '../../src/kube/kind.ts';
import type { StringMap } from '../../src/kube/labels.ts';
import { matchesLabels } from '../../src/kube/labels.ts';
import { ambient, enforcerOf, GATEWAY_NAME, isWaypointWorkload, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import type { AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { managedAs, waypointPodLabels } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { atLeast, flag } from '../../src/mesh/releases.ts';
import type { Found, Search } from './findings.ts';
import { identityRefused, limitsIdentity } from './identity.ts';
import { isRoot, type Owners } from './owners.ts';
import { rivalIn, twoProviders, unknownProvider } from './providers.ts';
import { type Misreading, misreadings } from './ztunnel.ts';

/** Who enforces at the workloads of one namespace that a policy selects: one example of each. */
interface Selected {
  ztunnel?: { readonly workload: Workload; readonly why: string };
  likely?: { readonly workload: Workload; readonly why: string };
  unknown?: { readonly workload: Workload; readonly why: string };
  envoy?: Workload;
  /** A waypoint, or a gateway that istiod keeps selectors from. */
  unheeding?: Workload;
  /** True where somebody else is selected. */
  others: boolean;
}

type Grouped = Map<string, Selected>;

function note(mesh: Mesh, found: Selected, workload: Workload, gatewaysHeed: boolean): void {
  const { by, why, likely } = enforcerOf(mesh, workload);
  const ofGateway = by === 'gateway' && workload.template.labels[GATEWAY_NAME] !== undefined;
  if (by === 'waypoint' || (ofGateway && !gatewaysHeed)) {
    found.unheeding ??= workload;
    return;
  }
  found.others = true;
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
      group = { others: false };
      groups.set(workload.namespace, group);
    }
    // one of each is enough
    if (group.ztunnel !== undefined && (!needsEnvoy || group.envoy !== undefined)) continue;
    if (mesh.get('Namespace', '', workload.namespace)?.terminating === true) continue;
    if (judgedByOwner(mesh, workload)) continue;
    note(mesh, group, workload, gatewaysHeed);
  }
  return groups;
}

function fixFor({ finding, attributes }: Misreading, namespace: string): string {
  if (finding === 'trust-domains-dropped') {
    return 'use principals (TRUST-DOMAIN/ns/NAMESPACE/sa/NAME), or targetRefs and a waypoint';
  }
  if (attributes === 'principals spiffe')
    return 'write principals without spiffe://: TRUST-DOMAIN/ns/NAMESPACE/sa/NAME';
  if (finding === 'action-not-enforced' && attributes === 'AUDIT') {
    return `use targetRefs to a Service of ${namespace} that has a waypoint`;
  }
  return `give ${namespace} a waypoint (istio.io/use-waypoint) and use targetRefs, not a selector`;
}

/** The trust domains of the control planes that serve ztunnel; empty where one of them is not known. */
function trustDomains({ ambient: planes }: Owners): readonly string[] {
  return planes.every(plane => plane.meshConfig !== undefined) ? planes.map(plane => plane.trustDomain) : [];
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
      fix: fixFor(misreading, namespace),
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

/** True where selector policies are enforced in front of waypoints by some control plane (I§12). */
function layered(owners: Owners): boolean {
  return owners.ambient.some(plane => flag(plane, 'ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES', false));
}

/** False where every control plane keeps policies by selector from the pods of Gateway API gateways (on by default). */
function gatewaysHeedSelectors(owners: Owners): boolean {
  const { all } = owners;
  return all.length === 0 || all.some(plane => flag(plane, 'ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY', true));
}

/** The waypoints whose pods a selector picks, by the labels that istiod gives them: their Deployment need not be in the state. */
function* waypointsPicked(mesh: Mesh, labels: StringMap, namespace: string | undefined): Iterable<ObjectRef> {
  const name = labels[GATEWAY_NAME];
  if (name === undefined && labels['gateway.istio.io/managed'] === undefined) return;
  for (const gateway of mesh.list(GATEWAY, namespace)) {
    if (managedAs(mesh, gateway.className) !== 'waypoint') continue;
    if (matchesLabels(labels, waypointPodLabels(gateway))) yield ref(gateway);
  }
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

/** Judges a policy that has no targetRefs. */
export function* checkSelected(
  policy: AuthorizationPolicy,
  owners: Owners,
  { mesh, skipped }: CheckContext<unknown>,
): Search {
  const { selector } = policy;
  const labels = selector?.matchLabels;
  const empty = selector !== undefined && labels === undefined;
  const root = isRoot(mesh, owners, policy.namespace);
  const found = misreadings(policy, trustDomains(owners));
  const custom = policy.action === 'CUSTOM';
  const limits = limitsIdentity(policy);
  const picky = labels !== undefined && Object.keys(labels).length > 0;
  // an ordinary L4 policy: ztunnel does what it says
  if (found.length === 0 && !empty && !limits && !custom && !picky) return;
  const where = root === 'none' ? policy.namespace : undefined;
  const groups = yield* grouped(mesh, labels, where, custom, gatewaysHeedSelectors(owners));
  const here = found.length > 0 || empty || custom || limits;
  let unheeding: ObjectRef | undefined;
  let isWaypoint = false;
  let others = false;
  let provider = false;
  let rival = false;
  for (const [namespace, selected] of groups) {
    const certain = namespace === policy.namespace || root === 'all';
    others ||= selected.others;
    if (unheeding === undefined && selected.unheeding !== undefined) {
      unheeding = ref(selected.unheeding);
      isWaypoint = isWaypointWorkload(mesh, selected.unheeding);
    }
    if (!here) continue;
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
      const report = unknownProvider(policy, owners, [ref(selected.envoy)], certain);
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
  if (limits && !empty && mesh.fact(ambient).state !== 'off') {
    yield* identityRefused(mesh, policy, owners, labels, where);
  }
  if (picky) {
    for (const one of unheeding === undefined ? waypointsPicked(mesh, labels, where) : []) {
      unheeding = one;
      isWaypoint = true;
      break;
    }
    if (unheeding !== undefined && !others && !(isWaypoint && layered(owners))) {
      yield unheeded(unheeding, isWaypoint, unheeding.namespace === policy.namespace || root === 'all');
    }
  }
  if (found.length > 0 && groups.size === 0 && unheeding === undefined && !mesh.complete('Pod')) {
    skipped(`which workloads ${spoken(policy)} selects`);
  }
}

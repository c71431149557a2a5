// What a release of Istio does otherwise than the one before it, where an object shows it.

import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { ref, refKey } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { routeImplementation } from '../../src/mesh/implementations.ts';
import { proxyOf } from '../../src/mesh/injection.ts';
import type { DestinationRule } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, type IstioGateway, type Route } from '../../src/mesh/kinds/gateways.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Fact, Mesh } from '../../src/mesh/mesh.ts';
import { atLeast, controlPlanes, deploymentOf, flag, istioReleases, ownersOf } from '../../src/mesh/releases.ts';

export type BehaviourId = 'gateway-not-merged' | 'retry-budget-default' | 'no-backend-status';

export const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';
const STRICT = 'PILOT_ENABLE_STRICT_GATEWAY_MERGING';

/** Gateways of the Gateway API that istiod runs, in every namespace: under a name, or all of them. */
function* managed(mesh: Mesh, name: string | undefined) {
  for (const gateway of mesh.list(GATEWAY)) {
    if (name !== undefined && gateway.name !== name) continue;
    if (managedAs(mesh, gateway.className) === 'ingress') yield gateway;
  }
}

/** True for a Gateway without a selector, or with an empty one: every gateway's proxy is selected. */
export function selectsEverything({ selector }: Pick<IstioGateway, 'selector'>): boolean {
  return Object.keys(selector).length === 0;
}

/** True for gateways that somebody runs without istiod's Gateways: injected, written out, or called as Istio's charts call them. */
export function isOwnGateway({ template, labels }: Workload): boolean {
  const own = template.labels;
  if (own['gateway.istio.io/managed'] !== undefined) return false;
  return (
    /\bgateway\b/.test(template.annotations['inject.istio.io/templates'] ?? '') ||
    proxyOf({ template })?.container.router === true ||
    [own['istio'], labels['istio']].some(value => value?.includes('gateway'))
  );
}

/** Whether there is a gateway that skips nothing. */
const anyOwnGateway: Fact<boolean> = {
  name: 'anyOwnGateway',
  compute(mesh) {
    for (const workload of mesh.workloads()) if (isOwnGateway(workload)) return true;
    return false;
  },
};

/**
 * From 1.31 on a `networking.istio.io` Gateway of another namespace is not merged into the proxies of a Gateway that istiod runs
 * (pilot/pkg/model/push_context.go filterStrictGatewayMerging; a security fix).
 */
export function* onGateway(subject: IstioGateway, { mesh }: CheckContext<unknown>): Iterable<Report<BehaviourId>> {
  const name = subject.selector[GATEWAY_NAME];
  const everything = selectsEverything(subject);
  if (name === undefined && !everything) return;
  const there = [...managed(mesh, name)];
  const beside = there.some(({ namespace }) => namespace === subject.namespace);
  const [first] = there
    .filter(({ namespace }) => namespace !== subject.namespace)
    .sort((one, other) => (refKey(one) < refKey(other) ? -1 : 1));
  if (first === undefined || (beside && !everything)) return;
  const owners = ownersOf(mesh, subject);
  const strict = owners.filter(plane => atLeast(plane.release, '1.31') !== false && flag(plane, STRICT, true));
  if (strict.length === 0) return;
  const known = owners.every(plane => atLeast(plane.release, '1.31') === true && flag(plane, STRICT, true));
  const elsewhere = everything && (beside || mesh.fact(anyOwnGateway));
  yield {
    finding: 'gateway-not-merged',
    key: name ?? 'everything',
    effect: everything
      ? `its empty selector takes the proxies of Gateway ${first.namespace}/${first.name} too, from another namespace: from 1.31 on they skip it`
      : `it selects the proxies of Gateway ${first.namespace}/${name} from another namespace: from 1.31 on it is skipped`,
    fix: everything
      ? 'select the gateway that is meant, or add listeners to the Gateway and routes to it'
      : `move it to namespace ${first.namespace}, or add listeners to the Gateway and routes to it`,
    evidence: [ref(first)],
    ...(elsewhere ? { action: 'warn' } : {}),
    // a gateway that is not seen here may serve it
    certain: known && (!everything || elsewhere || mesh.complete('Deployment.apps')),
    path: pointer('spec', 'selector'),
  };
}

/** Without a percent a budget was 0.2 % of the active requests by mistake; from 1.29.2 and 1.30 on it is 20 % (release notes). */
export function* onDestinationRule(
  subject: DestinationRule,
  { mesh }: CheckContext<unknown>,
): Iterable<Report<BehaviourId>> {
  if (!subject.budgetWithoutPercent) return;
  const releases = mesh.fact(istioReleases);
  if (releases.length === 0 || !releases.every(release => atLeast(release, '1.29.2') === true)) return;
  yield {
    finding: 'retry-budget-default',
    key: 'retryBudget',
    effect: 'its retryBudget has no percent: 20 % of the requests may be retries now, and 0.2 % before 1.29.2',
    fix: 'set retryBudget.percent',
    evidence: [],
    because: `istiod ${mesh.fact(controlPlanes)[0]?.release?.text ?? releases[0]?.text}`,
    path: pointer('spec', 'trafficPolicy'),
  };
}

/** The index of the first rule of an HTTPRoute that neither sends its requests anywhere nor redirects them; -1 where there is none. */
function ruleWithoutBackend({ rules }: Route): number {
  return rules.findIndex(({ backends, redirects }) => backends.length === 0 && !redirects);
}

export function hasRuleWithoutBackend(route: Route): boolean {
  return ruleWithoutBackend(route) >= 0;
}

/** Without backends such a rule is answered 404 by 1.30, and 500, as the Gateway API wants it, by others (release notes of 1.30 and 1.31). */
export function* onHttpRoute(subject: Route, { mesh }: CheckContext<unknown>): Iterable<Report<BehaviourId>> {
  const index = ruleWithoutBackend(subject);
  if (index < 0 || routeImplementation(mesh, subject) !== 'istio') return;
  const owners = ownersOf(mesh, subject);
  const is130 = ({ release }: (typeof owners)[number]) =>
    atLeast(release, '1.30') === true && atLeast(release, '1.31') === false;
  const [first] = owners;
  if (first === undefined || !owners.every(is130)) return;
  yield {
    finding: 'no-backend-status',
    key: 'backendRefs',
    effect: `rules[${index}] has no backendRefs: its requests are answered 404 by Istio 1.30, and 500 from 1.31 on`,
    fix: 'add backendRefs or a RequestRedirect, or do not rely on the status',
    evidence: deploymentOf(first),
    because: `istiod ${first.release?.text}`,
    path: pointer('spec', 'rules', index),
  };
}

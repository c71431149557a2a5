// What a release of Istio does otherwise than the one before it, where an object shows it.

import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { ref } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import type { DestinationRule } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, type IstioGateway } from '../../src/mesh/kinds/gateways.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { atLeast, controlPlanes, flag, istioReleases, ownersOf } from '../../src/mesh/releases.ts';

export type BehaviourId = 'gateway-not-merged' | 'retry-budget-default';

export const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';
const STRICT = 'PILOT_ENABLE_STRICT_GATEWAY_MERGING';

/** Gateways of the Gateway API that istiod runs under a name, in every namespace. */
function* managed(mesh: Mesh, name: string) {
  for (const gateway of mesh.list(GATEWAY)) {
    if (gateway.name === name && managedAs(mesh, gateway.className) === 'ingress') yield gateway;
  }
}

/**
 * From 1.31 on a `networking.istio.io` Gateway of another namespace is not merged into the proxies of a Gateway that istiod runs
 * (pilot/pkg/model/push_context.go filterStrictGatewayMerging; a security fix).
 */
export function* onGateway(subject: IstioGateway, { mesh }: CheckContext<unknown>): Iterable<Report<BehaviourId>> {
  const name = subject.selector[GATEWAY_NAME];
  if (name === undefined) return;
  const there = [...managed(mesh, name)];
  const [first] = there;
  if (first === undefined || there.some(({ namespace }) => namespace === subject.namespace)) return;
  const owners = ownersOf(mesh, subject);
  const strict = owners.filter(plane => atLeast(plane.release, '1.31') !== false && flag(plane, STRICT, true));
  if (strict.length === 0) return;
  yield {
    finding: 'gateway-not-merged',
    key: name,
    effect: `it selects the proxies of Gateway ${first.namespace}/${name} from another namespace: from 1.31 on it is skipped`,
    fix: `move it to namespace ${first.namespace}, or add listeners to the Gateway and routes to it`,
    evidence: [ref(first)],
    certain: owners.every(plane => atLeast(plane.release, '1.31') === true && flag(plane, STRICT, true)),
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

// Judges the routes that send to InferencePools. What Istio does with them was tried with istiod 1.30 and 1.31: it keeps one picker
// for a rule, that of the last backend.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { refKey, spoken } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import type { BackendRef, Route } from '../../src/mesh/kinds/gateways.ts';
import { INFERENCE_POOL } from '../../src/mesh/kinds/inference.ts';
import type { FindingId } from './findings.ts';
import { standingOf } from './readers.ts';

type RouteReport = Report<FindingId>;

const GRPC_ROUTE = 'GRPCRoute.gateway.networking.k8s.io';

/** True where a route has a pool as a backend that gets traffic, or as a mirror. */
export function sendsToPools({ rules }: Pick<Route, 'rules'>): boolean {
  return rules.some(({ backends, mirrors }) => [...backends, ...mirrors].some(({ kind }) => kind === INFERENCE_POOL));
}

const isPool = ({ kind }: BackendRef) => kind === INFERENCE_POOL;

/** The findings on one HTTPRoute or GRPCRoute. */
export function* checkRoute(subject: Route, { mesh }: CheckContext<unknown>): Iterable<RouteReport> {
  if (!sendsToPools(subject)) return;
  const standing = standingOf(mesh, subject);
  // with the extension off nothing of it is true: the pool itself is reported
  if (standing === undefined || standing.extension === 'off') return;
  const { certain, because, evidence } = standing;
  const grounds = { because, certain };
  const service = subject.parents.find(({ kind }) => kind === 'Service' || kind === 'ServiceEntry.networking.istio.io');
  for (const [index, { backends, mirrors }] of subject.rules.entries()) {
    const path = pointer('spec', 'rules', index);
    // Istio drops backends of weight 0 before anything else
    const used = backends.filter(({ weight }) => weight !== 0);
    const pools = [...new Map(used.filter(isPool).map(pool => [refKey(pool), pool])).values()];
    const [first] = pools;
    const last = used.at(-1);
    if (first !== undefined && last !== undefined) {
      const keys = pools.map(refKey).sort().join(',');
      if (service !== undefined) {
        yield {
          finding: 'mesh-parent',
          key: keys,
          path: '/spec/parentRefs',
          effect: `requests to ${spoken(service)} go to ${spoken(first)} without asking its endpoint picker`,
          fix: "attach the route to a Gateway, or send to the model servers' own Service",
          evidence: [service, first, ...evidence],
          ...grounds,
        };
      } else if (subject.kind === GRPC_ROUTE) {
        yield {
          finding: 'no-picker-on-route',
          key: keys,
          path,
          effect: `Istio asks no endpoint picker on a GRPCRoute: ${spoken(first)} is only balanced`,
          fix: 'use an HTTPRoute for the pool',
          evidence: [first, ...evidence],
          ...grounds,
        };
      } else if (!isPool(last)) {
        yield {
          finding: 'no-picker-on-route',
          key: keys,
          path: `${path}/backendRefs`,
          effect: `the last backend of the rule is a ${last.kind.split('.')[0]}: the endpoint picker of ${spoken(first)} is not asked`,
          fix: 'list the pool last, or give each backend a rule of its own',
          evidence: [first, last, ...evidence],
          ...grounds,
        };
      } else if (pools.length > 1) {
        yield {
          finding: 'one-picker-per-rule',
          key: keys,
          path: `${path}/backendRefs`,
          effect: `one rule has ${pools.length} pools: the picker of ${spoken(last)} picks endpoints for them all`,
          fix: 'give each pool a rule of its own',
          evidence: [...pools.slice(0, 3), ...evidence],
          ...grounds,
        };
      }
    }
    for (const mirror of mirrors.filter(isPool)) {
      yield {
        finding: 'no-picker-on-route',
        key: `mirror ${refKey(mirror)}`,
        path: `${path}/filters`,
        effect: `Istio asks no endpoint picker for mirrored requests: ${spoken(mirror)} gets them at random`,
        fix: "mirror to the model servers' own Service, or leave the mirror out",
        evidence: [mirror, ...evidence],
        ...grounds,
      };
    }
  }
}

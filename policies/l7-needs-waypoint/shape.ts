// What a targetRef shows by itself, and the findings that name one.
import { type ObjectRef, ref, splitGroupKind, spoken } from '../../src/kube/kind.ts';
import type { TargetRef } from '../../src/mesh/kinds/security.ts';
import type { Found } from './findings.ts';

export const WAYPOINT_CLASS = 'istio-waypoint';

/** What makes findings about one target the same ones tomorrow. */
export function keyOf(target: ObjectRef): string {
  return `${target.kind} ${target.name}`;
}

export function cannotBind(
  target: TargetRef,
  index: number,
  effect: string,
  fix: string,
  rest: Partial<Found> = {},
): Found {
  return {
    finding: 'target-cannot-bind',
    key: keyOf(target),
    effect,
    fix,
    evidence: [],
    path: `/spec/targetRefs/${index}`,
    ...rest,
  };
}

/** What the object alone shows: the CRD and istiod's own webhook refuse most of it, with fewer words. */
export function malformed(target: TargetRef, index: number): Found | undefined {
  const { group, kind } = splitGroupKind(target.kind);
  if (target.namespaceWritten) {
    const effect =
      kind === 'Gateway'
        ? 'a Gateway of another namespace is never bound by targetRefs: this policy matches nothing'
        : 'a targetRef with a namespace is never bound: this policy matches nothing';
    const fix =
      kind === 'Gateway'
        ? 'target the Service, whose waypoint may stand elsewhere, or put the policy beside the Gateway'
        : 'remove namespace: targets stand in the namespace of the policy';
    return cannotBind(target, index, effect, fix, { path: `/spec/targetRefs/${index}/namespace` });
  }
  const right: Readonly<Record<string, string>> = {
    Service: '""',
    ServiceEntry: 'networking.istio.io',
    Gateway: 'gateway.networking.k8s.io',
    GatewayClass: 'gateway.networking.k8s.io',
  };
  const wanted = Object.hasOwn(right, kind) ? right[kind] : undefined;
  if (wanted === undefined) {
    return cannotBind(
      target,
      index,
      `no policy is ever bound to a ${kind}: this target matches nothing`,
      'target a Service, a ServiceEntry, a Gateway or GatewayClass istio-waypoint',
    );
  }
  if (group !== (wanted === '""' ? '' : wanted)) {
    return cannotBind(
      target,
      index,
      `group '${group}' has no ${kind} that a policy can be bound to: this target matches nothing`,
      `set group: ${wanted}`,
      { path: `/spec/targetRefs/${index}/group` },
    );
  }
  return undefined;
}

export function notFound(target: TargetRef, index: number): Found {
  return {
    finding: 'target-not-found',
    key: keyOf(target),
    effect: `${spoken(ref(target))} does not exist: nothing is enforced until it does`,
    fix: 'correct the name, or apply the target too',
    evidence: [ref(target)],
    path: `/spec/targetRefs/${index}/name`,
  };
}

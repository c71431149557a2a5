// AuthorizationPolicies that nobody enforces as they are written, where ambient mode is.
import * as z from 'zod';
import { definePolicy, PAUSE } from '../../src/engine/policy.ts';
import { GATEWAY, GATEWAY_CLASS, ROUTE_KINDS } from '../../src/mesh/kinds/gateways.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import { WORKLOAD_KINDS } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { controlPlanes, ownsRevision } from '../../src/mesh/releases.ts';
import { affected } from './affected.ts';
import { type Found, findings, type Id, type Search } from './findings.ts';
import { isDryRun, readersOf } from './owners.ts';
import { checkSelected } from './selected.ts';
import { checkTargets } from './targets.ts';

const REVISION = 'istio.io/rev';

/** The finding that no istiod reads the policy for its revision label; a tag is no revision (I§12). */
function ignored(mesh: Mesh, policy: AuthorizationPolicy): Found | undefined {
  const planes = mesh.fact(controlPlanes);
  if (planes.length === 0 || planes.some(plane => ownsRevision(plane, policy))) return undefined;
  const revision = policy.labels[REVISION] ?? '';
  const tagged = planes.find(plane => plane.tags.includes(revision));
  const revisions = [...new Set(planes.map(plane => plane.revision))];
  return {
    finding: 'ignored-by-revision',
    key: revision,
    about: REVISION,
    effect:
      tagged === undefined
        ? `no istiod here has revision '${revision}': all of them ignore this policy without a word`
        : `'${revision}' is a tag, which istiod does not look for here: this policy is ignored without a word`,
    fix: `remove the label ${REVISION}, or write a revision: ${revisions.slice(0, 3).join(', ')}`,
    evidence: planes.flatMap(({ deployment }) =>
      deployment === undefined
        ? []
        : [{ kind: deployment.kind, namespace: deployment.namespace, name: deployment.name }],
    ),
    certain: mesh.complete('Deployment.apps'),
    path: '/metadata/labels/istio.io~1rev',
  };
}

/** What only says what it would do refuses nothing, and lets nothing through. */
function* milder(found: Search): Search {
  for (const report of found) yield report === PAUSE ? PAUSE : { ...report, action: 'warn', lost: undefined };
}

export const l7NeedsWaypoint = definePolicy<Record<string, never>, Id>({
  id: 'l7-needs-waypoint',
  title: 'AuthorizationPolicies that ztunnel or no waypoint enforces as written',
  subjects: [AUTHORIZATION_POLICY],
  reads: [
    'Namespace',
    ...WORKLOAD_KINDS,
    'Service',
    'ServiceEntry.networking.istio.io',
    GATEWAY,
    GATEWAY_CLASS,
    ...ROUTE_KINDS,
    'VirtualService.networking.istio.io',
    'Gateway.networking.istio.io',
    'ConfigMap',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
  ],
  findings,
  options: z.strictObject({}),
  *check(subject, context) {
    const policy = subject as AuthorizationPolicy;
    const { mesh, stage } = context;
    const asMeant = (found: Search) => (isDryRun(policy) ? milder(found) : found);
    if (stage === 'mutate') {
      yield* asMeant(checkTargets(policy, readersOf(mesh, policy), context));
      return;
    }
    const unread = ignored(mesh, policy);
    if (unread !== undefined) {
      yield* asMeant([unread]);
      return;
    }
    const owners = readersOf(mesh, policy);
    // no istiod watches its namespace: what control-plane-settings says of it is enough
    if (!owners.any) return;
    const check = policy.targets.length > 0 ? checkTargets : checkSelected;
    yield* asMeant(check(policy, owners, context));
  },
  affected,
});

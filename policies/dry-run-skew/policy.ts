import * as z from 'zod';
import { type CheckContext, definePolicy, PAUSE, type Report } from '../../src/engine/policy.ts';
import { type ObjectRef, ref } from '../../src/kube/kind.ts';
import { NO_STRINGS } from '../../src/kube/labels.ts';
import { alters } from '../../src/mesh/changes.ts';
import { cniSettings, enforcerOf, enrolsByDefault } from '../../src/mesh/enrolment.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import { WORKLOAD_KINDS } from '../../src/mesh/kinds/workloads.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { ordinaryPod } from '../../src/mesh/ordinary.ts';
import { DRY_RUN_KEY } from '../../src/mesh/references.ts';
import {
  atLeast,
  type ControlPlane,
  controlPlanes,
  deploymentOf,
  flag,
  type NodeAgent,
  ownersOf,
  parseBool,
  rootNamespaces,
  servesAmbient,
  ztunnels,
} from '../../src/mesh/releases.ts';

const DRY_RUN = 'istio.io/dry-run';
const FLAG = 'AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY';
const SEEN = ['validate', 'files', 'audit'] as const;

type Finding = 'enforced-by-old-ztunnel' | 'no-effect' | 'not-a-boolean' | 'label-not-annotation' | 'version-unknown';

type Found = Iterable<Report<Finding> | typeof PAUSE>;

/** Whether ztunnel enforces a policy at some pod: where one is captured, or would be in a namespace that it covers. */
type Reach = { readonly at?: ObjectRef; readonly certain: boolean } | undefined;

function* reachOf(mesh: Mesh, policy: AuthorizationPolicy): Generator<typeof PAUSE, Reach> {
  const { selector, namespace } = policy;
  // `selector: {}` attaches to no pod in ambient mode (tried with istiod 1.30 and 1.31)
  if (selector !== undefined && selector.matchLabels === undefined) return undefined;
  const everywhere = mesh.fact(rootNamespaces).includes(namespace);
  let count = 0;
  let perhaps: Reach;
  if (selector === undefined) {
    // without a selector it is sent to every ztunnel, whether pods are there yet or not
    for (const { name } of everywhere ? mesh.list('Namespace') : [{ name: namespace }]) {
      count += 1;
      if (count % 50 === 0) yield PAUSE;
      if (enrolsByDefault(mesh, name) !== true) continue;
      const by = enforcerOf(mesh, ordinaryPod(name));
      if (by.by === 'ztunnel') return { at: { kind: 'Namespace', namespace: '', name }, certain: true };
      if (by.likely === 'ztunnel') perhaps ??= { at: { kind: 'Namespace', namespace: '', name }, certain: false };
    }
  }
  for (const found of mesh.workloads(selector?.matchLabels ?? NO_STRINGS, everywhere ? undefined : namespace)) {
    count += 1;
    if (count % 50 === 0) yield PAUSE;
    const { by, likely } = enforcerOf(mesh, found);
    if (by === 'ztunnel') return { at: ref(found), certain: true };
    if (likely === 'ztunnel') perhaps ??= { at: ref(found), certain: false };
  }
  return perhaps;
}

/** Whether a control plane sends dry-run policies to ztunnel: the flag exists from 1.29 on; 'unknown' where the release is. */
function sends(plane: ControlPlane): boolean | 'unknown' {
  if (!flag(plane, FLAG, false)) return false;
  return atLeast(plane.release, '1.29') ?? 'unknown';
}

function offBecause(planes: readonly ControlPlane[]): string {
  const old = planes.find(plane => atLeast(plane.release, '1.29') === false);
  return old?.release === undefined
    ? `${FLAG} is not "true" in istiod`
    : `istiod ${old.release.text} never sends dry-run policies to ztunnel`;
}

function* judgeDryRun(policy: AuthorizationPolicy, mesh: Mesh): Found {
  // targetRefs are for waypoints, which always honour dry-run; CUSTOM and AUDIT never reach ztunnel
  if (policy.targets.length > 0 || policy.action === 'CUSTOM' || policy.action === 'AUDIT') return;
  const planes = ownersOf(mesh, policy).filter(servesAmbient);
  if (planes.length === 0) return;
  const sending = planes.map(sends);
  const agents = mesh.fact(ztunnels);
  const old = agents.filter(agent => atLeast(agent.release, '1.29') === false);
  const unknown = agents.filter(agent => agent.release === undefined);
  const on = sending.some(sent => sent !== false);
  if (on && old.length === 0 && unknown.length === 0 && agents.length > 0) return;
  const reach = yield* reachOf(mesh, policy);
  if (reach === undefined) return;
  const evidence = [...(reach.at === undefined ? [] : [reach.at]), ...planes.flatMap(deploymentOf)];
  if (!on) {
    // where nobody knows whether ztunnel is there, nothing is lost yet
    if (!reach.certain) return;
    yield {
      finding: 'no-effect',
      key: 'ztunnel',
      effect: 'this dry run shows nothing: istiod does not send it to ztunnel, so nothing is logged',
      fix: planes.some(plane => atLeast(plane.release, '1.29') === false)
        ? `upgrade to 1.29 or later, every ztunnel too, then set ${FLAG}=true on istiod`
        : `set ${FLAG}=true on istiod, once every ztunnel is 1.29 or later`,
      evidence,
      because: offBecause(planes),
    };
    return;
  }
  const agentsOf = (found: readonly NodeAgent[]) => found.slice(0, 3).map(agent => ref(agent.workload));
  if (old.length > 0) {
    yield {
      finding: 'enforced-by-old-ztunnel',
      key: 'ztunnel',
      effect:
        policy.action === 'DENY'
          ? 'this dry run is no dry run: a ztunnel before 1.29 refuses what it denies'
          : 'this dry run is no dry run: a ztunnel before 1.29 refuses all that it does not allow',
      fix: `finish the rollout of ztunnel to 1.29 or later first, or set ${FLAG}=false on istiod`,
      evidence: [...agentsOf(old), ...evidence],
      because: `ztunnel ${old[0]?.release?.text ?? ''} does not know dry runs`,
      certain: reach.certain && sending.every(sent => sent === true),
    };
  } else if (unknown.length > 0 || !mesh.complete('DaemonSet.apps')) {
    yield {
      finding: 'version-unknown',
      key: 'ztunnel',
      effect: 'the release of ztunnel is not known: before 1.29 it would enforce this dry run',
      fix: 'check with istioctl version that every ztunnel is 1.29 or later; tag its image with its release',
      evidence: [...agentsOf(unknown), ...evidence],
      certain: false,
    };
  }
}

function* check(policy: AuthorizationPolicy, { mesh }: CheckContext<unknown>): Found {
  const written = policy.annotations[DRY_RUN];
  if (written === undefined) {
    const label = policy.labels[DRY_RUN];
    if (label === undefined || parseBool(label) === false) return;
    yield {
      finding: 'label-not-annotation',
      key: DRY_RUN,
      effect: `${DRY_RUN} is a label here and read as an annotation only: this policy is enforced, it is no dry run`,
      fix: `write ${DRY_RUN}: "true" under metadata.annotations, and remove the label`,
      evidence: [],
      path: '/metadata/labels',
    };
    return;
  }
  const dryRun = parseBool(written);
  if (dryRun === undefined) {
    yield {
      finding: 'not-a-boolean',
      key: DRY_RUN,
      effect: `${DRY_RUN}: "${written}" is no boolean: istiod refuses the policy, or enforces it where its webhook is not asked`,
      fix: `write ${DRY_RUN}: "true"`,
      evidence: [],
      path: '/metadata/annotations',
    };
  } else if (dryRun) yield* judgeDryRun(policy, mesh);
}

const WORKLOADS: readonly string[] = WORKLOAD_KINDS;

function* affected(change: Change, { before, after }: { before: Mesh; after: Mesh }): Iterable<ObjectRef> {
  const { kind, name } = change.ref;
  const parts =
    alters({ before, after }, controlPlanes, ztunnels, cniSettings) ||
    kind === 'MutatingWebhookConfiguration.admissionregistration.k8s.io' ||
    kind === 'GatewayClass.gateway.networking.k8s.io' ||
    (kind === 'ConfigMap' && name.startsWith('istio'));
  const namespace = kind === 'Namespace' ? name : change.ref.namespace;
  const local = kind === 'Namespace' || kind === 'Gateway.gateway.networking.k8s.io' || WORKLOADS.includes(kind);
  if (!parts && !local) return;
  const roots = after.fact(rootNamespaces);
  for (const policy of after.referring(DRY_RUN_KEY, AUTHORIZATION_POLICY)) {
    if (parts || policy.namespace === namespace || roots.includes(policy.namespace)) yield ref(policy);
  }
}

export const dryRunSkew = definePolicy({
  id: 'dry-run-skew',
  title: 'AuthorizationPolicies meant as a dry run that are enforced, or that show nothing',
  subjects: [AUTHORIZATION_POLICY],
  reads: [
    AUTHORIZATION_POLICY,
    'Namespace',
    'ConfigMap',
    'Gateway.gateway.networking.k8s.io',
    'GatewayClass.gateway.networking.k8s.io',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
    ...WORKLOAD_KINDS,
  ],
  findings: {
    'enforced-by-old-ztunnel': {
      action: 'deny',
      since: '1.29',
      seen: SEEN,
      doc: 'istiod sends dry runs to ztunnel, and a ztunnel before 1.29 enforces them',
    },
    'no-effect': {
      action: 'warn',
      seen: SEEN,
      doc: 'istiod does not send the dry run to ztunnel: nothing is logged',
    },
    'not-a-boolean': {
      action: 'deny',
      seen: SEEN,
      doc: 'a value of istio.io/dry-run that is no boolean: refused, or enforced',
      objectAlone: true,
    },
    'label-not-annotation': {
      action: 'deny',
      seen: SEEN,
      doc: 'istio.io/dry-run as a label: the policy is enforced',
      objectAlone: true,
    },
    'version-unknown': {
      action: 'warn',
      since: '1.29',
      seen: SEEN,
      doc: 'istiod sends dry runs to a ztunnel whose release is not known',
    },
  },
  options: z.strictObject({}),
  *check(subject: Meta, context): Found {
    if (isOf(subject, AUTHORIZATION_POLICY)) yield* check(subject, context);
  },
  affected,
});

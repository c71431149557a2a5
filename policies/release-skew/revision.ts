// Objects that name a revision of Istio which nobody here is.

import type { CheckContext, Report } from '../../src/engine/policy.ts';
import type { GroupKind } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { DATAPLANE_MODE, enrolsByDefault, judgedByOwner } from '../../src/mesh/enrolment.ts';
import { injectionOf } from '../../src/mesh/injection.ts';
import { GATEWAY, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { templatePath, WORKLOADS, type Workload, workload } from '../../src/mesh/kinds/workloads.ts';
import { ISTIO_CONFIG_KINDS } from '../../src/mesh/kinds.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { type ControlPlane, controlPlanes } from '../../src/mesh/releases.ts';

export const REVISION = 'istio.io/rev';

/** Kinds whose rules silently do not hold when istiod ignores them: refused. AuthorizationPolicy is l7-needs-waypoint's. */
export const STRICT_KINDS: ReadonlySet<GroupKind> = new Set([
  'RequestAuthentication.security.istio.io',
  'PeerAuthentication.security.istio.io',
  'BackendTLSPolicy.gateway.networking.k8s.io',
]);

/** Other kinds that istiod filters by revision (pilot/pkg/config/kube/crdclient; tried with 1.30 and 1.31). */
export const FILTERED_KINDS = [
  ...ISTIO_CONFIG_KINDS,
  'HTTPRoute.gateway.networking.k8s.io',
  'GRPCRoute.gateway.networking.k8s.io',
  'TCPRoute.gateway.networking.k8s.io',
  'TLSRoute.gateway.networking.k8s.io',
] as const;

function known(planes: readonly ControlPlane[]): string {
  const revisions = [...new Set(planes.map(({ revision }) => revision))];
  return revisions.length > 3 ? `${revisions.slice(0, 3).join(', ')} and others` : revisions.join(', ');
}

interface Unknown {
  readonly effect: string;
  readonly fix: string;
  readonly path: string;
}

function report(
  subject: Meta,
  { effect, fix, path }: Unknown,
  mesh: Mesh,
  planes: readonly ControlPlane[],
): Report<'revision-unknown'> {
  return {
    finding: 'revision-unknown',
    key: 'revision',
    effect,
    fix,
    evidence: [],
    because: `revisions here: ${known(planes)}`,
    action: STRICT_KINDS.has(subject.kind) ? 'deny' : 'warn',
    // another istiod may be there that is not seen
    certain: planes.every(({ seen }) => !seen) || mesh.complete('Deployment.apps'),
    path,
  };
}

/** Whether the pods of a workload, or of a namespace, get no proxy by the revision that they name. */
function* onInjection(
  subject: Meta,
  pods: Workload,
  revision: string,
  path: string,
  mesh: Mesh,
  planes: readonly ControlPlane[],
): Iterable<Report<'revision-unknown'>> {
  if (planes.some(plane => plane.revision === revision || plane.tags.includes(revision))) return;
  const injection = injectionOf(mesh, pods);
  if (injection.state !== 'none') return;
  yield report(
    subject,
    {
      effect: `${REVISION}: ${revision} is neither a revision nor a tag here: no injector sees the pods, they get no proxy`,
      fix: `name a revision or a tag that is there, or remove the label`,
      path,
    },
    mesh,
    planes,
  );
}

export function* onRevision(subject: Meta, { mesh }: CheckContext<unknown>): Iterable<Report<'revision-unknown'>> {
  const isWorkload = WORKLOADS.has(subject.kind);
  const revision = isWorkload ? (subject as Workload).template.labels[REVISION] : subject.labels[REVISION];
  if (revision === undefined) return;
  const planes = mesh.fact(controlPlanes);
  if (planes.length === 0) return;
  const path = pointer('metadata', 'labels', REVISION);
  if (subject.kind === 'Namespace') {
    // in ambient the label is harmless: waypoints and ztunnel do not go by it
    if (subject.labels[DATAPLANE_MODE] !== undefined || subject.labels['istio-injection'] !== undefined) return;
    yield* onInjection(subject, workload('Pod', subject.name, { spec: {} }), revision, path, mesh, planes);
    return;
  }
  if (isWorkload) {
    const one = subject as Workload;
    // a pod that is stored, and one that somebody makes, has the label from its maker
    if (one.component !== undefined || one.template.annotations['sidecar.istio.io/status'] !== undefined) return;
    if (one.template.labels['sidecar.istio.io/inject'] === 'false' || one.template.hostNetwork) return;
    if (enrolsByDefault(mesh, one.namespace) !== false || judgedByOwner(mesh, one)) return;
    // the namespace's own label goes before the pod's in the injector's webhooks
    const namespace = mesh.get('Namespace', '', one.namespace)?.labels;
    if (namespace === undefined || namespace['istio-injection'] !== undefined || namespace[REVISION] !== undefined)
      return;
    yield* onInjection(
      subject,
      one,
      revision,
      pointer(...templatePath(one.kind), 'metadata', 'labels', REVISION),
      mesh,
      planes,
    );
    return;
  }
  if (planes.some(plane => plane.revision === revision)) return;
  const tagged = planes.find(plane => plane.tags.includes(revision));
  if (subject.kind === GATEWAY) {
    const as = managedAs(mesh, (subject as Gateway).className);
    if (tagged !== undefined || as === 'none' || as === 'unknown') return;
    const effect = `${REVISION}: ${revision} is no revision of an istiod here: the Gateway waits for a controller for ever`;
    yield report(
      subject,
      { effect, fix: 'name a revision or tag that is there, or remove the label', path },
      mesh,
      planes,
    );
    return;
  }
  const what =
    tagged === undefined
      ? 'is no revision of an istiod here'
      : 'is a tag, which counts on Namespaces, pods and Gateways only';
  const fix =
    tagged === undefined
      ? 'remove the label, or name a revision that is there'
      : `name the revision ${tagged.revision}, or remove the label`;
  yield report(
    subject,
    { effect: `${REVISION}: ${revision} ${what}: it is ignored without a status`, fix, path },
    mesh,
    planes,
  );
}

/** What `revision-unknown` rests on, as a text that is equal where nothing of it has changed. */
export function revisions(mesh: Mesh): string {
  return mesh
    .fact(controlPlanes)
    .map(({ revision, tags, seen }) => `${revision}:${[...tags].sort().join(',')}:${seen}`)
    .sort()
    .join(' ');
}

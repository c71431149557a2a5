// What istiod does not see at all: kinds that it is told to ignore, namespaces that its discovery selectors leave out.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { type GroupKind, type ObjectRef, ref, refKey, splitGroupKind } from '../../src/kube/kind.ts';
import { selects } from '../../src/kube/labels.ts';
import { pointer } from '../../src/kube/patch.ts';
import { DATAPLANE_MODE } from '../../src/mesh/enrolment.ts';
import { GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { Attachment } from '../../src/mesh/kinds/security.ts';
import { templatePath, type Workload } from '../../src/mesh/kinds/workloads.ts';
import { ISTIO_CONFIG_KINDS, isKind, KINDS, type Kind } from '../../src/mesh/kinds.ts';
import type { Fact, Mesh } from '../../src/mesh/mesh.ts';
import {
  atLeast,
  type ControlPlane,
  controlPlanes,
  deploymentOf,
  discovers,
  istioReleases,
  meshConfigName,
  ownersOf,
  ownsRevision,
  planeOf,
} from '../../src/mesh/releases.ts';
import type { Part } from './places.ts';

export type ReachId = 'resources-ignored' | 'outside-discovery';

export const SECURITY_KINDS = [
  'AuthorizationPolicy.security.istio.io',
  'PeerAuthentication.security.istio.io',
  'RequestAuthentication.security.istio.io',
] as const satisfies readonly Kind[];

/** Other kinds that istiod reads from the namespaces that it watches. */
export const CONFIG_KINDS = [
  ...ISTIO_CONFIG_KINDS,
  'BackendTLSPolicy.gateway.networking.k8s.io',
  'HTTPRoute.gateway.networking.k8s.io',
  'GRPCRoute.gateway.networking.k8s.io',
  'TCPRoute.gateway.networking.k8s.io',
  'TLSRoute.gateway.networking.k8s.io',
  GATEWAY,
] as const satisfies readonly Kind[];

const SECURITY: ReadonlySet<GroupKind> = new Set(SECURITY_KINDS);
const CONFIG: ReadonlySet<GroupKind> = new Set([...SECURITY_KINDS, ...CONFIG_KINDS]);
const IGNORE = 'PILOT_IGNORE_RESOURCES';
const INCLUDE = 'PILOT_INCLUDE_RESOURCES';

const items = (value: string | undefined) => (value ?? '').split(',').map(item => item.trim());

/** How one item of the lists selects CRDs by name: `*.` makes a suffix of what follows, without regard to dots (crdwatcher.go). */
function hits(item: string, crd: string): boolean {
  return item.startsWith('*.') ? crd.endsWith(item.slice(2)) : crd === item;
}

/** Whether a control plane ignores a CRD; false before 1.29, where nothing reads the variables. */
function ignores({ env, release }: Pick<ControlPlane, 'env' | 'release'>, crd: string): boolean | 'unknown' {
  const value = env[IGNORE];
  if (value === undefined || value === '') return false;
  const read = atLeast(release, '1.29');
  if (read === false) return false;
  const out = items(value).some(item => hits(item, crd)) && !items(env[INCLUDE]).some(item => hits(item, crd));
  return out && read === undefined ? 'unknown' : out;
}

function crdOf(kind: Kind): string {
  return `${KINDS[kind].plural}.${splitGroupKind(kind).group}`;
}

/** Whether there is a control plane that leaves anything out: kinds that it is told to ignore, namespaces that it does not watch. */
const leavesOut: Fact<{ readonly kinds: boolean; readonly namespaces: boolean }> = {
  name: 'leavesOut',
  compute(mesh) {
    const planes = mesh.fact(controlPlanes);
    return {
      kinds: planes.some(plane => (plane.env[IGNORE] ?? '') !== ''),
      namespaces: planes.some(plane => plane.discoverySelectors !== undefined),
    };
  },
};

/** CRDs that istiod may be told to ignore, with their kinds. */
const CRDS: readonly { readonly kind: Kind; readonly crd: string }[] = [...CONFIG].flatMap(kind =>
  isKind(kind) ? [{ kind, crd: crdOf(kind) }] : [],
);

/** Whether an object, or the pods that it makes, names a waypoint. */
export function namesWaypoint(object: Meta): boolean {
  const label = 'istio.io/use-waypoint';
  return object.labels[label] !== undefined || (object as Partial<Workload>).template?.labels[label] !== undefined;
}

function isUsed(mesh: Mesh, kind: Kind): ObjectRef | undefined {
  for (const object of mesh.list(kind)) {
    if (kind !== GATEWAY) return ref(object);
    for (const user of mesh.referring(refKey(object))) if (namesWaypoint(user)) return ref(object);
  }
  return undefined;
}

/** What it means that istiod does not see a kind which waypoints or security rest on. */
function ignoring(kind: Kind): string {
  const name = splitGroupKind(kind).kind;
  return `istiod ignores every ${name}${kind === GATEWAY ? ': no waypoint is bound' : ', so that none is enforced'}`;
}

/** An item that selects no CRD: a kind, `group/Kind`, `*` alone. */
const selectsNothing = (item: string) =>
  item !== '' && !item.startsWith('*.') && !/^[a-z0-9]+\.[a-z0-9.-]+$/.test(item);

export function* onIstiod(istiod: Workload, { mesh }: CheckContext<unknown>): Iterable<Report<ReachId>> {
  const plane = planeOf(mesh, istiod);
  if (plane === undefined || (plane.env[IGNORE] ?? plane.env[INCLUDE] ?? '') === '') return;
  const path = pointer(...templatePath(istiod.kind), 'spec', 'containers');
  if ((plane.env[IGNORE] ?? '') === '') {
    yield {
      finding: 'resources-ignored',
      key: INCLUDE,
      effect: `${INCLUDE} alone does nothing: it only rescues what ${IGNORE} hits`,
      fix: `set ${IGNORE} too, or remove ${INCLUDE}`,
      evidence: [],
      path,
    };
    return;
  }
  for (const item of new Set([...items(plane.env[IGNORE]), ...items(plane.env[INCLUDE])])) {
    if (!selectsNothing(item)) continue;
    yield {
      finding: 'resources-ignored',
      key: `item ${item}`,
      effect: `"${item}" in ${IGNORE} or ${INCLUDE} names no CRD: it selects nothing`,
      fix: 'write the name of a CRD, such as wasmplugins.extensions.istio.io, or a suffix after *.',
      evidence: [],
      path,
    };
  }
  // where another istiod reads a kind, this one is told to leave it to that
  const planes = mesh.fact(controlPlanes);
  const ignored = CRDS.filter(({ crd }) => planes.every(one => ignores(one, crd) !== false));
  for (const { kind, crd } of ignored) {
    const matters = SECURITY.has(kind) || kind === GATEWAY;
    const used = matters ? isUsed(mesh, kind) : undefined;
    if (!matters && ignored.some(other => SECURITY.has(other.kind))) continue;
    yield {
      finding: 'resources-ignored',
      key: crd,
      effect: matters ? ignoring(kind) : `istiod ignores every ${splitGroupKind(kind).kind}`,
      fix: `take ${crd} out of ${IGNORE}`,
      evidence: used === undefined ? [] : [used],
      action: used === undefined ? 'warn' : 'deny',
      certain: ignores(plane, crd) === true,
      path,
    };
  }
}

/** The same in values of the chart, which no istiod has yet: where several are here, nobody knows which one they are for. */
export function* onIgnoringValues({ chart, release, env }: Part, mesh: Mesh): Iterable<Report<ReachId>> {
  const planes = mesh.fact(controlPlanes);
  const set = env.find(({ name }) => name === IGNORE);
  if (chart !== 'istiod' || set === undefined || planes.length > 1) return;
  const installed = release ?? mesh.fact(istioReleases)[0];
  if (installed === undefined) return;
  const lists = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  for (const { kind, crd } of CRDS) {
    if (!SECURITY.has(kind) && kind !== GATEWAY) continue;
    if (ignores({ env: lists, release: installed }, crd) !== true) continue;
    yield {
      finding: 'resources-ignored',
      key: crd,
      effect: ignoring(kind),
      fix: `take ${crd} out of ${IGNORE}`,
      evidence: [],
      path: set.path,
    };
  }
}

/** A security object of a kind that the control planes are told to ignore, or for targets while they ignore Gateways: only waypoints and gateways enforce it. */
export function* onIgnored(subject: Meta, { mesh }: CheckContext<unknown>): Iterable<Report<ReachId>> {
  if (!SECURITY.has(subject.kind) || !isKind(subject.kind)) return;
  if (!mesh.fact(leavesOut).kinds) return;
  const owners = ownersOf(mesh, subject);
  const targeted = ((subject as Partial<Attachment>).targets ?? []).length > 0;
  for (const kind of targeted ? [subject.kind, GATEWAY as Kind] : [subject.kind]) {
    const crd = crdOf(kind);
    const ignoring = owners.filter(plane => ignores(plane, crd) !== false);
    const [first] = ignoring;
    // where another istiod reads it, that one enforces it: an istiod that runs gateways alone is told to ignore the rest
    if (first === undefined || ignoring.length < owners.length) continue;
    yield {
      finding: 'resources-ignored',
      key: crd,
      effect:
        kind === GATEWAY
          ? 'istiod is told to ignore every Gateway: no waypoint is bound, and what this is for is enforced nowhere'
          : `istiod is told to ignore every ${splitGroupKind(kind).kind}: this one is not enforced`,
      fix: `take ${crd} out of ${IGNORE}`,
      evidence: deploymentOf(first),
      because: `${IGNORE}=${first.env[IGNORE]}`,
      action: 'deny',
      certain: owners.every(plane => ignores(plane, crd) === true),
    };
    return;
  }
}

const MESH_LABELS = [DATAPLANE_MODE, 'istio-injection', 'istio.io/rev', 'istio.io/use-waypoint'] as const;

/** How a namespace asks to be in the mesh, as label and value; undefined where it does not. */
export function asksForMesh(labels: Meta['labels']): string | undefined {
  const label = MESH_LABELS.find(key => {
    const value = labels[key];
    return value !== undefined && value !== 'none' && value !== 'disabled' && value !== '';
  });
  return label === undefined ? undefined : `${label}: ${labels[label]}`;
}

/** Whether a control plane leaves out its own root namespace: its selectors hold there too, as for policies, which nobody misses (I§13). */
function leavesOutRoot(mesh: Mesh, { discoverySelectors, rootNamespace }: ControlPlane): boolean {
  const found = mesh.get('Namespace', '', rootNamespace);
  if (discoverySelectors === undefined || found === undefined) return false;
  return !discoverySelectors.some(selector => selects(selector, found.labels));
}

export function* onDiscovery(subject: Meta, { mesh }: CheckContext<unknown>): Iterable<Report<ReachId>> {
  const isNamespace = subject.kind === 'Namespace';
  if ((!isNamespace && !CONFIG.has(subject.kind)) || !mesh.fact(leavesOut).namespaces) return;
  const name = isNamespace ? subject.name : subject.namespace;
  const namespace = mesh.get('Namespace', '', name);
  const asked = namespace === undefined ? undefined : asksForMesh(namespace.labels);
  const secures = SECURITY.has(subject.kind);
  const planes = mesh.fact(controlPlanes).filter(plane => isNamespace || ownsRevision(plane, subject));
  const [first] = planes;
  // what stands in a root namespace is for the whole mesh, whatever the namespace asks for itself
  const isRoot = secures && planes.some(plane => plane.rootNamespace === name);
  if (first === undefined || (asked === undefined && !isRoot)) return;
  const misses = (plane: ControlPlane) =>
    secures && plane.rootNamespace === name ? leavesOutRoot(mesh, plane) : discovers(mesh, plane, name) === false;
  if (!planes.every(misses)) return;
  const { kind } = splitGroupKind(subject.kind);
  yield {
    finding: 'outside-discovery',
    key: 'discoverySelectors',
    effect: isNamespace
      ? `it asks to be in the mesh (${asked}) and no istiod watches it: its pods and policies are unknown to the mesh`
      : `no istiod watches ${isRoot ? 'root ' : ''}namespace ${name}: this ${kind} is ignored without a status`,
    fix: `label the namespace as discoverySelectors of MeshConfig ask, or add a selector for it`,
    evidence: [
      ...(isNamespace ? [] : [{ kind: 'Namespace', namespace: '', name }]),
      {
        kind: 'ConfigMap',
        namespace: first.namespace,
        name: meshConfigName(first.revision),
      },
    ],
    ...(asked === undefined ? {} : { because: asked }),
    action: secures ? 'deny' : 'warn',
  };
}

/** The root namespaces whose policies may be outside of what is watched, before a change or after it. */
export function rootsInQuestion(...meshes: readonly Mesh[]): ReadonlySet<string> {
  return new Set(
    meshes
      .flatMap(mesh => (mesh.fact(leavesOut).namespaces ? mesh.fact(controlPlanes) : []))
      .map(({ rootNamespace }) => rootNamespace),
  );
}

/** Namespaces that ask to be in the mesh and are watched in one Mesh and not in the other. */
export function watchedElsewhere(before: Mesh, after: Mesh, namespace: Meta): boolean {
  const watched = (mesh: Mesh) =>
    mesh
      .fact(controlPlanes)
      .map(plane => String(discovers(mesh, plane, namespace.name)))
      .join();
  return asksForMesh(namespace.labels) !== undefined && watched(before) !== watched(after);
}

/** Whether who owns an object, by the labels of its namespace, decides about what is ignored, in one of the Meshes. */
export function ownersMatter(...meshes: readonly Mesh[]): boolean {
  return meshes.some(mesh => {
    const { kinds, namespaces } = mesh.fact(leavesOut);
    return kinds && namespaces;
  });
}

/** What `resources-ignored` rests on: equal where nothing of it has changed. */
export function reachOf(mesh: Mesh): string {
  if (!mesh.fact(leavesOut).kinds) return '';
  return mesh
    .fact(controlPlanes)
    .map(({ env, release, revision, discoverySelectors, rootNamespace }) =>
      [revision, release?.text, env[IGNORE], env[INCLUDE], JSON.stringify(discoverySelectors), rootNamespace].join(
        '\n',
      ),
    )
    .join('\n\n');
}

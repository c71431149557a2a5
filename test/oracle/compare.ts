// What the model says of a mesh against what istiod did with it. A difference is a defect of ours, or a deviation that
// docs/oracle.md explains.

import { policies } from '../../policies/index.ts';
import type { Policy } from '../../src/engine/policy.ts';
import { PAUSE } from '../../src/engine/policy.ts';
import { at, record, records, text } from '../../src/kube/json.ts';
import { type ObjectRef, refKey } from '../../src/kube/kind.ts';
import { enforcerOf } from '../../src/mesh/enrolment.ts';
import { injectionOf, nativeOf } from '../../src/mesh/injection.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { identify, isOf } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { speaksHbone, waypointOf } from '../../src/mesh/waypoints.ts';
import type { Manifest } from '../harness/objects.ts';
import { conditionOf, type Observation, proxyIn, waypointIn } from './observe.ts';

export interface Difference {
  /** The object, and the question: `Service m1-a/web: waypoint`. */
  readonly about: string;
  readonly model: string;
  readonly istio: string;
}

/** The findings of one policy on one object, by id. */
export function findingsOn(mesh: Mesh, id: string, ref: ObjectRef): ReadonlySet<string> {
  const policy: Policy | undefined = policies.find(one => one.id === id);
  const subject = mesh.object(ref);
  if (policy === undefined || subject === undefined) throw new Error(`no policy ${id} or no object ${refKey(ref)}`);
  const found = new Set<string>();
  for (const report of policy.check(subject, {
    mesh,
    options: policy.options.parse({}),
    stage: 'audit',
    skipped: () => {},
  })) {
    if (report !== PAUSE) found.add(report.finding);
  }
  return found;
}

type Compare = (
  mesh: Mesh,
  object: Manifest,
  ref: ObjectRef,
  seen: Observation,
) => Iterable<readonly [string, string, string]>;

function* pod(mesh: Mesh, object: Manifest, ref: ObjectRef, seen: Observation): ReturnType<Compare> {
  const workload = mesh.object(ref) as Workload;
  const stored = seen.stored.get(`Pod/${ref.namespace}/${ref.name}`);
  const injection = injectionOf(mesh, workload);
  const native = injection.controlPlanes.map(plane => nativeOf(mesh, workload, plane));
  const said =
    injection.state !== 'sidecar'
      ? 'none'
      : native.every(one => one === true)
        ? 'native'
        : native.every(one => one === false)
          ? 'classic'
          : 'either';
  // a container of that name that the user brought is no proxy unless the injector takes it for one
  if (stored !== undefined && said !== 'either') yield ['proxy', said, proxyIn(stored)];
  const entry = seen.workloads.get(`${ref.namespace}/${ref.name}`);
  if (entry === undefined || object.metadata.labels?.['istio.io/rev'] === 'elsewhere') return;
  const { by } = enforcerOf(mesh, workload);
  const captured = text(at(entry, 'tunnelProtocol')) === 'HBONE' && at(entry, 'nativeTunnel') !== true;
  if (by !== 'unknown') yield ['captured', String(by === 'ztunnel'), String(captured)];
  const binding = waypointOf(mesh, workload, 'workload');
  yield [
    'waypoint',
    binding.state === 'bound' ? `${binding.waypoint?.namespace}/${binding.waypoint?.name}` : 'none',
    waypointIn(entry) ?? 'none',
  ];
}

function* bound(mesh: Mesh, ref: ObjectRef, stored: unknown, entry: unknown): ReturnType<Compare> {
  const object = mesh.object(ref);
  if (object === undefined) return;
  const binding = waypointOf(mesh, object, 'service');
  const said = binding.state === 'bound' ? `${binding.waypoint?.namespace}/${binding.waypoint?.name}` : 'none';
  if (entry !== undefined) yield ['waypoint', said, waypointIn(entry) ?? 'none'];
  const condition = conditionOf(stored, 'istio.io/WaypointBound');
  const reason = binding.state === 'bound' ? 'True' : (binding.reason ?? 'no condition');
  yield [
    'reason',
    reason,
    condition === undefined ? 'no condition' : condition.status === 'True' ? 'True' : condition.reason,
  ];
}

function* service(mesh: Mesh, _object: Manifest, ref: ObjectRef, seen: Observation): ReturnType<Compare> {
  const entry = seen.services.get(`${ref.namespace}/${ref.name}.${ref.namespace}.svc.cluster.local`);
  yield* bound(mesh, ref, seen.stored.get(`Service/${ref.namespace}/${ref.name}`), entry);
}

function* serviceEntry(mesh: Mesh, object: Manifest, ref: ObjectRef, seen: Observation): ReturnType<Compare> {
  const [host] = (at(object, 'spec', 'hosts') as string[] | undefined) ?? [];
  yield* bound(
    mesh,
    ref,
    seen.stored.get(`ServiceEntry/${ref.namespace}/${ref.name}`),
    seen.services.get(`${ref.namespace}/${host}`),
  );
}

/** Attributes in one clause of ztunnel's rule, or of a rule as written. */
function count(value: unknown): number {
  return Object.values(record(value) ?? {}).filter(entry => Array.isArray(entry) && entry.length > 0).length;
}

/** True where ztunnel can never match a group: some clause consists of empty matches only (ztunnel src/rbac.rs). */
function inert(group: unknown): boolean {
  return records(at(group, 'rules')).some(clause => {
    const matches = records(at(clause, 'matches'));
    return matches.length > 0 && matches.every(match => count(match) === 0);
  });
}

/** The clauses of a rule as written, each with the attributes of its alternatives, in the order in which istiod sends them. */
function writtenClauses(rule: unknown): readonly (readonly number[])[] {
  const alternatives = (key: string, inner: string) => records(at(rule, key)).map(entry => count(at(entry, inner)));
  const conditions = records(at(rule, 'when')).map(entry => [
    count({ values: entry['values'], notValues: entry['notValues'] }),
  ]);
  return [alternatives('to', 'operation'), alternatives('from', 'source'), ...conditions].filter(
    clause => clause.length > 0,
  );
}

/** What a group that is not inert has lost: alternatives that are gone, and attributes of those that stayed. */
function lost(group: unknown, rule: unknown): { readonly alternatives: boolean; readonly attributes: boolean } {
  const clauses = records(at(group, 'rules')).map(clause => records(at(clause, 'matches')).map(count));
  const written = writtenClauses(rule);
  let alternatives = false;
  let attributes = false;
  for (const [index, clause] of clauses.entries()) {
    for (const [position, kept] of clause.entries()) {
      const before = written[index]?.[position] ?? 0;
      if (kept === 0 && before > 0) alternatives = true;
      else if (kept < before) attributes = true;
    }
  }
  return { alternatives, attributes };
}

/** What becomes of a policy without targets in ztunnel, as the ids that our findings have. */
function ztunnelSays(policy: AuthorizationPolicy, object: Manifest, seen: Observation): string {
  const key = `${policy.namespace}/${policy.name}`;
  const received = seen.policies.get(key);
  const selects = (workload: unknown) =>
    Object.entries(policy.selector?.matchLabels ?? {}).every(([label, value]) => {
      const stored = seen.stored.get(`Pod/${text(at(workload, 'namespace'))}/${text(at(workload, 'name'))}`);
      return stored?.metadata.labels?.[label] === value;
    });
  const captured = [...seen.workloads.values()].filter(
    workload =>
      at(workload, 'namespace') === policy.namespace &&
      text(at(workload, 'tunnelProtocol')) === 'HBONE' &&
      at(workload, 'nativeTunnel') !== true &&
      selects(workload),
  );
  if (captured.length === 0) return 'nobody';
  if (received === undefined) return 'not sent';
  const scope = text(at(received, 'scope')) ?? 'GLOBAL';
  const listed = captured.some(workload =>
    (at(workload, 'authorizationPolicies') as string[] | undefined)?.includes(key),
  );
  if (scope === 'WORKLOAD_SELECTOR' && !listed) return 'attached to nothing';
  const rules = records(at(object, 'spec', 'rules'));
  const groups = records(at(received, 'groups'));
  const denies = text(at(received, 'action')) === 'DENY';
  const said = new Set<string>();
  if (!denies && groups.length < rules.length) said.add('allow-rule-dropped');
  if (denies) {
    for (const [index, group] of groups.entries()) {
      if (inert(group)) {
        said.add('deny-rule-never-matches');
        continue;
      }
      const { alternatives, attributes } = lost(group, rules[index]);
      // an alternative that is gone never matches either; what stays of others matches more
      if (alternatives) said.add('deny-rule-never-matches');
      if (attributes) said.add('deny-rule-too-broad');
    }
  }
  return said.size === 0 ? 'as written' : [...said].sort().join(' ');
}

const READINGS = ['allow-rule-dropped', 'deny-rule-never-matches', 'deny-rule-too-broad'];

function* authorizationPolicy(mesh: Mesh, object: Manifest, ref: ObjectRef, seen: Observation): ReturnType<Compare> {
  const policy = mesh.object(ref);
  if (policy === undefined || !isOf(policy, AUTHORIZATION_POLICY)) return;
  const found = findingsOn(mesh, 'l7-needs-waypoint', ref);
  const stored = seen.stored.get(`AuthorizationPolicy/${ref.namespace}/${ref.name}`);
  const dryRun = policy.annotations['istio.io/dry-run'] === 'true';
  const revision = policy.labels['istio.io/rev'];
  if (policy.targets.length === 0) {
    if (dryRun) return; // another policy's
    const said = ztunnelSays(policy, object, seen);
    // nothing to say of pods that are nobody's
    if (said === 'nobody') {
      const claims = [...found].filter(
        id => READINGS.includes(id) || id === 'action-not-enforced' || id === 'empty-selector',
      );
      yield ['in ztunnel', claims.length === 0 ? 'nobody' : claims.join(' '), 'nobody'];
      return;
    }
    const model =
      found.has('ignored-by-revision') || found.has('action-not-enforced')
        ? 'not sent'
        : found.has('empty-selector')
          ? 'attached to nothing'
          : [...found]
              .filter(id => READINGS.includes(id))
              .sort()
              .join(' ') || 'as written';
    yield ['in ztunnel', model, said];
    return;
  }
  if (dryRun || revision === 'elsewhere') return; // its status is known to prove nothing (I§3, I§12)
  const condition = conditionOf(stored, 'WaypointAccepted');
  const reason = condition?.reason ?? 'no condition';
  const unbound = ['target-without-waypoint', 'waypoint-pending'].some(id => found.has(id));
  const model = found.has('target-not-found') ? 'TargetNotFound' : unbound ? 'AncestorNotBound' : 'Accepted';
  // a status that says bound of what can never be enforced is the very thing that these findings are about, a Gateway that
  // ztunnel cannot reach among them (I§12)
  const unreachable = policy.targets.some(target => {
    const destination =
      target.kind === 'Service'
        ? mesh.get('Service', target.namespace, target.name)
        : mesh.get('ServiceEntry.networking.istio.io', target.namespace, target.name);
    const binding = destination === undefined ? undefined : waypointOf(mesh, destination, 'service');
    return binding?.state === 'bound' && binding.gateway !== undefined && !speaksHbone(mesh, binding.gateway);
  });
  const beyondStatus = ['target-cannot-bind', 'target-without-address', 'waypoint-identity-refused'].some(id =>
    found.has(id),
  );
  if (!beyondStatus && !unreachable) yield ['WaypointAccepted', model, reason];
}

function* route(mesh: Mesh, object: Manifest, ref: ObjectRef, seen: Observation): ReturnType<Compare> {
  const found = findingsOn(mesh, 'route-needs-waypoint', ref);
  const stored = seen.stored.get(`${object.kind}/${ref.namespace}/${ref.name}`);
  // conditions of Gateway API kinds are written by the control plane of the object's revision, which without a label of its own is its
  // namespace's (pkg/revisions/tag_watcher.go IsMine)
  if ((mesh.get('Namespace', '', ref.namespace)?.labels['istio.io/rev'] ?? 'default') !== 'default') return;
  const [parent] = records(at(object, 'spec', 'parentRefs'));
  const namespace = text(parent?.['namespace']) ?? ref.namespace;
  const kind = parent?.['group'] === '' ? 'Service' : 'Gateway';
  // istiod answers of parents that are there only
  if (seen.stored.get(`${kind}/${namespace}/${text(parent?.['name'])}`) === undefined) return;
  const answered = records(at(stored, 'status', 'parents')).length > 0;
  const inert = found.has('parent-not-a-service') || found.has('parent-is-waypoint');
  yield ['has a status', String(!inert), String(answered)];
}

const COMPARE: Readonly<Record<string, Compare>> = {
  Pod: pod,
  Service: service,
  'ServiceEntry.networking.istio.io': serviceEntry,
  [AUTHORIZATION_POLICY]: authorizationPolicy,
  'HTTPRoute.gateway.networking.k8s.io': route,
  'GRPCRoute.gateway.networking.k8s.io': route,
};

/** Every difference between the model and istiod on these objects, and how many questions were asked. */
export function compare(
  mesh: Mesh,
  objects: readonly Manifest[],
  seen: Observation,
): { readonly asked: number; readonly answers: readonly string[]; readonly differences: readonly Difference[] } {
  const differences: Difference[] = [];
  const answers: string[] = [];
  let asked = 0;
  for (const object of objects) {
    const identity = identify(object);
    if (identity === undefined) continue;
    const { kind, namespace, name } = identity;
    for (const [question, model, istio] of COMPARE[kind]?.(mesh, object, { kind, namespace, name }, seen) ?? []) {
      asked += 1;
      // which waypoint it is, is another one in each mesh
      answers.push(`${object.kind}: ${question}: ${istio.replace(/^\S+-([ab])\//, '$1/')}`);
      if (model !== istio)
        differences.push({ about: `${object.kind} ${namespace}/${name}: ${question}`, model, istio });
    }
  }
  return { asked, answers, differences };
}

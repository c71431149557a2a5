// AuthorizationPolicies: what ztunnel makes of those that select, what waypoints do with those that have targets.
import { at, records, text } from '../../../src/kube/json.ts';
import { type ObjectRef, refKey } from '../../../src/kube/kind.ts';
import { matchesLabels } from '../../../src/kube/labels.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../../src/mesh/kinds/gateways.ts';
import type { AuthorizationPolicy } from '../../../src/mesh/kinds/security.ts';
import type { Service, ServiceEntry } from '../../../src/mesh/kinds/services.ts';
import { managedAs } from '../../../src/mesh/managed.ts';
import { controlPlanes, ownersOf, rootNamespaces } from '../../../src/mesh/releases.ts';
import { speaksHbone, waypointOf } from '../../../src/mesh/waypoints.ts';
import { conditionOf, takesWaypoint, waypointIn } from '../observe.ts';
import { type Chain, GATEWAY_NAME, isWaypointPod, type Waypoint } from '../waypoints.ts';
import { type Answered, type Asked, type Comparison, hostsOf, reportsBy, storedAs, together } from './common.ts';
import { canMatch, eitherPort } from './rbac.ts';
import { ztunnelSays } from './ztunnel.ts';

const READINGS = ['allow-rule-dropped', 'deny-rule-never-matches', 'deny-rule-too-broad', 'trust-domains-dropped'];
/** Findings that say that a target takes no part. */
const NOWHERE = [
  'target-without-waypoint',
  'waypoint-pending',
  'target-cannot-bind',
  'target-without-address',
  'target-not-found',
];

const UNBUILT = ['dynamic-dns-invalid', 'dynamic-dns-protocol'];

type Report = ReturnType<typeof reportsBy>[number];

function* inZtunnel(asked: Asked, found: readonly Report[]): Iterable<Answered> {
  const { mesh, object, seen } = asked;
  const policy = asked.subject as AuthorizationPolicy;
  const root = mesh.fact(rootNamespaces).includes(policy.namespace);
  const inside = (namespace: string) =>
    root ? mesh.get('Namespace', '', namespace) !== undefined : namespace === policy.namespace;
  const [plane] = mesh.fact(controlPlanes);
  const said = ztunnelSays(policy, object, seen, inside, plane?.trustDomain ?? 'cluster.local');
  const ids = new Set(found.map(({ finding }) => finding));
  // nothing to say of pods that are nobody's
  if (said === 'nobody') {
    const claims = [...ids].filter(
      id => READINGS.includes(id) || id === 'action-not-enforced' || id === 'empty-selector',
    );
    yield ['in ztunnel', together(claims, 'nobody'), 'nobody'];
    return;
  }
  const model =
    ids.has('ignored-by-revision') || ids.has('action-not-enforced') || ownersOf(mesh, policy).length === 0
      ? 'not sent'
      : ids.has('empty-selector')
        ? 'attached to nothing'
        : together(
            [...ids].filter(id => READINGS.includes(id)),
            'as written',
          );
  yield ['in ztunnel', model, said];
}

/** A name that istiod gives to a rule of a policy, in an RBAC filter of whatever action. */
const ruleOf = ({ namespace, name }: ObjectRef) => `ns[${namespace}]-policy[${name}]-rule[`;

function rulesIn(chain: Pick<Chain, 'rbac'>, policy: ObjectRef): readonly (readonly [string, unknown])[] {
  return chain.rbac.flatMap(({ policies }) => [...policies].filter(([name]) => name.includes(ruleOf(policy))));
}

/** Whether a waypoint applies a policy whatever the traffic is for, also to what is for no Service: its Gateway or class is the target. */
function appliesToAll(waypoint: Waypoint, policy: ObjectRef): boolean {
  return waypoint.chains.some(chain => chain.host === undefined && rulesIn(chain, policy).length > 0);
}

/** Selectors that pick the pods of waypoints, which go by targets alone (but where policies are layered). */
function* atWaypointsBySelector(asked: Asked, found: readonly Report[]): Iterable<Answered> {
  const policy = asked.subject as AuthorizationPolicy;
  const { seen, mesh } = asked;
  const labels = policy.selector?.matchLabels;
  if (labels === undefined || Object.keys(labels).length === 0 || mesh.fact(rootNamespaces).includes(policy.namespace))
    return;
  const picked = [...seen.stored.values()].filter(
    object =>
      object.kind === 'Pod' &&
      object.metadata.namespace === policy.namespace &&
      matchesLabels(labels, object.metadata.labels ?? {}),
  );
  if (picked.length === 0 || !picked.every(isWaypointPod)) return;
  // of an ALLOW rule with HTTP attributes nothing is left in front of a waypoint
  const rules = records(at(asked.object, 'spec', 'rules')).map(written);
  if (policy.action === 'ALLOW' && rules.length > 0 && rules.every(({ http }) => http)) return;
  const applied = picked.some(pod => {
    const waypoint = seen.waypoints.get(`${policy.namespace}/${pod.metadata.labels?.[GATEWAY_NAME]}`);
    if (waypoint === undefined) return false;
    return [{ rbac: waypoint.outer }, ...waypoint.chains].some(one => rulesIn(one, policy).length > 0);
  });
  const refuted = found.some(({ finding }) => NOWHERE.includes(finding) || finding === 'ignored-by-revision');
  yield ['at a waypoint by selector', String(!refuted && ownersOf(mesh, policy).length > 0), String(applied)];
}

/** Whether the waypoint of a Service or ServiceEntry applies the policy to it, and ztunnel takes that waypoint. */
function enforcedAt({ mesh, seen }: Asked, policy: ObjectRef, target: ObjectRef): boolean {
  return hostsOf(mesh, target).some(host => {
    const entry = seen.services.get(`${target.namespace}/${host}`);
    if (entry === undefined || text(at(entry, 'name')) !== target.name || !takesWaypoint(seen, entry)) return false;
    const waypoint = seen.waypoints.get(waypointIn(entry) ?? '');
    return waypoint?.chains.some(chain => chain.host === host && rulesIn(chain, policy).length > 0) === true;
  });
}

function* atTarget(
  asked: Asked,
  policy: AuthorizationPolicy,
  target: ObjectRef,
  reports: readonly Report[],
): Iterable<Answered> {
  const { mesh, seen } = asked;
  const name = `at ${target.kind.split('.')[0]}`;
  const nowhere = reports.filter(one => NOWHERE.includes(one.finding) && one.key === `${target.kind} ${target.name}`);
  const ignored =
    reports.some(({ finding }) => finding === 'ignored-by-revision') || ownersOf(mesh, policy).length === 0;
  const said = nowhere.length > 0 || ignored ? 'nowhere' : 'enforced';
  if (target.kind === GATEWAY) {
    const gateway = mesh.get(GATEWAY, target.namespace, target.name);
    const as = gateway === undefined ? 'none' : managedAs(mesh, gateway.className);
    // of a gateway of the other kind nobody asked istiod
    if (gateway !== undefined && as !== 'waypoint') return;
    const waypoint = seen.waypoints.get(`${target.namespace}/${target.name}`);
    const applied = waypoint !== undefined && appliesToAll(waypoint, policy);
    // a waypoint that its own listener makes unreachable applies its policies to nothing, which waypoint-binding says
    if (gateway !== undefined && !speaksHbone(mesh, gateway)) return;
    yield [name, said, applied ? 'enforced' : 'nowhere'];
    return;
  }
  if (target.kind === GATEWAY_CLASS) {
    // one that is a target itself applies it for that
    const direct = (one: ObjectRef) => policy.targets.some(other => refKey(other) === refKey(one));
    const there = [...mesh.list(GATEWAY)].filter(one => managedAs(mesh, one.className) === 'waypoint' && !direct(one));
    const running = there.filter(one => seen.waypoints.has(`${one.namespace}/${one.name}`));
    if (running.length === 0) return;
    const applied = running.some(one => {
      const waypoint = seen.waypoints.get(`${one.namespace}/${one.name}`);
      return waypoint !== undefined && appliesToAll(waypoint, policy);
    });
    const ofClass = running.some(one => one.className === target.name);
    if (said === 'enforced' && !ofClass) return;
    yield [name, said, applied ? 'enforced' : 'nowhere'];
    return;
  }
  // an entry whose host is another's is that one's to tell
  const entry = hostsOf(mesh, target)
    .map(host => seen.services.get(`${target.namespace}/${host}`))
    .find(one => one !== undefined);
  if (entry !== undefined && text(at(entry, 'name')) !== target.name) return;
  // what the waypoint builds nothing for is unreachable altogether, which service-entry says
  const object =
    target.kind === 'Service' ? undefined : mesh.get('ServiceEntry.networking.istio.io', target.namespace, target.name);
  if (object?.ports.length === 0) return;
  if (object !== undefined && reportsBy(mesh, 'service-entry', object).some(one => UNBUILT.includes(one.finding)))
    return;
  yield [name, said, enforcedAt(asked, policy, target) ? 'enforced' : 'nowhere'];
}

const HTTP_SOURCE = ['requestPrincipals', 'notRequestPrincipals'];
const HTTP_OPERATION = ['hosts', 'notHosts', 'methods', 'notMethods', 'paths', 'notPaths'];

/** A rule as it is written: what a TCP chain cannot ask, and whether its author chose ports. */
function written(rule: unknown) {
  const has = (list: string, inner: string, keys: readonly string[]) =>
    records(at(rule, list)).some(one =>
      keys.some(key => records([at(one, inner)]).some(match => match[key] !== undefined)),
    );
  const when = records(at(rule, 'when')).map(one => text(one['key']) ?? '');
  return {
    http:
      has('from', 'source', HTTP_SOURCE) ||
      has('to', 'operation', HTTP_OPERATION) ||
      when.some(key => key.startsWith('request.')),
    ports: has('to', 'operation', ['ports', 'notPorts']) || when.includes('destination.port'),
  };
}

/** The TCP ports of a Service that the policy closes, by what its waypoint received. */
function* closedAt(
  asked: Asked,
  policy: AuthorizationPolicy,
  service: Service | ServiceEntry,
  reports: readonly Report[],
): Iterable<Answered> {
  const { mesh, object, seen } = asked;
  if (policy.action !== 'ALLOW' && policy.action !== 'DENY') return;
  const rules = records(at(object, 'spec', 'rules')).map(written);
  const [host = ''] = hostsOf(mesh, service);
  const entry = seen.services.get(`${service.namespace}/${host}`);
  if (entry === undefined || !takesWaypoint(seen, entry)) return;
  const waypoint = seen.waypoints.get(waypointIn(entry) ?? '');
  const chains = (waypoint?.chains ?? []).filter(chain => chain.host === host);
  for (const chain of chains) {
    const port = chain.port ?? 0;
    // a port with both chains declares nothing, of which nothing is said
    if (chain.http || chains.some(other => other.http && other.port === port)) continue;
    const target = records(at(entry, 'ports')).find(one => one['servicePort'] === port)?.['targetPort'];
    const ports = eitherPort(port, typeof target === 'number' ? target : port);
    const key = `${refKey(service)} ${port}`;
    const said = reports.some(one => one.finding === 'tcp-ports-closed' && one.key === key);
    if (policy.action === 'ALLOW') {
      if (!rules.some(({ http }) => http)) continue;
      const allow = chain.rbac.filter(({ action }) => action === 'ALLOW');
      const open = allow.some(({ policies }) => [...policies.values()].some(one => canMatch(one, ports)));
      yield ['closes a TCP port', String(said), String(allow.length > 0 && !open)];
    } else {
      // a rule that names ports is what its author wants there
      const mine = rulesIn(chain, policy).filter(([name]) => {
        const index = Number(/rule\[(\d+)\]/.exec(name)?.[1]);
        return rules[index]?.http === true && rules[index].ports === false;
      });
      if (rules.some(({ http, ports: chosen }) => http && chosen)) continue;
      yield ['closes a TCP port', String(said), String(mine.some(([, one]) => canMatch(one, ports)))];
    }
  }
}

function* customAt(asked: Asked, policy: AuthorizationPolicy, reports: readonly Report[]): Iterable<Answered> {
  if (policy.action !== 'CUSTOM') return;
  const { seen } = asked;
  // what a waypoint has for a Service that never comes to it is nobody's concern
  const reached = (host: string | undefined) =>
    host === undefined ||
    [...seen.services.values()].some(entry => at(entry, 'hostname') === host && takesWaypoint(seen, entry));
  const names = [...seen.waypoints.values()].flatMap(({ chains }) =>
    chains.filter(({ host }) => reached(host)).flatMap(chain => rulesIn(chain, policy).map(([name]) => name)),
  );
  if (names.length === 0) return;
  const unknown = reports.some(({ finding }) => finding === 'provider-unknown' || finding === 'several-providers');
  yield [
    'provider',
    unknown ? 'refuses' : 'asked',
    names.some(name => name.includes('deny-due-to-bad')) ? 'refuses' : 'asked',
  ];
}

/** What the status says, where it is not wrong itself. */
function* accepted(asked: Asked, reports: readonly Report[]): Iterable<Answered> {
  const { mesh } = asked;
  const policy = asked.subject as AuthorizationPolicy;
  // several targets come to one condition; other targets' states are asked at the waypoints
  if (policy.targets.length !== 1 || policy.targets[0]?.kind === GATEWAY_CLASS) return;
  const has = (finding: string) => reports.some(one => one.finding === finding);
  const condition = conditionOf(storedAs(asked), 'WaypointAccepted');
  const unbound = has('target-without-waypoint') || has('waypoint-pending');
  const [only] = policy.targets;
  const gateway = only?.kind === GATEWAY ? mesh.get(GATEWAY, only.namespace, only.name) : undefined;
  // for a status a Gateway is there from its first address on
  const absent = has('target-not-found') || (gateway !== undefined && gateway.addresses === 0);
  const model = absent ? 'TargetNotFound' : unbound ? 'AncestorNotBound' : 'Accepted';
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
  const beyond = ['target-cannot-bind', 'target-without-address', 'waypoint-identity-refused'].some(has);
  if (!beyond && !unreachable) yield ['WaypointAccepted', model, condition?.reason ?? 'no condition'];
}

export const authorizationPolicy: Comparison = function* (asked) {
  const { mesh, refused } = asked;
  const policy = asked.subject as AuthorizationPolicy;
  if (refused !== undefined) return;
  const reports = reportsBy(mesh, 'l7-needs-waypoint', policy);
  const dryRun = policy.annotations['istio.io/dry-run'] === 'true';
  if (dryRun) return; // another policy's
  if (policy.targets.length === 0) {
    yield* inZtunnel(asked, reports);
    yield* atWaypointsBySelector(asked, reports);
    return;
  }
  for (const target of policy.targets) yield* atTarget(asked, policy, target, reports);
  if (ownersOf(mesh, policy).length === 0) return;
  yield* accepted(asked, reports);
  yield* customAt(asked, policy, reports);
  for (const target of policy.targets) {
    const service =
      target.kind === 'Service'
        ? mesh.get('Service', target.namespace, target.name)
        : mesh.get('ServiceEntry.networking.istio.io', target.namespace, target.name);
    if (service !== undefined) yield* closedAt(asked, policy, service, reports);
  }
};

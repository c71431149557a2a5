// Which TCP ports behind a target a policy closes, all that applies there taken together.
import { PAUSE } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey, spoken } from '../../src/kube/kind.ts';
import { GATEWAY, GATEWAY_CLASS, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import type { Service, ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { ownsRevision, rootNamespaces } from '../../src/mesh/releases.ts';
import { candidatesOf, hasAddress, isBoundTo } from '../../src/mesh/waypoints.ts';
import type { Found, Search } from './findings.ts';
import { isDryRun, type Owners } from './owners.ts';
import { closes, hasHttp, httpAttributes, type JudgedPort, opens, tcpPorts } from './ports.ts';
import { listed } from './ztunnel.ts';

/** The other policies that a waypoint applies to a Service: by its target, the waypoint, or the class of all waypoints. */
export function* appliedTo(
  mesh: Mesh,
  owners: Owners,
  service: ObjectRef,
  gateway: ObjectRef,
): Iterable<AuthorizationPolicy> {
  const roots = mesh.fact(rootNamespaces);
  for (const target of [service, gateway, { kind: GATEWAY_CLASS, namespace: '', name: 'istio-waypoint' }]) {
    // a targetRef is projected with the namespace of its policy
    const namespaces = target.kind === GATEWAY_CLASS ? roots : [target.namespace];
    for (const namespace of namespaces) {
      for (const policy of mesh.referring(refKey({ ...target, namespace }), AUTHORIZATION_POLICY)) {
        if (isDryRun(policy)) continue;
        if (owners.ambient.length > 0 && !owners.ambient.some(plane => ownsRevision(plane, policy))) continue;
        yield policy;
      }
    }
  }
}

function portName({ number, name }: JudgedPort): string {
  return name === '' ? String(number) : `${number} (${name})`;
}

function report(service: ObjectRef, gateway: ObjectRef, port: JudgedPort, rest: Pick<Found, 'effect' | 'fix'>): Found {
  return {
    finding: 'tcp-ports-closed',
    key: `${refKey(service)} ${port.number}`,
    about: `${refKey(service)} ${port.number} closed`,
    ...rest,
    evidence: [ref(service), ref(gateway)],
    path: '/spec/rules',
  };
}

/** The TCP ports of a Service that a policy at its waypoint closes. */
export function* closedPorts(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  service: Service | ServiceEntry,
  gateway: Gateway,
): Search {
  if (policy.action !== 'ALLOW' && policy.action !== 'DENY') return;
  if (!hasHttp(policy) || !hasAddress(mesh, service).has) return;
  const attributes = listed([...new Set(policy.rules.flatMap(httpAttributes))]);
  const name = spoken(ref(service));
  for (const port of tcpPorts(service)) {
    // each port is held against all rules of all that applies there
    yield PAUSE;
    if (policy.action === 'ALLOW') {
      if (opens(policy, port)) continue;
      let open = false;
      for (const other of appliedTo(mesh, owners, service, gateway)) {
        if (opens(other, port)) {
          open = true;
          break;
        }
      }
      if (open) continue;
      yield report(service, gateway, port, {
        effect: `port ${portName(port)} of ${name} is no HTTP: the waypoint drops rules by ${attributes} and refuses all there`,
        fix: `add a rule with ports: ["${port.number}"] and without ${attributes}`,
      });
      continue;
    }
    const rules = policy.rules.map((rule, index) => ({ rule, index, closed: closes(rule) }));
    const worst = rules.find(({ closed }) => closed === 'all') ?? rules.find(({ closed }) => closed === 'sources');
    if (worst === undefined) return;
    const without = listed(httpAttributes(worst.rule));
    yield {
      ...report(service, gateway, port, {
        effect:
          worst.closed === 'all'
            ? `port ${portName(port)} of ${name} is no HTTP: without ${without} this DENY rule refuses all there`
            : `port ${portName(port)} of ${name} is no HTTP: this DENY rule refuses its sources there, ${without} or not`,
        fix: 'give the rule the ports that speak HTTP: to.operation.ports',
      }),
      path: `/spec/rules/${worst.index}`,
      ...(worst.closed === 'all' ? {} : { action: 'warn' as const }),
    };
  }
}

/** The same for all that a waypoint serves. */
export function* closedBehindGateway(
  mesh: Mesh,
  policy: AuthorizationPolicy,
  owners: Owners,
  gateway: Gateway,
): Search {
  if (!hasHttp(policy)) return;
  let steps = 0;
  for (const { object, binding } of candidatesOf(mesh, gateway)) {
    steps += 1;
    if (steps % 50 === 0) yield PAUSE;
    if (isBoundTo(binding, gateway)) yield* closedPorts(mesh, policy, owners, object, gateway);
  }
}

/** The same for all that any waypoint serves. */
export function* closedBehindClass(mesh: Mesh, policy: AuthorizationPolicy, owners: Owners): Search {
  if (!hasHttp(policy)) return;
  for (const gateway of mesh.list(GATEWAY)) {
    yield PAUSE;
    if (managedAs(mesh, gateway.className) === 'waypoint') yield* closedBehindGateway(mesh, policy, owners, gateway);
  }
}

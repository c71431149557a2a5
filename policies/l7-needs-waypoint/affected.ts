// Whose findings a change of something else may alter.

import { type ChangeContext, matching, PAUSE, pausing } from '../../src/engine/policy.ts';
import { type ObjectRef, refKey } from '../../src/kube/kind.ts';
import { matchesLabels } from '../../src/kube/labels.ts';
import { hasAuthorizer, isAuthorizer } from '../../src/mesh/authorizers.ts';
import { alters } from '../../src/mesh/changes.ts';
import { ambient, cniSettings } from '../../src/mesh/enrolment.ts';
import { WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { fullHost } from '../../src/mesh/kinds/destinationrules.ts';
import {
  GATEWAY,
  GATEWAY_CLASS,
  type Gateway,
  ISTIO_GATEWAY,
  ROUTE_KINDS,
  type Route,
} from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { VIRTUAL_SERVICE, type VirtualService } from '../../src/mesh/kinds/routing.ts';
import { AUTHORIZATION_POLICY, type AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import { SERVICE_ENTRY, type Service, type ServiceEntry } from '../../src/mesh/kinds/services.ts';
import { WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { hostKey } from '../../src/mesh/references.ts';
import { controlPlanes, rootNamespaces } from '../../src/mesh/releases.ts';
import { bindingLabels, consumerNamespace, namedWaypoint, namersOf, servicesIn } from '../../src/mesh/waypoints.ts';

type Named = Iterable<ObjectRef | typeof PAUSE>;

const ROUTES: ReadonlySet<string> = new Set(ROUTE_KINDS);

/** Every policy of some namespaces, or of all. */
function* policiesIn(mesh: Mesh, namespaces?: ReadonlySet<string>): Named {
  if (namespaces === undefined) {
    yield* pausing(mesh.list(AUTHORIZATION_POLICY));
    return;
  }
  for (const namespace of namespaces) yield* pausing(mesh.list(AUTHORIZATION_POLICY, namespace));
}

function roots({ before, after }: ChangeContext): readonly string[] {
  const [was, is] = [before.fact(rootNamespaces), after.fact(rootNamespaces)];
  return was === is ? is : [...new Set([...was, ...is])];
}

/** A waypoint, there or not. */
type Waypoint = Pick<ObjectRef, 'namespace' | 'name'>;

/** The namespaces whose policies a waypoint applies: its own, and those of everything that names it. */
function aroundGateway(mesh: Mesh, gateway: Waypoint, found: Set<string>): void {
  found.add(gateway.namespace);
  for (const namer of namersOf(mesh, gateway)) found.add(consumerNamespace(namer));
}

/** The waypoint that an object names. */
function waypointNamedBy(object: Meta): Waypoint | undefined {
  const waypoint = namedWaypoint(bindingLabels(object), consumerNamespace(object));
  return waypoint === 'none' ? undefined : waypoint;
}

/** The namespaces of the waypoints that an object names. */
function aroundNames(mesh: Mesh, object: Meta, found: Set<string>): void {
  const waypoint = waypointNamedBy(object);
  if (waypoint !== undefined) aroundGateway(mesh, waypoint, found);
}

function* ofNamespace(
  name: string,
  context: ChangeContext,
  meshes: readonly Mesh[] = [context.before, context.after],
): Named {
  const namespaces = new Set([name, ...roots(context)]);
  for (const mesh of meshes) {
    // most of them are one and the same waypoint
    let last: Waypoint | undefined;
    const around = (waypoint: Waypoint | undefined) => {
      if (waypoint === undefined || (waypoint.name === last?.name && waypoint.namespace === last.namespace)) return;
      last = waypoint;
      aroundGateway(mesh, waypoint, namespaces);
    };
    const namespace = mesh.get('Namespace', '', name);
    if (namespace !== undefined) around(waypointNamedBy(namespace));
    for (const service of pausing(servicesIn(mesh, name))) {
      if (service === PAUSE) yield PAUSE;
      else around(waypointNamedBy(service));
    }
    for (const gateway of pausing(mesh.list(GATEWAY, name))) {
      if (gateway === PAUSE) yield PAUSE;
      else around(gateway);
    }
  }
  yield* policiesIn(context.after, namespaces);
}

function* ofService(object: Meta, context: ChangeContext, namespaces: Set<string>): Named {
  for (const mesh of [context.before, context.after]) {
    aroundNames(mesh, object, namespaces);
    const holder = mesh.get('Namespace', '', object.namespace);
    if (holder !== undefined) aroundNames(mesh, holder, namespaces);
    yield PAUSE;
  }
}

/** The namespaces of the Services that routes through a Gateway lead to. */
function* behindRoutes(mesh: Mesh, gateway: ObjectRef, namespaces: Set<string>): Iterable<typeof PAUSE> {
  for (const route of pausing(mesh.referring(refKey({ ...gateway, kind: GATEWAY })))) {
    if (route === PAUSE) yield PAUSE;
    else if (ROUTES.has(route.kind)) backends(route as Route, namespaces);
  }
}

function backends(route: Route, namespaces: Set<string>): void {
  for (const rule of route.rules) for (const backend of rule.backends) namespaces.add(backend.namespace);
}

function* ofGateways(gateways: Iterable<ObjectRef | typeof PAUSE>, context: ChangeContext): Named {
  const namespaces = new Set(roots(context));
  for (const gateway of gateways) {
    if (gateway === PAUSE) {
      yield PAUSE;
      continue;
    }
    for (const mesh of [context.before, context.after]) {
      aroundGateway(mesh, gateway, namespaces);
      yield* behindRoutes(mesh, gateway, namespaces);
    }
  }
  yield* policiesIn(context.after, namespaces);
}

function* gatewaysOf(className: string, { before, after }: ChangeContext): Iterable<Gateway | typeof PAUSE> {
  for (const mesh of [before, after]) {
    for (const gateway of pausing(mesh.list(GATEWAY))) {
      if (gateway === PAUSE || gateway.className === className) yield gateway;
    }
  }
}

/** Whether a policy concerns a workload: by its selector, or by a Service that selects it. */
function concerns(mesh: Mesh, policy: AuthorizationPolicy, states: readonly Workload[]): boolean {
  if (policy.targets.length === 0) {
    const labels = policy.selector?.matchLabels;
    return labels === undefined || states.some(state => matchesLabels(labels, state.template.labels));
  }
  return policy.targets.some(target => {
    if (target.kind !== 'Service') return false;
    const service = mesh.get('Service', target.namespace, target.name);
    return service !== undefined && states.some(state => matchesLabels(service.selector, state.template.labels));
  });
}

/** A workload that comes or goes, and what it owns: that is judged where its owner is not there. */
function* withOwned(change: Change, { after }: ChangeContext): Iterable<Workload | typeof PAUSE> {
  const { ref } = change;
  for (const state of [change.before, change.after]) if (state !== undefined) yield state as Workload;
  if (ref.kind === 'Pod' || (change.before !== undefined && change.after !== undefined)) return;
  for (const workload of pausing(after.workloads({}, ref.namespace))) {
    if (workload === PAUSE || (workload.owner?.kind === ref.kind && workload.owner.name === ref.name)) yield workload;
  }
}

function* ofWorkload(change: Change, context: ChangeContext): Named {
  const states: Workload[] = [];
  for (const state of withOwned(change, context)) {
    if (state === PAUSE) yield PAUSE;
    else states.push(state);
  }
  for (const policy of policiesIn(context.after, new Set([change.ref.namespace, ...roots(context)]))) {
    if (policy === PAUSE || concerns(context.after, policy as AuthorizationPolicy, states)) yield policy;
  }
}

/** True where a change alters what is known of control planes, ztunnel or istio-cni. */
const altersFacts = (context: ChangeContext): boolean =>
  alters(context, controlPlanes, ambient, cniSettings, rootNamespaces);

/** The policies of what VirtualServices lead to, where one of them or a Gateway of theirs changes. */
function* ofIstioRoutes({ ref, before: was, after: is }: Change, { before, after }: ChangeContext): Named {
  const routes: VirtualService[] = [];
  if (ref.kind === VIRTUAL_SERVICE) {
    for (const state of [was, is]) if (state !== undefined) routes.push(state as VirtualService);
  } else {
    for (const mesh of [before, after]) routes.push(...mesh.referring(refKey(ref), VIRTUAL_SERVICE));
  }
  for (const route of routes) {
    yield PAUSE;
    for (const host of route.destinations) {
      // the host of a Service is its key, any other that of ServiceEntries
      const key = hostKey(fullHost(host, route.namespace));
      yield* pausing(after.referring(key, AUTHORIZATION_POLICY));
      for (const entry of after.referring(key, SERVICE_ENTRY)) {
        yield* pausing(after.referring(refKey(entry), AUTHORIZATION_POLICY));
      }
    }
  }
}

/** Those that ask an authorizer: whoever enforces them finds it or not. */
const asking = ({ after }: ChangeContext): Named =>
  matching(after.list(AUTHORIZATION_POLICY), policy => policy.action === 'CUSTOM');

/** The policies whose findings a change may alter: too many rather than too few. */
export function* affected(change: Change, context: ChangeContext): Named {
  const { ref } = change;
  const { after } = context;
  const states = [change.before, change.after].filter(state => state !== undefined);
  if (ref.kind === WEBHOOKS) {
    yield* policiesIn(after);
  } else if (ref.kind === 'ConfigMap') {
    // the injector's own ConfigMap decides templates, which no fact here tells
    if (ref.name.startsWith('istio') && (ref.name.startsWith('istio-sidecar-injector') || altersFacts(context))) {
      yield* policiesIn(after);
    }
  } else if (WORKLOADS.has(ref.kind)) {
    const component = states.some(state => (state as Workload).component !== undefined);
    if (component && altersFacts(context)) yield* policiesIn(after);
    else yield* ofWorkload(change, context);
  } else if (ref.kind === 'Namespace') {
    yield* ofNamespace(ref.name, context);
    if ([context.before, after].some(mesh => hasAuthorizer(mesh, ref.name))) yield* asking(context);
  } else if (ref.kind === 'Service' || ref.kind === SERVICE_ENTRY) {
    const namespaces = new Set([ref.namespace, ...roots(context)]);
    for (const state of states) yield* ofService(state as Service, context, namespaces);
    yield* policiesIn(after, namespaces);
    if (states.some(state => isAuthorizer(after, state as Service | ServiceEntry))) yield* asking(context);
  } else if (ref.kind === GATEWAY) {
    yield* ofGateways([ref], context);
  } else if (ref.kind === GATEWAY_CLASS) {
    yield* ofGateways(gatewaysOf(ref.name, context), context);
  } else if (ref.kind === VIRTUAL_SERVICE || ref.kind === ISTIO_GATEWAY) {
    yield* ofIstioRoutes(change, context);
  } else if (ROUTES.has(ref.kind)) {
    const namespaces = new Set<string>();
    for (const state of states) backends(state as Route, namespaces);
    yield* policiesIn(after, namespaces);
  } else if (ref.kind === AUTHORIZATION_POLICY) {
    // what one ALLOW policy lets in is not closed by another, also across a waypoint, so that others may miss one that goes or
    // lets less in; two CUSTOM ones may ask two providers, and one that goes may show another. What else comes makes nothing
    // worse for others
    const [was, is] = [change.before, change.after] as readonly (AuthorizationPolicy | undefined)[];
    if (was?.action !== 'ALLOW' && was?.action !== 'CUSTOM' && is?.action !== 'CUSTOM') return;
    if (roots(context).includes(ref.namespace)) yield* policiesIn(after);
    // a policy alters nothing of who serves whom: what it means to others shows in the Mesh that is to be
    else yield* ofNamespace(ref.namespace, context, [after]);
  }
}

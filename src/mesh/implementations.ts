// Whose a Gateway API object is: Istio's, another implementation's, or nobody knows. Everybody watches the same kinds, and what
// only another implementation serves is none of our business.
import { at, text } from '../kube/json.ts';
import { type ObjectRef, refKey } from '../kube/kind.ts';
import { GATEWAY, GATEWAY_CLASS, ROUTE_KINDS, type Route } from './kinds/gateways.ts';
import type { Meta } from './kinds/meta.ts';
import type { Fact, Mesh } from './mesh.ts';
import { type ControlPlane, controlPlanes, istioReleases, ownersOf, parseRelease, type Release } from './releases.ts';

/** 'unknown': no Gateway or class tells. */
export type Implementation = 'istio' | 'other' | 'unknown';

// GatewayClasses that istiod makes itself (pilot/pkg/config/kube/gateway/gatewayclass.go)
const ISTIO_CLASSES: ReadonlySet<string> = new Set([
  'istio',
  'istio-remote',
  'istio-waypoint',
  'istio-east-west',
  'istio-agentgateway',
  'istio-agentgateway-waypoint',
]);

/** Names of the controller and the class where istiod was told others than its own (pilot/pkg/features/pilot.go). */
const ownNames: Fact<{ readonly controllers: readonly string[]; readonly classes: readonly string[] }> = {
  name: 'ownNames',
  compute(mesh) {
    const planes = mesh.fact(controlPlanes);
    const named = (variable: string) =>
      planes.flatMap(({ env }) => text(env[variable]) || []).filter(name => name !== '');
    return {
      controllers: named('PILOT_GATEWAY_API_CONTROLLER_NAME'),
      classes: named('PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME'),
    };
  },
};

/** Whose controller name it is. Istio's are all `istio.io/…` unless istiod was given another. */
export function controllerOf(mesh: Mesh, controllerName: string): Implementation {
  if (controllerName === '') return 'unknown';
  return controllerName.startsWith('istio.io/') || mesh.fact(ownNames).controllers.includes(controllerName)
    ? 'istio'
    : 'other';
}

/** Who serves Gateways of a class. A class that is not there is Istio's where Istio makes it by itself. */
export function classOf(mesh: Mesh, className: string): Implementation {
  const found = mesh.get(GATEWAY_CLASS, '', className);
  if (found !== undefined) return controllerOf(mesh, found.controllerName);
  return ISTIO_CLASSES.has(className) || mesh.fact(ownNames).classes.includes(className) ? 'istio' : 'unknown';
}

/** The GatewayClasses here that are not Istio's. */
export const otherClasses: Fact<readonly ObjectRef[]> = {
  name: 'otherClasses',
  compute: mesh =>
    [...mesh.list(GATEWAY_CLASS)]
      .filter(({ controllerName }) => controllerOf(mesh, controllerName) === 'other')
      .map(({ kind, namespace, name }) => ({ kind, namespace, name })),
};

/** The strongest that several users say: Istio's if any is, another's only where all are. */
function together(users: Iterable<Implementation>): Implementation {
  let found: Implementation | undefined;
  for (const user of users) {
    if (user === 'istio') return 'istio';
    found = found === undefined || found === user ? user : 'unknown';
  }
  return found ?? 'unknown';
}

/** Who serves a route: by its Gateways' classes. A route of a Service or ServiceEntry is the mesh's own. */
export function routeImplementation(mesh: Mesh, route: Route): Implementation {
  return together(
    route.parents.map(parent => {
      if (parent.kind === 'Service' || parent.kind === 'ServiceEntry.networking.istio.io') return 'istio';
      if (parent.kind !== GATEWAY) return 'unknown';
      const gateway = mesh.get(GATEWAY, parent.namespace, parent.name);
      return gateway === undefined ? 'unknown' : classOf(mesh, gateway.className);
    }),
  );
}

/** True for a route of a Gateway whose class is none of Istio's own and is not there to say whose it is. */
export function isOfUntoldClass(mesh: Mesh, route: Route): boolean {
  return route.parents.some(({ kind, namespace, name }) => {
    const gateway = kind === GATEWAY ? mesh.get(GATEWAY, namespace, name) : undefined;
    return gateway !== undefined && classOf(mesh, gateway.className) === 'unknown';
  });
}

const ROUTES: ReadonlySet<string> = new Set(ROUTE_KINDS);

/** The routes that have something as a backend, a mirror or a parent. */
export function* routesTo(mesh: Mesh, ref: ObjectRef): Iterable<Route> {
  for (const object of mesh.referring(refKey(ref))) if (ROUTES.has(object.kind)) yield object as Route;
}

/** Who serves the routes to something; 'unknown' where there are none. */
export function backendImplementation(mesh: Mesh, ref: ObjectRef): Implementation {
  const users: Implementation[] = [];
  for (const route of routesTo(mesh, ref)) users.push(routeImplementation(mesh, route));
  return together(users);
}

/** The control planes that read an object, with their releases. */
export interface Readers {
  readonly planes: readonly ControlPlane[];
  /** The releases that are known; at least one. */
  readonly releases: readonly Release[];
  /** False where a release is not known: `releases` then holds what is known, or the newest that Waywarden knows. */
  readonly certain: boolean;
}

/** By the list of all control planes: nearly every object is read by all of them. */
const readers = new WeakMap<readonly ControlPlane[], Readers>();

/** Who reads an object of Istio's or the Gateway API's; undefined where no control plane here does. */
export function readersOf(mesh: Mesh, object: Pick<Meta, 'labels' | 'namespace'>, newest: string): Readers | undefined {
  const all = mesh.fact(controlPlanes);
  const planes = ownersOf(mesh, object);
  if (all.length > 0 && planes.length === 0) return undefined;
  const remembered = readers.get(planes);
  if (remembered !== undefined) return remembered;
  const found = all.length === 0 ? mesh.fact(istioReleases) : planes.map(({ release }) => release);
  const known = found.filter(release => release !== undefined);
  if (known.length > 0) {
    const made: Readers = { planes, releases: known, certain: known.length === found.length };
    if (all.length > 0 && planes === all) readers.set(planes, made);
    return made;
  }
  const assumed = parseRelease(newest);
  return assumed === undefined ? undefined : { planes, releases: [assumed], certain: false };
}

/** True where a change of MeshConfig or istiod leaves an object's readers as they were. */
export function sameReaders(before: Mesh, after: Mesh): boolean {
  const said = (mesh: Mesh) =>
    JSON.stringify([
      mesh.fact(istioReleases),
      mesh
        .fact(controlPlanes)
        .map(plane => [
          plane.revision,
          plane.tags,
          plane.rootNamespace,
          plane.release,
          plane.env,
          plane.discoverySelectors,
        ]),
    ]);
  return (
    (before.fact(controlPlanes) === after.fact(controlPlanes) &&
      before.fact(istioReleases) === after.fact(istioReleases)) ||
    said(before) === said(after)
  );
}

/** True where some control plane watches a part of the namespaces only, so that a namespace's labels decide who reads what is in it. */
export function namespacesMatter(mesh: Mesh): boolean {
  return mesh.fact(controlPlanes).some(plane => at(plane, 'discoverySelectors') !== undefined);
}

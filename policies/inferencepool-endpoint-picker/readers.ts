// Whether Istio is what serves a pool or a route to one.
import { type ObjectRef, refKey } from '../../src/kube/kind.ts';
import {
  backendImplementation,
  classOf,
  isOfUntoldClass,
  otherClasses,
  readersOf,
  routeImplementation,
  routesTo,
} from '../../src/mesh/implementations.ts';
import { GATEWAY, type Gateway, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import {
  type ControlPlane,
  compareRelease,
  flag,
  KNOWLEDGE,
  type Release,
  runnersOf,
} from '../../src/mesh/releases.ts';

const ROUTES: ReadonlySet<string> = new Set(ROUTE_KINDS);
export const FLAG = 'ENABLE_GATEWAY_API_INFERENCE_EXTENSION';
/** Printed on istio.io for 1.27; no release reads it. */
export const FALSE_FLAG = 'SUPPORT_GATEWAY_API_INFERENCE_EXTENSION';
/** The first release that reads inference.networking.k8s.io/v1. */
const FIRST = '1.28';

const reads = (release: Release) => compareRelease(release, FIRST) >= 0;

/** What Istio makes of a subject. */
export interface Standing {
  readonly certain: boolean;
  /** True where another implementation is here and nothing tells yet whose the subject is. */
  readonly doubtful: boolean;
  readonly evidence: readonly ObjectRef[];
  readonly because: string;
  /**
   * 'off' where the istiods of all Gateways that lead here are told nothing of pools, 'partly' where those of some are; without such a
   * Gateway those that read the subject count. 'unknown' without an istiod.
   */
  readonly extension: 'on' | 'off' | 'partly' | 'unknown';
  /** The first Gateway whose istiod is told nothing of pools, where others are. */
  readonly deaf?: Gateway;
  /** True where an istiod has the name of the flag wrong. */
  readonly falseFlag: boolean;
}

function extensionOf(planes: readonly ControlPlane[]): 'on' | 'off' | 'unknown' {
  const known = planes.filter(({ env, release }) => env[FLAG] !== '' && (release === undefined || reads(release)));
  if (known.length === 0) return 'unknown';
  return known.every(plane => !flag(plane, FLAG, false)) ? 'off' : 'on';
}

/** The same by the Gateways of Istio's to which routes are attached: the pods of a Gateway ask the istiod of its revision. */
function extensionBehind(mesh: Mesh, routes: readonly Route[], planes: readonly ControlPlane[]) {
  const gateways = new Map<string, Gateway>();
  for (const parent of routes.flatMap(({ parents }) => parents)) {
    const gateway = parent.kind === GATEWAY ? mesh.get(GATEWAY, parent.namespace, parent.name) : undefined;
    if (gateway !== undefined && classOf(mesh, gateway.className) !== 'other') gateways.set(refKey(gateway), gateway);
  }
  const told = [...gateways.values()].map(gateway => {
    // who does not read the subject says nothing of it
    const runners = runnersOf(mesh, gateway).filter(plane => planes.includes(plane));
    return { gateway, extension: extensionOf(runners) };
  });
  const off = told.filter(({ extension }) => extension === 'off');
  if (off.length === 0 && !told.some(({ extension }) => extension === 'on')) return { extension: extensionOf(planes) };
  if (off.length === 0) return { extension: 'on' as const };
  if (off.length === told.length) {
    // whose flag it is needs telling only where another istiod has it
    return extensionOf(planes) === 'off'
      ? { extension: 'off' as const }
      : { extension: 'off' as const, deaf: off[0]?.gateway };
  }
  return { extension: 'partly' as const, deaf: off[0]?.gateway };
}

/** Undefined where the subject is no business of Istio's, or of none that reads pools of the group. */
export function standingOf(mesh: Mesh, subject: Meta): Standing | undefined {
  const readers = readersOf(mesh, subject, KNOWLEDGE);
  if (readers === undefined) return undefined;
  const releases = readers.releases.filter(reads);
  if (releases.length === 0) return undefined;
  const implementation = ROUTES.has(subject.kind)
    ? routeImplementation(mesh, subject as Route)
    : backendImplementation(mesh, subject);
  if (implementation === 'other') return undefined;
  const others = mesh.fact(otherClasses);
  const routes = ROUTES.has(subject.kind) ? [subject as Route] : [...routesTo(mesh, subject)];
  const untold = implementation === 'unknown' && routes.some(route => isOfUntoldClass(mesh, route));
  const doubtful = implementation === 'unknown' && (others.length > 0 || untold);
  const { extension, deaf } = extensionBehind(mesh, routes, readers.planes);
  const deployments = readers.planes.flatMap(({ deployment }) => (deployment === undefined ? [] : [deployment]));
  return {
    certain: readers.certain && !doubtful && releases.length === readers.releases.length,
    doubtful,
    evidence: [...deployments.slice(0, 2), ...(doubtful ? others.slice(0, 1) : [])],
    because: readers.certain
      ? [...new Set(readers.releases.map(({ text }) => `Istio ${text}`))].join(', ')
      : 'the release of Istio here is not known',
    extension,
    ...(deaf === undefined ? {} : { deaf }),
    falseFlag: readers.planes.some(({ env }) => env[FALSE_FLAG] !== undefined),
  };
}

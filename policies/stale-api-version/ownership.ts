// Whether a subject is Istio's to read at all.
import { type ObjectRef, refKey } from '../../src/kube/kind.ts';
import {
  backendImplementation,
  classOf,
  controllerOf,
  type Implementation,
  isOfUntoldClass,
  otherClasses,
  routeImplementation,
  routesTo,
} from '../../src/mesh/implementations.ts';
import { GATEWAY, GATEWAY_CLASS, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { ALPHA_INFERENCE_POOL, INFERENCE_POOL, type PoolReferrer } from '../../src/mesh/kinds/inference.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { entryOf } from './table.ts';

/** 'doubtful': another implementation is in the cluster and nothing tells yet whose the object is. */
export type Ownership = 'istio' | 'doubtful' | 'other';

export const REFERRERS = [
  'InferenceObjective.inference.networking.x-k8s.io',
  'InferenceModel.inference.networking.x-k8s.io',
  'InferenceObjective.llm-d.ai',
] as const;
export const GRANT = 'ReferenceGrant.gateway.networking.k8s.io';
export const POLICY = 'BackendTLSPolicy.gateway.networking.k8s.io';
const ROUTES: ReadonlySet<string> = new Set(ROUTE_KINDS);
/** What Istio takes as a target of a BackendTLSPolicy (pilot/pkg/config/kube/gateway/backend_policies.go). */
const TARGETS: ReadonlySet<string> = new Set(['Service', 'ServiceEntry.networking.istio.io']);

function joined(found: readonly Implementation[]): Implementation {
  if (found.includes('istio')) return 'istio';
  return found.length > 0 && found.every(one => one === 'other') ? 'other' : 'unknown';
}

/** The old pools that a ReferenceGrant is for: by name, or all of its namespace. */
function grantedPools(mesh: Mesh, subject: Meta): readonly ObjectRef[] {
  if (!isOf(subject, GRANT)) return [];
  return subject.to
    .filter(({ kind }) => kind === ALPHA_INFERENCE_POOL)
    .flatMap(({ kind, name }) =>
      name === undefined
        ? [...mesh.list(ALPHA_INFERENCE_POOL, subject.namespace)]
        : [{ kind, namespace: subject.namespace, name }],
    );
}

function implementationOf(mesh: Mesh, subject: Meta): Implementation {
  if (subject.kind === INFERENCE_POOL || subject.kind === ALPHA_INFERENCE_POOL)
    return backendImplementation(mesh, subject);
  if (ROUTES.has(subject.kind)) return routeImplementation(mesh, subject as Route);
  if (isOf(subject, POLICY)) {
    if (subject.targets.length > 0 && subject.targets.every(({ kind }) => !TARGETS.has(kind))) return 'other';
    return joined(subject.targets.map(target => backendImplementation(mesh, target)));
  }
  if (isOf(subject, GATEWAY)) return classOf(mesh, subject.className);
  if (isOf(subject, GATEWAY_CLASS)) return controllerOf(mesh, subject.controllerName);
  if (isOf(subject, GRANT)) return joined(grantedPools(mesh, subject).map(pool => backendImplementation(mesh, pool)));
  for (const kind of REFERRERS) {
    if (isOf(subject, kind) && subject.pool !== undefined)
      return backendImplementation(mesh, { ...subject.pool, namespace: subject.namespace });
  }
  return entryOf(subject.kind)?.product === 'istio' ? 'istio' : 'unknown';
}

/** What routes lead to for a subject: pools, or the targets of a policy. */
function backendsOf(mesh: Mesh, subject: Meta): readonly ObjectRef[] {
  if (subject.kind === INFERENCE_POOL || subject.kind === ALPHA_INFERENCE_POOL) return [subject];
  if (isOf(subject, POLICY)) return subject.targets;
  if (isOf(subject, GRANT)) return grantedPools(mesh, subject);
  const { pool } = subject as Partial<PoolReferrer>;
  return pool === undefined ? [] : [{ ...pool, namespace: subject.namespace }];
}

/** Whether Istio is meant to read a subject. Where no other implementation is known of, it is, but for a class that nothing tells of. */
export function ownershipOf(mesh: Mesh, subject: Meta): Ownership {
  const implementation = implementationOf(mesh, subject);
  if (implementation !== 'unknown') return implementation;
  if (mesh.fact(otherClasses).length > 0) return 'doubtful';
  if (isOf(subject, GATEWAY)) return 'doubtful';
  const routes = ROUTES.has(subject.kind)
    ? [subject as Route]
    : backendsOf(mesh, subject).flatMap(backend => [...routesTo(mesh, backend)]);
  return routes.some(route => isOfUntoldClass(mesh, route)) ? 'doubtful' : 'istio';
}

/** True where some route, of whoever, has the object as a backend or a mirror. */
export function isUsed(mesh: Mesh, ref: ObjectRef): boolean {
  for (const object of mesh.referring(refKey(ref))) if (ROUTES.has(object.kind)) return true;
  return false;
}

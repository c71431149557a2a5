// What the model says of a mesh against what istiod did with it. A difference is a defect of ours, or a deviation that
// docs/oracle.md explains.
import { AUTHORIZATION_POLICY, PEER_AUTHENTICATION } from '../../../src/mesh/kinds/security.ts';
import { identify } from '../../../src/mesh/kinds.ts';
import type { Mesh } from '../../../src/mesh/mesh.ts';
import type { Manifest } from '../../harness/objects.ts';
import type { Observation } from '../observe.ts';
import type { Comparison } from './common.ts';
import { peerAuthentication } from './peers.ts';
import { authorizationPolicy } from './policies.ts';
import { destinationRule, requestAuthentication, route, virtualService } from './routes.ts';
import { service, serviceEntry } from './services.ts';
import { deployment, pod } from './workloads.ts';

export interface Difference {
  /** The object, and the question: `Service m1-a/web: waypoint`. */
  readonly about: string;
  readonly model: string;
  readonly istio: string;
}

const COMPARISONS: Readonly<Record<string, Comparison>> = {
  Pod: pod,
  'Deployment.apps': deployment,
  Service: service,
  'ServiceEntry.networking.istio.io': serviceEntry,
  [AUTHORIZATION_POLICY]: authorizationPolicy,
  [PEER_AUTHENTICATION]: peerAuthentication,
  'RequestAuthentication.security.istio.io': requestAuthentication,
  'HTTPRoute.gateway.networking.k8s.io': route,
  'GRPCRoute.gateway.networking.k8s.io': route,
  'TCPRoute.gateway.networking.k8s.io': route,
  'TLSRoute.gateway.networking.k8s.io': route,
  'VirtualService.networking.istio.io': virtualService,
  'DestinationRule.networking.istio.io': destinationRule,
};

export interface Compared {
  readonly asked: number;
  /** istiod's answers, as `Kind: question: answer`. */
  readonly answers: readonly string[];
  readonly differences: readonly Difference[];
  /** How many questions there were about each object, by `Kind namespace/name`. */
  readonly about: ReadonlyMap<string, number>;
}

/** Asks everything about one object; the Mesh has it, also where it was refused. */
export function compareOne(
  mesh: Mesh,
  object: Manifest,
  seen: Observation,
  refused?: string,
): Pick<Compared, 'answers' | 'differences'> {
  const answers: string[] = [];
  const differences: Difference[] = [];
  const identity = identify(object);
  const ref =
    identity === undefined ? undefined : { kind: identity.kind, namespace: identity.namespace, name: identity.name };
  const subject = ref === undefined ? undefined : mesh.object(ref);
  const comparison = ref === undefined ? undefined : COMPARISONS[ref.kind];
  if (ref === undefined || subject === undefined || comparison === undefined) return { answers, differences };
  const asked = { mesh, object, ref, subject, seen, ...(refused === undefined ? {} : { refused }) };
  for (const [question, model, istio] of comparison(asked)) {
    // which waypoint it is, is another one in each mesh
    answers.push(`${object.kind}: ${question}: ${istio.replace(/^\S+-([ab])\//, '$1/')}`);
    if (model !== istio) {
      differences.push({ about: `${object.kind} ${ref.namespace}/${ref.name}: ${question}`, model, istio });
    }
  }
  return { answers, differences };
}

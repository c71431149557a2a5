// Random meshes in namespaces of their own, so that many fit side by side into one cluster.

import { seeded } from '../generate/random.ts';
import type { Manifest } from '../harness/objects.ts';
import { gateway } from './words/gateways.ts';
import { moodOf } from './words/mood.ts';
import { namespace } from './words/namespaces.ts';
import { authorizationPolicy, peerAuthentication, requestAuthentication, rootPolicy } from './words/policies.ts';
import { destinationRule, route, virtualService } from './words/routes.ts';
import { service, serviceEntry } from './words/services.ts';
import { barePod, deployment } from './words/workloads.ts';

/** A mesh: its objects as they are sent, all in namespaces that begin with `prefix-`, or called so. */
export interface Situation {
  /** What it is called where it is told about: `seed 17`, `case l7-17-…`. */
  readonly title: string;
  readonly prefix: string;
  readonly objects: readonly Manifest[];
  /** True where it has objects that concern every mesh of a cluster, so that it must be there by itself. */
  readonly alone: boolean;
  /** `Kind name` of the object that comes a second after all others: of two of one age istiod takes either. */
  readonly younger?: string;
}

const KINDS = [
  [gateway, ['waypoint', 'shared', 'ingress'], 0.45],
  [service, ['web', 'api'], 0.75],
  [barePod, ['web-1', 'api-1'], 0.65],
  [deployment, ['web-d'], 0.4],
  [authorizationPolicy, ['one', 'two', 'three'], 0.6],
  [route, ['r1', 'r2'], 0.35],
  [serviceEntry, ['partner', 'twin'], 0.3],
  [peerAuthentication, ['mtls'], 0.2],
  [requestAuthentication, ['tokens'], 0.2],
  [virtualService, ['v1'], 0.25],
  [destinationRule, ['d1'], 0.2],
] as const;

/** The mesh of a seed, for a release of Istio. */
export function situation(seed: number, istio: string): Situation {
  const random = seeded(seed);
  const prefix = `m${seed}`;
  const [a, b] = [`${prefix}-a`, `${prefix}-b`];
  const mood = moodOf(random, a, b, istio !== '1.30');
  const objects: Manifest[] = [namespace(mood, a), namespace(mood, b)];
  for (const at of [a, b]) {
    for (const [make, names, probability] of KINDS) {
      for (const name of names) {
        const likely = mood.sound && name === 'waypoint' ? 0.92 : probability;
        if (random.chance(likely)) objects.push(make(mood, at, name));
      }
    }
  }
  const alone = random.chance(0.03);
  if (alone) objects.push(rootPolicy(mood, `${prefix}-root`));
  return { title: `seed ${seed}`, prefix, objects, alone, younger: 'ServiceEntry twin' };
}

/** The same mesh under another prefix. */
export function renamed(of: Situation, prefix: string): Situation {
  const text = JSON.stringify(of.objects).replaceAll(`${of.prefix}-`, `${prefix}-`);
  return { ...of, prefix, objects: JSON.parse(text) as Manifest[] };
}

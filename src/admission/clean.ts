// What was judged a moment ago and found clean is clean: a controller that makes pods makes many that are equal but for their
// names, a dry run comes before what it tries, and a client that is refused elsewhere comes again.
import { performance } from 'node:perf_hooks';
import type { Stage } from '../engine/policy.ts';
import { same } from '../kube/json.ts';
import type { Meta } from '../mesh/kinds/meta.ts';
import type { Workload } from '../mesh/kinds/workloads.ts';
import type { Guard } from './judge.ts';
import type { AdmissionRequest, Subject } from './request.ts';

/**
 * Milliseconds for which it counts. The Mesh tells what is written to it, but not that the source of a kind has become complete
 * or the day another one: within a second a review might have come before that as well.
 */
const LASTS = 1000;
/** Objects that are remembered for a guard's Mesh. */
const REMEMBERED = 256;

interface Clean {
  readonly policies: Guard['policies'];
  readonly settings: Guard['settings'];
  readonly revision: number;
  readonly version: string;
  /** Undefined where it was seen once: most reviews come once, and what is kept of them costs more than to judge them. */
  readonly object: Meta | undefined;
  readonly until: number;
}

const known = new WeakMap<Guard['mesh'], Map<string, Clean>>();

/** Whatever nobody names: a pod that is no part of Istio. Its name is evidence at most, and never what a policy goes by. */
function isNameless({ kind, component }: Partial<Workload>): boolean {
  return kind === 'Pod' && component === undefined;
}

/** A creation as it may be remembered; undefined for every other request. */
export interface Creation {
  readonly key: string;
  readonly revision: number;
  readonly version: string;
  readonly object: Meta;
}

/** What of a request decides its verdict, where all of that can be compared. */
export function creationOf(
  { mesh }: Guard,
  { operation }: AdmissionRequest,
  subject: Subject,
  stage: Stage,
): Creation | undefined {
  const { ref, before, after, version } = subject;
  const revision = mesh.revision?.();
  // what the Mesh holds already is not created, whatever the request says
  if (operation !== 'CREATE' || before !== undefined || after === undefined || revision === undefined) return undefined;
  if (mesh.object(ref) !== undefined) return undefined;
  const name = isNameless(after) ? '' : ref.name;
  return { key: `${stage}\n${ref.kind}\n${ref.namespace}\n${name}`, revision, version, object: after };
}

/** True where the same was found clean a moment ago, on the same Mesh and by the same settings. */
export function isKnownClean(
  { mesh, policies, settings }: Guard,
  { key, revision, version, object }: Creation,
): boolean {
  const clean = known.get(mesh)?.get(key);
  return (
    clean !== undefined &&
    clean.revision === revision &&
    clean.policies === policies &&
    clean.settings === settings &&
    clean.version === version &&
    clean.object !== undefined &&
    performance.now() < clean.until &&
    equal(object, clean.object)
  );
}

/** Remembers that nothing at all was found, not even a check that had to be skipped. */
export function rememberClean({ mesh, policies, settings }: Guard, { key, revision, version, object }: Creation): void {
  let cleans = known.get(mesh);
  if (cleans === undefined) {
    cleans = new Map();
    known.set(mesh, cleans);
  }
  const now = performance.now();
  const seen = cleans.get(key);
  const again = seen !== undefined && now < seen.until;
  if (seen === undefined && cleans.size >= REMEMBERED) cleans.clear();
  cleans.set(key, {
    policies,
    settings,
    revision,
    version,
    object: again ? object : undefined,
    until: now + LASTS,
  });
}

/** The same projection, but for the name where that stands for nothing (both have the same key). */
function equal(a: Meta, b: Meta): boolean {
  return same(a.name === b.name || !isNameless(a) ? a : { ...a, name: b.name }, b);
}

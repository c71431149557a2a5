// What becomes of an object of some kind and version: what the API server stores of it, and what an Istio release reads of that.
import type { Release } from '../../src/mesh/releases.ts';
import { compareVersions, type KindEntry, notYetRead, readAt } from './table.ts';

/**
 * `read`: Istio sees it. `by-conversion`: it does where the CRD, which is not known, serves the version that Istio reads beside
 * the one written. `needs-crd`: the CRD serves older versions only than the one Istio reads. `not-read`: Istio reads the kind no more.
 * `not-yet`: Istio is too old for it. `never`: no Istio reads the kind.
 */
export type Fate = 'read' | 'by-conversion' | 'needs-crd' | 'not-read' | 'not-yet' | 'never';

/** The fate at one release. `served` and `written` are undefined where they are not known. */
export function fateAt(
  entry: KindEntry,
  release: Release,
  served: readonly string[] | undefined,
  written: string | undefined,
): Fate {
  if (entry.neverRead === true) return 'never';
  const read = readAt(entry, release);
  if (read.length === 0) {
    // a kind that has no version but early ones and no `reads` would be empty here: the table has none such
    return notYetRead(entry, release) ? 'not-yet' : 'not-read';
  }
  const older = (versions: readonly string[]) =>
    versions.every(version => read.every(wanted => compareVersions(version, wanted) < 0));
  if (served !== undefined && served.length > 0) {
    // versions of one CRD are converted into each other: any that is served will do
    if (read.some(version => served.includes(version))) return 'read';
    return older(served) ? 'needs-crd' : 'not-yet';
  }
  if (written === undefined || read.includes(written)) return 'read';
  if (older([written])) {
    return entry.versions.find(({ name }) => name === written)?.early === true ? 'by-conversion' : 'read';
  }
  // a newer version than Istio reads: bundles serve old versions that are no alphas beside it
  const early = (name: string) => entry.versions.find(version => version.name === name)?.early === true;
  return read.every(early) && !early(written) ? 'not-yet' : 'read';
}

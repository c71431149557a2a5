// Judges the version in which an object is written or stored.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { type GroupKind, type ObjectRef, splitGroupKind } from '../../src/kube/kind.ts';
import { otherClasses, type Readers, readersOf } from '../../src/mesh/implementations.ts';
import { CRD, type CustomResourceDefinition } from '../../src/mesh/kinds/cluster.ts';
import { ALPHA_INFERENCE_POOL, INFERENCE_POOL } from '../../src/mesh/kinds/inference.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { Lookup, Mesh } from '../../src/mesh/mesh.ts';
import { KNOWLEDGE, type Release } from '../../src/mesh/releases.ts';
import { type Fate, fateAt } from './fate.ts';
import type { FindingId } from './findings.ts';
import type { Options } from './options.ts';
import { isUsed, type Ownership, ownershipOf } from './ownership.ts';
import {
  bundleName,
  compareVersions,
  crdName,
  entryOf,
  type KindEntry,
  readAt,
  removedGroupOf,
  type Successor,
  successorOf,
} from './table.ts';

type Context = CheckContext<Options>;
type VersionReport = Report<FindingId>;

/** All findings about the version of an object are one and the same reference: moving from one to a milder one is progress. */
const ABOUT = { key: 'version', about: 'version', path: '/apiVersion' } as const;

export function crdRef(entry: Pick<KindEntry, 'kind' | 'plural'>): ObjectRef {
  return { kind: CRD, namespace: '', name: crdName(entry) };
}

function crdOfEntry(mesh: Mesh, entry: KindEntry): Lookup<CustomResourceDefinition> {
  return mesh.find(CRD, '', crdName(entry));
}

function servedBy(crd: CustomResourceDefinition): readonly string[] {
  return crd.versions.filter(({ served }) => served).map(({ name }) => name);
}

const nameOf = (kind: GroupKind) => splitGroupKind(kind).kind;
const apiVersion = (kind: GroupKind, version: string) => `${splitGroupKind(kind).group}/${version}`;
export const istio = (release: Release | undefined) => `Istio ${release?.major}.${release?.minor}`;

/** The istiods that the judgement rests on, as evidence. */
export function planesOf(readers: Readers): readonly ObjectRef[] {
  return readers.planes.flatMap(({ deployment }) => (deployment === undefined ? [] : [deployment])).slice(0, 2);
}

/** Words for what a judgement rests on beside objects. */
export function groundsOf(readers: Readers, doubtful: boolean): { readonly because?: string } {
  const releases = [...new Set(readers.releases.map(({ text }) => `Istio ${text}`))].join(', ');
  const words = [
    readers.certain ? releases : 'the release of Istio here is not known',
    ...(doubtful ? ['nothing tells yet whether Istio serves it'] : []),
  ];
  return { because: words.join('; ') };
}

export function doubtsOf(mesh: Mesh, ownership: Ownership): readonly ObjectRef[] {
  return ownership === 'doubtful' ? mesh.fact(otherClasses).slice(0, 1) : [];
}

function fixFor(entry: KindEntry, successor: Successor, written: string | undefined): string {
  const hint = entry.versions.find(({ name }) => name === written)?.hint ?? entry.hint;
  const kind = nameOf(successor.kind) === nameOf(entry.kind) ? '' : ` as ${nameOf(successor.kind)}`;
  return `write it${kind} in ${successor.apiVersion}${hint === undefined ? '' : `: ${hint}`}`;
}

/** The findings about the version of one subject of the table. */
export function* checkVersion(subject: Meta, context: Context): Iterable<VersionReport> {
  const gone = removedGroupOf(subject.kind);
  if (gone !== undefined) {
    const { group } = gone;
    yield {
      finding: 'group-removed',
      ...ABOUT,
      effect:
        gone.last === ''
          ? `no CRD ever had the group ${group} in a release: nothing reads this object`
          : `the group ${group} is gone since ${gone.last}, the last with it: nothing reads this object`,
      fix: `write ${gone.instead}`,
      evidence: [],
    };
    return;
  }
  const entry = entryOf(subject.kind);
  if (entry === undefined) return;
  const { mesh, request } = context;
  const written = request?.version;
  const crd = crdOfEntry(mesh, entry);
  const served = typeof crd === 'string' ? undefined : servedBy(crd);
  // an earlier write in the same version: what is stored does not get worse
  const again =
    request?.operation === 'UPDATE' && written !== undefined && request.earlierVersions.includes(written)
      ? ({ certain: false } as const)
      : {};
  const unserved = notServed(subject, entry, served, written);
  if (unserved !== undefined) {
    yield { ...unserved, ...again };
    return;
  }
  const found = judged(subject, context, entry, served);
  if (found !== undefined) yield found.finding === 'version-superseded' ? { ...found, ...again } : found;
  yield* belowFloor(subject, context, again);
}

function notServed(
  subject: Meta,
  entry: KindEntry,
  served: readonly string[] | undefined,
  written: string | undefined,
): VersionReport | undefined {
  if (written === undefined) return undefined;
  const known = entry.versions.some(({ name }) => name === written);
  const kind = nameOf(subject.kind);
  const evidence = [crdRef(entry)];
  if (served === undefined) {
    const newest = entry.versions.at(-1)?.name ?? written;
    // newer than what is known here may well exist; older than that and never heard of does not
    if (known || !(compareVersions(written, newest) < 0)) return undefined;
    return {
      finding: 'version-not-served',
      ...ABOUT,
      effect: `${kind} never had a version ${written} in ${splitGroupKind(subject.kind).group}: the API server refuses it`,
      fix: `write ${apiVersion(entry.kind, newest)}`,
      evidence: [],
      because: 'the CRD here is not known',
      certain: false,
    };
  }
  if (served.length === 0 || served.includes(written)) return undefined;
  const successor = successorOf(entry, written);
  const best = [...served].sort((a, b) => compareVersions(b, a) || 0)[0] ?? '';
  const newer = compareVersions(written, best) > 0;
  const from = entry.versions.find(({ name }) => name === written)?.served[0]?.from;
  const rewritten = successor !== undefined && served.includes(successor.version);
  return {
    finding: 'version-not-served',
    ...ABOUT,
    effect: `the CRD here does not serve ${kind} ${written}: the API server answers that there is no such kind`,
    fix: rewritten
      ? fixFor(entry, successor, written)
      : newer && from !== undefined
        ? `install the CRDs of ${bundleName(entry, from)} or newer, or write ${apiVersion(entry.kind, best)}`
        : `write ${apiVersion(entry.kind, best)}`,
    evidence,
    because: `it serves ${served.join(', ')}`,
  };
}

const LOST: ReadonlySet<Fate> = new Set(['needs-crd', 'not-read', 'not-yet']);

/** What the API server's and Istio's reading of it come to. */
function judged(
  subject: Meta,
  { mesh, request }: Context,
  entry: KindEntry,
  served: readonly string[] | undefined,
): VersionReport | undefined {
  const readers = readersOf(mesh, subject, KNOWLEDGE);
  if (readers === undefined) return undefined;
  const written = request?.version;
  const early = entry.versions.find(({ name }) => name === written)?.early === true;
  const obsolete =
    entry.obsoleteSince !== undefined && readers.releases.every(release => atLeastMinor(release, entry.obsoleteSince));
  const isRead = (release: Release) => !LOST.has(fateAt(entry, release, served, written));
  if (!early && !obsolete && readers.releases.every(isRead)) return undefined;
  const fates = readers.releases.map(release => ({ release, fate: fateAt(entry, release, served, written) }));
  const withFate = (...wanted: readonly Fate[]) => fates.filter(({ fate }) => wanted.includes(fate));
  const unread = withFate('needs-crd', 'not-read');
  const pending = withFate('not-yet');

  const ownership = ownershipOf(mesh, subject);
  if (ownership === 'other') return undefined;
  const doubtful = ownership === 'doubtful';
  const evidence = [
    ...(served === undefined ? [] : [crdRef(entry)]),
    ...planesOf(readers),
    ...doubtsOf(mesh, ownership),
  ];
  const grounds = { evidence, ...groundsOf(readers, doubtful) };
  const kind = nameOf(entry.kind);
  const current = successorOf(entry, written) ?? successorOf(entry);

  if (unread.length > 0) {
    const twin = aliveTwin(mesh, subject);
    if (twin !== undefined) {
      return {
        finding: 'twin-in-use',
        ...ABOUT,
        effect: `${istio(unread[0]?.release)} does not read this pool: routes use the v1 pool of the same name beside it`,
        fix: 'let the controller that writes both drop the old one',
        evidence: [twin, ...grounds.evidence],
        ...(grounds.because === undefined ? {} : { because: grounds.because }),
      };
    }
    const certain = readers.certain && unread.length === fates.length && !doubtful;
    const reads = unread[0] === undefined ? [] : readAt(entry, unread[0].release);
    const wanted = current === undefined ? (reads.at(-1) ?? '') : current.apiVersion;
    const blocked = current !== undefined && lacks(mesh, entry, served, current);
    return {
      finding: blocked ? 'no-way-forward' : 'version-not-read',
      ...ABOUT,
      effect: `${istio(unread[0]?.release)} reads ${kind} only as ${wanted}: ${entry.unread}`,
      fix:
        current === undefined
          ? `write ${kind} ${wanted}`
          : blocked
            ? `install the CRDs of ${bundleName(entry, current.bundle)} or newer first, then write ${current.apiVersion}`
            : fixFor(entry, current, written),
      ...grounds,
      evidence: blocked && current !== undefined ? [successorCrd(entry, current), ...evidence] : evidence,
      certain,
    };
  }
  if (obsolete && current !== undefined) {
    // nothing of Istio's reads it, so another implementation beside it is reason enough to be silent
    if (doubtful) return undefined;
    return {
      finding: 'version-not-read',
      ...ABOUT,
      action: 'warn',
      effect: `${kind} has given way to ${nameOf(current.kind)}: ${entry.unread}`,
      fix: fixFor(entry, current, written),
      ...grounds,
      certain: readers.certain,
    };
  }
  if (early && written !== undefined && current !== undefined && current.kind === entry.kind) {
    const both = served?.includes(current.version) === true;
    const converted = withFate('by-conversion');
    if (!both && converted.length === 0) return undefined;
    return {
      finding: 'version-superseded',
      ...ABOUT,
      effect: both
        ? `${kind} ${written} is superseded by ${current.version}: it works today and goes with a next CRD bundle`
        : `${kind} ${written} is superseded by ${current.version}: it works only where the CRD serves both`,
      fix: fixFor(entry, current, written),
      ...grounds,
      // with both served it is so at every release; else it is the release that tells
      ...(both ? (doubtful ? {} : { because: `the CRD serves ${served?.join(', ')}` }) : {}),
      certain: !doubtful && (both || (readers.certain && converted.length === fates.length)),
    };
  }
  if (pending.length > 0) {
    if (usedTwin(mesh, subject)) return undefined;
    const release = pending[0]?.release;
    const reads = release === undefined ? [] : readAt(entry, release);
    return {
      finding: 'version-too-new',
      ...ABOUT,
      effect:
        reads.length === 0
          ? `${istio(release)} is too old for ${apiVersion(entry.kind, written ?? entry.versions.at(-1)?.name ?? '')}: ${entry.unread}`
          : `${istio(release)} reads ${kind} as ${reads.join(' or ')}, which the CRD here may not serve: ${entry.unread}`,
      fix: tooNewFix(entry, reads),
      ...grounds,
      certain: false,
    };
  }
  return undefined;
}

function tooNewFix(entry: KindEntry, reads: readonly string[]): string {
  const from = entry.reads?.at(-1)?.from;
  const upgrade = from === undefined ? 'upgrade Istio' : `upgrade istiod to ${from} or newer`;
  if (entry.kind === INFERENCE_POOL)
    return `${upgrade}, or keep the inference.networking.x-k8s.io pool and its routes until then`;
  return reads.length === 0
    ? upgrade
    : `${upgrade}, or install CRDs that serve ${reads.join(' or ')} too (experimental)`;
}

function atLeastMinor(release: Release, than: string | undefined): boolean {
  const [major, minor] = (than ?? '').split('.').map(Number);
  return release.major > (major ?? 0) || (release.major === major && release.minor >= (minor ?? 0));
}

function successorCrd(entry: KindEntry, successor: Successor): ObjectRef {
  const target = entryOf(successor.kind);
  return crdRef(target ?? entry);
}

/** True where what takes the version's place cannot be written here: its CRD is known and lacks it. */
function lacks(mesh: Mesh, entry: KindEntry, served: readonly string[] | undefined, successor: Successor): boolean {
  if (successor.kind === entry.kind) return served !== undefined && !served.includes(successor.version);
  const target = entryOf(successor.kind);
  if (target === undefined) return false;
  const crd = crdOfEntry(mesh, target);
  if (crd === 'unknown') return false;
  return crd === 'absent' || !servedBy(crd).includes(successor.version);
}

/** The v1 pool of the same name that routes use, where they no longer use this old one. */
function aliveTwin(mesh: Mesh, subject: Meta): ObjectRef | undefined {
  if (subject.kind !== ALPHA_INFERENCE_POOL) return undefined;
  const twin = { kind: INFERENCE_POOL, namespace: subject.namespace, name: subject.name };
  return mesh.object(twin) !== undefined && isUsed(mesh, twin) && !isUsed(mesh, subject) ? twin : undefined;
}

/** True for a v1 pool on an old Istio whose old twin is the one in use. */
function usedTwin(mesh: Mesh, subject: Meta): boolean {
  if (subject.kind !== INFERENCE_POOL) return false;
  const twin = { kind: ALPHA_INFERENCE_POOL, namespace: subject.namespace, name: subject.name };
  return mesh.object(twin) !== undefined && isUsed(mesh, twin) && !isUsed(mesh, subject);
}

function* belowFloor(subject: Meta, { options, request }: Context, again: object): Iterable<VersionReport> {
  const floor = options.floor[subject.kind] ?? options.floor[splitGroupKind(subject.kind).group];
  if (floor === undefined || request === undefined || !(compareVersions(request.version, floor) < 0)) return;
  yield {
    finding: 'below-floor',
    key: 'floor',
    path: '/apiVersion',
    effect: `${nameOf(subject.kind)} ${request.version} is below ${floor}, the oldest version that is allowed here`,
    fix: `write ${apiVersion(subject.kind, floor)}`,
    evidence: [],
    because: 'the floor set in the options of stale-api-version',
    ...again,
  };
}

// What is known of API versions, and the questions to ask of it. Other parts may ask them too.
import { type GroupKind, splitGroupKind } from '../../src/kube/kind.ts';
import { compareRelease, type Release } from '../../src/mesh/releases.ts';
import { VERSIONS } from './versions.gen.ts';

/** One step of turning an object into one of a newer version; paths are JSON pointers. */
export type RewriteStep =
  | { readonly op: 'nest'; readonly path: string; readonly under: string }
  | { readonly op: 'list'; readonly from: string; readonly to: string; readonly as?: string | undefined }
  | {
      readonly op: 'move';
      readonly from: string;
      readonly to: string;
      /** Only where the value is no object: the target stands below the source. */
      readonly scalar?: true | undefined;
      readonly note?: string | undefined;
    }
  | {
      readonly op: 'default';
      readonly path: string;
      readonly value: number;
      readonly unlessOther: { readonly path: string; readonly than: readonly string[] };
    }
  | { readonly op: 'drop'; readonly path: string; readonly note?: string | undefined };

/** CRD bundle releases that serve a version, both ends included. */
export interface ServedBy {
  readonly channel: 'standard' | 'experimental';
  readonly from: string;
  readonly until?: string | undefined;
}

export interface VersionEntry {
  readonly name: string;
  /** An alpha that something newer takes the place of. */
  readonly early?: true | undefined;
  readonly hint?: string | undefined;
  readonly served: readonly ServedBy[];
}

export interface KindEntry {
  readonly kind: GroupKind;
  readonly plural: string;
  readonly product: 'istio' | 'gateway-api' | 'inference-extension';
  readonly unread: string;
  readonly reads?:
    | readonly { readonly version: string; readonly from?: string | undefined; readonly until?: string | undefined }[]
    | undefined;
  readonly neverRead?: true | undefined;
  readonly obsoleteSince?: string | undefined;
  readonly successor?: { readonly kind: GroupKind; readonly version: string; readonly bundle: string } | undefined;
  readonly hint?: string | undefined;
  /** Oldest first. */
  readonly versions: readonly VersionEntry[];
  readonly rewrite?: readonly RewriteStep[] | undefined;
}

export interface RemovedGroup {
  readonly group: string;
  /** The last release with its CRDs; '' where none ever had them. */
  readonly last: string;
  readonly instead: string;
  readonly kinds: readonly string[];
}

export interface VersionTable {
  readonly kinds: readonly KindEntry[];
  readonly removed: readonly RemovedGroup[];
}

const entries = new Map<GroupKind, KindEntry>(VERSIONS.kinds.map(entry => [entry.kind, entry]));
const removed = new Map<GroupKind, RemovedGroup>(
  VERSIONS.removed.flatMap(group => group.kinds.map(kind => [`${kind}.${group.group}`, group] as const)),
);

/** Every kind that the table knows, removed ones too. */
export const TABLE_KINDS: readonly GroupKind[] = [...entries.keys(), ...removed.keys()];

/** What is known of a kind's versions; undefined for other kinds. Vendors' kinds of the same name are other kinds. */
export function entryOf(kind: GroupKind): KindEntry | undefined {
  return entries.get(kind);
}

/** The removed group that a kind belongs to. */
export function removedGroupOf(kind: GroupKind): RemovedGroup | undefined {
  return removed.get(kind);
}

const crdNames = new Map(VERSIONS.kinds.map(({ kind, plural }) => [kind, `${plural}.${splitGroupKind(kind).group}`]));

/** The name of the CRD that defines a kind of the table. */
export function crdName({ kind, plural }: Pick<KindEntry, 'kind' | 'plural'>): string {
  return crdNames.get(kind) ?? `${plural}.${splitGroupKind(kind).group}`;
}

const VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/;
const STAGES: Readonly<Record<string, number>> = { alpha: 0, beta: 1 };

/**
 * Compares versions as Kubernetes ranks them (v1 > v1beta2 > v1beta1 > v1alpha3); NaN where one of them is no such version.
 */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [VERSION.exec(a), VERSION.exec(b)];
  if (left === null || right === null) return Number.NaN;
  const stage = (match: RegExpExecArray) => STAGES[match[2] ?? ''] ?? 2;
  return (
    stage(left) - stage(right) || Number(left[1]) - Number(right[1]) || Number(left[3] ?? 0) - Number(right[3] ?? 0)
  );
}

/** The versions of a kind that an Istio release reads; empty where it reads none. */
export function readAt(entry: KindEntry, release: Release): readonly string[] {
  if (entry.neverRead === true) return [];
  if (entry.reads === undefined)
    return entry.versions.filter(({ early }) => early !== true).map(version => version.name);
  return entry.reads
    .filter(
      ({ from, until }) =>
        (from === undefined || compareRelease(release, from) >= 0) &&
        (until === undefined || compareRelease(release, until) <= 0),
    )
    .map(({ version }) => version);
}

/** True where no release up to this one read the kind yet. */
export function notYetRead(entry: KindEntry, release: Release): boolean {
  return (
    entry.reads?.every(({ from }) => from !== undefined && compareRelease(release, from) < 0) === true &&
    entry.neverRead !== true
  );
}

/** What takes the place of a version: a newer one of the kind that is no alpha, or another kind. */
export interface Successor {
  readonly kind: GroupKind;
  readonly version: string;
  /** GROUP/VERSION. */
  readonly apiVersion: string;
  /** The first release of the CRD bundle that serves it. */
  readonly bundle: string;
}

/** What takes the place of a version of a kind; undefined where it is current. Without a version: of the kind as a whole. */
export function successorOf(entry: KindEntry, version?: string): Successor | undefined {
  if (entry.successor !== undefined) {
    const { kind, version: name, bundle } = entry.successor;
    return { kind, version: name, apiVersion: `${splitGroupKind(kind).group}/${name}`, bundle };
  }
  const known = entry.versions.find(({ name }) => name === version);
  if (version !== undefined && known?.early !== true) return undefined;
  const newest = entry.versions.filter(({ early }) => early !== true).at(-1);
  if (newest === undefined || (version === undefined && entry.versions.every(({ early }) => early !== true)))
    return undefined;
  return {
    kind: entry.kind,
    version: newest.name,
    apiVersion: `${splitGroupKind(entry.kind).group}/${newest.name}`,
    bundle: newest.served[0]?.from ?? '',
  };
}

const PRODUCTS: Readonly<Record<KindEntry['product'], string>> = {
  istio: 'Istio',
  'gateway-api': 'Gateway API',
  'inference-extension': 'Inference Extension',
};

/** A CRD bundle as people call it: `Gateway API v1.4.0`. */
export function bundleName(entry: KindEntry, release: string): string {
  return `${PRODUCTS[entry.product]} ${release}`;
}

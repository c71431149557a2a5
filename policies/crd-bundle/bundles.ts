// Which Gateway API CRDs each release of Istio can work with. Sources: `MinimumCRDVersions` (pkg/config/kube/gatewayapi at 1.30 and
// 1.31), pkg/kube/kclient/crdwatcher.go, pkg/config/schema/gvr at each tag; the patch releases from the release notes.
import { atLeast, type ControlPlane, compareRelease, flag, type Release } from '../../src/mesh/releases.ts';

/** The alpha flag under which Istio reads kinds that are not stable yet. */
export const ALPHA = 'PILOT_ENABLE_ALPHA_GATEWAY_API';

/** How a release of Istio reads one kind. */
interface Reading {
  /** The first and the last Istio release that read it so; no last where it is so still. */
  readonly from: string;
  readonly until?: string;
  readonly version: string;
  /** The oldest bundle from which Istio takes the kind. */
  readonly minimum?: string;
  /** True where it is read only with {@link ALPHA}. */
  readonly alpha?: true;
}

/** Readings by the name of the CRD. */
export const READINGS: ReadonlyMap<string, readonly Reading[]> = new Map([
  ['grpcroutes.gateway.networking.k8s.io', [{ from: '1.26', version: 'v1', minimum: '1.1' }]],
  [
    'backendtlspolicies.gateway.networking.k8s.io',
    [
      { from: '1.26', until: '1.27', version: 'v1alpha3', alpha: true },
      { from: '1.28', version: 'v1', minimum: '1.4' },
    ],
  ],
  [
    'tlsroutes.gateway.networking.k8s.io',
    [
      { from: '1.26', until: '1.29', version: 'v1alpha2', alpha: true },
      { from: '1.30', version: 'v1', minimum: '1.5' },
    ],
  ],
  [
    'tcproutes.gateway.networking.k8s.io',
    [
      { from: '1.26', until: '1.30', version: 'v1alpha2', alpha: true },
      { from: '1.31', version: 'v1', minimum: '1.6' },
    ],
  ],
]);

/**
 * How a control plane reads a kind of the Gateway API. undefined where it does not read it at all, or its release is unknown or older
 * than what is known here.
 */
export function readingOf(
  crd: string,
  plane: Pick<ControlPlane, 'env'> & { readonly release?: Release },
): Reading | undefined {
  const { release } = plane;
  if (release === undefined) return undefined;
  const found = READINGS.get(crd)?.find(
    ({ from, until }) =>
      compareRelease(release, from) >= 0 && (until === undefined || compareRelease(release, until) <= 0),
  );
  return found?.alpha === true && !flag(plane as ControlPlane, ALPHA, false) ? undefined : found;
}

/**
 * A bundle's version, as MAJOR.MINOR.PATCH numbers; pre-releases count as what they lead to (crdwatcher.go). undefined where it is no
 * version: Istio ignores such a CRD as one without the annotation.
 */
export function bundleOf(annotation: string | undefined): readonly [number, number, number] | undefined {
  const match = /^v?(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?(?:[-+].*)?$/.exec(annotation ?? '');
  return match === null ? undefined : [Number(match[1]), Number(match[2] ?? 0), Number(match[3] ?? 0)];
}

/** Whether a bundle is older than another, given as MAJOR.MINOR. */
export function olderThan([major, minor]: readonly [number, number, number], than: string): boolean {
  const [wantedMajor = 0, wantedMinor = 0] = than.split('.').map(Number);
  return major < wantedMajor || (major === wantedMajor && minor < wantedMinor);
}

const GRACEFUL = ['1.27.9', '1.28.6', '1.29.2'];

/**
 * Whether a release that reads TLSRoute v1alpha2 ignores the CRD of a newer bundle (1.27.9, 1.28.6, 1.29.2 and later). Older patches
 * wait at start for a version that nobody serves.
 */
export function ignoresNewTlsRoute(release: Release): boolean {
  const since = GRACEFUL.find(one => one.startsWith(`${release.major}.${release.minor}.`));
  return since !== undefined && atLeast(release, since) === true;
}

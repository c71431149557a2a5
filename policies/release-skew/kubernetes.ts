// Which Kubernetes releases a release of Istio runs on.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import { compareRelease, kubelets, planeOf, type Release } from '../../src/mesh/releases.ts';

/**
 * The oldest Kubernetes that istioctl installs on (istioctl/pkg/install/k8sversion/version.go at each release) and the newest that the
 * release was announced for (istio.io, announcements of 1.28 to 1.31; of 1.26 and 1.27 it is not known here, and nothing is said).
 */
const RANGES: readonly { readonly istio: string; readonly oldest: string; readonly newest?: string }[] = [
  { istio: '1.26', oldest: '1.29' },
  { istio: '1.27', oldest: '1.29' },
  { istio: '1.28', oldest: '1.30', newest: '1.35' },
  { istio: '1.29', oldest: '1.30', newest: '1.35' },
  { istio: '1.30', oldest: '1.32', newest: '1.36' },
  { istio: '1.31', oldest: '1.32', newest: '1.36' },
];

const minor = ({ major, minor: number }: Release) => `${major}.${number}`;

/** The newest kubelet: no kubelet is newer than its API server, so the cluster is at least of this release. */
export function newestKubelet(releases: Iterable<{ readonly node: string; readonly release?: Release }>) {
  let newest: { readonly node: string; readonly release: Release } | undefined;
  for (const { node, release } of releases) {
    if (release !== undefined && (newest === undefined || compareRelease(release, minor(newest.release)) > 0))
      newest = { node, release };
  }
  return newest;
}

export function* onKubernetes(
  istiod: Workload,
  { mesh, stage, request }: CheckContext<unknown>,
): Iterable<Report<'kubernetes-unsupported'>> {
  const plane = planeOf(mesh, istiod);
  const nodes = mesh.fact(kubelets);
  const newest = newestKubelet(nodes);
  if (plane?.release === undefined || newest === undefined) return;
  const istio = minor(plane.release);
  const range = RANGES.find(one => one.istio === istio);
  if (range === undefined) return;
  const report = {
    finding: 'kubernetes-unsupported',
    key: 'kubernetes',
    evidence: [{ kind: 'Node', namespace: '', name: newest.node }],
  } as const;
  if (compareRelease(newest.release, range.oldest) < 0) {
    yield {
      ...report,
      effect: `Istio ${istio} needs Kubernetes ${range.oldest} or newer, and no node here has a kubelet newer than ${minor(newest.release)}`,
      fix: `upgrade Kubernetes to ${range.oldest} first`,
      // a kubelet that cannot be read may be newer
      // nodes are never refused, whatever they bring to light
      ...(stage === 'validate' && request === undefined ? ({ action: 'warn' } as const) : {}),
      certain: mesh.complete('Node') && nodes.every(({ release }) => release !== undefined),
    };
  } else if (range.newest !== undefined && compareRelease(newest.release, range.newest) > 0) {
    yield {
      ...report,
      effect: `Istio ${istio} was released for Kubernetes up to ${range.newest}, and a node here runs ${minor(newest.release)}`,
      fix: 'upgrade Istio to a release that names this Kubernetes',
      action: 'warn',
    };
  }
}

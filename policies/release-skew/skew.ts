// Releases of the data plane held against those of the control planes that serve it. Istio supports a control plane that is one minor
// release ahead of its data plane, never one behind (istio.io, supported releases and the ambient upgrade guide).
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { ref } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { judgedByOwner } from '../../src/mesh/enrolment.ts';
import { injectionOf, isProxyImage, proxyOf } from '../../src/mesh/injection.ts';
import { templatePath, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import {
  type ControlPlane,
  cniAgents,
  controlPlanes,
  deploymentOf,
  imageRelease,
  type Release,
} from '../../src/mesh/releases.ts';

export type SkewId = 'data-plane-ahead' | 'more-than-one-minor' | 'order';

/** By how many minor releases one is ahead of another. */
const ahead = (one: Release, other: Release) => (one.major - other.major) * 1000 + one.minor - other.minor;

const oldestFirst = (planes: readonly ControlPlane[]) =>
  planes.toSorted((one, other) =>
    one.release === undefined || other.release === undefined ? 0 : ahead(one.release, other.release),
  );

/** Part of the data plane that a workload is. */
interface Part {
  readonly called: string;
  readonly release: Release;
  /** The control planes that may serve it. */
  readonly planes: readonly ControlPlane[];
  /** True for proxies beside an application: no reason to refuse the application. */
  readonly sidecar: boolean;
}

function released(workload: Workload, container: string): Release | undefined {
  const { containers } = workload.template;
  const image = (containers.find(({ name }) => name === container) ?? containers[0])?.image;
  return image === undefined ? undefined : imageRelease(image);
}

/** The control planes that a ztunnel or istio-cni belongs to by its revision label; all of them where that tells nothing. */
function servedBy(mesh: Mesh, { template, labels }: Workload): readonly ControlPlane[] {
  const planes = mesh.fact(controlPlanes);
  const revision = template.labels['istio.io/rev'] ?? labels['istio.io/rev'];
  const named = planes.filter(plane => plane.revision === revision || plane.tags.includes(revision ?? ''));
  return named.length > 0 ? named : planes;
}

function partOf(mesh: Mesh, workload: Workload): Part | undefined {
  const { component } = workload;
  if (component === 'istiod') return undefined;
  if (component === 'ztunnel' || component === 'istio-cni') {
    const release = released(workload, component === 'ztunnel' ? 'istio-proxy' : 'install-cni');
    if (release === undefined) return undefined;
    return { called: component, release, planes: servedBy(mesh, workload), sidecar: false };
  }
  const proxy = proxyOf(workload);
  if (proxy === undefined || !isProxyImage(proxy.container.image)) return undefined;
  const release = imageRelease(proxy.container.image);
  const injection = release === undefined ? undefined : injectionOf(mesh, workload);
  if (release === undefined || injection?.standing !== true) return undefined;
  const sidecar = injection.state !== 'gateway';
  return { called: sidecar ? 'its sidecar' : 'its gateway', release, planes: injection.controlPlanes, sidecar };
}

function name({ release, revision }: ControlPlane): string {
  return revision === 'default' ? `istiod ${release?.text}` : `istiod ${revision} ${release?.text}`;
}

export function* onDataPlane(workload: Workload, { mesh, stage }: CheckContext<unknown>): Iterable<Report<SkewId>> {
  const part = partOf(mesh, workload);
  if (part === undefined || judgedByOwner(mesh, workload)) return;
  // an application is not to be refused for a proxy that works: those stand in `check`
  if (part.sidecar && (stage === 'mutate' || stage === 'validate')) return;
  const { called, release, planes } = part;
  const action = part.sidecar ? ({ action: 'warn' } as const) : {};
  const path = pointer(...templatePath(workload.kind), 'spec', 'containers');

  const behind = planes.filter(plane => plane.release !== undefined && ahead(release, plane.release) > 0);
  const [first] = oldestFirst(behind);
  if (first !== undefined) {
    yield {
      finding: 'data-plane-ahead',
      key: 'skew',
      effect: `${called} ${release.text} is newer than ${name(first)}: a data plane ahead of istiod is not supported`,
      fix: `upgrade istiod to ${release.major}.${release.minor} first, or keep ${first.release?.major}.${first.release?.minor} here`,
      evidence: deploymentOf(first),
      certain: behind.length === planes.length,
      path,
      ...action,
    };
  }
  const far = planes.filter(plane => plane.release !== undefined && ahead(plane.release, release) > 1);
  const [farthest] = oldestFirst(far).reverse();
  if (farthest !== undefined) {
    yield {
      finding: 'more-than-one-minor',
      key: 'skew',
      effect: `${called} ${release.text} is more than one minor release behind ${name(farthest)}`,
      fix: `upgrade it to ${farthest.release?.major}.${farthest.release?.minor}, one minor release after the other`,
      evidence: deploymentOf(farthest),
      certain: far.length === planes.length,
      path,
      ...action,
    };
  }
  if (workload.component !== 'ztunnel') return;
  const agent = mesh
    .fact(cniAgents)
    .find(
      one => one.workload.kind === 'DaemonSet.apps' && one.release !== undefined && ahead(release, one.release) > 0,
    );
  if (agent === undefined) return;
  yield {
    finding: 'order',
    key: 'istio-cni',
    effect: `ztunnel ${release.text} is upgraded before istio-cni ${agent.release?.text}, which has to come first`,
    fix: 'upgrade in this order: CRDs, istiod, istio-cni, ztunnel, then waypoints and gateways',
    evidence: [ref(agent.workload)],
    path,
  };
}

// What depends on where the proxy runs: kubelets that cannot run it natively, Jobs that wait for its end, hooks that look for it.
import { matchesLabels } from '../../src/kube/labels.ts';
import { NATIVE_ANNOTATION, nativeByDefault, nativeMode, PROXY } from '../../src/mesh/injection.ts';
import type { Node } from '../../src/mesh/kinds/cluster.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import type { ControlPlane } from '../../src/mesh/releases.ts';
import { because, type Found, JOBS, oldNodes, PICKS_A_CONTAINER, type Pods } from './facts.ts';

/** Nodes below 1.29 on which these pods may run; `sure` where nothing speaks against it. */
function oldCandidates(mesh: Mesh, { template }: Workload): readonly { readonly node: Node; readonly sure: boolean }[] {
  return mesh
    .fact(oldNodes)
    .filter(node =>
      template.nodeName === undefined
        ? matchesLabels(template.nodeSelector, node.labels) && node.labels['kubernetes.io/os'] !== 'windows'
        : template.nodeName === node.name,
    )
    .map(node => ({
      node,
      sure: template.nodeName !== undefined || (!node.repelling && !template.nodeAffinity),
    }));
}

export function* forcedOnOldKubelet({ mesh, workload, injection, native, at, evidence }: Pods): Found {
  // `auto` alone looks at the kubelets
  const asked = workload.template.annotations[NATIVE_ANNOTATION];
  const annotated = asked !== undefined && asked !== '' && asked !== 'false';
  if (native !== true || !(annotated || injection.controlPlanes.every(plane => nativeMode(plane) === 'true'))) return;
  const candidates = oldCandidates(mesh, workload);
  const worst = candidates.find(({ sure }) => sure) ?? candidates[0];
  if (worst === undefined) return;
  yield {
    finding: 'forced-on-old-kubelet',
    key: 'kubelet',
    effect: `its proxy is forced to be native, which kubelet ${worst.node.kubeletVersion} cannot run: pods there never start`,
    fix: annotated
      ? `remove ${NATIVE_ANNOTATION}, or use nodes of 1.29 or newer`
      : `${NATIVE_ANNOTATION}: "false", or ENABLE_NATIVE_SIDECARS=auto on istiod`,
    evidence: [worst.node, ...evidence],
    because: because(mesh, workload, injection.controlPlanes),
    certain: injection.certain && worst.sure,
    path: at('metadata', 'annotations'),
  };
}

export function* jobNeverEnds({ mesh, workload, injection, native, at, evidence }: Pods): Found {
  const { template } = workload;
  if (!JOBS.has(workload.kind) || native !== false || workload.metadataOnly) return;
  if ([...template.containers, ...template.initContainers].some(({ endsProxy }) => endsProxy)) return;
  yield {
    finding: 'job-never-ends',
    key: 'proxy',
    effect: 'its proxy is a regular container that outlives the work: the Job never completes',
    fix: nativeFix(mesh, workload, injection.controlPlanes),
    evidence,
    because: because(mesh, workload, injection.controlPlanes),
    certain: injection.certain,
    path: at('spec', 'containers'),
  };
}

/** How to let a Job complete: by a native sidecar where the kubelets can run one. */
function nativeFix(mesh: Mesh, { template }: Workload, planes: readonly ControlPlane[]): string {
  const hook = 'POST localhost:15020/quitquitquit at the end';
  if (mesh.fact(oldNodes).length > 0) return hook;
  if (template.annotations[NATIVE_ANNOTATION] === 'false') {
    return planes.some(plane => nativeByDefault(mesh, plane, template.nodeName) === false)
      ? `${NATIVE_ANNOTATION}: "true", or ${hook}`
      : `remove ${NATIVE_ANNOTATION}, or ${hook}`;
  }
  return `annotation ${NATIVE_ANNOTATION}: "true", or ${hook}`;
}

/** Integrations that look for a container among the regular ones only. */
export function* pickedContainers({ mesh, workload, injection, at, evidence }: Pods): Found {
  for (const annotation in workload.template.annotations) {
    if (!PICKS_A_CONTAINER.has(annotation) || workload.template.annotations[annotation] !== PROXY) continue;
    yield {
      finding: 'targets-containers',
      key: annotation,
      effect: `Velero looks for ${PROXY} only under containers, and it is an init container: the hook fails`,
      fix: `name another container, or set ${NATIVE_ANNOTATION}: "false"`,
      evidence,
      because: because(mesh, workload, injection.controlPlanes),
      path: at('metadata', 'annotations', annotation),
    };
  }
}

// What every check of a workload rests on: which workloads tell something, the nodes, and the settings in words.
import type { Report } from '../../src/engine/policy.ts';
import type { ObjectRef } from '../../src/kube/kind.ts';
import {
  type Injection,
  NATIVE_ANNOTATION,
  nativeByDefault,
  nativeMode,
  PROXY,
  TEMPLATES_ANNOTATION,
} from '../../src/mesh/injection.ts';
import type { Node } from '../../src/mesh/kinds/cluster.ts';
import type { Container, Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Fact, Mesh } from '../../src/mesh/mesh.ts';
import { atLeast, type ControlPlane, parseRelease } from '../../src/mesh/releases.ts';
import { isValidated } from './annotations.ts';

export type PodFinding =
  | 'targets-containers'
  | 'two-proxies'
  | 'name-taken'
  | 'forced-on-old-kubelet'
  | 'job-never-ends'
  | 'injection-refused'
  | 'unknown-opt-out'
  | 'override-in-init-containers'
  | 'auto-image-without-injection';

/** The first release whose kubelets run native sidecars without a feature gate. */
const NATIVE_KUBELET = '1.29';
export const INJECT = 'sidecar.istio.io/inject';
export const STATUS = 'sidecar.istio.io/status';
export const JOBS = new Set(['Job.batch', 'CronJob.batch']);

/** Keys that people write for the annotation; release notes print the first. No release reads them. */
export const MISTAKEN = /^(?:[a-z]+\.){0,3}istio\.io\/native[-_]?(?:side(?:[-_]?cars?)?)?$/i;

/**
 * Annotations by which other products pick one container, and which they look for among the regular ones only: Velero refuses
 * a backup hook of a container that is not under `spec.containers` (pkg/podexec/pod_command_executor.go).
 */
export const PICKS_A_CONTAINER = new Set([
  'pre.hook.backup.velero.io/container',
  'post.hook.backup.velero.io/container',
]);

export const isTwin = (annotation: string) => MISTAKEN.test(annotation) && annotation !== NATIVE_ANNOTATION;

/** Nodes whose kubelet cannot run native sidecars. */
export const oldNodes: Fact<readonly Node[]> = {
  name: 'oldNodes',
  compute: mesh =>
    [...mesh.list('Node')].filter(
      ({ kubeletVersion }) => atLeast(parseRelease(kubeletVersion), NATIVE_KUBELET) === false,
    ),
};

export function hasProxy(containers: readonly Container[]): Container | undefined {
  return containers.find(container => container.name === PROXY);
}

/** True where something of the workload itself can lead to a finding; the rest costs no look at the Mesh. */
export function isTelling(workload: Workload): boolean {
  const { template } = workload;
  if (JOBS.has(workload.kind)) return true;
  if (hasProxy(template.containers) !== undefined || hasProxy(template.initContainers) !== undefined) return true;
  for (const label in template.labels) if (MISTAKEN.test(label)) return true;
  for (const annotation in workload.annotations) if (MISTAKEN.test(annotation)) return true;
  for (const annotation in template.annotations) {
    if (isValidated(annotation) || annotation === TEMPLATES_ANNOTATION || MISTAKEN.test(annotation)) return true;
    if (PICKS_A_CONTAINER.has(annotation)) return true;
  }
  return false;
}

export interface Pods {
  readonly mesh: Mesh;
  readonly workload: Workload;
  readonly injection: Injection;
  /** What each control plane that injects would do. */
  readonly native: boolean | 'unknown';
  readonly at: (...path: readonly (string | number)[]) => string;
  readonly evidence: readonly ObjectRef[];
}

export const deployments = (planes: readonly ControlPlane[]): readonly ObjectRef[] =>
  planes.flatMap(({ deployment }) => deployment ?? []);

/** Why the proxy is native or not, in words. */
export function because(mesh: Mesh, { template }: Workload, planes: readonly ControlPlane[]): string {
  const asked = template.annotations[NATIVE_ANNOTATION];
  if (asked !== undefined && asked !== '') return `the annotation ${NATIVE_ANNOTATION}: ${asked}`;
  const [plane] = planes;
  return plane === undefined ? 'the setting of istiod' : settingOf(mesh, plane);
}

/** What a control plane's own setting comes to, in words. */
export function settingOf(mesh: Mesh, plane: ControlPlane): string {
  const release = plane.release === undefined ? 'istiod' : `istiod ${plane.release.text}`;
  const mode = nativeMode(plane);
  if (mode === undefined) return `${release}, whose release is not known`;
  if (mode !== 'auto') {
    const set = plane.env['ENABLE_NATIVE_SIDECARS'];
    return `${release}, ENABLE_NATIVE_SIDECARS ${set === undefined ? 'false by default' : JSON.stringify(set)}`;
  }
  const decided = nativeByDefault(mesh, plane);
  const nodes =
    decided === 'unknown' ? 'kubelets not known' : decided ? 'kubelets 1.33 or newer' : 'a kubelet below 1.33';
  return `${release}, native auto, ${nodes}`;
}

export type Found = Generator<Report<PodFinding>>;

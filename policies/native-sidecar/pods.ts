// What becomes of the proxy in the pods of a workload.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import type { GroupKind, ObjectRef } from '../../src/kube/kind.ts';
import { matchesLabels } from '../../src/kube/labels.ts';
import { pointer } from '../../src/kube/patch.ts';
import {
  type Injection,
  injectionOf,
  injectorConfigMapName,
  injectorConfigs,
  isProxyImage,
  NATIVE_ANNOTATION,
  nativeByDefault,
  nativeMode,
  nativeOf,
  PROXY,
  TEMPLATES_ANNOTATION,
} from '../../src/mesh/injection.ts';
import type { Node } from '../../src/mesh/kinds/cluster.ts';
import { type Container, templatePath, WORKLOAD_KINDS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Fact, Mesh } from '../../src/mesh/mesh.ts';
import { atLeast, type ControlPlane, compareRelease, imageRelease, parseRelease } from '../../src/mesh/releases.ts';
import { isValidated, refusedAnnotations } from './annotations.ts';

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
const INJECT = 'sidecar.istio.io/inject';
const STATUS = 'sidecar.istio.io/status';
const WORKLOADS: ReadonlySet<GroupKind> = new Set(WORKLOAD_KINDS);
const JOBS = new Set(['Job.batch', 'CronJob.batch']);

/** Keys that people write for the annotation; release notes of 1.25 and 1.27 print the first. No release reads them. */
const MISTAKEN = /^(?:[a-z]+\.){0,3}istio\.io\/native[-_]?(?:side(?:[-_]?cars?)?)?$/i;

/**
 * Annotations by which other products pick one container, and which they look for among the regular ones only: Velero refuses
 * a backup hook of a container that is not under `spec.containers` (pkg/podexec/pod_command_executor.go).
 */
const PICKS_A_CONTAINER = new Set(['pre.hook.backup.velero.io/container', 'post.hook.backup.velero.io/container']);

const isTwin = (annotation: string) => MISTAKEN.test(annotation) && annotation !== NATIVE_ANNOTATION;

/** Nodes whose kubelet cannot run native sidecars. */
export const oldNodes: Fact<readonly Node[]> = {
  name: 'oldNodes',
  compute: mesh =>
    [...mesh.list('Node')].filter(
      ({ kubeletVersion }) => atLeast(parseRelease(kubeletVersion), NATIVE_KUBELET) === false,
    ),
};

function hasProxy(containers: readonly Container[]): Container | undefined {
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

interface Pods {
  readonly mesh: Mesh;
  readonly workload: Workload;
  readonly injection: Injection;
  /** What each control plane that injects would do. */
  readonly native: boolean | 'unknown';
  readonly at: (...path: readonly (string | number)[]) => string;
  readonly evidence: readonly ObjectRef[];
}

/** The same answer of every control plane, else unknown. */
function agreed(mesh: Mesh, workload: Workload, planes: readonly ControlPlane[]): boolean | 'unknown' {
  const [first, ...others] = new Set(planes.map(plane => nativeOf(mesh, workload, plane)));
  return first === undefined || others.length > 0 ? 'unknown' : first;
}

export const deployments = (planes: readonly ControlPlane[]): readonly ObjectRef[] =>
  planes.flatMap(({ deployment }) => deployment ?? []);

/** Why the proxy is native or not, in words. */
function because(mesh: Mesh, { template }: Workload, planes: readonly ControlPlane[]): string {
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

type Found = Generator<Report<PodFinding>>;

function* twoProxies({ workload, at }: Omit<Pods, 'injection' | 'native'>): Found {
  const { template } = workload;
  if (hasProxy(template.containers) === undefined || hasProxy(template.initContainers) === undefined) return;
  yield {
    finding: 'two-proxies',
    key: PROXY,
    effect: `${PROXY} stands under containers and under initContainers: Kubernetes refuses such pods`,
    fix: 'keep one of them: an override belongs under spec.containers, with image: auto',
    evidence: [],
    path: at('spec', 'containers'),
  };
}

/** `image: auto`, or none, is how an override leaves the image to the injector. */
const isOverride = ({ image }: Container) => image === 'auto' || image === '';

function* nameTaken({ workload, injection, native, at, evidence }: Pods): Found {
  const { template } = workload;
  const regular = hasProxy(template.containers);
  const init = hasProxy(template.initContainers);
  // under initContainers it is merged only where the proxy stands there too
  const container = regular ?? (native === true ? init : undefined);
  if (container === undefined || (regular !== undefined && init !== undefined) || isOverride(container)) return;
  const common = {
    finding: 'name-taken',
    key: PROXY,
    evidence,
    because: injection.why,
    path: at('spec', regular === undefined ? 'initContainers' : 'containers'),
  } as const;
  if (!isProxyImage(container.image)) {
    yield {
      ...common,
      action: 'deny',
      certain: injection.certain,
      effect: `its container ${PROXY} is taken for the sidecar: the injector merges the two and yours is gone`,
      fix: 'give it another name, or label the pods sidecar.istio.io/inject: "false"',
    };
    return;
  }
  const pinned = imageRelease(container.image);
  const agrees = injection.controlPlanes.every(
    ({ release }) =>
      release !== undefined &&
      pinned !== undefined &&
      compareRelease(pinned, `${release.major}.${release.minor}`) === 0 &&
      pinned.patch === release.patch,
  );
  if (agrees && injection.controlPlanes.length > 0) return;
  yield {
    ...common,
    effect: `its container ${PROXY} pins the proxy to ${pinned?.text ?? container.image}, whatever istiod would inject`,
    fix: 'image: auto',
  };
}

function* overrideInInit({ mesh, workload, injection, native, at, evidence }: Pods): Found {
  const { template } = workload;
  if (hasProxy(template.initContainers) === undefined || hasProxy(template.containers) !== undefined) return;
  const anyRegular = injection.controlPlanes.some(plane => nativeOf(mesh, workload, plane) === false);
  if (!anyRegular) return;
  yield {
    finding: 'override-in-init-containers',
    key: PROXY,
    effect: `${PROXY} under initContainers while the proxy is not native: the name is there twice, pods are refused`,
    fix: `move ${PROXY} to spec.containers: the injector moves it where the proxy is`,
    evidence,
    because: because(mesh, workload, injection.controlPlanes),
    certain: injection.certain && native === false,
    path: at('spec', 'initContainers'),
  };
}

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

function* forcedOnOldKubelet({ mesh, workload, injection, native, at, evidence }: Pods): Found {
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

function* jobNeverEnds({ mesh, workload, injection, native, at, evidence }: Pods): Found {
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

function* injectionRefused({ mesh, workload, injection, at }: Pods): Found {
  const { annotations } = workload.template;
  for (const { annotation, wish, certain } of refusedAnnotations(annotations)) {
    yield {
      finding: 'injection-refused',
      key: annotation,
      effect: `the injector refuses its ${annotation}: the object is stored and its pods never come`,
      fix: `${annotation}: ${wish}`,
      evidence: deployments(injection.controlPlanes),
      because: injection.why,
      certain: certain && injection.certain,
      path: at('metadata', 'annotations', annotation),
    };
  }
  const configs = mesh.fact(injectorConfigs);
  const knowing = injection.controlPlanes.filter(plane => configs.has(plane));
  const missing = injection.templates.find(name =>
    knowing.some(plane => configs.get(plane)?.templates[name] === undefined),
  );
  if (missing === undefined) return;
  const everywhere = injection.controlPlanes.every(
    plane => configs.has(plane) && configs.get(plane)?.templates[missing] === undefined,
  );
  yield {
    finding: 'injection-refused',
    key: `${TEMPLATES_ANNOTATION}=${missing}`,
    effect: `no injection template is called "${missing}": the object is stored and its pods never come`,
    fix: `${TEMPLATES_ANNOTATION}: ${Object.keys(configs.get(knowing[0] as ControlPlane)?.templates ?? {}).join(' | ')}`,
    evidence: knowing.map(plane => ({
      kind: 'ConfigMap',
      namespace: plane.namespace,
      name: injectorConfigMapName(plane),
    })),
    certain: injection.certain && everywhere,
    path: at('metadata', 'annotations', TEMPLATES_ANNOTATION),
  };
}

function* unknownOptOut({ mesh, workload, injection, at, evidence }: Pods): Found {
  const { template } = workload;
  const value = template.annotations[NATIVE_ANNOTATION];
  const common = { finding: 'unknown-opt-out', evidence } as const;
  if (value !== undefined && value !== 'true' && value !== 'false') {
    // without a value the setting decides; with any other the template makes it native and the move of the override does not
    const clashes =
      value !== '' &&
      hasProxy(template.containers) !== undefined &&
      injection.controlPlanes.length > 0 &&
      injection.controlPlanes.every(plane => nativeByDefault(mesh, plane, template.nodeName) === false);
    yield {
      ...common,
      key: NATIVE_ANNOTATION,
      effect: clashes
        ? `${NATIVE_ANNOTATION}: "${value}" makes the proxy native but not the override: its pods are refused`
        : value === ''
          ? `${NATIVE_ANNOTATION} without a value says nothing: the setting of istiod decides`
          : `${NATIVE_ANNOTATION}: "${value}" does not opt out, only "false" does: the proxy is native`,
      fix: `${NATIVE_ANNOTATION}: "true" or "false"`,
      ...(clashes ? { action: 'deny', certain: injection.certain } : {}),
      path: at('metadata', 'annotations', NATIVE_ANNOTATION),
    };
  }
  if (value !== undefined) return;
  const misspelt = Object.keys(template.annotations).find(isTwin);
  if (misspelt !== undefined) {
    yield {
      ...common,
      key: misspelt,
      effect: `no release reads the annotation ${misspelt}: it changes nothing`,
      fix: `${NATIVE_ANNOTATION}: "${template.annotations[misspelt]}"`,
      path: at('metadata', 'annotations', misspelt),
    };
    return;
  }
  const label = Object.keys(template.labels).find(key => MISTAKEN.test(key));
  if (label !== undefined) {
    yield {
      ...common,
      key: `label ${label}`,
      effect: `${label} is a label here, and only an annotation is read`,
      fix: `annotate the pod template: ${NATIVE_ANNOTATION}`,
      path: at('metadata', 'labels', label),
    };
    return;
  }
  if (workload.kind === 'Pod') return;
  const outside = Object.keys(workload.annotations).find(key => MISTAKEN.test(key));
  if (outside === undefined) return;
  yield {
    ...common,
    key: `outside ${outside}`,
    effect: `${outside} stands on the workload, and only the pod template's is read`,
    fix: `annotate the pod template: ${NATIVE_ANNOTATION}`,
    path: pointer('metadata', 'annotations', outside),
  };
}

/** What would have an injector see the pods, given what keeps it from them. */
function injectedBy({ template, kind, created }: Workload, namespace: string | undefined): string {
  if (kind === 'Pod' && created !== '') return 'create it anew once an injector webhook selects it';
  if (template.hostNetwork) return 'name a proxy image, or leave the host network';
  if (template.labels[INJECT] === 'false') return `remove the label ${INJECT}: "false" from the pods`;
  if (namespace !== undefined && namespace !== 'enabled') return 'istio-injection: enabled on the namespace';
  return `label the pods ${INJECT}: "true", or name a proxy image`;
}

function* autoImage({ mesh, workload, injection, at }: Omit<Pods, 'native'>, context: CheckContext<unknown>): Found {
  const regular = hasProxy(workload.template.containers);
  const container = regular ?? hasProxy(workload.template.initContainers);
  if (container?.image !== 'auto') return;
  if (injection.state === 'unknown') {
    const { labels } = workload.template;
    const asks = labels[INJECT] === 'true' || labels['istio.io/rev'] !== undefined;
    if (!asks) context.skipped(`whether an injector replaces the image "auto" of ${workload.name}`);
    return;
  }
  if (injection.state !== 'none') return;
  yield {
    finding: 'auto-image-without-injection',
    key: PROXY,
    effect: `no injector sees its pods: image: auto of ${PROXY} stays and cannot be pulled`,
    fix: injectedBy(workload, mesh.get('Namespace', '', workload.namespace)?.labels['istio-injection']),
    evidence: [],
    because: injection.why,
    path: at('spec', regular === undefined ? 'initContainers' : 'containers'),
  };
}

/** Integrations that look for a container among the regular ones only. */
function* pickedContainers({ mesh, workload, injection, at, evidence }: Pods): Found {
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

/** On a pod that is injected natively: another `istio-proxy` among the regular containers, which is not istiod's. */
function* strayProxy({ workload, at }: Pods): Found {
  const status = workload.template.annotations[STATUS];
  if (status === undefined || hasProxy(workload.template.containers) === undefined) return;
  if (hasProxy(workload.template.initContainers) !== undefined || !injectedNatively(status)) return;
  yield {
    finding: 'targets-containers',
    key: PROXY,
    effect: `the injector made ${PROXY} a native sidecar, and something else has put one under containers`,
    fix: 'let whatever changes the pod look under initContainers too',
    evidence: [],
    path: at('spec', 'containers'),
  };
}

/** The status annotation lists the containers that the injector has added. */
function injectedNatively(status: string): boolean {
  try {
    const { initContainers, containers } = JSON.parse(status) as Record<string, unknown>;
    const includes = (names: unknown) => Array.isArray(names) && names.includes(PROXY);
    return includes(initContainers) && !includes(containers);
  } catch {
    return false;
  }
}

/** Everything that is to be said of a workload's pods. */
export function* podReports(workload: Workload, context: CheckContext<unknown>): Found {
  const { mesh } = context;
  if (workload.metadataOnly) return;
  if (!isTelling(workload) && mesh.fact(oldNodes).length === 0) return;
  const prefix = templatePath(workload.kind);
  const at = (...path: readonly (string | number)[]) => pointer(...prefix, ...path);
  const injection = injectionOf(mesh, workload);
  const evidence = deployments(injection.controlPlanes);
  yield* twoProxies({ mesh, workload, at, evidence });
  const base = { mesh, workload, injection, at, evidence };
  // what its controller's template says was said there: a rollout brings nothing new
  if (workload.owner !== undefined && WORKLOADS.has(workload.owner.kind)) {
    if (injection.standing) yield* strayProxy({ ...base, native: 'unknown' });
    return;
  }
  yield* autoImage(base, context);
  if (injection.standing) {
    yield* strayProxy({ ...base, native: 'unknown' });
    return;
  }
  if (injection.state === 'none') return;
  if (injection.state === 'unknown') {
    yield* unknownOptOut({ ...base, native: 'unknown' });
    return;
  }
  const pods: Pods = { ...base, native: agreed(mesh, workload, injection.controlPlanes) };
  yield* injectionRefused(pods);
  if (injection.state !== 'sidecar') return;
  yield* nameTaken(pods);
  yield* overrideInInit(pods);
  yield* forcedOnOldKubelet(pods);
  yield* jobNeverEnds(pods);
  yield* unknownOptOut(pods);
  if (pods.native === true) yield* pickedContainers(pods);
}

// Containers called `istio-proxy` that somebody wrote: overrides, strangers, and what waits for an injector in vain.
import type { CheckContext } from '../../src/engine/policy.ts';
import { isProxyImage, nativeOf, PROXY } from '../../src/mesh/injection.ts';
import type { Container, Workload } from '../../src/mesh/kinds/workloads.ts';
import { compareRelease, imageRelease } from '../../src/mesh/releases.ts';
import { because, type Found, hasProxy, INJECT, type Pods, STATUS } from './facts.ts';

export function* twoProxies({ workload, at }: Omit<Pods, 'injection' | 'native'>): Found {
  const { template } = workload;
  if (hasProxy(template.containers) === undefined || hasProxy(template.initContainers) === undefined) return;
  yield {
    finding: 'two-proxies',
    key: PROXY,
    effect: `${PROXY} stands under containers and under initContainers: such pods are refused, or come broken`,
    fix: 'keep one of them: an override belongs under spec.containers, with image: auto',
    evidence: [],
    path: at('spec', 'containers'),
  };
}

/** `image: auto`, or none, is how an override leaves the image to the injector. */
const isOverride = ({ image }: Container) => image === 'auto' || image === '';

export function* nameTaken({ workload, injection, native, at, evidence }: Pods): Found {
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

export function* overrideInInit({ mesh, workload, injection, native, at, evidence }: Pods): Found {
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

/** What would have an injector see the pods, given what keeps it from them. */
function injectedBy({ template, kind, created }: Workload, namespace: string | undefined): string {
  if (kind === 'Pod' && created !== '') return 'create it anew once an injector webhook selects it';
  if (template.hostNetwork) return 'name a proxy image, or leave the host network';
  if (template.labels[INJECT] === 'false') return `remove the label ${INJECT}: "false" from the pods`;
  if (namespace !== undefined && namespace !== 'enabled') return 'istio-injection: enabled on the namespace';
  return `label the pods ${INJECT}: "true", or name a proxy image`;
}

export function* autoImage(
  { mesh, workload, injection, at }: Omit<Pods, 'native'>,
  context: CheckContext<unknown>,
): Found {
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

/** On a pod that is injected natively: another `istio-proxy` among the regular containers, which is not istiod's. */
export function* strayProxy({ workload, at }: Pods): Found {
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

// What becomes of the proxy in the pods of a workload.
import type { CheckContext } from '../../src/engine/policy.ts';
import { pointer } from '../../src/kube/patch.ts';
import {
  injectionOf,
  injectorConfigMapName,
  injectorConfigs,
  nativeOf,
  TEMPLATES_ANNOTATION,
} from '../../src/mesh/injection.ts';
import { templatePath, WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import type { ControlPlane } from '../../src/mesh/releases.ts';
import { refusedAnnotations } from './annotations.ts';
import { deployments, type Found, isTelling, oldNodes, type Pods } from './facts.ts';
import { forcedOnOldKubelet, jobNeverEnds, pickedContainers } from './kubelets.ts';
import { unknownOptOut } from './optout.ts';
import { autoImage, nameTaken, overrideInInit, strayProxy, twoProxies } from './overrides.ts';

/** The same answer of every control plane, else unknown. */
function agreed(mesh: Mesh, workload: Workload, planes: readonly ControlPlane[]): boolean | 'unknown' {
  const [first, ...others] = new Set(planes.map(plane => nativeOf(mesh, workload, plane)));
  return first === undefined || others.length > 0 ? 'unknown' : first;
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
  const lacking = knowing.find(plane => configs.get(plane)?.templates[missing] === undefined) as ControlPlane;
  const there = Object.keys(configs.get(lacking)?.templates ?? {});
  const everywhere = injection.controlPlanes.every(
    plane => configs.has(plane) && configs.get(plane)?.templates[missing] === undefined,
  );
  yield {
    finding: 'injection-refused',
    key: `${TEMPLATES_ANNOTATION}=${missing}`,
    effect: `no injection template is called "${missing}": the object is stored and its pods never come`,
    fix:
      there.length > 0
        ? `${TEMPLATES_ANNOTATION}: ${there.join(' | ')}`
        : `define templates in ConfigMap ${lacking.namespace}/${injectorConfigMapName(lacking)}, which has none`,
    evidence: knowing.map(plane => ({
      kind: 'ConfigMap',
      namespace: plane.namespace,
      name: injectorConfigMapName(plane),
    })),
    certain: injection.certain && everywhere,
    path: at('metadata', 'annotations', TEMPLATES_ANNOTATION),
  };
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

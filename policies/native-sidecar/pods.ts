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
import { BUILT_IN } from './rules.ts';

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
  yield* unknownTemplate({ mesh, workload, injection, at });
}

/** The templates of control planes; those of the chart where a state that is whole has no ConfigMap of an istiod that is in it. */
function templatesOf(mesh: Mesh, plane: ControlPlane): { readonly names: readonly string[]; readonly known: boolean } {
  const config = mesh.fact(injectorConfigs).get(plane);
  if (config !== undefined) return { names: Object.keys(config.templates), known: true };
  return { names: plane.deployment !== undefined && mesh.complete('ConfigMap') ? [...BUILT_IN] : [], known: false };
}

function* unknownTemplate({ mesh, workload, injection, at }: Omit<Pods, 'native' | 'evidence'>): Found {
  const asked = workload.template.annotations[TEMPLATES_ANNOTATION] !== undefined;
  const knowing = injection.controlPlanes.flatMap(plane => {
    const { names, known } = templatesOf(mesh, plane);
    // defaults may name a template that a ConfigMap has not; where it is not there, what the pod asks for alone tells
    return known || (asked && names.length > 0) ? [{ plane, names, known }] : [];
  });
  const lacks = (missing: string) => knowing.filter(({ names }) => !names.includes(missing));
  const missing = injection.templates.find(name => lacks(name).length > 0);
  if (missing === undefined) return;
  const [lacking] = lacks(missing);
  if (lacking === undefined) return;
  const configMap = (plane: ControlPlane) => ({
    kind: 'ConfigMap',
    namespace: plane.namespace,
    name: injectorConfigMapName(plane),
  });
  const everywhere = injection.controlPlanes.every(plane =>
    lacks(missing).some(other => other.plane === plane && other.known),
  );
  const holder = `${lacking.plane.namespace}/${injectorConfigMapName(lacking.plane)}`;
  yield {
    finding: 'injection-refused',
    key: `${TEMPLATES_ANNOTATION}=${missing}`,
    effect: `no injection template is called "${missing}": the object is stored and its pods never come`,
    fix:
      lacking.known && lacking.names.length > 0
        ? `${TEMPLATES_ANNOTATION}: ${lacking.names.join(' | ')}`
        : lacking.known
          ? `define templates in ConfigMap ${holder}, which has none`
          : `correct the name, or define it in ConfigMap ${holder}`,
    evidence: knowing.map(({ plane, known }) => (known ? configMap(plane) : { ...configMap(plane), missing: true })),
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

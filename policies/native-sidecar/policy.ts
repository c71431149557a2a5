// Who would be surprised where istiod puts the proxy: since 1.27 under initContainers, wherever every kubelet is 1.33 or newer.
import * as z from 'zod';
import { type CheckContext, definePolicy, type FindingSpec, PAUSE, type Report } from '../../src/engine/policy.ts';
import type { GroupKind, ObjectRef } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { injectionOf, injectorConfigMapName, nativeByDefault, parseInjectorConfig } from '../../src/mesh/injection.ts';
import type { ConfigMap, Specified } from '../../src/mesh/kinds/cluster.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { WORKLOAD_KINDS, WORKLOADS, type Workload, workload } from '../../src/mesh/kinds/workloads.ts';
import { isOf, type Kind } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { type ControlPlane, controlPlanes } from '../../src/mesh/releases.ts';
import { affected, asksForSidecars, ENGINE_KINDS, MUTATOR_KINDS, sidecarsExpected } from './affected.ts';
import { deployments, type PodFinding, settingOf } from './facts.ts';
import { podReports } from './pods.ts';
import {
  counterpartLocation,
  isBuiltIn,
  isTooLarge,
  narrowRules,
  patchesRegularOnly,
  type Rule,
  rulesOf,
} from './rules.ts';

const CONSTRAINTS = 'constraints.gatekeeper.sh';
/** The API server asks no webhook about its own admission policies. */
const NEVER_ASKED = 'Policy.admissionregistration.k8s.io';

const EVERYWHERE = ['mutate', 'validate', 'files', 'audit'] as const;

const findings: Readonly<Record<PodFinding, FindingSpec>> = {
  'targets-containers': {
    action: 'warn',
    since: '1.27',
    seen: EVERYWHERE,
    doc: 'Something reaches for istio-proxy under containers only, where native injection puts it under initContainers',
  },
  'two-proxies': {
    action: 'deny',
    seen: EVERYWHERE,
    objectAlone: true,
    doc: 'istio-proxy stands under containers and under initContainers, which Kubernetes refuses',
  },
  'name-taken': {
    action: 'warn',
    seen: EVERYWHERE,
    doc: 'A container called istio-proxy is taken for the proxy: its image is pinned, or the container is gone (deny)',
  },
  'forced-on-old-kubelet': {
    action: 'deny',
    seen: EVERYWHERE,
    doc: 'The proxy is forced to be a native sidecar where a kubelet older than 1.29 may run the pods',
  },
  'job-never-ends': {
    action: 'warn',
    seen: EVERYWHERE,
    doc: 'A Job whose proxy is a regular container that nothing ends',
  },
  'injection-refused': {
    action: 'deny',
    seen: EVERYWHERE,
    doc: 'An annotation that the injector refuses: the object is stored and its pods never come',
  },
  'unknown-opt-out': {
    action: 'warn',
    seen: EVERYWHERE,
    doc: 'A key or value that looks like sidecar.istio.io/nativeSidecar and decides nothing, or something else',
  },
  'override-in-init-containers': {
    action: 'deny',
    seen: EVERYWHERE,
    doc: 'An override of the proxy under initContainers while the proxy is not native: the pods are refused',
  },
  'auto-image-without-injection': {
    action: 'warn',
    seen: EVERYWHERE,
    doc: 'image: auto on pods that no injector sees',
  },
};

type Found = Iterable<Report<PodFinding> | typeof PAUSE>;

/** Where native injection is on, in part on, or perhaps on; undefined where it is off everywhere. */
function nativeSomewhere(mesh: Mesh, planes: readonly ControlPlane[]) {
  const decided = planes.map(plane => ({ plane, native: nativeByDefault(mesh, plane) }));
  const first = decided.find(({ native }) => native === true) ?? decided.find(({ native }) => native === 'unknown');
  if (first === undefined) return undefined;
  return {
    certain: first.native === true,
    because: settingOf(mesh, first.plane),
    evidence: deployments([first.plane]),
  };
}

/** Gatekeeper wants a mutator for each list: true where another object of the kind does the same for init containers. */
function hasCounterpart(mesh: Mesh, subject: Specified): boolean {
  const wanted = counterpartLocation(subject.spec);
  if (wanted === undefined) return false;
  for (const kind of MUTATOR_KINDS) {
    if (!isOf(subject, kind)) continue;
    for (const other of mesh.list(kind))
      if ((other.spec as { location?: unknown } | null)?.location === wanted) return true;
  }
  return false;
}

/** The control planes that inject the pods of a namespace; all of them where none is known to. */
function injecting(mesh: Mesh, { name }: Meta, planes: readonly ControlPlane[]): readonly ControlPlane[] {
  const injection = injectionOf(mesh, workload('Pod', name, { spec: {} }));
  return injection.certain && injection.controlPlanes.length > 0 ? injection.controlPlanes : planes;
}

/** Rules of one object that are reported: whoever mends these finds the others. */
const EXAMPLES = 20;

function* ruleReports(subject: Specified, { mesh, stage, skipped }: CheckContext<unknown>): Found {
  if (subject.kind.endsWith(NEVER_ASKED) && (stage === 'mutate' || stage === 'validate')) return;
  if (isTooLarge(subject.spec)) return;
  const rules: Rule[] = [];
  for (const rule of rulesOf(subject.kind, subject.spec)) {
    rules.push(rule);
    if (rules.length % 20 === 0) yield PAUSE;
  }
  const narrow = narrowRules(rules);
  if (narrow.length === 0 || hasCounterpart(mesh, subject)) return;
  const planes = mesh.fact(controlPlanes);
  if (planes.length === 0) {
    skipped(`whether istio-proxy, which ${subject.name} looks for under containers, is a native sidecar here`);
    return;
  }
  if (!mesh.fact(sidecarsExpected)) return;
  // a namespaced policy holds for its own namespace's pods, which are gateways or nothing where nobody asks for sidecars
  const home = subject.namespace === '' ? undefined : mesh.get('Namespace', '', subject.namespace);
  if (home !== undefined && !asksForSidecars(home)) return;
  const native = nativeSomewhere(mesh, home === undefined ? planes : injecting(mesh, home, planes));
  if (native === undefined) return;
  for (const rule of narrow.slice(0, EXAMPLES)) {
    yield {
      finding: 'targets-containers',
      key: rule.key,
      effect: rule.mutates
        ? 'it changes istio-proxy only under containers: the injected one is an init container'
        : 'it knows istio-proxy only under containers: the injected one is an init container',
      fix: `name istio-proxy under initContainers too${subject.kind.endsWith('.mutations.gatekeeper.sh') ? ', in an object of its own' : ''}`,
      ...native,
      path: rule.path,
    };
  }
}

/** The control planes that read a ConfigMap as their injector's. */
function readersOf(mesh: Mesh, configMap: ConfigMap): readonly ControlPlane[] {
  return mesh
    .fact(controlPlanes)
    .filter(plane => plane.namespace === configMap.namespace && injectorConfigMapName(plane) === configMap.name);
}

function* templateReports(subject: ConfigMap, { mesh }: CheckContext<unknown>): Found {
  if (!subject.name.startsWith('istio-sidecar-injector')) return;
  const planes = readersOf(mesh, subject);
  if (planes.length === 0) return;
  const native = nativeSomewhere(mesh, planes);
  if (native === undefined) return;
  const templates = parseInjectorConfig(subject.data['config'])?.templates ?? {};
  for (const name in templates) {
    if (isBuiltIn(name) || !patchesRegularOnly(templates[name] ?? '')) continue;
    yield {
      finding: 'targets-containers',
      key: `template ${name}`,
      effect: `template "${name}" patches istio-proxy under containers: native pods hold it twice, refused`,
      fix: 'put the patch under initContainers where .NativeSidecars is true',
      ...native,
      path: pointer('data', 'config'),
    };
  }
}

function isRuleKind(subject: Meta): subject is Specified {
  return (ENGINE_KINDS as readonly string[]).includes(subject.kind) || subject.kind.endsWith(`.${CONSTRAINTS}`);
}

export const nativeSidecar = definePolicy({
  id: 'native-sidecar',
  title: 'Whoever looks for the proxy where it no longer is: native sidecars stand under initContainers',
  subjects: [...WORKLOAD_KINDS, 'ConfigMap', ...ENGINE_KINDS, `*.${CONSTRAINTS}`],
  reads: [
    'Namespace',
    'Node',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
  ] satisfies readonly Kind[] as readonly GroupKind[],
  findings,
  options: z.strictObject({}),
  *check(subject, context): Found {
    if (WORKLOADS.has(subject.kind)) yield* podReports(subject as Workload, context);
    else if (subject.kind === 'ConfigMap') yield* templateReports(subject as ConfigMap, context);
    else if (isRuleKind(subject)) yield* ruleReports(subject, context);
  },
  *affected(change, context): Iterable<ObjectRef | typeof PAUSE> {
    yield* affected(change, context);
  },
});

// Whose findings the change of another object can alter: a namespace's labels, a node's kubelet, istiod and its injector.
import { type ChangeContext, matching, type PAUSE } from '../../src/engine/policy.ts';
import { same } from '../../src/kube/json.ts';
import type { ObjectRef } from '../../src/kube/kind.ts';
import { alters, touchesControlPlane } from '../../src/mesh/changes.ts';
import { injectionSettings, nativeByDefault, nativeMode } from '../../src/mesh/injection.ts';
import type { Namespace } from '../../src/mesh/kinds/cluster.ts';
import type { Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Kind } from '../../src/mesh/kinds.ts';
import type { Change, Fact, Mesh } from '../../src/mesh/mesh.ts';
import { controlPlanes } from '../../src/mesh/releases.ts';
import { isTelling, oldNodes } from './facts.ts';

export const MUTATOR_KINDS = [
  'Assign.mutations.gatekeeper.sh',
  'AssignImage.mutations.gatekeeper.sh',
  'ModifySet.mutations.gatekeeper.sh',
] as const satisfies readonly Kind[];

/** Kinds of other engines whose rules may name the proxy. Constraints of Gatekeeper have kinds of their own beside these. */
export const ENGINE_KINDS = [
  'ClusterPolicy.kyverno.io',
  'Policy.kyverno.io',
  'MutatingPolicy.policies.kyverno.io',
  'ValidatingPolicy.policies.kyverno.io',
  'NamespacedMutatingPolicy.policies.kyverno.io',
  'NamespacedValidatingPolicy.policies.kyverno.io',
  'MutatingAdmissionPolicy.admissionregistration.k8s.io',
  'ValidatingAdmissionPolicy.admissionregistration.k8s.io',
  ...MUTATOR_KINDS,
] as const satisfies readonly Kind[];

/** True for a namespace whose label asks for sidecars; single pods may ask in others too. */
export function asksForSidecars({ labels }: Namespace): boolean {
  return labels['istio-injection'] === 'enabled' || labels['istio.io/rev'] !== undefined;
}

/**
 * False in a cluster that uses ambient mode and nothing else: some namespace is in it and none asks for sidecars. The proxies that
 * are there are waypoints and gateways, which keep them under `containers`.
 */
export const sidecarsExpected: Fact<boolean> = {
  name: 'sidecarsExpected',
  compute(mesh) {
    let ambient = false;
    for (const namespace of mesh.list('Namespace')) {
      if (asksForSidecars(namespace)) return true;
      ambient ||= namespace.labels['istio.io/dataplane-mode'] === 'ambient';
    }
    return !ambient;
  },
};

/** Every object of other engines, and the injectors' ConfigMaps, in either Mesh. Constraints are seen when they are written. */
function* rules({ before, after }: ChangeContext): Iterable<ObjectRef> {
  for (const mesh of [before, after]) {
    for (const kind of ENGINE_KINDS) yield* mesh.list(kind);
    for (const { namespace } of mesh.fact(controlPlanes)) {
      for (const configMap of mesh.list('ConfigMap', namespace)) {
        if (configMap.name.startsWith('istio-sidecar-injector')) yield configMap;
      }
    }
  }
}

/** Kinds of which an absence means something here. */
const WHOLE = [
  'Node',
  'ConfigMap',
  'MutatingWebhookConfiguration.admissionregistration.k8s.io',
] as const satisfies readonly Kind[];

function anyRules(mesh: Mesh): boolean {
  for (const kind of ENGINE_KINDS) for (const _ of mesh.list(kind)) return true;
  return false;
}

/** Workloads of which something can be said: all of them where a kubelet is too old for forced native sidecars. */
function tellingIn({ before, after }: ChangeContext): (workload: Workload) => boolean {
  const old = before.fact(oldNodes).length > 0 || after.fact(oldNodes).length > 0;
  return workload => old || isTelling(workload);
}

/** What the control planes make of pods that say nothing themselves; equal where nothing changed for anybody. */
const defaults = (mesh: Mesh) =>
  mesh.fact(controlPlanes).map(plane => [plane.revision, nativeMode(plane) ?? '', nativeByDefault(mesh, plane)]);

/** The subjects, beside the changed object, whose findings a change may alter. */
export function* affected(change: Change, context: ChangeContext): Iterable<ObjectRef | typeof PAUSE> {
  const { before, after } = context;
  const { ref } = change;
  if (ref.kind === 'Namespace') {
    if (same(change.before?.labels, change.after?.labels)) return;
    if (anyRules(after) && before.fact(sidecarsExpected) !== after.fact(sidecarsExpected)) yield* rules(context);
    for (const kind of ENGINE_KINDS) yield* after.list(kind, ref.name);
    yield* matching(after.workloads({}, ref.name), tellingIn(context));
    return;
  }
  if (ref.kind === 'Node') {
    const flipped = !same(defaults(before), defaults(after));
    if (flipped) yield* rules(context);
    if (flipped || alters(context, oldNodes)) yield* matching(after.workloads(), tellingIn(context));
    // a pod that names its node goes by that one, where it is known
    const known = before.complete('Node') === after.complete('Node');
    yield* matching(
      after.workloads(),
      ({ template }) => template.nodeName !== undefined && (!known || template.nodeName === ref.name),
    );
    return;
  }
  if (touchesControlPlane(change)) {
    const known = WHOLE.every(kind => before.complete(kind) === after.complete(kind));
    if (known && !alters(context, injectionSettings)) return;
    yield* rules(context);
    yield* matching(after.workloads(), tellingIn(context));
    return;
  }
  for (const kind of MUTATOR_KINDS) if (ref.kind === kind) yield* after.list(kind);
}

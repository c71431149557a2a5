// Which facts about the control plane a change may alter: what `affected` asks before it names every subject of a kind.
import { same } from '../kube/json.ts';
import { WEBHOOKS } from './kinds/cluster.ts';
import type { Workload } from './kinds/workloads.ts';
import type { Change, Fact, Mesh } from './mesh.ts';

/** True where some of these facts are others in the Mesh that is to be. */
export function alters(
  { before, after }: { readonly before: Mesh; readonly after: Mesh },
  ...facts: readonly Fact<unknown>[]
): boolean {
  return facts.some(fact => !same(before.fact(fact), after.fact(fact)));
}

/**
 * True where a change may alter a fact that rests on istiod: its release, settings, revision tags, MeshConfig, or which
 * namespaces it watches. ConfigMaps count by their name: `istio` and `istio-…` are the ones that istiod reads.
 */
export function touchesControlPlane({ ref, before, after }: Change): boolean {
  if (ref.kind === WEBHOOKS) return true;
  if (ref.kind === 'ConfigMap') return ref.name === 'istio' || ref.name.startsWith('istio-');
  return (
    (before as Workload | undefined)?.component === 'istiod' || (after as Workload | undefined)?.component === 'istiod'
  );
}

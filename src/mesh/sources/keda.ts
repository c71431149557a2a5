// What KEDA makes of a ScaledObject. Git has the one and a cluster the other, too: who judges files must know both.
import { at, number, text } from '../../kube/json.ts';
import { AUTOSCALER } from '../kinds/scaling.ts';
import { project } from '../kinds.ts';
import type { Manifest } from './files.ts';

/**
 * The HorizontalPodAutoscaler that KEDA makes of a ScaledObject of its own, at the place of that; undefined where it is none
 * (kedacore/keda controllers/keda/hpa.go: from none it is scaled by KEDA itself, the autoscaler begins at one).
 */
export function kedaAutoscaler({ ref, object, position }: Manifest): Manifest | undefined {
  if (ref.kind !== 'ScaledObject.keda.sh') return undefined;
  const target = text(at(object, 'spec', 'scaleTargetRef', 'name'));
  if (target === undefined) return undefined;
  const name = text(at(object, 'spec', 'advanced', 'horizontalPodAutoscalerConfig', 'name')) ?? `keda-hpa-${ref.name}`;
  const made = {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name, namespace: ref.namespace },
    spec: {
      minReplicas: Math.max(number(at(object, 'spec', 'minReplicaCount')) ?? 0, 1),
      maxReplicas: number(at(object, 'spec', 'maxReplicaCount')) ?? 100,
      scaleTargetRef: {
        apiVersion: text(at(object, 'spec', 'scaleTargetRef', 'apiVersion')) ?? 'apps/v1',
        kind: text(at(object, 'spec', 'scaleTargetRef', 'kind')) ?? 'Deployment',
        name: target,
      },
    },
  };
  return {
    ref: { kind: AUTOSCALER, namespace: ref.namespace, name },
    version: 'v2',
    object: made,
    projection: project(AUTOSCALER, ref.namespace, made),
    position: () => position(),
  };
}

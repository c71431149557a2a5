import { at, number, text } from '../../kube/json.ts';
import { type GroupKind, groupKind, type ObjectRef, splitApiVersion } from '../../kube/kind.ts';
import { type LabelSelector, labelSelector } from '../../kube/labels.ts';
import { type Meta, metaOf } from './meta.ts';

export const AUTOSCALER = 'HorizontalPodAutoscaler.autoscaling';
export const DISRUPTION_BUDGET = 'PodDisruptionBudget.policy';

export interface HorizontalPodAutoscaler extends Meta {
  readonly target?: ObjectRef;
  /** 1 where none is given (autoscaling/v2). */
  readonly minReplicas: number;
}

export function horizontalPodAutoscaler(kind: GroupKind, namespace: string, object: unknown): HorizontalPodAutoscaler {
  const reference = at(object, 'spec', 'scaleTargetRef');
  const targetKind = text(at(reference, 'kind'));
  const name = text(at(reference, 'name'));
  const { group } = splitApiVersion(text(at(reference, 'apiVersion')) ?? '');
  return {
    ...metaOf(kind, namespace, object),
    ...(targetKind === undefined || name === undefined
      ? {}
      : { target: { kind: groupKind(group, targetKind), namespace, name } }),
    minReplicas: number(at(object, 'spec', 'minReplicas')) ?? 1,
  };
}

export interface PodDisruptionBudget extends Meta {
  /** Without one it selects nothing; an empty one selects every pod of the namespace (policy/v1). */
  readonly selector?: LabelSelector;
  /** A count, or a percentage as text. */
  readonly minAvailable?: number | string;
  readonly maxUnavailable?: number | string;
}

export function podDisruptionBudget(kind: GroupKind, namespace: string, object: unknown): PodDisruptionBudget {
  const spec = at(object, 'spec');
  const selector = labelSelector(at(spec, 'selector'));
  const amount = (key: string) => number(at(spec, key)) ?? text(at(spec, key));
  const minAvailable = amount('minAvailable');
  const maxUnavailable = amount('maxUnavailable');
  return {
    ...metaOf(kind, namespace, object),
    ...(selector === undefined ? {} : { selector }),
    ...(minAvailable === undefined ? {} : { minAvailable }),
    ...(maxUnavailable === undefined ? {} : { maxUnavailable }),
  };
}

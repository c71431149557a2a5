import { at, number, record, records, text, texts } from '../../kube/json.ts';
import type { GroupKind } from '../../kube/kind.ts';
import { type Meta, metaOf } from './meta.ts';

export const DESTINATION_RULE = 'DestinationRule.networking.istio.io';

export interface DestinationRule extends Meta {
  /** As written: a name without dots is one of its own namespace ({@link fullHost}). */
  readonly host: string;
  /** True where it has a `trafficPolicy` of its own (subsets have theirs). */
  readonly trafficPolicy: boolean;
  /** `trafficPolicy.tls.mode`; '' where `tls` is there without a mode (DISABLE). */
  readonly tlsMode?: string;
  readonly ports: readonly { readonly port: number; readonly tlsMode?: string }[];
  readonly subsets: readonly string[];
  readonly exportTo: readonly string[];
  /** True where it has a `workloadSelector`: it holds for the clients that this selects only. */
  readonly selective: boolean;
  /** True where a `retryBudget`, also of a subset, leaves its `percent` to the default. */
  readonly budgetWithoutPercent: boolean;
}

function lacksPercent(policy: unknown): boolean {
  const budget = record(at(policy, 'retryBudget'));
  return budget !== undefined && at(budget, 'percent') === undefined;
}

function tlsMode(policy: unknown): { readonly tlsMode?: string } {
  const tls = record(at(policy, 'tls'));
  return tls === undefined ? {} : { tlsMode: text(tls['mode']) ?? '' };
}

export function destinationRule(kind: GroupKind, namespace: string, object: unknown): DestinationRule {
  const spec = at(object, 'spec');
  const policy = at(spec, 'trafficPolicy');
  return {
    ...metaOf(kind, namespace, object),
    host: text(at(spec, 'host')) ?? '',
    trafficPolicy: record(policy) !== undefined,
    ...tlsMode(policy),
    ports: records(at(policy, 'portLevelSettings')).map(settings => ({
      port: number(at(settings, 'port', 'number')) ?? 0,
      ...tlsMode(settings),
    })),
    subsets: records(at(spec, 'subsets')).map(subset => text(subset['name']) ?? ''),
    exportTo: texts(at(spec, 'exportTo')),
    selective: record(at(spec, 'workloadSelector')) !== undefined,
    budgetWithoutPercent:
      lacksPercent(policy) || records(at(spec, 'subsets')).some(subset => lacksPercent(subset['trafficPolicy'])),
  };
}

/** The host that a name stands for: without dots it is a Service of that namespace (pkg/config/resource ResolveShortNameToFQDN). */
export function fullHost(host: string, namespace: string): string {
  return host === '' || host.includes('.') || host.includes('*') ? host : `${host}.${namespace}.svc.cluster.local`;
}

import { at, bounded, emptyRecord, record, records, text, texts } from '../../kube/json.ts';
import { type GroupKind, groupKind } from '../../kube/kind.ts';
import { type LabelSelector, labelSelector, type StringMap, stringMap } from '../../kube/labels.ts';
import { type Meta, metaOf } from './meta.ts';

export const CRD = 'CustomResourceDefinition.apiextensions.k8s.io';

export const WEBHOOKS = 'MutatingWebhookConfiguration.admissionregistration.k8s.io';

export type Namespace = Meta;

/** The label by which the API server gives every Namespace its name, whatever was written (NamespaceDefaultLabelName; manifests leave it out). */
export const NAME_LABEL = 'kubernetes.io/metadata.name';

export function namespace(kind: GroupKind, ns: string, object: unknown): Namespace {
  const meta = metaOf(kind, ns, object);
  const labels =
    meta.name === '' ? meta.labels : Object.assign(emptyRecord<string>(), meta.labels, { [NAME_LABEL]: meta.name });
  return { ...meta, labels, terminating: meta.terminating || at(object, 'status', 'phase') === 'Terminating' };
}

export interface Node extends Meta {
  /** `status.nodeInfo.kubeletVersion`, such as v1.33.4-eks-1234. */
  readonly kubeletVersion: string;
  /** True where it is cordoned or has a taint that keeps pods away unless they tolerate it. */
  readonly repelling: boolean;
}

export function node(kind: GroupKind, ns: string, object: unknown): Node {
  return {
    ...metaOf(kind, ns, object),
    kubeletVersion: text(at(object, 'status', 'nodeInfo', 'kubeletVersion')) ?? '',
    repelling:
      at(object, 'spec', 'unschedulable') === true ||
      records(at(object, 'spec', 'taints')).some(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute'),
  };
}

export interface CustomResourceDefinition extends Meta {
  /** The kind that it defines. */
  readonly defines: GroupKind;
  readonly versions: readonly { readonly name: string; readonly served: boolean; readonly storage: boolean }[];
  readonly storedVersions: readonly string[];
  /** `gateway.networking.k8s.io/bundle-version`, such as v1.4.0. */
  readonly bundleVersion?: string;
  /** `gateway.networking.k8s.io/channel`. */
  readonly channel?: string;
}

export function customResourceDefinition(kind: GroupKind, ns: string, object: unknown): CustomResourceDefinition {
  const meta = metaOf(kind, ns, object);
  const spec = at(object, 'spec');
  const bundleVersion = meta.annotations['gateway.networking.k8s.io/bundle-version'];
  const channel = meta.annotations['gateway.networking.k8s.io/channel'];
  return {
    ...meta,
    defines: groupKind(text(at(spec, 'group')) ?? '', text(at(spec, 'names', 'kind')) ?? ''),
    versions: records(at(spec, 'versions')).map(version => ({
      name: text(version['name']) ?? '',
      served: version['served'] !== false,
      storage: version['storage'] === true,
    })),
    storedVersions: texts(at(object, 'status', 'storedVersions')),
    ...(bundleVersion === undefined ? {} : { bundleVersion }),
    ...(channel === undefined ? {} : { channel }),
  };
}

export interface ConfigMap extends Meta {
  readonly data: StringMap;
}

export function configMap(kind: GroupKind, ns: string, object: unknown): ConfigMap {
  return { ...metaOf(kind, ns, object), data: stringMap(at(object, 'data')) };
}

export interface Webhook {
  readonly name: string;
  /** `clientConfig.service`, where it has one. */
  readonly service?: { readonly namespace: string; readonly name: string; readonly path: string };
  readonly url?: string;
  readonly namespaceSelector?: LabelSelector;
  readonly objectSelector?: LabelSelector;
  readonly failurePolicy: string;
  /** True where a rule covers the CREATE of pods. */
  readonly pods: boolean;
}

export interface WebhookConfiguration extends Meta {
  readonly webhooks: readonly Webhook[];
}

export function webhookConfiguration(kind: GroupKind, ns: string, object: unknown): WebhookConfiguration {
  return {
    ...metaOf(kind, ns, object),
    webhooks: records(at(object, 'webhooks')).map(webhook => {
      const client = record(at(webhook, 'clientConfig', 'service'));
      const url = text(at(webhook, 'clientConfig', 'url'));
      const namespaceSelector = labelSelector(webhook['namespaceSelector']);
      const objectSelector = labelSelector(webhook['objectSelector']);
      const covers = (rule: unknown, key: string, value: string) => {
        const values = texts(at(rule, key));
        return values.includes(value) || values.includes('*');
      };
      return {
        name: text(webhook['name']) ?? '',
        ...(client === undefined
          ? {}
          : {
              service: {
                namespace: text(client['namespace']) ?? '',
                name: text(client['name']) ?? '',
                path: text(client['path']) ?? '/',
              },
            }),
        ...(url === undefined ? {} : { url }),
        ...(namespaceSelector === undefined ? {} : { namespaceSelector }),
        ...(objectSelector === undefined ? {} : { objectSelector }),
        failurePolicy: text(webhook['failurePolicy']) ?? 'Fail',
        pods: records(webhook['rules']).some(
          rule =>
            covers(rule, 'resources', 'pods') && covers(rule, 'operations', 'CREATE') && covers(rule, 'apiGroups', ''),
        ),
      };
    }),
  };
}

/** Kinds of which policies read the metadata alone. */
export function metadataOnly(kind: GroupKind, ns: string, object: unknown): Meta {
  return metaOf(kind, ns, object);
}

/** Kinds of other policy engines: their whole spec, as JSON, for policies that search it for container names. */
export interface Specified extends Meta {
  readonly spec: unknown;
}

/** No rule that anybody wrote is as deep; what is nested a thousand times over would overflow the stack. */
const DEPTH = 100;

export function specified(kind: GroupKind, ns: string, object: unknown): Specified {
  return { ...metaOf(kind, ns, object), spec: bounded(at(object, 'spec'), DEPTH) };
}

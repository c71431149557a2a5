import { at, number, records, text, texts } from '../../kube/json.ts';
import type { GroupKind } from '../../kube/kind.ts';
import { type LabelSelector, labelSelector, type StringMap, stringMap } from '../../kube/labels.ts';
import { type Meta, metaOf } from './meta.ts';

export const SERVICE_ENTRY = 'ServiceEntry.networking.istio.io';

export interface ServicePort {
  readonly name: string;
  readonly port: number;
  /** A number, the name of a container port, or undefined for the port itself. */
  readonly targetPort?: number | string;
  /** TCP, UDP or SCTP. */
  readonly protocol: string;
  readonly appProtocol?: string;
}

export interface Service extends Meta {
  readonly type: string;
  /** `clusterIP: None`. */
  readonly headless: boolean;
  readonly selector: StringMap;
  readonly ports: readonly ServicePort[];
}

export function service(kind: GroupKind, namespace: string, object: unknown): Service {
  const spec = at(object, 'spec');
  return {
    ...metaOf(kind, namespace, object),
    type: text(at(spec, 'type')) ?? 'ClusterIP',
    headless: at(spec, 'clusterIP') === 'None',
    selector: stringMap(at(spec, 'selector')),
    ports: records(at(spec, 'ports')).map(port => {
      const targetPort = number(port['targetPort']) ?? text(port['targetPort']);
      const appProtocol = text(port['appProtocol']);
      return {
        name: text(port['name']) ?? '',
        port: number(port['port']) ?? 0,
        ...(targetPort === undefined ? {} : { targetPort }),
        protocol: text(port['protocol']) ?? 'TCP',
        ...(appProtocol === undefined ? {} : { appProtocol }),
      };
    }),
  };
}

export interface ServiceEntryPort {
  readonly name: string;
  readonly number: number;
  readonly protocol: string;
  readonly targetPort?: number;
}

export interface ServiceEntry extends Meta {
  readonly hosts: readonly string[];
  readonly addresses: readonly string[];
  readonly ports: readonly ServiceEntryPort[];
  readonly location: 'MESH_EXTERNAL' | 'MESH_INTERNAL';
  /** NONE also where nothing is set. */
  readonly resolution: string;
  readonly endpoints: number;
  readonly workloadSelector?: LabelSelector;
  readonly exportTo: readonly string[];
}

export function serviceEntry(kind: GroupKind, namespace: string, object: unknown): ServiceEntry {
  const spec = at(object, 'spec');
  const labels = at(spec, 'workloadSelector', 'labels');
  const workloadSelector =
    at(spec, 'workloadSelector') === undefined ? undefined : labelSelector({ matchLabels: labels ?? {} });
  return {
    ...metaOf(kind, namespace, object),
    hosts: texts(at(spec, 'hosts')),
    addresses: texts(at(spec, 'addresses')),
    ports: records(at(spec, 'ports')).map(port => {
      const targetPort = number(port['targetPort']);
      return {
        name: text(port['name']) ?? '',
        number: number(port['number']) ?? 0,
        protocol: (text(port['protocol']) ?? '').toUpperCase(),
        ...(targetPort === undefined ? {} : { targetPort }),
      };
    }),
    location: at(spec, 'location') === 'MESH_INTERNAL' ? 'MESH_INTERNAL' : 'MESH_EXTERNAL',
    resolution: text(at(spec, 'resolution')) ?? 'NONE',
    endpoints: records(at(spec, 'endpoints')).length,
    ...(workloadSelector === undefined ? {} : { workloadSelector }),
    exportTo: texts(at(spec, 'exportTo')),
  };
}

export interface WorkloadEntry extends Meta {
  readonly address: string;
  readonly workloadLabels: StringMap;
  readonly serviceAccount: string;
}

export function workloadEntry(kind: GroupKind, namespace: string, object: unknown): WorkloadEntry {
  const spec = at(object, 'spec');
  return {
    ...metaOf(kind, namespace, object),
    address: text(at(spec, 'address')) ?? '',
    workloadLabels: stringMap(at(spec, 'labels')),
    serviceAccount: text(at(spec, 'serviceAccount')) ?? '',
  };
}

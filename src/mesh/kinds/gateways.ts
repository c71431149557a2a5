import { at, fingerprint, number, records, text, texts } from '../../kube/json.ts';
import { type GroupKind, groupKind, type ObjectRef } from '../../kube/kind.ts';
import { type LabelSelector, labelSelector, type StringMap, stringMap } from '../../kube/labels.ts';
import { type Meta, metaOf } from './meta.ts';

export const GATEWAY = 'Gateway.gateway.networking.k8s.io';
export const ISTIO_GATEWAY = 'Gateway.networking.istio.io';
export const GATEWAY_CLASS = 'GatewayClass.gateway.networking.k8s.io';

export interface Listener {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
  readonly hostname?: string;
  /** `allowedRoutes.namespaces`: from defaults to Same (Gateway API). */
  readonly from: string;
  readonly selector?: LabelSelector;
}

export interface Gateway extends Meta {
  readonly className: string;
  readonly listeners: readonly Listener[];
  /** Number of `status.addresses`: what makes a Gateway bindable as a waypoint (ambient/waypoints.go). */
  readonly addresses: number;
  /** Name of the ConfigMap in `spec.infrastructure.parametersRef`, where it refers to one. */
  readonly parameters?: string;
  readonly infrastructureLabels: StringMap;
}

export function gateway(kind: GroupKind, namespace: string, object: unknown): Gateway {
  const spec = at(object, 'spec');
  const parametersRef = at(spec, 'infrastructure', 'parametersRef');
  const parameters = at(parametersRef, 'kind') === 'ConfigMap' ? text(at(parametersRef, 'name')) : undefined;
  return {
    ...metaOf(kind, namespace, object),
    className: text(at(spec, 'gatewayClassName')) ?? '',
    listeners: records(at(spec, 'listeners')).map(listener => {
      const hostname = text(listener['hostname']);
      const namespaces = at(listener, 'allowedRoutes', 'namespaces');
      const selector = labelSelector(at(namespaces, 'selector'));
      return {
        name: text(listener['name']) ?? '',
        port: number(listener['port']) ?? 0,
        protocol: text(listener['protocol']) ?? '',
        ...(hostname === undefined ? {} : { hostname }),
        from: text(at(namespaces, 'from')) ?? 'Same',
        ...(selector === undefined ? {} : { selector }),
      };
    }),
    addresses: records(at(object, 'status', 'addresses')).length,
    ...(parameters === undefined ? {} : { parameters }),
    infrastructureLabels: stringMap(at(spec, 'infrastructure', 'labels')),
  };
}

export interface GatewayClass extends Meta {
  readonly controllerName: string;
}

export function gatewayClass(kind: GroupKind, namespace: string, object: unknown): GatewayClass {
  return { ...metaOf(kind, namespace, object), controllerName: text(at(object, 'spec', 'controllerName')) ?? '' };
}

/** An Istio `networking.istio.io` Gateway. */
export interface IstioGateway extends Meta {
  readonly selector: StringMap;
  readonly hosts: readonly string[];
}

export function istioGateway(kind: GroupKind, namespace: string, object: unknown): IstioGateway {
  return {
    ...metaOf(kind, namespace, object),
    selector: stringMap(at(object, 'spec', 'selector')),
    hosts: records(at(object, 'spec', 'servers')).flatMap(server => texts(server['hosts'])),
  };
}

export interface BackendRef extends ObjectRef {
  /** The group as written: '' may be written or left out. */
  readonly group: string;
  readonly port?: number;
  /** Defaults to 1. */
  readonly weight: number;
}

export interface ParentRef extends ObjectRef {
  readonly group: string;
  /** True where the author wrote a group at all: without `group: ""` a parent is a Gateway API kind. */
  readonly groupWritten: boolean;
  readonly sectionName?: string;
  readonly port?: number;
}

export interface RouteRule {
  readonly backends: readonly BackendRef[];
  /** Backends of RequestMirror filters. */
  readonly mirrors: readonly BackendRef[];
  /** True where the rule has a RequestRedirect filter. */
  readonly redirects: boolean;
}

export interface Route extends Meta {
  readonly parents: readonly ParentRef[];
  readonly hostnames: readonly string[];
  readonly rules: readonly RouteRule[];
}

export const ROUTE_KINDS = ['HTTPRoute', 'GRPCRoute', 'TCPRoute', 'TLSRoute', 'UDPRoute'].map(
  kind => `${kind}.gateway.networking.k8s.io`,
) as readonly GroupKind[];

function backendRef(namespace: string, value: unknown): BackendRef {
  const group = text(at(value, 'group')) ?? '';
  const port = number(at(value, 'port'));
  return {
    kind: groupKind(group, text(at(value, 'kind')) ?? 'Service'),
    namespace: text(at(value, 'namespace')) ?? namespace,
    name: text(at(value, 'name')) ?? '',
    group,
    ...(port === undefined ? {} : { port }),
    weight: number(at(value, 'weight')) ?? 1,
  };
}

function parentRef(namespace: string, value: unknown): ParentRef {
  const group = text(at(value, 'group')) ?? 'gateway.networking.k8s.io';
  const port = number(at(value, 'port'));
  const sectionName = text(at(value, 'sectionName'));
  return {
    kind: groupKind(group, text(at(value, 'kind')) ?? 'Gateway'),
    namespace: text(at(value, 'namespace')) ?? namespace,
    name: text(at(value, 'name')) ?? '',
    group,
    groupWritten: at(value, 'group') !== undefined,
    ...(sectionName === undefined ? {} : { sectionName }),
    ...(port === undefined ? {} : { port }),
  };
}

export function route(kind: GroupKind, namespace: string, object: unknown): Route {
  const spec = at(object, 'spec');
  return {
    ...metaOf(kind, namespace, object),
    parents: records(at(spec, 'parentRefs')).map(parent => parentRef(namespace, parent)),
    hostnames: texts(at(spec, 'hostnames')),
    rules: records(at(spec, 'rules')).map(rule => ({
      backends: records(rule['backendRefs']).map(backend => backendRef(namespace, backend)),
      mirrors: records(rule['filters'])
        .filter(filter => filter['type'] === 'RequestMirror')
        .map(filter => backendRef(namespace, at(filter, 'requestMirror', 'backendRef'))),
      redirects: records(rule['filters']).some(filter => filter['type'] === 'RequestRedirect'),
    })),
  };
}

export interface ReferenceGrant extends Meta {
  readonly to: readonly { readonly kind: GroupKind; readonly name?: string }[];
  readonly from: readonly { readonly kind: GroupKind; readonly namespace: string }[];
}

export function referenceGrant(kind: GroupKind, namespace: string, object: unknown): ReferenceGrant {
  const kindOf = (entry: unknown) => groupKind(text(at(entry, 'group')) ?? '', text(at(entry, 'kind')) ?? '');
  return {
    ...metaOf(kind, namespace, object),
    to: records(at(object, 'spec', 'to')).map(entry => {
      const name = text(entry['name']);
      return { kind: kindOf(entry), ...(name === undefined ? {} : { name }) };
    }),
    from: records(at(object, 'spec', 'from')).map(entry => ({
      kind: kindOf(entry),
      namespace: text(entry['namespace']) ?? '',
    })),
  };
}

export interface BackendTlsPolicy extends Meta {
  readonly targets: readonly (ObjectRef & { readonly sectionName?: string })[];
  readonly hostname: string;
  readonly certificateRefs: readonly ObjectRef[];
  readonly wellKnown?: string;
  readonly subjectAltNames: number;
  /** Of the spec: the version in which it is written is asked for at every change of it. */
  readonly specDigest: number;
}

export function backendTlsPolicy(kind: GroupKind, namespace: string, object: unknown): BackendTlsPolicy {
  const spec = at(object, 'spec');
  const single = at(spec, 'targetRef');
  const wellKnown = text(at(spec, 'validation', 'wellKnownCACertificates'));
  return {
    ...metaOf(kind, namespace, object),
    targets: [...records(at(spec, 'targetRefs')), ...(single === undefined ? [] : records([single]))].map(target => {
      const sectionName = text(target['sectionName']);
      return {
        kind: groupKind(text(target['group']) ?? '', text(target['kind']) ?? ''),
        namespace,
        name: text(target['name']) ?? '',
        ...(sectionName === undefined ? {} : { sectionName }),
      };
    }),
    hostname: text(at(spec, 'validation', 'hostname')) ?? '',
    certificateRefs: records(at(spec, 'validation', 'caCertificateRefs')).map(reference => ({
      kind: groupKind(text(reference['group']) ?? '', text(reference['kind']) ?? ''),
      namespace,
      name: text(reference['name']) ?? '',
    })),
    ...(wellKnown === undefined ? {} : { wellKnown }),
    subjectAltNames: records(at(spec, 'validation', 'subjectAltNames')).length,
    specDigest: fingerprint(spec),
  };
}

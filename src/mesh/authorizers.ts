// The external authorizers of MeshConfig, which CUSTOM policies ask, and whether istiod finds the host of one
// (LookupCluster, pilot/pkg/security/authz/builder/extauthz.go; every form of host tried with istiod 1.31).
import { at, number, record, records, text, texts } from '../kube/json.ts';
import { type ObjectRef, ref, refKey } from '../kube/kind.ts';
import { SERVICE_ENTRY, type Service, type ServiceEntry } from './kinds/services.ts';
import { type Fact, isTerminating, type Mesh } from './mesh.ts';
import { hostKey, type ReferenceKey } from './references.ts';
import { type ControlPlane, controlPlanes, discovers, ownsRevision } from './releases.ts';

const EXPORT_TO = 'networking.istio.io/exportTo';
const KINDS = ['envoyExtAuthzGrpc', 'envoyExtAuthzHttp', 'envoy_ext_authz_grpc', 'envoy_ext_authz_http'];

/** An extension provider that CUSTOM policies can ask. */
export interface Authorizer {
  /** As written: HOST or NAMESPACE/HOST; undefined where it says none that could be read. */
  readonly service?: string;
  readonly port?: number;
  /** True where requests pass that it cannot be asked about. */
  readonly failOpen: boolean;
}

function authorizer(provider: unknown): Authorizer | undefined {
  const kind = KINDS.find(key => record(at(provider, key)) !== undefined);
  if (kind === undefined) {
    // a tracer or an access log is none; without a kind nobody can tell what it is to be
    const others = Object.keys(record(provider) ?? {}).some(key => key !== 'name');
    return others ? undefined : { failOpen: false };
  }
  const settings = at(provider, kind);
  const service = text(at(settings, 'service'));
  const port = number(at(settings, 'port')) ?? Number(text(at(settings, 'port')) ?? Number.NaN);
  return {
    ...(service === undefined ? {} : { service }),
    ...(Number.isInteger(port) ? { port } : {}),
    failOpen: (at(settings, 'failOpen') ?? at(settings, 'fail_open')) === true,
  };
}

const known = new WeakMap<object, ReadonlyMap<string, Authorizer>>();

/** MeshConfig's external authorizers by name; undefined where MeshConfig is not known. */
export function authorizersOf(plane: ControlPlane): ReadonlyMap<string, Authorizer> | undefined {
  const config = plane.sharedUnread === true ? undefined : record(plane.meshConfig);
  if (config === undefined) return undefined;
  let found = known.get(config);
  if (found === undefined) {
    const named = new Map<string, Authorizer>();
    for (const provider of records(config['extensionProviders'])) {
      const name = text(provider['name']);
      const one = authorizer(provider);
      if (name !== undefined && one !== undefined && !named.has(name)) named.set(name, one);
    }
    found = named;
    known.set(config, found);
  }
  return found;
}

function hostOf(service: string): { readonly host: string; readonly namespace?: string } {
  const parts = service.split('/');
  const [namespace, host] = parts;
  return parts.length === 2 && host !== undefined && namespace !== undefined ? { host, namespace } : { host: service };
}

/** The hosts that authorizers are asked at, by the keys of what has them: the changes of which alter whether they can be. */
export const authorizerKeys: Fact<ReadonlySet<ReferenceKey>> = {
  name: 'authorizerKeys',
  compute(mesh) {
    const keys = new Set<ReferenceKey>();
    for (const plane of mesh.fact(controlPlanes)) {
      for (const { service } of authorizersOf(plane)?.values() ?? []) {
        if (service !== undefined) keys.add(hostKey(hostOf(service).host));
      }
    }
    return keys;
  },
};

/** The host of a Kubernetes Service, with the cluster's domain, whatever that is called. Without it istiod knows no such host. */
const SERVICE_HOST = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc\.[a-z0-9-]+(?:\.[a-z0-9-]+)*$/;

/** The Service that a host would be; undefined where it can be none. */
export function serviceOfHost(service: string): ObjectRef | undefined {
  const { host } = hostOf(service);
  const [, name, namespace] = SERVICE_HOST.exec(host) ?? [];
  return name === undefined || namespace === undefined ? undefined : { kind: 'Service', namespace, name };
}

/** Why proxies cannot ask an authorizer. */
export type Unreached =
  /** No such host: istiod refuses what the policy's rules match. */
  | { readonly state: 'missing' }
  /** In several namespaces, and none is named: the same. */
  | { readonly state: 'several'; readonly namespaces: readonly string[]; readonly host: string }
  /** The host is there, but proxies get no cluster of it. */
  | {
      readonly state: 'no-port' | 'not-exported' | 'external-name';
      readonly object: ObjectRef;
      readonly ports: readonly number[];
    };

/** What istiod finds of an authorizer's host; `unknown` where the state does not tell. */
export type Reached = { readonly state: 'found' | 'unknown' } | Unreached;

/** Narrows to what cannot be asked. */
export function isUnreached(reached: Reached): reached is Unreached {
  return reached.state !== 'found' && reached.state !== 'unknown';
}

function exportTo(plane: ControlPlane, object: Service | ServiceEntry): readonly string[] {
  const written =
    object.kind === SERVICE_ENTRY
      ? (object as ServiceEntry).exportTo
      : (object.annotations[EXPORT_TO] ?? '').split(',').flatMap(to => (to.trim() === '' ? [] : [to.trim()]));
  return written.length > 0 ? written : texts(at(plane.meshConfig, 'defaultServiceExportTo'));
}

function isVisible(to: readonly string[], own: string, namespace: string): boolean {
  if (to.length === 0 || to.includes('*')) return true;
  if (to.includes('~')) return false;
  return to.some(one => one === namespace || (one === '.' && own === namespace));
}

/** True for a cluster with a name of its own: others of the mesh may have what this one has not. */
function isOneOfSeveral({ env }: ControlPlane): boolean {
  return (env['CLUSTER_ID'] ?? 'Kubernetes') !== 'Kubernetes';
}

/** Whether a proxy in `namespace` can ask an authorizer, as one control plane finds its host among Services and ServiceEntries. */
export function reachedFrom(mesh: Mesh, plane: ControlPlane, authorizer: Authorizer, namespace: string): Reached {
  const { service, port } = authorizer;
  // an istiod outside of this cluster may know Services of others
  if (service === undefined || service === '' || !plane.seen) return { state: 'unknown' };
  const { host, namespace: wanted } = hostOf(service);
  // an MCS host, which no Service here shows
  if (host.endsWith('.clusterset.local')) return { state: 'unknown' };
  const found = new Map<string, Service | ServiceEntry>();
  let unknown = false;
  const add = (object: Service | ServiceEntry) => {
    if (wanted !== undefined && object.namespace !== wanted) return;
    if (isTerminating(mesh, object.namespace) || found.has(object.namespace)) return;
    const watched = discovers(mesh, plane, object.namespace);
    if (watched === 'unknown') unknown = true;
    if (watched !== false) found.set(object.namespace, object);
  };
  const candidate = serviceOfHost(service);
  if (candidate !== undefined) {
    const there = mesh.find('Service', candidate.namespace, candidate.name);
    if (there === 'unknown') return { state: 'unknown' };
    if (there !== 'absent') add(there);
  }
  for (const entry of mesh.referring(hostKey(host), SERVICE_ENTRY)) {
    if (entry.hosts.includes(host) && ownsRevision(plane, entry)) add(entry);
  }
  if (unknown || (found.size === 0 && !mesh.complete(SERVICE_ENTRY))) return { state: 'unknown' };
  const [object] = found.values();
  // no proxy is asked at a wildcard (agent.ValidateExtensionProviderService)
  if (object === undefined && isOneOfSeveral(plane)) return { state: 'unknown' };
  if (object === undefined || host.includes('*')) return { state: 'missing' };
  if (found.size > 1) return { state: 'several', namespaces: [...found.keys()].sort(), host };
  const ports =
    object.kind === SERVICE_ENTRY
      ? (object as ServiceEntry).ports.map(({ number }) => number)
      : (object as Service).ports.filter(({ protocol }) => protocol === 'TCP').map(one => one.port);
  const told = { object: ref(object), ports };
  if (object.kind === 'Service' && (object as Service).type === 'ExternalName') {
    return { state: 'external-name', ...told };
  }
  if (port !== undefined && !ports.includes(port)) return { state: 'no-port', ...told };
  if (!isVisible(exportTo(plane, object), object.namespace, namespace)) return { state: 'not-exported', ...told };
  return { state: 'found' };
}

/** True where a Service or ServiceEntry has the host of an authorizer. */
export function isAuthorizer(mesh: Mesh, object: ObjectRef | ServiceEntry): boolean {
  const keys = mesh.fact(authorizerKeys);
  if (keys.size === 0) return false;
  return object.kind === SERVICE_ENTRY && 'hosts' in object
    ? object.hosts.some(host => keys.has(hostKey(host)))
    : keys.has(refKey(object));
}

/** True where an authorizer has its host in a namespace. */
export function hasAuthorizer(mesh: Mesh, namespace: string): boolean {
  if (mesh.fact(authorizerKeys).size === 0) return false;
  for (const plane of mesh.fact(controlPlanes)) {
    for (const { service } of authorizersOf(plane)?.values() ?? []) {
      if (service === undefined) continue;
      if (serviceOfHost(service)?.namespace === namespace) return true;
      for (const entry of mesh.referring(hostKey(hostOf(service).host), SERVICE_ENTRY)) {
        if (entry.namespace === namespace) return true;
      }
    }
  }
  return false;
}

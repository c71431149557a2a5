// What is stored, followed by watches: nobody has to list it again and again.
import { at } from '../../src/kube/json.ts';
import type { Api } from '../harness/api.ts';
import type { Manifest } from '../harness/objects.ts';
import { until } from '../harness/wait.ts';

export interface Watched {
  /** Objects by `Kind/namespace/name`, as they are now. */
  readonly objects: ReadonlyMap<string, Manifest>;
  /** What changed last in the namespaces that count, and when, in milliseconds. */
  changed(): { readonly at: number; readonly key: string };
  /** The namespaces whose changes count from now on. */
  count(namespaces: (name: string) => boolean): void;
  stop(): void;
}

const PATHS: readonly (readonly [apiVersion: string, plural: string, kind: string])[] = [
  ['v1', 'pods', 'Pod'],
  ['v1', 'services', 'Service'],
  ['apps/v1', 'deployments', 'Deployment'],
  ['gateway.networking.k8s.io/v1', 'gateways', 'Gateway'],
  ['gateway.networking.k8s.io/v1', 'httproutes', 'HTTPRoute'],
  ['gateway.networking.k8s.io/v1', 'grpcroutes', 'GRPCRoute'],
  ['gateway.networking.k8s.io/v1', 'tcproutes', 'TCPRoute'],
  ['gateway.networking.k8s.io/v1', 'tlsroutes', 'TLSRoute'],
  ['networking.istio.io/v1', 'serviceentries', 'ServiceEntry'],
  ['networking.istio.io/v1', 'virtualservices', 'VirtualService'],
  ['networking.istio.io/v1', 'destinationrules', 'DestinationRule'],
  ['security.istio.io/v1', 'authorizationpolicies', 'AuthorizationPolicy'],
  ['security.istio.io/v1', 'peerauthentications', 'PeerAuthentication'],
  ['security.istio.io/v1', 'requestauthentications', 'RequestAuthentication'],
];

export async function watchStored(api: Api): Promise<Watched> {
  const objects = new Map<string, Manifest>();
  let counts = (_name: string) => true;
  let last = { at: Date.now(), key: '' };
  const stops = await Promise.all(
    PATHS.map(([apiVersion, plural, kind]) =>
      // a kind that was defined a moment ago may not be served yet
      until(`a watch of ${plural}`, () =>
        api.follow<Manifest>(
          `${apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`}/${plural}`,
          ({ type, object }) => {
            const namespace = object.metadata.namespace ?? '';
            const key = `${kind}/${namespace}/${object.metadata.name}`;
            const before = objects.get(key);
            if (type === 'DELETED') objects.delete(key);
            else objects.set(key, { ...object, apiVersion, kind });
            // times and counts in statuses say nothing new
            if (counts(namespace) && JSON.stringify(at(before, 'status')) !== JSON.stringify(object['status']))
              last = { at: Date.now(), key };
          },
        ),
      ),
    ),
  );
  return {
    objects,
    changed: () => last,
    count(namespaces) {
      counts = namespaces;
      last = { at: Date.now(), key: '' };
    },
    stop: () => {
      for (const stop of stops) stop();
    },
  };
}

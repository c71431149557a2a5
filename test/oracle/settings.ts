// What istiod and the nodes are told. Each batch of meshes stands on the next of these.
import type { IstiodOptions } from '../harness/istio.ts';
import type { Manifest } from '../harness/objects.ts';

export interface Settings {
  /** How `--settings` calls it. */
  readonly name: string;
  readonly env?: Readonly<Record<string, string>>;
  /** `istioctl manifest generate --set`. */
  readonly set?: Readonly<Record<string, string>>;
  readonly kubelets: readonly string[];
  /** Revision tags of the default control plane. */
  readonly tags?: readonly string[];
}

const NEW = ['v1.36.3'];
const PROVIDER = {
  'meshConfig.extensionProviders[0].name': 'oracle-authz',
  'meshConfig.extensionProviders[0].envoyExtAuthzGrpc.service': 'authz.oracle.svc.cluster.local',
  'meshConfig.extensionProviders[0].envoyExtAuthzGrpc.port': '9000',
};

/** The Service of that provider: without one a proxy refuses everything, as with a provider that is not defined. */
export const AUTHORIZER: Manifest = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'authz', namespace: 'oracle' },
  spec: { selector: { app: 'authz' }, ports: [{ name: 'grpc', port: 9000 }] },
};

export const SETTINGS: readonly Settings[] = [
  { name: 'plain', kubelets: NEW },
  { name: 'native-off', env: { ENABLE_NATIVE_SIDECARS: 'false' }, set: PROVIDER, kubelets: NEW },
  { name: 'tagged', tags: ['prod'], kubelets: ['v1.36.3', 'v1.32.4'] },
  {
    name: 'discovery',
    set: {
      'meshConfig.discoverySelectors[0].matchExpressions[0].key': 'unwatched',
      'meshConfig.discoverySelectors[0].matchExpressions[0].operator': 'DoesNotExist',
    },
    kubelets: NEW,
  },
  {
    name: 'native-forced',
    env: { ENABLE_NATIVE_SIDECARS: 'true', ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS: 'true' },
    kubelets: ['v1.36.3', 'v1.32.4'],
  },
  { name: 'layered', env: { ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES: 'true' }, kubelets: NEW },
  { name: 'no-addresses', env: { PILOT_ENABLE_IP_AUTOALLOCATE: 'false' }, set: PROVIDER, kubelets: NEW },
  { name: 'auto-allow', env: { PILOT_AUTO_ALLOW_WAYPOINT_POLICY: 'true' }, kubelets: NEW },
  { name: 'trust-domain', set: { 'meshConfig.trustDomain': 'td.example.test' }, kubelets: NEW },
];

/** The settings with a name, or a batch's own. */
export function settingsOf(batch: number, name?: string): Settings {
  const found = name === undefined ? SETTINGS[batch % SETTINGS.length] : SETTINGS.find(one => one.name === name);
  if (found === undefined) throw new RangeError(`no settings ${name}: ${SETTINGS.map(one => one.name).join(', ')}`);
  return found;
}

export const istiodOptions = ({ env = {}, set = {} }: Settings): Pick<IstiodOptions, 'env' | 'set'> => ({
  env: { ...env },
  set: { ...set },
});

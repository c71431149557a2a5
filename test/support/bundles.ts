// The CRDs of the Gateway API and the kubelets that go with a release of Istio, as people have them.
import { stringify } from 'yaml';

/** A kubelet that each release of Istio was announced for. */
export const KUBELETS: Readonly<Record<string, string>> = {
  '1.27': 'v1.32.6',
  '1.28': 'v1.33.4',
  '1.29': 'v1.34.1',
  '1.30': 'v1.35.2',
  '1.31': 'v1.36.2',
};

// go.mod of each release: the bundle of the standard channel that it was built with
const BUNDLES: Readonly<Record<string, string>> = {
  '1.27': 'v1.3.0',
  '1.28': 'v1.4.1',
  '1.29': 'v1.4.1',
  '1.30': 'v1.5.1',
  '1.31': 'v1.6.1',
};

interface Kind {
  readonly kind: string;
  readonly plural: string;
  /** First bundle minor that has it, in the standard channel. */
  readonly from: number;
  readonly versions: (bundle: number) => readonly { name: string; served: boolean; storage: boolean }[];
}

const only = (name: string) => [{ name, served: true, storage: true }];

const KINDS: readonly Kind[] = [
  {
    kind: 'GatewayClass',
    plural: 'gatewayclasses',
    from: 0,
    versions: () => [...only('v1'), { name: 'v1beta1', served: true, storage: false }],
  },
  {
    kind: 'Gateway',
    plural: 'gateways',
    from: 0,
    versions: () => [...only('v1'), { name: 'v1beta1', served: true, storage: false }],
  },
  {
    kind: 'HTTPRoute',
    plural: 'httproutes',
    from: 0,
    versions: () => [...only('v1'), { name: 'v1beta1', served: true, storage: false }],
  },
  { kind: 'GRPCRoute', plural: 'grpcroutes', from: 1, versions: () => only('v1') },
  {
    kind: 'ReferenceGrant',
    plural: 'referencegrants',
    from: 0,
    versions: bundle => [...only('v1beta1'), ...(bundle < 5 ? [] : [{ name: 'v1', served: true, storage: false }])],
  },
  {
    kind: 'BackendTLSPolicy',
    plural: 'backendtlspolicies',
    from: 4,
    versions: () => [...only('v1'), { name: 'v1alpha3', served: false, storage: false }],
  },
  {
    kind: 'TLSRoute',
    plural: 'tlsroutes',
    from: 5,
    versions: () => [
      ...only('v1'),
      { name: 'v1alpha2', served: false, storage: false },
      { name: 'v1alpha3', served: false, storage: false },
    ],
  },
  { kind: 'ListenerSet', plural: 'listenersets', from: 5, versions: () => only('v1') },
  {
    kind: 'TCPRoute',
    plural: 'tcproutes',
    from: 6,
    versions: () => [...only('v1'), { name: 'v1alpha2', served: false, storage: false }],
  },
];

/** The CRDs of the standard channel that go with a minor release of Istio, as YAML. */
export function gatewayApiCrds(istio: string): string {
  const version = BUNDLES[istio];
  if (version === undefined) throw new Error(`no bundle is known for Istio ${istio}`);
  const bundle = Number(version.split('.')[1]);
  return KINDS.filter(({ from }) => bundle >= from)
    .map(({ kind, plural, versions }) =>
      stringify({
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: {
          name: `${plural}.gateway.networking.k8s.io`,
          annotations: {
            'gateway.networking.k8s.io/bundle-version': version,
            'gateway.networking.k8s.io/channel': 'standard',
          },
        },
        spec: {
          group: 'gateway.networking.k8s.io',
          scope: kind === 'GatewayClass' ? 'Cluster' : 'Namespaced',
          names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
          versions: versions(bundle),
        },
      }),
    )
    .join('---\n');
}

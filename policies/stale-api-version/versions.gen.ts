// Made by scripts/versions.ts of versions.yaml, which is what to edit.
import type { VersionTable } from './table.ts';

export const VERSIONS: VersionTable = {
  kinds: [
    {
      kind: 'InferencePool.inference.networking.x-k8s.io',
      plural: 'inferencepools',
      product: 'inference-extension',
      unread: 'routes to this pool answer 500',
      reads: [
        {
          version: 'v1alpha2',
          from: '1.27',
          until: '1.27',
        },
      ],
      successor: {
        kind: 'InferencePool.inference.networking.k8s.io',
        version: 'v1',
        bundle: 'v1.0.0',
      },
      hint: 'endpointPickerRef with port.number, targetPorts, selector.matchLabels',
      versions: [
        {
          name: 'v1alpha1',
          early: true,
          served: [
            {
              channel: 'standard',
              from: 'v0.1.0',
              until: 'v0.1.0',
            },
          ],
        },
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'standard',
              from: 'v0.2.0',
              until: 'v1.4.0',
            },
          ],
        },
      ],
      rewrite: [
        {
          op: 'nest',
          path: '/spec/selector',
          under: 'matchLabels',
        },
        {
          op: 'list',
          from: '/spec/targetPortNumber',
          to: '/spec/targetPorts',
          as: 'number',
        },
        {
          op: 'move',
          from: '/spec/extensionRef',
          to: '/spec/endpointPickerRef',
        },
        {
          op: 'move',
          from: '/spec/endpointPickerRef/targetPortNumber',
          to: '/spec/endpointPickerRef/port/number',
          note: "the port was one of the picker's pods and is one of its Service now",
        },
        {
          op: 'move',
          from: '/spec/endpointPickerRef/portNumber',
          to: '/spec/endpointPickerRef/port/number',
        },
        {
          op: 'move',
          from: '/spec/endpointPickerRef/port',
          to: '/spec/endpointPickerRef/port/number',
          scalar: true,
        },
        {
          op: 'default',
          path: '/spec/endpointPickerRef/port/number',
          value: 9002,
          unlessOther: {
            path: '/spec/endpointPickerRef/kind',
            than: ['', 'Service'],
          },
        },
        {
          op: 'drop',
          path: '/spec/endpointPickerRef/namespace',
          note: "the picker is always one of the pool's own namespace",
        },
        {
          op: 'drop',
          path: '/status',
        },
      ],
    },
    {
      kind: 'InferencePool.inference.networking.k8s.io',
      plural: 'inferencepools',
      product: 'inference-extension',
      unread: 'routes to this pool answer 500',
      reads: [
        {
          version: 'v1',
          from: '1.28',
        },
      ],
      versions: [
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.0.0',
            },
          ],
        },
      ],
      rewrite: [
        {
          op: 'nest',
          path: '/spec/selector',
          under: 'matchLabels',
        },
        {
          op: 'list',
          from: '/spec/targetPortNumber',
          to: '/spec/targetPorts',
          as: 'number',
        },
        {
          op: 'move',
          from: '/spec/extensionRef',
          to: '/spec/endpointPickerRef',
        },
        {
          op: 'move',
          from: '/spec/endpointPickerRef/targetPortNumber',
          to: '/spec/endpointPickerRef/port/number',
          note: "the port was one of the picker's pods and is one of its Service now",
        },
        {
          op: 'move',
          from: '/spec/endpointPickerRef/portNumber',
          to: '/spec/endpointPickerRef/port/number',
        },
        {
          op: 'move',
          from: '/spec/endpointPickerRef/port',
          to: '/spec/endpointPickerRef/port/number',
          scalar: true,
        },
        {
          op: 'default',
          path: '/spec/endpointPickerRef/port/number',
          value: 9002,
          unlessOther: {
            path: '/spec/endpointPickerRef/kind',
            than: ['', 'Service'],
          },
        },
        {
          op: 'drop',
          path: '/spec/endpointPickerRef/namespace',
          note: "the picker is always one of the pool's own namespace",
        },
        {
          op: 'drop',
          path: '/status',
        },
      ],
    },
    {
      kind: 'InferenceModel.inference.networking.x-k8s.io',
      plural: 'inferencemodels',
      product: 'inference-extension',
      unread: 'no endpoint picker of a v1 pool reads it',
      neverRead: true,
      obsoleteSince: '1.28',
      successor: {
        kind: 'InferenceObjective.inference.networking.x-k8s.io',
        version: 'v1alpha2',
        bundle: 'v1.0.0',
      },
      hint: 'criticality becomes a number in priority; modelName and targetModels have no place there',
      versions: [
        {
          name: 'v1alpha1',
          served: [
            {
              channel: 'standard',
              from: 'v0.1.0',
              until: 'v0.1.0',
            },
          ],
        },
        {
          name: 'v1alpha2',
          served: [
            {
              channel: 'standard',
              from: 'v0.2.0',
              until: 'v0.5.1',
            },
          ],
        },
      ],
    },
    {
      kind: 'InferenceObjective.inference.networking.x-k8s.io',
      plural: 'inferenceobjectives',
      product: 'inference-extension',
      unread: 'its endpoint picker does not read it',
      neverRead: true,
      versions: [
        {
          name: 'v1alpha2',
          served: [
            {
              channel: 'experimental',
              from: 'v1.0.0',
              until: 'v1.5.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'BackendTLSPolicy.gateway.networking.k8s.io',
      plural: 'backendtlspolicies',
      product: 'gateway-api',
      unread: 'connections to the backend go out without TLS',
      reads: [
        {
          version: 'v1alpha3',
          until: '1.27',
        },
        {
          version: 'v1',
          from: '1.28',
        },
      ],
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          hint: 'targetRef becomes a list targetRefs, tls becomes validation',
          served: [
            {
              channel: 'experimental',
              from: 'v1.0.0',
              until: 'v1.0.0',
            },
          ],
        },
        {
          name: 'v1alpha3',
          early: true,
          served: [
            {
              channel: 'experimental',
              from: 'v1.1.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.4.0',
            },
            {
              channel: 'experimental',
              from: 'v1.4.0',
            },
          ],
        },
      ],
      rewrite: [
        {
          op: 'drop',
          path: '/spec/targetRef/namespace',
          note: 'a policy targets its own namespace only',
        },
        {
          op: 'list',
          from: '/spec/targetRef',
          to: '/spec/targetRefs',
        },
        {
          op: 'move',
          from: '/spec/tls',
          to: '/spec/validation',
        },
        {
          op: 'move',
          from: '/spec/validation/caCertRefs',
          to: '/spec/validation/caCertificateRefs',
        },
        {
          op: 'move',
          from: '/spec/validation/wellKnownCACerts',
          to: '/spec/validation/wellKnownCACertificates',
        },
      ],
    },
    {
      kind: 'GatewayClass.gateway.networking.k8s.io',
      plural: 'gatewayclasses',
      product: 'gateway-api',
      unread: 'no Gateway of the class is programmed',
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'standard',
              from: 'v0.4.0',
              until: 'v0.7.1',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: 'v0.5.0',
            },
            {
              channel: 'experimental',
              from: 'v0.5.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.0.0',
            },
            {
              channel: 'experimental',
              from: 'v1.0.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'Gateway.gateway.networking.k8s.io',
      plural: 'gateways',
      product: 'gateway-api',
      unread: 'no proxy listens for it',
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'standard',
              from: 'v0.4.0',
              until: 'v0.7.1',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: 'v0.5.0',
            },
            {
              channel: 'experimental',
              from: 'v0.5.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.0.0',
            },
            {
              channel: 'experimental',
              from: 'v1.0.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'HTTPRoute.gateway.networking.k8s.io',
      plural: 'httproutes',
      product: 'gateway-api',
      unread: 'the route matches nothing',
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'standard',
              from: 'v0.4.0',
              until: 'v0.7.1',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: 'v0.5.0',
            },
            {
              channel: 'experimental',
              from: 'v0.5.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.0.0',
            },
            {
              channel: 'experimental',
              from: 'v1.0.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'GRPCRoute.gateway.networking.k8s.io',
      plural: 'grpcroutes',
      product: 'gateway-api',
      unread: 'the route matches nothing',
      reads: [
        {
          version: 'v1',
        },
      ],
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'experimental',
              from: 'v0.6.0',
              until: 'v1.1.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.1.0',
            },
            {
              channel: 'experimental',
              from: 'v1.1.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'TLSRoute.gateway.networking.k8s.io',
      plural: 'tlsroutes',
      product: 'gateway-api',
      unread: 'the route matches nothing',
      reads: [
        {
          version: 'v1alpha2',
          until: '1.29',
        },
        {
          version: 'v1',
          from: '1.30',
        },
      ],
      hint: 'hostnames and backendRefs are required, one rule only',
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'experimental',
              from: 'v0.4.0',
            },
          ],
        },
        {
          name: 'v1alpha3',
          early: true,
          served: [
            {
              channel: 'experimental',
              from: 'v1.4.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.5.0',
            },
            {
              channel: 'experimental',
              from: 'v1.5.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'TCPRoute.gateway.networking.k8s.io',
      plural: 'tcproutes',
      product: 'gateway-api',
      unread: 'the route matches nothing',
      reads: [
        {
          version: 'v1alpha2',
          until: '1.30',
        },
        {
          version: 'v1',
          from: '1.31',
        },
      ],
      hint: 'one rule only',
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'experimental',
              from: 'v0.4.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.6.0',
            },
            {
              channel: 'experimental',
              from: 'v1.6.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'UDPRoute.gateway.networking.k8s.io',
      plural: 'udproutes',
      product: 'gateway-api',
      unread: 'the route matches nothing',
      neverRead: true,
      hint: 'one rule only',
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'experimental',
              from: 'v0.4.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.6.0',
            },
            {
              channel: 'experimental',
              from: 'v1.6.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'ReferenceGrant.gateway.networking.k8s.io',
      plural: 'referencegrants',
      product: 'gateway-api',
      unread: 'nothing is granted',
      reads: [
        {
          version: 'v1beta1',
        },
      ],
      versions: [
        {
          name: 'v1alpha2',
          early: true,
          served: [
            {
              channel: 'standard',
              from: 'v0.5.0',
              until: 'v1.1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: 'v0.6.0',
            },
            {
              channel: 'experimental',
              from: 'v0.6.0',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.5.0',
            },
            {
              channel: 'experimental',
              from: 'v1.5.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'ReferencePolicy.gateway.networking.k8s.io',
      plural: 'referencepolicies',
      product: 'gateway-api',
      unread: 'nothing is granted',
      neverRead: true,
      obsoleteSince: '1.26',
      successor: {
        kind: 'ReferenceGrant.gateway.networking.k8s.io',
        version: 'v1beta1',
        bundle: 'v0.6.0',
      },
      hint: 'the fields are the same',
      versions: [
        {
          name: 'v1alpha2',
          served: [
            {
              channel: 'standard',
              from: 'v0.4.0',
              until: 'v0.5.1',
            },
          ],
        },
      ],
    },
    {
      kind: 'XListenerSet.gateway.networking.x-k8s.io',
      plural: 'xlistenersets',
      product: 'gateway-api',
      unread: 'its listeners are not opened',
      reads: [
        {
          version: 'v1alpha1',
          until: '1.29',
        },
      ],
      successor: {
        kind: 'ListenerSet.gateway.networking.k8s.io',
        version: 'v1',
        bundle: 'v1.5.0',
      },
      hint: 'every listener needs a port, TLS listeners tls.mode',
      versions: [
        {
          name: 'v1alpha1',
          early: true,
          served: [
            {
              channel: 'experimental',
              from: 'v1.3.0',
              until: 'v1.4.1',
            },
          ],
        },
      ],
    },
    {
      kind: 'ListenerSet.gateway.networking.k8s.io',
      plural: 'listenersets',
      product: 'gateway-api',
      unread: 'its listeners are not opened',
      reads: [
        {
          version: 'v1',
          from: '1.30',
        },
      ],
      versions: [
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: 'v1.5.0',
            },
            {
              channel: 'experimental',
              from: 'v1.5.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'BackendLBPolicy.gateway.networking.k8s.io',
      plural: 'backendlbpolicies',
      product: 'gateway-api',
      unread: 'sessions are not kept',
      neverRead: true,
      obsoleteSince: '1.26',
      successor: {
        kind: 'XBackendTrafficPolicy.gateway.networking.x-k8s.io',
        version: 'v1alpha1',
        bundle: 'v1.3.0',
      },
      hint: 'targetRefs and sessionPersistence move over',
      versions: [
        {
          name: 'v1alpha2',
          served: [
            {
              channel: 'experimental',
              from: 'v1.1.0',
              until: 'v1.2.1',
            },
          ],
        },
      ],
    },
    {
      kind: 'AuthorizationPolicy.security.istio.io',
      plural: 'authorizationpolicies',
      product: 'istio',
      unread: 'the policy is not enforced',
      versions: [
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.4',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.17',
            },
          ],
        },
      ],
    },
    {
      kind: 'RequestAuthentication.security.istio.io',
      plural: 'requestauthentications',
      product: 'istio',
      unread: 'the policy is not enforced',
      versions: [
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.4',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.17',
            },
          ],
        },
      ],
    },
    {
      kind: 'PeerAuthentication.security.istio.io',
      plural: 'peerauthentications',
      product: 'istio',
      unread: 'the policy is not enforced',
      versions: [
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'VirtualService.networking.istio.io',
      plural: 'virtualservices',
      product: 'istio',
      unread: 'the route matches nothing',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'DestinationRule.networking.istio.io',
      plural: 'destinationrules',
      product: 'istio',
      unread: 'its settings do not hold',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'Gateway.networking.istio.io',
      plural: 'gateways',
      product: 'istio',
      unread: 'no proxy listens for it',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'ServiceEntry.networking.istio.io',
      plural: 'serviceentries',
      product: 'istio',
      unread: 'the host is unknown to the mesh',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'Sidecar.networking.istio.io',
      plural: 'sidecars',
      product: 'istio',
      unread: 'its settings do not hold',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'WorkloadEntry.networking.istio.io',
      plural: 'workloadentries',
      product: 'istio',
      unread: 'the workload is unknown to the mesh',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'WorkloadGroup.networking.istio.io',
      plural: 'workloadgroups',
      product: 'istio',
      unread: 'no workload registers with it',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.5',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'EnvoyFilter.networking.istio.io',
      plural: 'envoyfilters',
      product: 'istio',
      unread: 'its patches do not apply',
      versions: [
        {
          name: 'v1alpha3',
          served: [
            {
              channel: 'standard',
              from: '1.0',
            },
          ],
        },
      ],
    },
    {
      kind: 'ProxyConfig.networking.istio.io',
      plural: 'proxyconfigs',
      product: 'istio',
      unread: 'its settings do not hold',
      versions: [
        {
          name: 'v1beta1',
          served: [
            {
              channel: 'standard',
              from: '1.12',
            },
          ],
        },
      ],
    },
    {
      kind: 'Telemetry.telemetry.istio.io',
      plural: 'telemetries',
      product: 'istio',
      unread: 'its settings do not hold',
      versions: [
        {
          name: 'v1alpha1',
          served: [
            {
              channel: 'standard',
              from: '1.9',
            },
          ],
        },
        {
          name: 'v1',
          served: [
            {
              channel: 'standard',
              from: '1.22',
            },
          ],
        },
      ],
    },
    {
      kind: 'WasmPlugin.extensions.istio.io',
      plural: 'wasmplugins',
      product: 'istio',
      unread: 'the plugin does not run',
      versions: [
        {
          name: 'v1alpha1',
          served: [
            {
              channel: 'standard',
              from: '1.12',
            },
          ],
        },
      ],
    },
    {
      kind: 'TrafficExtension.extensions.istio.io',
      plural: 'trafficextensions',
      product: 'istio',
      unread: 'the extension does not run',
      versions: [
        {
          name: 'v1alpha1',
          served: [
            {
              channel: 'standard',
              from: '1.30',
            },
          ],
        },
      ],
    },
  ],
  removed: [
    {
      group: 'rbac.istio.io',
      last: 'Istio 1.6',
      instead: 'AuthorizationPolicy of security.istio.io/v1',
      kinds: ['AuthorizationPolicy', 'RbacConfig', 'ClusterRbacConfig', 'ServiceRole', 'ServiceRoleBinding'],
    },
    {
      group: 'authentication.istio.io',
      last: 'Istio 1.5',
      instead: 'PeerAuthentication and RequestAuthentication of security.istio.io/v1',
      kinds: ['Policy', 'MeshPolicy'],
    },
    {
      group: 'config.istio.io',
      last: 'Istio 1.7',
      instead: 'Telemetry of telemetry.istio.io/v1, or an extension provider in meshConfig',
      kinds: [
        'adapter',
        'apikey',
        'attributemanifest',
        'authorization',
        'bypass',
        'checknothing',
        'circonus',
        'cloudwatch',
        'denier',
        'dogstatsd',
        'edge',
        'fluentd',
        'handler',
        'HTTPAPISpec',
        'HTTPAPISpecBinding',
        'instance',
        'kubernetes',
        'kubernetesenv',
        'listchecker',
        'listentry',
        'logentry',
        'memquota',
        'metric',
        'noop',
        'opa',
        'prometheus',
        'quota',
        'QuotaSpec',
        'QuotaSpecBinding',
        'rbac',
        'redisquota',
        'reportnothing',
        'rule',
        'servicecontrol',
        'servicecontrolreport',
        'signalfx',
        'solarwinds',
        'stackdriver',
        'statsd',
        'stdio',
        'template',
        'tracespan',
        'zipkin',
      ],
    },
    {
      group: 'networking.x-k8s.io',
      last: 'Gateway API 0.4',
      instead: 'the kind of the same name in gateway.networking.k8s.io/v1',
      kinds: ['GatewayClass', 'Gateway', 'HTTPRoute', 'TCPRoute', 'TLSRoute', 'UDPRoute', 'BackendPolicy'],
    },
    {
      group: 'gateway.inference.networking.x-k8s.io',
      last: '',
      instead: 'InferencePool of inference.networking.k8s.io/v1',
      kinds: ['LLMServerPool', 'LLMService'],
    },
    {
      group: 'gateway.inference.k8s.io',
      last: '',
      instead: 'InferencePool of inference.networking.k8s.io/v1',
      kinds: ['LLMServerPool', 'LLMService'],
    },
    {
      group: 'inference.networking.x-k8s.io',
      last: '',
      instead: 'InferencePool of inference.networking.k8s.io/v1',
      kinds: ['LLMServerPool', 'LLMService'],
    },
    {
      group: 'inference.x-k8s.io',
      last: '',
      instead: 'InferencePool of inference.networking.k8s.io/v1',
      kinds: ['InferencePool', 'InferenceModel'],
    },
  ],
};

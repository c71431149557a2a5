// What istiod makes of a Gateway API Gateway: a Deployment of its own class, and the labels of its pods.
import type { StringMap } from '../kube/labels.ts';
import { GATEWAY_CLASS, type Gateway } from './kinds/gateways.ts';
import type { Mesh } from './mesh.ts';

/** What a class of Gateways is run as. `none`: by nobody of Istio's, or by no Deployment that istiod makes. */
export type ManagedAs = 'ingress' | 'waypoint' | 'east-west' | 'none' | 'unknown';

// pilot/pkg/config/kube/gatewaycommon and pkg/config/constants
const CONTROLLERS: Readonly<Record<string, ManagedAs>> = {
  'istio.io/gateway-controller': 'ingress',
  'istio.io/mesh-controller': 'waypoint',
  'istio.io/eastwest-controller': 'east-west',
  // 1.31, with PILOT_ENABLE_AGENTGATEWAY
  'istio.io/agentgateway-controller': 'ingress',
  'istio.io/agentgateway-waypoint-controller': 'waypoint',
};
const CLASSES: Readonly<Record<string, ManagedAs>> = {
  istio: 'ingress',
  'istio-waypoint': 'waypoint',
  'istio-agentgateway': 'ingress',
  'istio-agentgateway-waypoint': 'waypoint',
  'istio-east-west': 'east-west',
  // Gateways of a class that istiod makes and runs nothing for
  'istio-remote': 'none',
};

/** What Gateways of a class are run as: by the controller of the class where it is there, else by the names that Istio uses. */
export function managedAs(mesh: Mesh, className: string): ManagedAs {
  const found = mesh.find(GATEWAY_CLASS, '', className);
  if (typeof found !== 'string') {
    return Object.hasOwn(CONTROLLERS, found.controllerName) ? (CONTROLLERS[found.controllerName] ?? 'none') : 'none';
  }
  if (Object.hasOwn(CLASSES, className)) return CLASSES[className] ?? 'none';
  return found === 'absent' ? 'none' : 'unknown';
}

/** Name of the Deployment and the Service that istiod makes (GetDefaultName: waypoints have no suffix). */
export function deploymentName(gateway: Pick<Gateway, 'name' | 'className' | 'annotations'>, as: ManagedAs): string {
  const override = gateway.annotations['gateway.istio.io/name-override'];
  if (override !== undefined && override !== '') return override;
  return as === 'waypoint' ? gateway.name : `${gateway.name}-${gateway.className}`;
}

/** Labels of a waypoint's pods (manifests/charts/istio-control/istio-discovery/files/waypoint.yaml). */
export function waypointPodLabels(gateway: Gateway): StringMap {
  const own = Object.keys(gateway.infrastructureLabels).length > 0 ? gateway.infrastructureLabels : gateway.labels;
  return Object.assign(Object.create(null) as Record<string, string>, own, {
    'gateway.istio.io/managed': 'istio.io-mesh-controller',
    'gateway.networking.k8s.io/gateway-name': gateway.name,
    'gateway.networking.k8s.io/gateway-class-name': gateway.className,
    'istio.io/dataplane-mode': 'none',
    'service.istio.io/canonical-name': gateway.name,
    'service.istio.io/canonical-revision': 'latest',
    'sidecar.istio.io/inject': 'false',
  });
}

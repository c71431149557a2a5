// A small ambient mesh as people have it, and what they do to it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cluster } from '../../harness/cluster.ts';
import { applyObjects, type Manifest, parseManifests } from '../../harness/objects.ts';
import { until } from '../../harness/wait.ts';
import { POLICIES } from '../../support/cases.ts';

/** The states that the policies' own cases stand on: `ambient`, `sidecar`, `inference`. */
export function stateOf(name: string): Manifest[] {
  return parseManifests(readFileSync(join(POLICIES, 'states', `${name}.yaml`), 'utf8'));
}

export const namespace = (name: string, labels: Record<string, string> = {}) => `
apiVersion: v1
kind: Namespace
metadata: { name: ${name}, labels: ${JSON.stringify(labels)} }
---`;

export const ambientNamespace = (name: string, labels: Record<string, string> = {}) =>
  namespace(name, { 'istio.io/dataplane-mode': 'ambient', ...labels });

/** Pods in ambient mode, and a Service in front of them. */
export const app = (namespaceName: string, labels: Record<string, string> = {}) => `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: ${namespaceName}, labels: ${JSON.stringify(labels)} }
spec: { selector: { app: web }, ports: [{ name: http, port: 80, targetPort: 8080 }] }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: ${namespaceName} }
spec:
  replicas: 1
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: app, image: registry.example.test/web:1.4.2, ports: [{ containerPort: 8080 }] }] }
---`;

/** A DENY rule with a path, which only a waypoint can enforce. */
export const noAdmin = (
  namespaceName: string,
  name = 'no-admin',
  target = 'selector: { matchLabels: { app: web } }',
) => `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: { name: ${name}, namespace: ${namespaceName} }
spec:
  ${target}
  action: DENY
  rules: [{ to: [{ operation: { paths: ["/admin*"] } }] }]
---`;

export const onService = 'targetRefs: [{ kind: Service, group: "", name: web }]';

export const waypoint = (namespaceName: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: waypoint, namespace: ${namespaceName} }
spec:
  gatewayClassName: istio-waypoint
  listeners: [{ name: mesh, port: 15008, protocol: HBONE }]
---`;

/** Says what istiod would say of a waypoint that is there. */
export async function program(cluster: Cluster, namespaceName: string): Promise<void> {
  await cluster.api.call(
    'PATCH',
    `/apis/gateway.networking.k8s.io/v1/namespaces/${namespaceName}/gateways/waypoint/status`,
    { status: { addresses: [{ type: 'IPAddress', value: '10.96.40.7' }] } },
    { type: 'application/merge-patch+json' },
  );
}

/** istiod, ztunnel and istio-cni as objects, without the namespaces of the state that are not Istio's. */
export async function installAmbient(cluster: Cluster): Promise<void> {
  const objects = stateOf('ambient').filter(({ kind }) => kind !== 'Node' && kind !== 'GatewayClass');
  await applyObjects(cluster.api, objects);
  await applyObjects(
    cluster.api,
    stateOf('ambient').filter(({ kind }) => kind === 'GatewayClass'),
  );
}

/** Waits until every replica has heard of this: asks by a dry run until the answer is as wanted. */
export async function answers(
  cluster: Cluster,
  yaml: string,
  wanted: (answer: { code: number; stderr: string }) => boolean,
  timeout = 5_000,
): Promise<number> {
  const began = performance.now();
  await until(
    'the answer',
    async () => {
      const answer = await cluster.kubectl('apply', '--dry-run=server', '-f', '-', { input: yaml });
      if (!wanted(answer)) throw new Error(`${answer.code}: ${answer.stderr}`);
      return true;
    },
    { timeout, every: 20 },
  );
  return performance.now() - began;
}

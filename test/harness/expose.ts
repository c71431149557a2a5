import type { Cluster } from './cluster.ts';
import type { Manifest } from './objects.ts';

/**
 * Makes a Service name stand for a process on this machine. The API server calls a webhook of a Service of type
 * ExternalName at that name, at the port that the webhook's `clientConfig.service.port` says: set it to the local port
 * (`setWebhookPort`), and let the certificate name SERVICE.NAMESPACE.svc. A Service of that name is replaced, since its
 * type cannot become ExternalName while it has cluster addresses.
 */
export async function exposeLocal({ api }: Cluster, namespace: string, name: string, port: number): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/services`;
  await api.call('DELETE', `${path}/${name}`, undefined, { allow: [404] });
  await api.call('POST', path, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: { type: 'ExternalName', externalName: 'localhost', ports: [{ name: 'https', port }] },
  });
}

interface Webhook {
  clientConfig: { service?: { namespace: string; name: string; port?: number } };
}

/** Sets the port under which the webhooks of rendered configurations ask for a Service; others stay as they are. */
export function setWebhookPort(objects: Manifest[], namespace: string, name: string, port: number): void {
  for (const object of objects) {
    if (!object.kind.endsWith('WebhookConfiguration')) continue;
    for (const { clientConfig } of (object['webhooks'] ?? []) as Webhook[]) {
      const { service } = clientConfig;
      if (service?.namespace === namespace && service.name === name) service.port = port;
    }
  }
}

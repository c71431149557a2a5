import { type Api, type KubeObject, mergePatch } from './api.ts';

interface Service extends KubeObject {
  spec: { type?: string };
  status?: { loadBalancer?: { ingress?: unknown[] } };
}

export interface Addresses {
  /** The Service gets this address from the cloud, now or when it appears. */
  assign(namespace: string, service: string, ip: string): void;
  stop(): void;
}

/** Stands in for a cloud's load balancers: every Service of type LoadBalancer gets an address, or those assigned one only. */
export async function runAddresses(api: Api, all: boolean): Promise<Addresses> {
  const assigned = new Map<string, string>();
  const services = new Map<string, Service>();
  let next = 0;

  function give(service: Service): void {
    const key = `${service.metadata.namespace}/${service.metadata.name}`;
    if (service.spec.type !== 'LoadBalancer' || service.status?.loadBalancer?.ingress?.length) return;
    if (all && !assigned.has(key)) assigned.set(key, `172.18.${(++next >> 8) & 255}.${next & 255}`);
    const ip = assigned.get(key);
    if (!ip) return;
    const path = `/api/v1/namespaces/${service.metadata.namespace}/services/${service.metadata.name}/status`;
    const status = { loadBalancer: { ingress: [{ ip }] } };
    void api.send('PATCH', path, { status }, mergePatch).catch(() => {});
  }

  const stop = await api.follow<Service>('/api/v1/services', ({ type, object }) => {
    const key = `${object.metadata.namespace}/${object.metadata.name}`;
    if (type === 'DELETED') services.delete(key);
    else {
      services.set(key, object);
      give(object);
    }
  });
  return {
    assign(namespace, service, ip) {
      assigned.set(`${namespace}/${service}`, ip);
      const known = services.get(`${namespace}/${service}`);
      if (known) give(known);
    },
    stop,
  };
}

import { type Api, type KubeObject, mergePatch } from './api.ts';

export interface NodeSpec {
  name: string;
  /** The kubelet's version; the default is the API server's own. */
  version?: string;
  labels?: Record<string, string>;
}

export interface Nodes {
  add(node: NodeSpec): Promise<void>;
  remove(name: string): Promise<void>;
  /** The address of a node, which pods on its network have too. */
  address(name: string): string;
  /** Picks a node that the pod's selector and affinity allow, in turn; undefined where none is. */
  choose(pod: Schedulable): string | undefined;
  stop(): void;
}

export interface Schedulable extends KubeObject {
  spec: {
    nodeName?: string;
    nodeSelector?: Record<string, string>;
    schedulingGates?: unknown[];
    affinity?: {
      nodeAffinity?: {
        requiredDuringSchedulingIgnoredDuringExecution?: {
          nodeSelectorTerms: { matchFields?: { key: string; operator: string; values?: string[] }[] }[];
        };
      };
    };
  };
}

const leaseEvery = 10_000; // what a kubelet does: a quarter of the lease's 40 seconds
const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

/** A DaemonSet's pods say by a field of their affinity which node they are for. */
function wantedNode(pod: Schedulable): string | undefined {
  const terms =
    pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  return terms.flatMap(term => term.matchFields ?? []).find(field => field.key === 'metadata.name')?.values?.[0];
}

/** Nodes as a kubelet registers and keeps them: ready, with a version, an address and a lease. */
export function runNodes(api: Api, defaultVersion: string): Nodes {
  const nodes = new Map<string, { address: string; labels: Record<string, string> }>();
  let registered = 0;
  let turn = 0;

  const asNode = (name: string) => api.as(`system:node:${name}`, 'system:nodes', 'system:authenticated');

  async function renew(name: string): Promise<void> {
    const spec = {
      holderIdentity: name,
      leaseDurationSeconds: 40,
      renewTime: new Date().toISOString().replace('Z', '000Z'),
    };
    const node = asNode(name);
    const renewed = await node.send('PATCH', `${leases}/${name}`, { spec }, mergePatch);
    if (renewed.status !== 404) return;
    await node.send('POST', leases, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name }, spec });
  }
  const renewing = setInterval(() => {
    for (const name of nodes.keys()) void renew(name).catch(() => {});
  }, leaseEvery).unref();

  return {
    async add({ name, version = defaultVersion, labels = {} }) {
      const address = `10.9.${(registered >> 8) & 255}.${(registered++ & 255) + 1}`;
      const all = {
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        ...labels,
      };
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: all } };
      await api.call('POST', '/api/v1/nodes', node, { allow: [409] });
      const resources = { cpu: '64', memory: '256Gi', pods: '10000', 'ephemeral-storage': '1Ti' };
      const now = new Date().toISOString();
      const status = {
        nodeInfo: {
          kubeletVersion: version,
          kubeProxyVersion: '',
          operatingSystem: 'linux',
          architecture: 'amd64',
          containerRuntimeVersion: 'containerd://2.1.0',
          osImage: 'Linux',
          kernelVersion: '6.12.0',
          machineID: name,
          systemUUID: name,
          bootID: name,
        },
        conditions: [
          { type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: now, lastTransitionTime: now },
        ],
        addresses: [
          { type: 'InternalIP', address },
          { type: 'Hostname', address: name },
        ],
        allocatable: resources,
        capacity: resources,
      };
      await asNode(name).call('PATCH', `/api/v1/nodes/${name}/status`, { status }, { type: mergePatch });
      // Admission taints a new node as not ready, and the node lifecycle controller, which does not run here, takes it away.
      await api.call('PATCH', `/api/v1/nodes/${name}`, { spec: { taints: null } }, { type: mergePatch });
      nodes.set(name, { address, labels: all });
      await renew(name);
    },
    async remove(name) {
      nodes.delete(name);
      await api.call('DELETE', `/api/v1/nodes/${name}`, undefined, { allow: [404] });
    },
    address: name => nodes.get(name)?.address ?? '10.9.255.255',
    choose(pod) {
      if (pod.spec.schedulingGates?.length) return undefined;
      const wanted = wantedNode(pod);
      const selector = Object.entries(pod.spec.nodeSelector ?? {});
      const fitting = [...nodes]
        .filter(
          ([name, { labels }]) =>
            (!wanted || name === wanted) && selector.every(([key, value]) => labels[key] === value),
        )
        .map(([name]) => name);
      return fitting[turn++ % fitting.length];
    },
    stop: () => clearInterval(renewing),
  };
}

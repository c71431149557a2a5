import { runAddresses } from './addresses.ts';
import { isEnrolled, redirection } from './ambient.ts';
import { type Api, type KubeObject, mergePatch } from './api.ts';
import { type NodeSpec, runNodes } from './nodes.ts';
import { doneStatus, isTask, type Pod, runningStatus } from './podstatus.ts';

export interface KubeletOptions {
  nodes?: NodeSpec[];
  /** The version of kubelets that name none. */
  version: string;
  /** Write the annotation that istio-cni writes on enrolled pods (default true). */
  ambient?: boolean;
  /** Give every Service of type LoadBalancer an address (default false: only those that `assign` names). */
  loadBalancers?: boolean;
}

export interface Kubelet {
  addNode(node: NodeSpec): Promise<void>;
  removeNode(name: string): Promise<void>;
  /** Pods that match stay Pending until the returned function is called. Pods that run already go on. */
  hold(match: (pod: Pod) => boolean): () => void;
  /** The address that a Service of type LoadBalancer gets. */
  assign(namespace: string, service: string, ip: string): void;
  stop(): void;
}

/** A pod's address: as many as there could ever be in a test, and none given twice. */
function addressOf(count: number): string {
  return `10.${128 + ((count >> 16) & 127)}.${(count >> 8) & 255}.${count & 255}`;
}

/** Stands in for scheduler, kubelets, istio-cni and cloud: pods that are created run a few milliseconds later. */
export async function startKubelet(
  api: Api,
  { nodes: specs = [{ name: 'node-1' }], version, ambient = true, loadBalancers = false }: KubeletOptions,
): Promise<Kubelet> {
  const scheduler = api.as('system:kube-scheduler', 'system:authenticated');
  const nodes = runNodes(api, version);
  for (const spec of specs) await nodes.add(spec);

  const pods = new Map<string, Pod>();
  const namespaceLabels = new Map<string, KubeObject['metadata']['labels']>();
  const holds = new Set<(pod: Pod) => boolean>();
  const busy = new Set<string>();
  const again = new Set<string>();
  let given = 0;
  let stopped = false;

  /** Takes the one step that the pod needs next; the watch brings it back for the one after. */
  async function step(pod: Pod): Promise<void> {
    const path = `/api/v1/namespaces/${pod.metadata.namespace}/pods/${pod.metadata.name}`;
    const node = pod.spec.nodeName;
    if (pod.metadata.deletionTimestamp) {
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        gracePeriodSeconds: 0,
        preconditions: { uid: pod.metadata.uid },
      };
      await api.call('DELETE', path, body, { allow: [404, 409] });
      return;
    }
    if (!node) {
      if ([...holds].some(match => match(pod))) return;
      const name = nodes.choose(pod);
      if (!name) return;
      const target = { apiVersion: 'v1', kind: 'Node', name };
      const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name: pod.metadata.name }, target };
      await scheduler.call('POST', `${path}/binding`, binding, { allow: [404, 409] });
      return;
    }
    const phase = pod.status?.phase ?? 'Pending';
    if (phase === 'Succeeded' || phase === 'Failed') return;
    // istio-cni writes through the status subresource too, so no webhook for pods sees it
    // (cni/pkg/util/podutil.go, AnnotateEnrolledPod).
    const patch: { metadata?: unknown; status?: unknown } = {};
    const enrolled = isEnrolled(pod, namespaceLabels.get(pod.metadata.namespace ?? ''));
    const marked = pod.metadata.annotations?.[redirection] === 'enabled';
    if (ambient && enrolled !== marked)
      patch.metadata = { annotations: { [redirection]: enrolled ? 'enabled' : null } };
    if (phase !== 'Running' || !pod.status?.podIP) {
      if ([...holds].some(match => match(pod))) return;
      const hostIP = nodes.address(node);
      patch.status = runningStatus(pod, pod.spec.hostNetwork ? hostIP : addressOf(++given), hostIP);
    } else if (isTask(pod) && !pod.status.containerStatuses?.some(each => each.state?.terminated)) {
      patch.status = doneStatus(pod);
    }
    if (patch.metadata || patch.status) {
      await api.call('PATCH', `${path}/status`, patch, { type: mergePatch, allow: [404, 409, 422] });
    }
  }

  function visit(key: string): void {
    if (stopped) return;
    if (busy.has(key)) {
      again.add(key);
      return;
    }
    const pod = pods.get(key);
    if (!pod) return;
    busy.add(key);
    step(pod)
      .catch(() => {
        // The API server is away or etcd is paused: once more in a moment.
        setTimeout(() => visit(key), 300).unref();
      })
      .finally(() => {
        busy.delete(key);
        if (again.delete(key)) visit(key);
      });
  }

  const stopNamespaces = await api.follow('/api/v1/namespaces', ({ type, object }) => {
    const { name, labels } = object.metadata;
    if (type === 'DELETED') namespaceLabels.delete(name);
    else namespaceLabels.set(name, labels);
    for (const key of pods.keys()) if (key.startsWith(`${name}/`)) visit(key);
  });
  const stopPods = await api.follow<Pod>('/api/v1/pods', ({ type, object }) => {
    const key = `${object.metadata.namespace}/${object.metadata.name}`;
    if (type === 'DELETED') pods.delete(key);
    else {
      pods.set(key, object);
      visit(key);
    }
  });
  const addresses = await runAddresses(api, loadBalancers);

  return {
    async addNode(node) {
      await nodes.add(node);
      for (const key of pods.keys()) visit(key);
    },
    removeNode: name => nodes.remove(name),
    hold(match) {
      holds.add(match);
      return () => {
        holds.delete(match);
        for (const key of pods.keys()) visit(key);
      };
    },
    assign: (namespace, service, ip) => addresses.assign(namespace, service, ip),
    stop() {
      stopped = true;
      for (const stop of [stopNamespaces, stopPods, addresses.stop, nodes.stop]) stop();
    },
  };
}

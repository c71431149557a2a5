import type { Schedulable } from './nodes.ts';

interface Container {
  name: string;
  image: string;
  restartPolicy?: string;
}

export interface Pod extends Schedulable {
  spec: Schedulable['spec'] & {
    hostNetwork?: boolean;
    restartPolicy?: string;
    containers: Container[];
    initContainers?: Container[];
  };
  status?: { phase?: string; podIP?: string; containerStatuses?: { name: string; state?: { terminated?: unknown } }[] };
}

function running(container: Container, now: string) {
  return { ...identity(container), ready: true, started: true, state: { running: { startedAt: now } } };
}

function completed(container: Container, now: string) {
  const terminated = { exitCode: 0, reason: 'Completed', startedAt: now, finishedAt: now };
  return { ...identity(container), ready: false, started: false, state: { terminated } };
}

function identity({ name, image }: Container) {
  return { name, image, imageID: `harness://${image}`, restartCount: 0 };
}

function conditions(ready: boolean, now: string) {
  return ['PodReadyToStartContainers', 'PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map(type =>
    ready || !type.endsWith('Ready')
      ? { type, status: 'True', lastTransitionTime: now }
      : { type, status: 'False', reason: 'PodCompleted', lastTransitionTime: now },
  );
}

/** The status a kubelet writes once everything in the pod is up: init containers are done, native sidecars run on. */
export function runningStatus(pod: Pod, podIP: string, hostIP: string) {
  const now = new Date().toISOString();
  return {
    phase: 'Running',
    podIP,
    podIPs: [{ ip: podIP }],
    hostIP,
    hostIPs: [{ ip: hostIP }],
    startTime: now,
    conditions: conditions(true, now),
    initContainerStatuses: pod.spec.initContainers?.map(each =>
      each.restartPolicy === 'Always' ? running(each, now) : { ...completed(each, now), ready: true },
    ),
    containerStatuses: pod.spec.containers.map(each => running(each, now)),
  };
}

/** A pod that a Job or a Helm hook waits for: the harness runs no images, so its work counts as done. */
export function isTask(pod: Pod): boolean {
  const owned = pod.metadata.ownerReferences?.some(each => each.kind === 'Job') ?? false;
  const hook = pod.metadata.annotations?.['helm.sh/hook'] !== undefined;
  return (owned || hook) && pod.spec.restartPolicy !== 'Always';
}

/**
 * The status once a task's work is done. A proxy that is a regular container goes on, and so does its pod: that is how
 * Jobs never end with classic sidecars.
 */
export function doneStatus(pod: Pod) {
  const now = new Date().toISOString();
  const proxyStays = (each: Container) => each.name === 'istio-proxy' && pod.spec.containers.length > 1;
  const stays = pod.spec.containers.some(proxyStays);
  return {
    phase: stays ? 'Running' : 'Succeeded',
    conditions: conditions(false, now),
    containerStatuses: pod.spec.containers.map(each => (proxyStays(each) ? running(each, now) : completed(each, now))),
    initContainerStatuses: stays ? undefined : pod.spec.initContainers?.map(each => completed(each, now)),
  };
}

// What becomes of pods that nobody has described.
import { type Workload, workload } from './kinds/workloads.ts';

/** A pod of a namespace that says nothing itself: neither labels nor annotations, one container. */
export function ordinaryPod(namespace: string): Workload {
  return workload('Pod', namespace, { metadata: { name: '*' }, spec: { containers: [{ name: 'app' }] } });
}

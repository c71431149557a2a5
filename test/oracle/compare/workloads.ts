// Pods and Deployments: injection, capture, and the waypoint of a pod's own address.
import { at, records, text } from '../../../src/kube/json.ts';
import { enforcerOf } from '../../../src/mesh/enrolment.ts';
import { injectionOf, isProxyImage, nativeOf } from '../../../src/mesh/injection.ts';
import type { Workload } from '../../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../../src/mesh/mesh.ts';
import { waypointOf } from '../../../src/mesh/waypoints.ts';
import type { Manifest } from '../../harness/objects.ts';
import { conditionOf, waypointIn } from '../observe.ts';
import { type Answered, type Asked, type Comparison, reportsBy } from './common.ts';

/** Findings that say that the API server will not have a pod. */
const REFUSING = ['injection-refused', 'override-in-init-containers', 'two-proxies'];
const refuses = ({ finding, action }: ReturnType<typeof reportsBy>[number]) =>
  REFUSING.includes(finding) || (finding === 'unknown-opt-out' && action === 'deny');
const INJECTED = 'sidecar.istio.io/status';

/** Where the proxy of a stored pod is. */
function proxyIn(pod: Manifest): 'native' | 'classic' | 'none' {
  if (pod.metadata.annotations?.[INJECTED] === undefined) return 'none';
  const named = (list: unknown) =>
    records(list).some(container => container['name'] === 'istio-proxy' && container['image'] !== 'auto');
  if (named(at(pod, 'spec', 'initContainers'))) return 'native';
  return named(at(pod, 'spec', 'containers')) ? 'classic' : 'none';
}

/** The same, as the model has it; undefined where it leaves it open. */
function proxySaid(mesh: Mesh, workload: Workload): string | undefined {
  const injection = injectionOf(mesh, workload);
  if (injection.state === 'none') return 'none';
  // a gateway's proxy is its container
  if (injection.state === 'gateway') return 'classic';
  if (injection.state !== 'sidecar' || injection.standing) return undefined;
  const native = new Set(injection.controlPlanes.map(plane => nativeOf(mesh, workload, plane)));
  if (native.size !== 1) return undefined;
  return native.has(true) ? 'native' : native.has(false) ? 'classic' : undefined;
}

/** What became of a container that a user called istio-proxy: the injector takes it for its own. */
function* userContainer({ mesh, subject }: Asked, pod: Manifest): Iterable<Answered> {
  const workload = subject as Workload;
  const own = workload.template.containers.find(({ name }) => name === 'istio-proxy');
  if (own === undefined || own.image === 'auto' || workload.template.initContainers.length > 0) return;
  const found = reportsBy(mesh, 'native-sidecar', workload);
  const all = [...records(at(pod, 'spec', 'containers')), ...records(at(pod, 'spec', 'initContainers'))];
  const stored = all.find(container => container['name'] === 'istio-proxy');
  const taken = records(at(stored, 'env')).some(({ name }) => name === 'ISTIO_META_CLUSTER_ID');
  // an image of Istio's in a gateway's template is what its author wants
  if (injectionOf(mesh, workload).state === 'gateway' && isProxyImage(own.image)) return;
  yield [
    'container istio-proxy',
    found.some(({ finding }) => finding === 'name-taken') ? 'taken' : 'left',
    taken ? 'taken' : 'left',
  ];
}

function* standing(asked: Asked, pod: Manifest): Iterable<Answered> {
  const { mesh, subject, seen } = asked;
  const workload = subject as Workload;
  const said = proxySaid(mesh, workload);
  if (said !== undefined) yield ['proxy', said, proxyIn(pod)];
  yield* userContainer(asked, pod);
  const entry = seen.workloads.get(`${pod.metadata.namespace}/${pod.metadata.name}`);
  const { by } = enforcerOf(mesh, workload);
  if (entry === undefined) {
    yield ['captured', String(by === 'ztunnel'), 'false'];
    return;
  }
  const captured = text(at(entry, 'tunnelProtocol')) === 'HBONE' && at(entry, 'nativeTunnel') !== true;
  // a proxy that stands in the template already, and of which nothing tells istio-cni, is captured on top of it
  const twice = injectionOf(mesh, workload).standing;
  if (by !== 'unknown' && !twice) yield ['captured', String(by === 'ztunnel'), String(captured)];
  const binding = waypointOf(mesh, workload, 'workload');
  yield [
    'waypoint',
    binding.state === 'bound' ? `${binding.waypoint?.namespace}/${binding.waypoint?.name}` : 'none',
    waypointIn(entry) ?? 'none',
  ];
}

/** True for a pod whose proxy the injector left without an image: it is stored and never starts. */
function isBroken(pod: Manifest): boolean {
  return (
    pod.metadata.annotations?.[INJECTED] !== undefined &&
    [...records(at(pod, 'spec', 'containers')), ...records(at(pod, 'spec', 'initContainers'))].some(
      ({ name, image }) => name === 'istio-proxy' && image === 'auto',
    )
  );
}

const isHook = (message: string) => message.includes('denied the request') || message.includes('Duplicate value');

export const pod: Comparison = function* (asked) {
  const { mesh, subject, refused, seen, ref } = asked;
  const found = reportsBy(mesh, 'native-sidecar', subject).filter(refuses);
  if (refused !== undefined && !isHook(refused)) return;
  const stored = seen.stored.get(`Pod/${ref.namespace}/${ref.name}`);
  // of two proxies the injector may leave one, which is not what anybody wrote
  const merged = found.some(({ finding }) => finding === 'two-proxies') && stored !== undefined;
  if (merged) return;
  const works = refused === undefined && (stored === undefined || !isBroken(stored));
  yield ['accepted', String(found.length === 0), String(works)];
  if (works && stored !== undefined) yield* standing(asked, stored);
};

export const deployment: Comparison = function* (asked) {
  const { mesh, subject, refused, seen, ref } = asked;
  const stored = seen.stored.get(`Deployment/${ref.namespace}/${ref.name}`);
  if (refused !== undefined || stored === undefined) return;
  const found = reportsBy(mesh, 'native-sidecar', subject).filter(refuses);
  const failure = conditionOf(stored, 'ReplicaFailure');
  if (failure !== undefined && !isHook(failure.message)) return;
  const pods = [...seen.stored.values()].filter(one => {
    // its ReplicaSet has its name and a hash
    const owner = one.metadata.ownerReferences?.[0]?.name ?? '';
    return (
      one.kind === 'Pod' &&
      one.metadata.namespace === ref.namespace &&
      owner.slice(0, owner.lastIndexOf('-')) === ref.name &&
      one.metadata.deletionTimestamp === undefined
    );
  });
  if (found.some(({ finding }) => finding === 'two-proxies') && pods.length > 0) return;
  const works = failure === undefined && !pods.some(isBroken);
  yield ['its pods come', String(found.length === 0), String(works)];
  const [one] = pods;
  if (works && one !== undefined) yield* standing(asked, one);
};

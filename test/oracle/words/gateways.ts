import type { Manifest } from '../../harness/objects.ts';
import { type Entries, labelled, type Mood, without } from './mood.ts';

/** Classes beside Istio's own that stand in the cluster for all meshes. */
export const CLASSES: readonly Manifest[] = [
  ['oracle-workload', 'istio.io/mesh-controller', 'workload'],
  ['oracle-all', 'istio.io/mesh-controller', 'all'],
  ['oracle-foreign', 'example.test/controller', undefined],
].map(([name, controllerName, takes]) => ({
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind: 'GatewayClass',
  metadata: { name: name ?? '', labels: labelled({ 'istio.io/waypoint-for': takes }) },
  spec: { controllerName },
}));

function listeners({ random, maybe, sound }: Mood): readonly Entries[] {
  const hbone = (name: string, port: number, from: string | undefined) =>
    without({
      name,
      port,
      protocol: 'HBONE',
      allowedRoutes:
        from === undefined
          ? undefined
          : {
              namespaces: without({ from, selector: from === 'Selector' ? { matchLabels: { team: 'a' } } : undefined }),
            },
    });
  const from = random.pick(
    sound ? ['Same', 'All', 'All', 'Selector', undefined] : ['Same', 'All', 'Selector', undefined],
  );
  const usual = hbone('mesh', 15008, from);
  return (
    maybe(sound ? 0.12 : 0.25, [
      ...random.pick<readonly Entries[]>([
        [usual, hbone('other', 15009, 'All')],
        [hbone('other', 15009, 'All'), usual],
        [hbone('other', 15009, 'All')],
        [usual, { name: 'web', port: 80, protocol: 'HTTP' }],
        [{ name: 'web', port: 80, protocol: 'HTTP' }],
      ]),
    ]) ?? [usual]
  );
}

/** A waypoint, or what is called `ingress` a Gateway of the other kind. */
export function gateway(mood: Mood, at: string, name: string): Manifest {
  const { random, maybe, sound } = mood;
  const ingress = name === 'ingress';
  const classes = ['istio-waypoint', 'istio-waypoint', 'istio-waypoint', 'oracle-workload', 'oracle-all'];
  const className = ingress ? 'istio' : (maybe(sound ? 0.1 : 0.3, random.pick(classes)) ?? 'istio-waypoint');
  return {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'Gateway',
    metadata: {
      name,
      namespace: at,
      labels: labelled({
        'istio.io/waypoint-for': maybe(
          sound ? 0.3 : 0.45,
          random.pick(
            sound ? ['service', 'all', 'all', 'workload'] : ['service', 'workload', 'all', 'none', 'services'],
          ),
        ),
        'istio.io/rev': maybe(sound ? 0.03 : 0.08, random.pick(['elsewhere', 'prod', 'default'])),
      }),
      annotations: ingress ? { 'networking.istio.io/service-type': 'ClusterIP' } : {},
    },
    spec: {
      gatewayClassName: maybe(0.02, 'oracle-foreign') ?? className,
      listeners: ingress ? [{ name: 'http', port: 80, protocol: 'HTTP' }] : listeners(mood),
    },
  };
}

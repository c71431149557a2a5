import type { Manifest } from '../../harness/objects.ts';
import { labelled, type Mood } from './mood.ts';

/** A namespace with some way into the mesh, or out of it. */
export function namespace({ random, maybe, useWaypoint, sound }: Mood, name: string): Manifest {
  const modes = sound ? ['ambient'] : ['ambient', 'ambient', 'ambient', 'none', 'Ambient'];
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      labels: labelled({
        'istio.io/dataplane-mode': maybe(sound ? 0.95 : 0.75, random.pick(modes)),
        'istio-injection': maybe(sound ? 0.06 : 0.2, random.pick(['enabled', 'disabled'])),
        'istio.io/rev': maybe(sound ? 0.03 : 0.12, random.pick(['default', 'elsewhere', 'prod'])),
        team: maybe(0.4, 'a'),
        // what the discoverySelectors of one of the settings leave out
        unwatched: maybe(0.12, 'true'),
        'istio.io/ingress-use-waypoint': maybe(0.15, random.pick(['true', 'false', '1', 'yes'])),
        ...useWaypoint(sound ? 0.65 : 0.4),
      }),
    },
  };
}

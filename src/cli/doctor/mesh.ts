// Which releases are in the mesh, and where Waywarden's knowledge of Istio ends.

import { at, records, text } from '../../kube/json.ts';
import { project } from '../../mesh/kinds.ts';
import type { Declared } from '../../mesh/mesh.ts';
import {
  atLeast,
  cniAgents,
  compareRelease,
  controlPlanes,
  KNOWLEDGE,
  type Release,
  ztunnels,
} from '../../mesh/releases.ts';
import { createStore } from '../../mesh/store.ts';
import { look, type Patient, type Symptom } from './symptom.ts';

const WHERE = [
  ['Deployment.apps', '/apis/apps/v1/deployments?labelSelector=app%3Distiod'],
  ['DaemonSet.apps', '/apis/apps/v1/daemonsets?labelSelector=app%3Dztunnel'],
  ['DaemonSet.apps', '/apis/apps/v1/daemonsets?labelSelector=k8s-app%3Distio-cni-node'],
] as const;

export async function versions({ client }: Patient, declared: Declared): Promise<readonly Symptom[]> {
  const about = 'Istio in this cluster';
  const store = createStore({ declared, complete: () => true });
  for (const [kind, path] of WHERE) {
    const looked = await look(client, path);
    if ('why' in looked) return [{ level: 'unknown', about, found: looked.why }];
    for (const item of records(at(looked.object, 'items')))
      store.put(project(kind, text(at(item, 'metadata', 'namespace')) ?? '', item));
  }
  const planes = store.fact(controlPlanes);
  if (planes.length === 0) {
    return [
      {
        level: 'warn',
        about,
        found: 'no istiod is seen or declared: what rests on its release or settings is never refused',
        repair: 'where istiod runs elsewhere, declare it under controlPlanes in waywarden.yaml',
      },
    ];
  }
  const found: [string, Release | undefined][] = [
    ...planes.map((plane): [string, Release | undefined] => [`istiod ${plane.revision}`, plane.release]),
    ...store.fact(ztunnels).map((agent): [string, Release | undefined] => ['ztunnel', agent.release]),
    ...store.fact(cniAgents).map((agent): [string, Release | undefined] => ['istio-cni', agent.release]),
  ];
  const said = found.map(([what, release]) => `${what} ${release?.text ?? 'of an unknown release'}`).join(', ');
  const newer = found.filter(([, release]) => release !== undefined && compareRelease(release, KNOWLEDGE) > 0);
  const unknown = found.filter(([, release]) => release === undefined);
  const old = found.filter(([, release]) => atLeast(release, '1.26') === false);
  if (newer.length > 0)
    return [
      {
        level: 'warn',
        about,
        found: `${said}: newer than what this Waywarden knows, which ends at ${KNOWLEDGE}`,
        repair: 'upgrade Waywarden',
      },
    ];
  if (unknown.length > 0)
    return [
      {
        level: 'warn',
        about,
        found: said,
        repair: 'give its image a tag that begins MAJOR.MINOR, or declare its version in waywarden.yaml',
      },
    ];
  if (old.length > 0)
    return [
      {
        level: 'warn',
        about,
        found: `${said}: older than 1.26, with which nothing was tried`,
        repair: 'upgrade Istio',
      },
    ];
  return [{ level: 'ok', about, found: `${said}; Waywarden knows Istio up to ${KNOWLEDGE}` }];
}

// Where a kind is served: asked of the API server, because CRDs come, go and change their versions.
import { at, records, text } from '../../../kube/json.ts';
import { splitGroupKind } from '../../../kube/kind.ts';
import { KINDS, type Kind } from '../../kinds.ts';
import type { KubeClient } from './client.ts';

/** The path of a kind's collection, in the version that the table prefers, else in the first that is served; undefined where none is. */
export type Locate = (kind: Kind) => Promise<string | undefined>;

/** Answers are shared for so many milliseconds: at start, dozens of kinds ask at once. */
const KEPT = 300;

export function createLocator(client: KubeClient): Locate {
  const kept = new Map<string, { readonly until: number; readonly answer: Promise<unknown> }>();

  function ask(path: string): Promise<unknown> {
    const now = Date.now();
    const known = kept.get(path);
    if (known !== undefined && known.until > now) return known.answer;
    const answer = client.request({ path }).then(({ status, body }) => {
      if (status === 404) return undefined;
      if (status !== 200) throw new Error(`the API server answered ${status} to ${path}`);
      return body;
    });
    kept.set(path, { until: now + KEPT, answer });
    answer.catch(() => kept.delete(path));
    return answer;
  }

  return async kind => {
    const { group } = splitGroupKind(kind);
    const { plural, version } = KINDS[kind];
    if (group === '') return `/api/v1/${plural}`;
    const known = await ask(`/apis/${group}`);
    const served = records(at(known, 'versions')).flatMap(entry => text(entry['version']) ?? []);
    for (const candidate of [version, ...served.filter(other => other !== version)]) {
      if (!served.includes(candidate)) continue;
      const resources = await ask(`/apis/${group}/${candidate}`);
      if (records(at(resources, 'resources')).some(resource => resource['name'] === plural))
        return `/apis/${group}/${candidate}/${plural}`;
    }
    return undefined;
  };
}

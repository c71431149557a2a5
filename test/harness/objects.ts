import { parseAllDocuments } from 'yaml';
import { type Api, applyPatch, type KubeObject } from './api.ts';

/** An object as it is written: any fields beside the envelope. */
export type Manifest = KubeObject & { apiVersion: string; kind: string; [field: string]: unknown };

export interface Outcome {
  object: Manifest;
  status: number;
  /** What the API server says against it; empty where it was accepted. */
  message: string;
}

export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map(document => document.toJS() as Manifest | null)
    .filter(object => object !== null);
}

interface Resource {
  name: string;
  kind: string;
  namespaced: boolean;
}

const discovered = new WeakMap<Api, Map<string, Resource[]>>();

async function resourceOf(api: Api, apiVersion: string, kind: string): Promise<Resource | undefined> {
  const known = discovered.get(api) ?? new Map<string, Resource[]>();
  discovered.set(api, known);
  const find = () => known.get(apiVersion)?.find(each => each.kind === kind && !each.name.includes('/'));
  if (!find()) {
    const root = apiVersion.includes('/') ? '/apis' : '/api';
    const answer = await api.send('GET', `${root}/${apiVersion}`);
    if (answer.status === 200) known.set(apiVersion, (answer.body as { resources: Resource[] }).resources);
  }
  return find();
}

/** The path of an object's collection, or undefined where the API server does not serve its kind. */
export async function collectionPath(api: Api, { apiVersion, kind, metadata }: Manifest): Promise<string | undefined> {
  const resource = await resourceOf(api, apiVersion, kind);
  if (!resource) return undefined;
  const root = apiVersion.includes('/') ? '/apis' : '/api';
  const namespace = resource.namespaced ? `/namespaces/${metadata.namespace ?? 'default'}` : '';
  return `${root}/${apiVersion}${namespace}/${resource.name}`;
}

async function sendOne(api: Api, object: Manifest, how: 'apply' | 'create' | 'delete'): Promise<Outcome> {
  const collection = await collectionPath(api, object);
  if (!collection) return { object, status: 404, message: `no kind ${object.kind} in ${object.apiVersion}` };
  const path = `${collection}/${object.metadata.name}`;
  const { status, body } =
    how === 'create'
      ? await api.send('POST', collection, object)
      : how === 'delete'
        ? await api.send('DELETE', path)
        : await api.send('PATCH', `${path}?fieldManager=harness&force=true`, object, applyPatch);
  const message = status < 400 ? '' : ((body as { message?: string }).message ?? JSON.stringify(body));
  return { object, status, message };
}

// Kinds that others of the same batch need to be there.
const firsts = [['CustomResourceDefinition'], ['Namespace'], ['ServiceAccount', 'ConfigMap', 'Secret', 'GatewayClass']];

/**
 * Sends many objects over a few connections at once, without kubectl: server-side apply by default, where it matters
 * POST or DELETE. Definitions and namespaces go first; otherwise there is no order. The outcomes are in the order given.
 */
export async function sendObjects(
  api: Api,
  objects: Manifest[],
  { how = 'apply', parallel = 8 }: { how?: 'apply' | 'create' | 'delete'; parallel?: number } = {},
): Promise<Outcome[]> {
  const outcomes = new Map<Manifest, Outcome>();
  const others = objects.filter(object => !firsts.flat().includes(object.kind));
  const stages = [...firsts.map(kinds => objects.filter(object => kinds.includes(object.kind))), others];
  for (const stage of stages) {
    const waiting = stage.values();
    const worker = async () => {
      for (const object of waiting) outcomes.set(object, await sendOne(api, object, how));
    };
    await Promise.all(Array.from({ length: parallel }, worker));
  }
  return objects.map(object => outcomes.get(object) ?? { object, status: 0, message: 'not sent' });
}

/** Server-side apply of many objects; an object that is refused is an error. */
export async function applyObjects(api: Api, objects: Manifest[]): Promise<void> {
  const refused = (await sendObjects(api, objects)).filter(each => each.message);
  if (refused.length === 0) return;
  const lines = refused.map(({ object, message }) => `${object.kind} ${object.metadata.name}: ${message}`);
  throw new Error(`refused:\n${lines.join('\n')}`);
}

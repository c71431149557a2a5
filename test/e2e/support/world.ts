// A state of a case as a state of a real cluster: what it names is there as it says, and nothing that an earlier case left.
import { setTimeout as sleep } from 'node:timers/promises';
import { resourceOf } from '../../../src/engine/asked.ts';
import { at, type JsonObject, record, records, text } from '../../../src/kube/json.ts';
import { identify } from '../../../src/mesh/kinds.ts';
import { type Api, mergePatch } from '../../harness/api.ts';
import { collectionPath, type Manifest } from '../../harness/objects.ts';
import { until } from '../../harness/wait.ts';

const CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const GATEWAY_API = 'gateway.networking.k8s.io';
/** Definitions come in bundles: where a case describes one of a bundle and none of the others, those are not there. */
const bundleIn = (group: string) =>
  /^inference\./.test(group) ? 'inference' : group === GATEWAY_API ? group : undefined;
/** Namespaces that are not a case's to change. */
const FIXED = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease', 'waywarden']);

/** Why a real API server cannot hold something. */
export class NotHeld extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'NotHeld';
  }
}

interface There {
  readonly path: string;
  readonly json: string;
}

export interface World {
  /** Makes the cluster what these objects say; true where a ConfigMap had to change. Rejects with {@link NotHeld} where the API server will not have one of them. */
  become(objects: readonly JsonObject[], input: JsonObject, missing?: string): Promise<boolean>;
  /** What a client would send for the object of a case. Rejects with {@link NotHeld} where its kind is not served. */
  sent(object: JsonObject): Promise<JsonObject>;
  /** Takes away what a case wrote itself. */
  forget(object: JsonObject): Promise<void>;
}

const nameOf = (object: unknown) => text(at(object, 'metadata', 'name')) ?? '';
const isCrd = (object: JsonObject) => object['kind'] === 'CustomResourceDefinition';

/** An entry that a case only sketches, as the API server will have it: nobody answers it, and nobody is refused. */
function callable(entry: JsonObject): JsonObject {
  return {
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    clientConfig: { url: 'https://127.0.0.1:1/' },
    ...entry,
    failurePolicy: 'Ignore',
    timeoutSeconds: 1,
  };
}

/** A namespace that is being deleted. */
const isGoing = (object: JsonObject) =>
  at(object, 'metadata', 'deletionTimestamp') !== undefined || at(object, 'status', 'phase') === 'Terminating';

/** What a client sends: no fields that only an API server writes. */
function written(object: JsonObject): Manifest {
  const { uid, resourceVersion, creationTimestamp, generation, managedFields, deletionTimestamp, ...metadata } =
    record(object['metadata']) ?? {};
  const owners = records(metadata['ownerReferences']).map((owner, index) => ({
    ...owner,
    uid: text(owner['uid']) ?? `00000000-0000-4000-8000-00000000000${index}`,
  }));
  return {
    ...object,
    ...(String(object['kind']).endsWith('WebhookConfiguration')
      ? { webhooks: records(object['webhooks']).map(callable) }
      : {}),
    metadata: {
      ...metadata,
      ...(owners.length > 0 ? { ownerReferences: owners } : {}),
      ...(deletionTimestamp === undefined ? {} : { finalizers: ['tests.waywarden.dev/hold'] }),
    },
  } as unknown as Manifest;
}

/** Groups and resources that no definition here serves are served without a schema. */
function looseDefinition(group: string, kind: string, versions: readonly string[], namespaced: boolean): Manifest {
  const singular = kind.toLowerCase();
  const plural = resourceOf(`${kind}.${group}`);
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, annotations: { 'api-approved.kubernetes.io': 'unapproved, for a test' } },
    spec: {
      group,
      scope: namespaced ? 'Namespaced' : 'Cluster',
      names: { kind, plural, singular },
      versions: versions.map((name, index) => ({
        name,
        served: true,
        storage: index === 0,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      })),
    },
  };
}

/** The real definition, serving what a described one says. */
function asDescribed(real: JsonObject, described: JsonObject): JsonObject {
  const versions = records(at(real, 'spec', 'versions'));
  const wanted = records(at(described, 'spec', 'versions'));
  const known = new Set(versions.map(version => version['name']));
  const model = versions.find(({ storage }) => storage === true) ?? versions[0];
  const all = [
    ...versions.map(version => {
      const same = wanted.find(({ name }) => name === version['name']);
      return { ...version, served: same?.['served'] === true, storage: same?.['storage'] === true };
    }),
    ...wanted
      .filter(({ name }) => !known.has(name))
      .map(version => ({
        ...model,
        deprecated: false,
        name: version['name'],
        served: version['served'],
        storage: version['storage'],
      })),
  ];
  if (!all.some(({ storage }) => storage)) (all[0] as { storage: boolean }).storage = true;
  return {
    ...real,
    metadata: {
      name: nameOf(real),
      annotations: {
        'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/gateway-api/pull/1538',
        ...record(at(described, 'metadata', 'annotations')),
      },
      labels: record(at(described, 'metadata', 'labels')) ?? {},
    },
    spec: { ...record(real['spec']), versions: all },
  };
}

/** `api` is somebody's whom no webhook is asked about; `definitions` are those that were installed. */
export function createWorld(api: Api, definitions: readonly JsonObject[]): World {
  const there = new Map<string, There>();
  const originals = new Map(definitions.map(definition => [nameOf(definition), definition]));
  /** Definitions that are not as they were installed: JSON, or absent. */
  const changed = new Map<string, string>();
  let described0 = '[[],null]';

  const keyOf = (object: JsonObject) => {
    const identity = identify(object);
    if (identity === undefined) throw new NotHeld('no object');
    return `${identity.kind}/${identity.namespace}/${identity.name}`;
  };

  async function collection(object: JsonObject): Promise<string> {
    const path = await collectionPath(api, object as unknown as Manifest);
    if (path !== undefined) return path;
    const apiVersion = text(object['apiVersion']) ?? '';
    const [group = '', version = ''] = apiVersion.split('/');
    const kind = text(object['kind']) ?? '';
    const known = [...originals.values()].some(
      one => at(one, 'spec', 'group') === group && at(one, 'spec', 'names', 'kind') === kind,
    );
    if (version === '' || known) throw new NotHeld(`the API server does not serve ${kind} of ${apiVersion}`);
    const definition = looseDefinition(group, kind, [version], at(object, 'metadata', 'namespace') !== undefined);
    const { status, body } = await api.send('POST', CRDS, definition);
    if (status >= 400 && status !== 409) throw new NotHeld(text(at(body, 'message')) ?? `${status}`);
    return until(`${kind} of ${apiVersion}`, () => collectionPath(api, object as unknown as Manifest));
  }

  async function remove(path: string): Promise<void> {
    const { status, body } = await api.send('DELETE', path, {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      gracePeriodSeconds: 0,
      propagationPolicy: 'Background',
    });
    if (status === 404) return;
    if (status >= 400) throw new Error(`DELETE ${path}: ${text(at(body, 'message'))}`);
    const after = await api.send('GET', path);
    if (after.status === 404) return;
    await api.send('PATCH', path, { metadata: { finalizers: null } }, mergePatch);
    await until(`${path} to go`, async () => (await api.send('GET', path)).status === 404, { timeout: 10_000 });
  }

  async function namespace(name: string, labels: unknown, annotations: unknown): Promise<void> {
    const path = `/api/v1/namespaces/${name}`;
    const found = await api.send('GET', path);
    const metadata = { name, labels: record(labels) ?? {}, annotations: record(annotations) ?? {} };
    if (found.status === 404) {
      await api.call('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
    } else {
      const now = record(found.body) ?? {};
      await api.call('PUT', path, { ...now, metadata: { ...record(now['metadata']), ...metadata } });
    }
  }

  async function put(object: JsonObject): Promise<void> {
    const manifest = written(object);
    const at0 = await collection(object);
    const { status, body } = await api.send('POST', at0, manifest);
    const path = `${at0}/${manifest.metadata.name}`;
    if (status >= 400) throw new NotHeld(text(at(body, 'message')) ?? `${status}`);
    there.set(keyOf(object), { path, json: JSON.stringify(object) });
    const wanted = record(object['status']);
    if (wanted !== undefined && JSON.stringify(at(body, 'status')) !== JSON.stringify(wanted)) {
      const patched = await api.send('PATCH', `${path}/status`, { status: wanted }, mergePatch);
      if (patched.status >= 400 && patched.status !== 404)
        throw new NotHeld(`its status: ${text(at(patched.body, 'message')) ?? patched.status}`);
    }
    // a node that is new gets a taint until it is ready, which here it never is
    if (object['kind'] === 'Node')
      await api.send('PATCH', path, { spec: { taints: at(object, 'spec', 'taints') ?? null } }, mergePatch);
    if (at(object, 'metadata', 'deletionTimestamp') !== undefined) await api.send('DELETE', path);
  }

  async function definitionsBecome(
    described: readonly JsonObject[],
    needed: ReadonlySet<string>,
    missing: string | undefined,
  ): Promise<void> {
    const bundles = new Set(described.map(one => bundleIn(text(at(one, 'spec', 'group')) ?? '')));
    for (const [name, original] of originals) {
      const group = text(at(original, 'spec', 'group')) ?? '';
      const own = described.find(one => nameOf(one) === name);
      const wanted =
        own !== undefined
          ? JSON.stringify(asDescribed(original, own))
          : name === missing ||
              (bundleIn(group) !== undefined &&
                bundles.has(bundleIn(group)) &&
                !needed.has(`${text(at(original, 'spec', 'names', 'kind'))}.${group}`))
            ? 'absent'
            : undefined;
      if (changed.get(name) === wanted) continue;
      const path = `${CRDS}/${name}`;
      await api.call('DELETE', path, undefined, { allow: [404] });
      await until(`${name} to go`, async () => (await api.send('GET', path)).status === 404);
      changed.delete(name);
      if (wanted !== 'absent') {
        const body = wanted === undefined ? original : (JSON.parse(wanted) as JsonObject);
        const answer = await api.send('POST', CRDS, body);
        if (answer.status >= 400) {
          changed.set(name, 'absent');
          throw new NotHeld(text(at(answer.body, 'message')) ?? `${answer.status}`);
        }
        const plural = text(at(original, 'spec', 'names', 'plural'));
        for (const version of records(at(body, 'spec', 'versions'))) {
          if (version['served'] !== true) continue;
          await until(`${name} to be served`, async () => {
            const { status } = await api.send('GET', `/apis/${group}/${text(version['name'])}/${plural}`);
            return status === 200;
          });
        }
      }
      if (wanted !== undefined) changed.set(name, wanted);
    }
  }

  return {
    async become(objects, input, missing) {
      const crds = JSON.stringify([
        objects.filter(isCrd),
        missing,
        objects.some(isCrd) ? identify(input)?.kind : undefined,
      ]);
      if (crds !== described0)
        for (const [key, { path }] of [...there]) {
          await remove(path);
          there.delete(key);
        }
      described0 = crds;
      const wanted = new Map(objects.filter(one => !isCrd(one)).map(object => [keyOf(object), object]));
      let configMaps = false;
      for (const [key, { path, json }] of [...there]) {
        const same = wanted.get(key);
        if (same !== undefined && JSON.stringify(same) === json) continue;
        configMaps ||= key.startsWith('ConfigMap/');
        await remove(path);
        there.delete(key);
      }
      const needed = [...objects, input].map(object => identify(object)?.kind ?? '');
      await definitionsBecome(objects.filter(isCrd), new Set(needed), missing);
      const described = new Map<string, JsonObject>();
      for (const object of [...wanted.values(), input]) {
        if (object['kind'] === 'Namespace' && object !== input) described.set(nameOf(object), object);
        const inside = text(at(object, 'metadata', 'namespace'));
        if (inside !== undefined && !described.has(inside)) described.set(inside, {});
      }
      const { items } = await api.call<{ items: JsonObject[] }>('GET', '/api/v1/namespaces');
      for (const item of items) {
        const name = nameOf(item);
        const terminating = at(item, 'metadata', 'deletionTimestamp') !== undefined;
        if ((described.has(name) && !terminating) || FIXED.has(name)) continue;
        // nothing is in it any more: it can go at once
        await api.call('DELETE', `/api/v1/namespaces/${name}`, undefined, { allow: [404, 409] });
        await api.send('PUT', `/api/v1/namespaces/${name}/finalize`, {
          apiVersion: 'v1',
          kind: 'Namespace',
          metadata: { name },
          spec: { finalizers: [] },
        });
        await until(
          `namespace ${name} to go`,
          async () => (await api.send('GET', `/api/v1/namespaces/${name}`)).status === 404,
        );
      }
      for (const [name, object] of described) {
        if (FIXED.has(name) && Object.keys(object).length === 0) await namespace(name, {}, {});
        else await namespace(name, at(object, 'metadata', 'labels'), at(object, 'metadata', 'annotations'));
      }
      for (const object of wanted.values()) {
        if (object['kind'] !== 'Namespace' && !there.has(keyOf(object))) {
          configMaps ||= object['kind'] === 'ConfigMap';
          try {
            await put(object);
          } catch (error) {
            if (error instanceof NotHeld) throw new NotHeld(`${keyOf(object)}: ${error.message}`);
            throw error;
          }
        }
      }
      for (const [name, object] of described) {
        if (isGoing(object)) await api.send('DELETE', `/api/v1/namespaces/${name}`);
      }
      return configMaps;
    },
    async sent(object) {
      if (isCrd(object)) {
        const real = originals.get(nameOf(object));
        return real === undefined ? object : asDescribed(real, object);
      }
      if (identify(object) !== undefined) await collection(object);
      return written(object);
    },
    async forget(object) {
      if (object['kind'] === 'Namespace') return;
      if (isCrd(object)) {
        changed.set(nameOf(object), 'unknown');
        return;
      }
      await remove(`${await collection(object)}/${nameOf(object)}`);
      there.delete(keyOf(object));
    },
  };
}

/** Waits until replicas have heard of everything: nothing has come to them for a while. */
export async function settled(figures: () => Promise<ReadonlyMap<string, number>>): Promise<void> {
  let seen = '';
  let quiet = 0;
  const end = performance.now() + 5_000;
  while (quiet < 2 && performance.now() < end) {
    await sleep(60);
    const now = [...(await figures())]
      .filter(([series]) => series.startsWith('waywarden_mesh_objects') || series.startsWith('waywarden_mesh_bytes'))
      .map(([series, value]) => `${series} ${value}`)
      .join('\n');
    quiet = now === seen ? quiet + 1 : 0;
    seen = now;
  }
}

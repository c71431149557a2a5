// The Mesh of a live cluster: one reflector a kind, ConfigMaps on demand, and a second look before a denial.
import { performance } from 'node:perf_hooks';
import { at, same, text } from '../../../kube/json.ts';
import { type GroupKind, type ObjectRef, refKey, splitGroupKind } from '../../../kube/kind.ts';
import { CRD, type CustomResourceDefinition } from '../../kinds/cluster.ts';
import { GATEWAY } from '../../kinds/gateways.ts';
import type { Meta } from '../../kinds/meta.ts';
import type { Workload } from '../../kinds/workloads.ts';
import { isKind, KINDS, type Kind, project } from '../../kinds.ts';
import type { Declared } from '../../mesh.ts';
import { cniAgents, controlPlanes, istiodNamespaces, sharedMeshConfig } from '../../releases.ts';
import { createStore, type Store } from '../../store.ts';
import type { KubeClient } from './client.ts';
import { type ConfigMaps, watchConfigMaps } from './configmaps.ts';
import { createLocator } from './discovery.ts';
import { type KindStatus, type Reflector, reflect, TIMING, type Timing } from './reflector.ts';

/** Kinds whose objects are many and of which labels and annotations suffice. */
const METADATA_ONLY: ReadonlySet<GroupKind> = new Set(['Pod', 'ReplicaSet.apps']);
/** Kinds that are read by name and on demand, never listed. */
const ON_DEMAND = ['ConfigMap', 'Secret'] as const;
/** Pods of Istio's own components are read whole: their images and arguments tell releases. */
const COMPONENT_PODS = ['labelSelector=app%20in%20(istiod,ztunnel)', 'labelSelector=k8s-app%3Distio-cni-node'] as const;

export interface ClusterSourceOptions {
  readonly client: KubeClient;
  /** The kinds that the enabled policies read. */
  readonly kinds: readonly Kind[];
  readonly declared?: Declared;
  readonly timing?: Timing;
}

/** What is known of how fresh the Mesh is. */
export interface Freshness {
  /** True where every kind asked for is synced and showed a sign of life within the limit. */
  readonly fresh: boolean;
  /** Milliseconds since the last sign of life of the most silent of them. */
  readonly age: number;
  /** Kinds that are not synced or too old. */
  readonly doubtful: readonly GroupKind[];
}

export type Reread = 'same' | 'changed' | 'failed';

export interface ClusterSource {
  readonly store: Store;
  /** Resolves once every kind was listed once (or is absent or forbidden). */
  readonly first: Promise<void>;
  status(): readonly KindStatus[];
  /** Over these kinds; `limit` in milliseconds. */
  freshness(kinds: Iterable<GroupKind>, limit: number): Freshness;
  /** Reads these objects once more from the API server and corrects the store. `timeout` in milliseconds. */
  reread(refs: readonly ObjectRef[], timeout: number): Promise<Reread>;
  /** Reads what an object refers to and is read on demand only (ConfigMaps). */
  prepare(refs: readonly ObjectRef[], timeout: number): Promise<void>;
  /** Reads the defaults of Gateway classes, for a Gateway that comes. */
  prepareDefaults(): Promise<void>;
  stop(): void;
}

/** True for pods that a reflector of their own reads whole. */
function isComponentPod(object: Meta): boolean {
  const labels = (object as Workload).template?.labels ?? object.labels;
  return labels['app'] === 'istiod' || labels['app'] === 'ztunnel' || labels['k8s-app'] === 'istio-cni-node';
}

/** True where a CRD that is known here serves the kind. */
function servedByCrd(store: Store, kind: Kind): boolean {
  const crd = store.get(CRD, '', `${KINDS[kind].plural}.${splitGroupKind(kind).group}`);
  return crd?.versions.some(({ served }) => served) === true;
}

function configMapsNamed() {
  const refs = new Map<string, ObjectRef>();
  return {
    refs,
    want(namespace: string, name: string): void {
      const ref = { kind: 'ConfigMap', namespace, name };
      refs.set(refKey(ref), ref);
    },
  };
}

/** Istio's own ConfigMaps, by their names. */
function istiosConfigMaps(store: Store): readonly ObjectRef[] {
  const { refs, want } = configMapsNamed();
  for (const plane of store.fact(controlPlanes)) {
    if (!plane.seen) continue;
    const suffix = plane.revision === 'default' ? '' : `-${plane.revision}`;
    for (const name of ['istio', 'istio-sidecar-injector', 'values']) want(plane.namespace, `${name}${suffix}`);
    const shared = sharedMeshConfig(plane);
    if (shared !== undefined) want(shared.namespace, shared.name);
  }
  for (const { workload } of store.fact(cniAgents)) want(workload.namespace, 'istio-cni-config');
  return [...refs.values()];
}

/** The ConfigMaps that the Mesh speaks of: Istio's own, and those that other objects refer to. */
function wantedConfigMaps(store: Store): readonly ObjectRef[] {
  const { refs, want } = configMapsNamed();
  for (const { namespace, name } of istiosConfigMaps(store)) want(namespace, name);
  for (const gateway of store.list(GATEWAY))
    if (gateway.parameters !== undefined) want(gateway.namespace, gateway.parameters);
  for (const policy of store.list('BackendTLSPolicy.gateway.networking.k8s.io')) {
    for (const { kind, namespace, name } of policy.certificateRefs) if (kind === 'ConfigMap') want(namespace, name);
  }
  return [...refs.values()];
}

export function createClusterSource({ client, kinds, declared, timing = TIMING }: ClusterSourceOptions): ClusterSource {
  const locate = createLocator(client);
  const reflectors = new Map<string, Reflector>();
  const watched = new Set<GroupKind>(kinds);
  let configMaps: ConfigMaps | undefined;

  const synced = (kind: GroupKind) => {
    let any = false;
    for (const reflector of reflectors.values()) {
      if (reflector.kind !== kind) continue;
      any = true;
      if (!reflector.status().synced) return false;
    }
    return any;
  };
  const store = createStore({
    ...(declared === undefined ? {} : { declared }),
    complete: (kind, _store, ref) => {
      if (kind === 'Namespace') return false;
      if (kind === 'ConfigMap') {
        return ref === undefined ? configMaps?.defaultsKnown() === true : configMaps?.known(ref) === true;
      }
      return watched.has(kind) && synced(kind);
    },
  });
  configMaps = watchConfigMaps(client, store, {
    all: () => wantedConfigMaps(store),
    few: () => istiosConfigMaps(store),
    roots: () => store.fact(istiodNamespaces),
  });

  /** A CRD that came or changed may serve a kind that was absent; an istiod that came has ConfigMaps of its own. */
  function changed(before: Meta | undefined, after: Meta | undefined): void {
    const object = after ?? before;
    if (object === undefined) return;
    if (object.kind === CRD) {
      const { defines } = object as CustomResourceDefinition;
      for (const reflector of reflectors.values()) if (reflector.kind === defines) reflector.wake();
    }
    const component = (after as Partial<Workload> | undefined)?.component;
    if (component === 'istiod' || component === 'istio-cni') void configMaps?.refresh(istiosConfigMaps(store), 5_000);
    if (after !== undefined && (after.kind === GATEWAY || after.kind.startsWith('BackendTLSPolicy.'))) {
      void configMaps?.refresh(
        wantedConfigMaps(store).filter(ref => configMaps?.known(ref) !== true),
        5_000,
      );
    }
  }

  const projectAs = (kind: Kind) => (object: unknown) =>
    project(kind, KINDS[kind].scope === 'Cluster' ? '' : (text(at(object, 'metadata', 'namespace')) ?? ''), object);

  function follow(kind: Kind, id: string, more: Partial<Parameters<typeof reflect>[0]> = {}): void {
    reflectors.set(
      id,
      reflect({
        kind,
        client,
        store,
        path: () => locate(kind),
        expected: () => servedByCrd(store, kind),
        project: projectAs(kind),
        changed,
        timing,
        ...more,
      }),
    );
  }

  for (const kind of watched) {
    if (!isKind(kind) || (ON_DEMAND as readonly string[]).includes(kind)) continue;
    if (!METADATA_ONLY.has(kind)) follow(kind, kind);
    else follow(kind, kind, { metadataOnly: true, owns: object => kind !== 'Pod' || !isComponentPod(object) });
  }
  if (watched.has('Pod')) {
    for (const [index, query] of COMPONENT_PODS.entries()) {
      const ours = (object: Meta) =>
        isComponentPod(object) && (index === 0) === (object.labels['k8s-app'] !== 'istio-cni-node');
      follow('Pod', `Pod ${index}`, { query, owns: ours });
    }
  }

  async function path(ref: ObjectRef): Promise<string | undefined> {
    if (!isKind(ref.kind)) return undefined;
    const collection = await locate(ref.kind);
    if (collection === undefined) return undefined;
    const slash = collection.lastIndexOf('/');
    const inNamespace = KINDS[ref.kind].scope === 'Cluster' ? '' : `/namespaces/${encodeURIComponent(ref.namespace)}`;
    return `${collection.slice(0, slash)}${inNamespace}${collection.slice(slash)}/${encodeURIComponent(ref.name)}`;
  }

  async function rereadOne(ref: ObjectRef, timeout: number): Promise<Reread> {
    if (!isKind(ref.kind)) return 'same';
    if (ref.kind === 'ConfigMap') {
      const before = store.object(ref);
      if (!(await configMaps?.refresh([ref], timeout))) return 'failed';
      return same(before, store.object(ref)) ? 'same' : 'changed';
    }
    try {
      const where = await path(ref);
      const before = store.object(ref);
      if (where === undefined) return before === undefined ? 'same' : 'changed';
      const partial = METADATA_ONLY.has(ref.kind) && (before === undefined || (before as Workload).metadataOnly);
      const { status, body } = await client.request({
        path: where,
        timeout,
        ...(partial ? { accept: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1' } : {}),
      });
      if (status === 404) {
        if (before === undefined) return 'same';
        store.delete(ref);
        return 'changed';
      }
      if (status !== 200) return 'failed';
      const found = projectAs(ref.kind)(body);
      if (before !== undefined && same(before, found)) return 'same';
      store.put(found);
      return 'changed';
    } catch {
      return 'failed';
    }
  }

  return {
    store,
    first: Promise.all([...reflectors.values()].map(reflector => reflector.first)).then(() => configMaps?.round()),
    status: () => [...reflectors.values()].map(reflector => reflector.status()),
    freshness(asked, limit) {
      const wanted = new Set(asked);
      const doubtful = new Set<GroupKind>();
      let age = 0;
      for (const reflector of reflectors.values()) {
        if (!wanted.has(reflector.kind)) continue;
        const status = reflector.status();
        // an absent kind was asked for less than `retryAbsent` ago, and a CRD's arrival ends that pause
        const limited = status.state === 'absent' ? limit + timing.retryAbsent : limit;
        if (!status.synced || status.age > limited) doubtful.add(reflector.kind);
        age = Math.max(age, status.age);
      }
      if (wanted.has('ConfigMap') && (configMaps?.age() ?? 0) > limit) doubtful.add('ConfigMap');
      return { fresh: doubtful.size === 0, age, doubtful: [...doubtful] };
    },
    async reread(refs, timeout) {
      const until = performance.now() + timeout;
      const answers = await Promise.all(refs.map(ref => rereadOne(ref, Math.max(1, until - performance.now()))));
      return answers.includes('failed') ? 'failed' : answers.includes('changed') ? 'changed' : 'same';
    },
    async prepare(refs, timeout) {
      // also where it was read before: whoever has just changed it may have done so a moment ago
      const named = refs.filter(ref => ref.kind === 'ConfigMap');
      if (named.length > 0) await configMaps?.refresh(named, timeout);
    },
    prepareDefaults: async () => configMaps?.refreshDefaults(),
    stop() {
      configMaps?.stop();
      for (const reflector of reflectors.values()) reflector.stop();
    },
  };
}

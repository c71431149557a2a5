// A live cluster as the Mesh of `serve`: followed, asked again before a denial, and told by Events.
import { hostname } from 'node:os';
import { createEvents, type Events, eventBody } from '../admission/events.ts';
import type { Guard } from '../admission/judge.ts';
import { kindsRead } from '../engine/kinds.ts';
import type { Policy } from '../engine/policy.ts';
import type { Declared } from '../mesh/mesh.ts';
import { type ConnectOptions, connect, type KubeClient } from '../mesh/sources/cluster/client.ts';
import { createEvidence } from '../mesh/sources/cluster/evidence.ts';
import { type ClusterSource, createClusterSource } from '../mesh/sources/cluster/source.ts';
import { InputError } from '../mesh/sources/files.ts';
import type { Logs } from '../telemetry/logs.ts';
import type { MeshFigures } from '../telemetry/metrics.ts';

/** Milliseconds after which `/readyz` says yes though not everything is in sync: an unready guard has no endpoints and would refuse every mesh write. */
const READY_AT_THE_LATEST = 60_000;

export interface LiveOptions extends ConnectOptions {
  readonly policies: readonly Policy[];
  readonly declared: Declared;
  readonly logs: Logs;
  /** Whether verdicts that nobody sees become Events. */
  readonly events: boolean;
}

export interface Live {
  readonly client: KubeClient;
  readonly parts: Pick<Guard, 'mesh' | 'evidence'>;
  readonly events?: Events;
  /** Resolves once every kind was listed once, or is known to be absent or forbidden. */
  readonly first: Promise<void>;
  ready(): boolean;
  /** One line a kind that is not in sync, for `/readyz`. */
  doubts(): readonly string[];
  figures(): readonly MeshFigures[];
  stop(): void;
}

/** The figures of a kind that several reflectors follow, together. */
function figuresOf(source: ClusterSource): readonly MeshFigures[] {
  const byKind = new Map<string, MeshFigures>();
  for (const { kind, synced, age, objects, bytes } of source.status()) {
    const known = byKind.get(kind);
    byKind.set(kind, {
      kind,
      synced: synced && known?.synced !== false,
      age: Math.max(age, known?.age ?? 0),
      objects: objects + (known?.objects ?? 0),
      bytes: bytes + (known?.bytes ?? 0),
    });
  }
  return [...byKind.values()];
}

/** Connects, and begins to follow. Throws one line where no cluster can be talked to at all. */
export async function followCluster(options: LiveOptions): Promise<Live> {
  const { policies, declared, logs } = options;
  let client: KubeClient;
  try {
    client = await connect(options);
  } catch (error) {
    throw new InputError(`the cluster cannot be reached: ${error instanceof Error ? error.message : String(error)}`);
  }
  const source = createClusterSource({ client, kinds: kindsRead(policies), declared });
  const started = Date.now();
  let synced = false;
  void source.first.then(() => {
    synced = true;
    logs.logger.info({ ms: Date.now() - started, objects: source.store.size() }, 'the mesh is known');
  });
  const events = options.events
    ? createEvents({
        async write(draft) {
          const { namespace, body } = eventBody(draft, hostname(), new Date());
          const { status } = await client.request({
            method: 'POST',
            path: `/api/v1/namespaces/${namespace}/events`,
            body,
            timeout: 5000,
          });
          if (status >= 300) throw new Error(`the API server answered ${status}`);
        },
      })
    : undefined;
  return {
    client,
    parts: { mesh: source.store, evidence: createEvidence(source) },
    ...(events === undefined ? {} : { events }),
    first: source.first,
    ready: () => synced || Date.now() - started > READY_AT_THE_LATEST,
    doubts: () =>
      source
        .status()
        .filter(({ state, synced: known }) => !known || state === 'failing')
        .map(({ kind, state, error }) => `${kind}: ${state}${error === undefined ? '' : ` (${error})`}`),
    figures: () => figuresOf(source),
    stop: () => source.stop(),
  };
}

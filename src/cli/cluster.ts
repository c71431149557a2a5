// `serve --cluster`: the Mesh followed, the certificate kept, and both webhook configurations with it.
import { readFileSync } from 'node:fs';
import { policies } from '../../policies/index.ts';
import { type ClusterCertificates, clusterCertificates } from '../admission/certificates/cluster.ts';
import type { KeeperEvent } from '../admission/certificates/keeper.ts';
import {
  type Address,
  keepRegistration,
  type Registration,
  type RegistrationEvent,
} from '../admission/certificates/registration.ts';
import { checkLifetimes, LIFETIMES, type Lifetimes } from '../admission/certificates/state.ts';
import type { Guard } from '../admission/judge.ts';
import type { ServeOptions } from '../admission/serve.ts';
import { type CertificateSource, certificateFiles } from '../admission/tls.ts';
import type { Config } from '../config/default.ts';
import { enabledPolicies, kindsRead } from '../engine/kinds.ts';
import type { Settings } from '../engine/settings.ts';
import type { KubeClient } from '../mesh/sources/cluster/client.ts';
import { InputError } from '../mesh/sources/files.ts';
import type { Logs } from '../telemetry/logs.ts';
import { createMetrics } from '../telemetry/metrics.ts';
import { type Call, UsageError } from './arguments.ts';
import { durationOf } from './duration.ts';
import { followCluster, type Live } from './live.ts';
import { releaseMemory } from './memory.ts';

/** Options of `serve` and `doctor` that say which cluster and which installation. */
export const INSTALLATION_OPTIONS = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  namespace: { type: 'string' },
  service: { type: 'string' },
  webhooks: { type: 'string' },
  'tls-secret': { type: 'string' },
} as const;

/** Options of `serve` that matter in a cluster only. */
export const CLUSTER_OPTIONS = {
  ...INSTALLATION_OPTIONS,
  events: { type: 'boolean' },
  'service-address': { type: 'string' },
  'ca-lifetime': { type: 'string' },
  'leaf-lifetime': { type: 'string' },
  'ca-overlap': { type: 'string' },
} as const;

export const CLUSTER_HELP = `  --kubeconfig FILE    which cluster; without it the pod's service account, else KUBECONFIG or ~/.kube/config
  --context NAME       of the kubeconfig
  --namespace NAME     where the guard itself is installed (its pod's, else waywarden)
  --service NAME       its Service (waywarden)
  --webhooks NAME      its webhook configurations (waywarden)
  --tls-secret NAME    where the replicas keep their certificates (SERVICE-certificates)`;

/** An installation of the guard in a cluster, by its names. */
export interface Installation {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  readonly service: string;
  readonly webhooks: string;
  readonly secret: string;
}

/** Where a pod finds the name of its namespace (kubernetes/pkg/serviceaccount, the projected volume). */
const OWN_NAMESPACE = '/var/run/secrets/kubernetes.io/serviceaccount/namespace';

function ownNamespace(): string {
  try {
    return readFileSync(OWN_NAMESPACE, 'utf8').trim() || 'waywarden';
  } catch {
    return 'waywarden';
  }
}

/** The installation that a call names; everything has a default. */
export function installationOf(call: Call): Installation {
  const kubeconfig = call.text('kubeconfig');
  const context = call.text('context');
  const service = call.text('service') ?? 'waywarden';
  return {
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    ...(context === undefined ? {} : { context }),
    namespace: call.text('namespace') ?? ownNamespace(),
    service,
    webhooks: call.text('webhooks') ?? 'waywarden',
    secret: call.text('tls-secret') ?? `${service}-certificates`,
  };
}

export interface ClusterSource extends Installation {
  readonly kind: 'cluster';
  readonly events: boolean;
  /** Where the Service is reached from here, where its name does not resolve. */
  readonly address?: Address;
  readonly lifetimes: Lifetimes;
  /** Certificate files, in place of the Secret. */
  readonly files?: { readonly cert: string; readonly key: string };
}

function addressOf(text: string): Address {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  if (match === null) throw new UsageError(`--service-address is HOST:PORT, not "${text}"`);
  return { host: match[1] ?? match[2] ?? '', port: Number(match[3]) };
}

function lifetimesOf(call: Call): Lifetimes {
  const given = (option: string, otherwise: number) => {
    const text = call.text(option);
    return text === undefined ? otherwise : durationOf(text, option);
  };
  const lifetimes = {
    authority: given('ca-lifetime', LIFETIMES.authority),
    leaf: given('leaf-lifetime', LIFETIMES.leaf),
    overlap: given('ca-overlap', LIFETIMES.overlap),
  };
  try {
    checkLifetimes(lifetimes);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
  return lifetimes;
}

/** Reads the options of `serve --cluster`. */
export function clusterOf(call: Call, files: ClusterSource['files']): ClusterSource {
  const address = call.text('service-address');
  if (files !== undefined && call.text('tls-secret') !== undefined)
    throw new UsageError(
      'a certificate comes from files (--tls-cert, --tls-key) or from --tls-secret: give one of both',
    );
  return {
    kind: 'cluster',
    ...installationOf(call),
    events: call.flag('events'),
    ...(address === undefined ? {} : { address: addressOf(address) }),
    lifetimes: lifetimesOf(call),
    ...(files === undefined ? {} : { files }),
  };
}

/** A guarded cluster, as `serve` needs it. */
export interface Guarded {
  readonly certificate: CertificateSource;
  /** Asked at each review. */
  parts(): Pick<Guard, 'mesh' | 'evidence'>;
  readonly options: Pick<ServeOptions, 'ready' | 'doubts' | 'observe' | 'metrics' | 'linger'>;
  /** A configuration that holds from now on. */
  take(config: Config): void;
  readonly server: string;
  stop(): void;
}

function reporter({ logger }: Logs) {
  return (event: KeeperEvent | RegistrationEvent): void => {
    if (event.event === 'step') logger.info({ step: event.step }, 'certificates: a step was taken');
    else if (event.event === 'applied')
      logger.info({ kind: event.kind, field: event.field }, 'a webhook configuration was written');
    else if (event.reason === undefined) logger.info('trouble with certificates or webhook configurations is over');
    else logger.warn({ reason: event.reason }, 'certificates or webhook configurations cannot be kept');
  };
}

interface Kept {
  readonly certificate: CertificateSource;
  trouble(): string | undefined;
  stop(): void;
}

async function keep(source: ClusterSource, client: KubeClient, logs: Logs): Promise<Kept> {
  const { namespace, service, webhooks, secret, lifetimes, files } = source;
  const address = source.address === undefined ? {} : { address: source.address };
  const report = reporter(logs);
  if (files === undefined) {
    let kept: ClusterCertificates;
    try {
      kept = await clusterCertificates({
        client,
        namespace,
        service,
        secret,
        configurations: webhooks,
        lifetimes,
        ...address,
        report,
      });
    } catch (error) {
      throw new InputError(error instanceof Error ? error.message : String(error));
    }
    return kept;
  }
  let certificate: CertificateSource;
  try {
    certificate = await certificateFiles(files.cert, files.key);
  } catch (error) {
    throw new InputError(`the certificate cannot be used: ${error instanceof Error ? error.message : String(error)}`);
  }
  // the caBundle is somebody else's business then, the rules of closed entries are still ours
  const registration: Registration = keepRegistration({
    client,
    name: webhooks,
    service: { namespace, name: service },
    ...address,
    report,
  });
  return { certificate, trouble: () => registration.status().trouble[0], stop: () => registration.stop() };
}

/** What of a configuration decides which kinds are followed, and how the Mesh reads them. */
function followed({ settings, declared }: Config): string {
  return JSON.stringify([kindsRead(enabledPolicies(policies, settings)), declared]);
}

/** Connects, begins to follow, and resolves once there is a certificate to serve. */
export async function guardCluster(source: ClusterSource, config: Config, logs: Logs): Promise<Guarded> {
  const { kubeconfig, context, events } = source;
  const follow = ({ settings, declared }: Config): Promise<Live> =>
    followCluster({
      policies: enabledPolicies(policies, settings),
      declared,
      logs,
      events,
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(context === undefined ? {} : { context }),
    });
  let live = await follow(config);
  let following = followed(config);
  let kept: Kept;
  try {
    kept = await keep(source, live.client, logs);
  } catch (error) {
    live.stop();
    throw error;
  }
  // what the first lists took, and the loading of the client
  void live.first.then(releaseMemory);
  const metrics = createMetrics();
  metrics.mesh(() => live.figures());
  const { client } = live;
  let stopped = false;

  /** What was followed until now answers until what is followed from now on is in sync. */
  async function change(next: Config): Promise<void> {
    const wanted = followed(next);
    if (wanted === following) return;
    following = wanted;
    const coming = await follow(next);
    await coming.first;
    if (stopped || following !== wanted) {
      coming.stop();
      return;
    }
    const going = live;
    live = coming;
    going.stop();
  }

  return {
    certificate: kept.certificate,
    parts: () => live.parts,
    options: {
      ready: () => live.ready(),
      doubts: () => [...[kept.trouble()].filter(line => line !== undefined), ...live.doubts()],
      observe: (request, judged) => live.events?.note(request, judged),
      metrics,
    },
    take(next) {
      change(next).catch((error: unknown) => {
        logs.logger.error({ err: error }, 'the cluster could not be followed anew');
      });
    },
    server: client.server,
    stop() {
      stopped = true;
      live.stop();
      kept.stop();
    },
  };
}

/** The guard's own namespace is never judged, whatever the configuration says. */
export function unguarded(settings: Settings, { namespace }: Installation): Settings {
  return settings.unguarded.includes(namespace)
    ? settings
    : { ...settings, unguarded: [...settings.unguarded, namespace] };
}

// `waywarden serve`: the guard itself.
import { join } from 'node:path';
import { policies } from '../../policies/index.ts';
import { localCertificate } from '../admission/localca.ts';
import { type Serving, startServing } from '../admission/serve.ts';
import { type CertificateSource, certificateFiles } from '../admission/tls.ts';
import type { Config } from '../config/default.ts';
import type { Settings } from '../engine/settings.ts';
import type { Declared } from '../mesh/mesh.ts';
import type { Base } from '../mesh/overlay.ts';
import { InputError, readMesh, STDIN } from '../mesh/sources/files.ts';
import { createLogs, LOG_LEVELS, type Logs } from '../telemetry/logs.ts';
import { type Call, callOf, UsageError } from './arguments.ts';
import {
  CLUSTER_HELP,
  CLUSTER_OPTIONS,
  type ClusterSource,
  clusterOf,
  type Guarded,
  guardCluster,
  unguarded,
} from './cluster.ts';
import { configFrom } from './config.ts';
import { followFile } from './follow.ts';
import { releaseMemory } from './memory.ts';
import { packageRoot } from './root.ts';
import { print } from './terminal.ts';

const HELP = `waywarden serve: the admission webhook

Usage: waywarden serve (--example | --state PATH... | --cluster) [--config FILE] [--mode enforce|audit]
                       [--host HOST] [--port PORT] [--health-port PORT]
                       [--tls-cert FILE --tls-key FILE] [--certs FOLDER] [--log-level LEVEL]

Which mesh it guards:
  --example            the example mesh that comes with Waywarden (examples/mesh.yaml): to try it
  --state PATH         a mesh from files: the output of kubectl get -o yaml, a directory; may be given more than once
  --cluster            a live cluster, followed: what the chart runs

  --config FILE        waywarden.yaml; read again when it changes, and a broken one is not taken
  --mode MODE          enforce, or audit: nothing is denied, every denial becomes a warning. Goes before the file's
  --host HOST          address to listen at; every one by default, with --example 127.0.0.1 alone
  --port PORT          for /validate, /mutate and /break-glass over HTTPS (8443)
  --health-port PORT   for /healthz, /readyz and /metrics over HTTP (8080)
  --tls-cert FILE      certificate chain and
  --tls-key FILE       private key, PEM; read again when they change. Without them a local CA is made in
  --certs FOLDER       this folder (certs)
  --log-level LEVEL    ${LOG_LEVELS.join(', ')}

With --cluster, where certificates come from a Secret that the replicas share unless there are files:
${CLUSTER_HELP}
  --events             verdicts that nobody would see become Events
  --service-address HOST:PORT        where the Service is reached, where its name does not resolve
  --ca-lifetime, --leaf-lifetime, --ca-overlap DURATION   1825d, 90d and 1h

Examples:
  waywarden serve --example                            then paste the curl line that it prints
  waywarden serve --state cluster.yaml --config waywarden.yaml --mode audit
  waywarden serve --cluster --kubeconfig dev.yaml --tls-cert tls.crt --tls-key tls.key
`;

const OPTIONS = {
  example: { type: 'boolean' },
  state: { type: 'string', multiple: true },
  cluster: { type: 'boolean' },
  ...CLUSTER_OPTIONS,
  config: { type: 'string' },
  mode: { type: 'string' },
  host: { type: 'string' },
  port: { type: 'string' },
  'health-port': { type: 'string' },
  'tls-cert': { type: 'string' },
  'tls-key': { type: 'string' },
  certs: { type: 'string' },
  'log-level': { type: 'string' },
} as const;

/** The mesh of the example, and the review that the printed curl line sends. */
const EXAMPLE = { mesh: 'examples/mesh.yaml', review: 'examples/review.json' };

type FileSource = { readonly kind: 'example' } | { readonly kind: 'state'; readonly paths: readonly string[] };

/** Where the Mesh comes from. */
type Source = FileSource | ClusterSource;

function sourceOf(call: Call): Source {
  const paths = call.texts('state');
  if (call.flag('cluster')) {
    if (call.flag('example') || paths.length > 0)
      throw new UsageError('--cluster is a mesh of its own: give it, --example or --state, one of them');
    return clusterOf(call, certificateFilesOf(call));
  }
  const stray = Object.keys(CLUSTER_OPTIONS).find(option => call.flag(option));
  if (stray !== undefined) throw new UsageError(`--${stray} goes with --cluster; see waywarden serve --help`);
  if (call.flag('example')) {
    if (paths.length > 0) throw new UsageError('--example is a mesh of its own: give it or --state, not both');
    return { kind: 'example' };
  }
  if (paths.length === 0) {
    throw new UsageError(
      'serve does not know which mesh to guard: give --cluster, --state PATH (files), or --example to try it; see waywarden serve --help',
    );
  }
  if (paths.filter(path => path === STDIN).length > 1) throw new UsageError('standard input (-) can be read once only');
  return { kind: 'state', paths };
}

function meshOf(source: FileSource, declared: Declared): Base {
  return readMesh(source.kind === 'example' ? [join(packageRoot(), EXAMPLE.mesh)] : source.paths, declared);
}

function portOf(call: Call, option: string, otherwise: number): number {
  const text = call.text(option);
  if (text === undefined) return otherwise;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535)
    throw new UsageError(`--${option} takes a port (0 to 65535), not "${text}"`);
  return port;
}

function certificateFilesOf(call: Call): { readonly cert: string; readonly key: string } | undefined {
  const cert = call.text('tls-cert');
  const key = call.text('tls-key');
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError('--tls-cert and --tls-key belong together: give both, or neither for a local CA');
  }
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

async function certificateOf(call: Call): Promise<CertificateSource> {
  const files = certificateFilesOf(call);
  if (files === undefined) return localCertificate(call.text('certs') ?? 'certs');
  try {
    return await certificateFiles(files.cert, files.key);
  } catch (error) {
    throw new InputError(`the certificate cannot be used: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function listening(start: () => Promise<Serving>): Promise<Serving> {
  try {
    return await start();
  } catch (error) {
    const { code, port, address } = error as NodeJS.ErrnoException & {
      readonly port?: number;
      readonly address?: string;
    };
    if (code === 'EADDRINUSE') throw new InputError(`port ${port} is taken: give another with --port or --health-port`);
    if (code === 'EACCES') throw new InputError(`port ${port} may not be used: ports below 1024 are for root`);
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new InputError(`this machine has no address ${address ?? ''}: give another with --host`);
    }
    throw error;
  }
}

function exampleText({ port, caFile }: Serving): string {
  const review = join(packageRoot(), EXAMPLE.review);
  const shown = process.cwd() === packageRoot() ? EXAMPLE.review : review;
  return `waywarden guards the example mesh of examples/mesh.yaml: it knows of no cluster.
Try a policy that Istio accepts and that nothing enforces:

  curl --cacert ${caFile ?? 'certs/ca.crt'} -H 'Content-Type: application/json' --data @${shown} https://localhost:${port}/validate

Ctrl-C ends it.
`;
}

function greeting(source: Source, serving: Serving): string {
  if (source.kind === 'example') return exampleText(serving);
  const mesh = source.kind === 'cluster' ? 'a cluster' : `the mesh of ${source.paths.join(', ')}`;
  return `waywarden guards ${mesh}: https on port ${serving.port}, health on ${serving.healthPort}\n`;
}

/** Files as the Mesh of `serve`. */
async function guardFiles(source: FileSource, config: Config, call: Call): Promise<Omit<Guarded, 'server'>> {
  let mesh = meshOf(source, config.declared);
  let { declared } = config;
  releaseMemory();
  return {
    certificate: await certificateOf(call),
    parts: () => ({ mesh }),
    // nobody but us stands in front of files: no API server has to learn that we go
    options: { linger: 0 },
    take(next) {
      if (JSON.stringify(next.declared) === JSON.stringify(declared)) return;
      // read first: where that fails, nothing of the new configuration is taken
      mesh = meshOf(source, next.declared);
      declared = next.declared;
      releaseMemory();
    },
    stop() {},
  };
}

function withMode(settings: Settings, mode: Settings['mode'] | undefined): Settings {
  return mode === undefined ? settings : { ...settings, mode };
}

/** Takes every new version of the configuration that can be read. */
function followConfig(file: string, logs: Logs, take: (config: Config) => void): () => void {
  return followFile(file, async () => {
    try {
      take(await configFrom(file));
      logs.logger.info({ file }, 'the configuration has changed and holds from now on');
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      logs.logger.error({ file, reason }, 'the configuration has changed and cannot be used: the old one is kept');
    }
  });
}

/** Runs the command; resolves with the exit status once it has ended. */
export async function run(words: readonly string[]): Promise<number> {
  const call = callOf('serve', words, OPTIONS);
  if (call === undefined) {
    await print(HELP);
    return 0;
  }
  if (call.positionals.length > 0) throw new UsageError(`serve takes options only, not "${call.positionals[0]}"`);
  const source = sourceOf(call);
  const mode =
    call.text('mode') === undefined ? undefined : call.choice('mode', ['enforce', 'audit'] as const, 'enforce');
  const level = call.choice('log-level', LOG_LEVELS, source.kind === 'example' ? 'warn' : 'info');
  const listen = { port: portOf(call, 'port', 8443) };
  const health = { port: portOf(call, 'health-port', 8080) };
  const host = call.text('host') ?? (source.kind === 'example' ? '127.0.0.1' : undefined);
  const address = host === undefined ? {} : { host };
  const configFile = call.text('config');

  const config = await configFrom(configFile);
  const logs = createLogs({ level });
  const settle = (next: Settings) =>
    source.kind === 'cluster' ? unguarded(withMode(next, mode), source) : withMode(next, mode);
  let settings = settle(config.settings);
  let { breakGlassGroups } = config;
  const guarded =
    source.kind === 'cluster' ? await guardCluster(source, config, logs) : await guardFiles(source, config, call);
  const serving = await listening(() =>
    startServing({
      guard: () => ({ policies, settings, ...guarded.parts() }),
      certificate: guarded.certificate,
      logs,
      listen: { ...listen, ...address },
      health: { ...health, ...address },
      breakGlassGroups: () => breakGlassGroups,
      ...guarded.options,
    }),
  ).catch((error: unknown) => {
    guarded.stop();
    throw error;
  });
  const unfollow =
    configFile === undefined
      ? () => {}
      : followConfig(configFile, logs, next => {
          guarded.take(next);
          settings = settle(next.settings);
          ({ breakGlassGroups } = next);
        });
  logs.logger.info({ port: serving.port, healthPort: serving.healthPort }, 'listening');
  logs.flush();
  process.stderr.write(greeting(source, serving));
  await new Promise<void>(resolve => {
    process.once('SIGTERM', () => resolve());
    process.once('SIGINT', () => resolve());
  });
  unfollow();
  await serving.close();
  guarded.stop();
  return 0;
}

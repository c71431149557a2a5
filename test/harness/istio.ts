import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { binary, type IstioMinor } from './binaries.ts';
import type { Cluster } from './cluster.ts';
import { exposeLocal, setWebhookPort } from './expose.ts';
import { applyObjects, type Manifest, parseManifests } from './objects.ts';
import { freePort } from './ports.ts';
import { runOrThrow, start, tail } from './process.ts';
import { until } from './wait.ts';
import { askXds, type ProxyIdentity, type XdsAnswer } from './xds.ts';

export interface IstiodOptions {
  version: IstioMinor;
  /** istiod's environment beside what the profile sets: `{ ENABLE_NATIVE_SIDECARS: 'false' }`. */
  env?: Record<string, string>;
  /** The name of a further control plane; without one it is the default. */
  revision?: string;
  profile?: string;
  /** More of `istioctl manifest generate --set`: `{ 'meshConfig.trustDomain': 'example.com' }`. */
  set?: Record<string, string>;
  /** Install ztunnel and istio-cni too, as the profile says; the default is not to with a revision, which shares them. */
  dataPlane?: boolean;
}

export interface Istiod {
  ports: { http: number; grpc: number; secureGrpc: number; https: number; monitoring: number };
  /** What every ztunnel receives: policies, workloads, services with their waypoints. Zero values are left out. */
  ambientz(): Promise<Ambientz>;
  /** Any other page of istiod's debug port: `debug('/debug/configz')`. */
  debug(path: string): Promise<unknown>;
  /** What a proxy would be told, though none runs. */
  xds(proxy: ProxyIdentity, ...types: string[]): Promise<XdsAnswer>;
  log(lines?: number): string;
  alive(): boolean;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

export interface Ambientz {
  policies: Record<string, unknown>[];
  services: Record<string, unknown>[];
  workloads: Record<string, unknown>[];
  [more: string]: unknown;
}

const namespace = 'istio-system';

async function render(options: IstiodOptions): Promise<Manifest[]> {
  const { version, revision, env = {}, profile = 'ambient', set = {}, dataPlane = !revision } = options;
  const values: Record<string, string> = {
    profile,
    tag: `${version}.0`, // what the built istiod calls itself; the source alone says "latest"
    hub: 'docker.io/istio',
    ...(revision ? { revision } : {}),
    ...(dataPlane ? {} : { 'components.cni.enabled': 'false', 'components.ztunnel.enabled': 'false' }),
    ...Object.fromEntries(Object.entries(env).map(([name, value]) => [`values.pilot.env.${name}`, value])),
    ...set,
  };
  const args = Object.entries(values).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  const istioctl = await binary(`istioctl-${version}`);
  const { stdout } = await runOrThrow(istioctl, ['manifest', 'generate', ...args]);
  // the definitions are `installCrds`' business
  return parseManifests(stdout).filter(object => object.kind !== 'CustomResourceDefinition');
}

/**
 * `istioctl install` makes a validator for objects without a revision label, which belong to the default control plane;
 * `manifest generate` does not.
 */
function defaultValidator(objects: Manifest[]): Manifest | undefined {
  const made = objects.find(object => object.kind === 'ValidatingWebhookConfiguration');
  if (!made) return undefined;
  const copy = structuredClone(made);
  copy.metadata.name = 'istiod-default-validator';
  const [webhook] = copy['webhooks'] as { name: string; objectSelector: unknown }[];
  if (webhook) {
    webhook.name = 'validation.istio.io';
    webhook.objectSelector = { matchExpressions: [{ key: 'istio.io/rev', operator: 'DoesNotExist' }] };
  }
  return copy;
}

interface DeploymentSpec {
  template: { spec: { containers: { env?: { name: string; value?: string }[] }[] } };
}

/** The settings that the rendered Deployment gives istiod, so that the process and the object in the cluster agree. */
function deployedEnv(objects: Manifest[]): Record<string, string> {
  const deployment = objects.find(each => each.kind === 'Deployment' && each.metadata.name.startsWith('istiod'));
  const containers = (deployment?.['spec'] as DeploymentSpec | undefined)?.template.spec.containers ?? [];
  const literals = containers.flatMap(each => each.env ?? []).filter(each => each.value !== undefined);
  return Object.fromEntries(literals.map(each => [each.name, each.value ?? '']));
}

interface Configuration extends Manifest {
  webhooks: { clientConfig: { caBundle?: string } }[];
}

/** Whether istiod has put its authority into every webhook configuration of its revision. */
async function hasBundles({ api }: Cluster, names: { kind: string; name: string }[]): Promise<boolean> {
  for (const { kind, name } of names) {
    const path = `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}s/${name}`;
    const { webhooks } = await api.call<Configuration>('GET', path);
    if (webhooks.some(webhook => !webhook.clientConfig.caBundle)) return false;
  }
  return true;
}

/** Whether a pod that asks for a proxy gets one, by a dry run. */
async function injects({ api }: Cluster, revision?: string): Promise<boolean> {
  const labels = { 'sidecar.istio.io/inject': 'true', ...(revision ? { 'istio.io/rev': revision } : {}) };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'injection-probe', namespace: 'default', labels },
    spec: { containers: [{ name: 'app', image: 'app' }] },
  };
  const stored = await api.call('POST', '/api/v1/namespaces/default/pods?dryRun=All', pod);
  return JSON.stringify(stored).includes('"istio-proxy"');
}

/** Installs a control plane as istioctl would and runs the real istiod on loopback in place of its Deployment's pods. */
export async function startIstiod(cluster: Cluster, options: IstiodOptions): Promise<Istiod> {
  const { version, revision } = options;
  const service = revision ? `istiod-${revision}` : 'istiod';
  const [program, rendered] = await Promise.all([binary(`istiod-${version}`), render(options)]);
  const [http = 0, grpc = 0, secureGrpc = 0, https = 0, monitoring = 0] = await Promise.all(
    [1, 2, 3, 4, 5].map(freePort),
  );

  const objects = rendered.filter(each => !(each.kind === 'Service' && each.metadata.name === service));
  const validator = revision ? undefined : defaultValidator(rendered);
  if (validator) objects.push(validator);
  setWebhookPort(objects, namespace, service, https);
  const istioSystem = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } };
  // istiod reads the injector's ConfigMap when it starts, so everything is there before it.
  await applyObjects(cluster.api, [istioSystem, ...objects]);
  await exposeLocal(cluster, namespace, service, https);

  const { KUBECONFIG: _inCluster, ...fromDeployment } = deployedEnv(rendered);
  const folder = join(cluster.dir, service);
  mkdirSync(folder, { recursive: true });
  const log = join(folder, 'istiod.log');
  const istiod = start(
    service,
    program,
    [
      'discovery',
      `--kubeconfig=${cluster.kubeconfig}`,
      `--httpAddr=127.0.0.1:${http}`,
      `--grpcAddr=127.0.0.1:${grpc}`,
      `--secureGRPCAddr=127.0.0.1:${secureGrpc}`,
      `--httpsAddr=127.0.0.1:${https}`,
      `--monitoringAddr=127.0.0.1:${monitoring}`,
      '--domain=cluster.local',
    ],
    {
      log,
      cwd: folder, // it writes var/run/secrets beside itself
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        POD_NAME: `${service}-local`,
        POD_NAMESPACE: namespace,
        SERVICE_ACCOUNT: service,
        JWT_POLICY: 'third-party-jwt',
        ...fromDeployment,
        ...options.env,
      },
    },
  );

  const debug = async (path: string): Promise<unknown> => {
    const response = await fetch(`http://127.0.0.1:${http}${path}`);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json();
  };

  const configurations = objects
    .filter(each => each.kind.endsWith('WebhookConfiguration'))
    .map(each => ({ kind: each.kind, name: each.metadata.name }));
  const serves = async () => {
    if (!istiod.alive()) throw new Error(`${service} ended:\n${tail(log)}`);
    return (await hasBundles(cluster, configurations)) && (await injects(cluster, revision));
  };
  try {
    await until(`${service} ${version} to inject`, serves, { timeout: 60_000, every: 100 });
  } catch (error) {
    await istiod.stop('SIGKILL');
    throw new Error(`${String(error)}\n${tail(log, 10)}`, { cause: error });
  }

  return {
    ports: { http, grpc, secureGrpc, https, monitoring },
    ambientz: () => debug('/debug/ambientz') as Promise<Ambientz>,
    debug,
    xds: (proxy, ...types) => askXds(`127.0.0.1:${grpc}`, proxy, types),
    log: (lines = 20) => tail(log, lines),
    alive: istiod.alive,
    async stop(signal = 'SIGTERM') {
      // Ended by SIGTERM it gives up its leases, and the next istiod need not wait for them to run out.
      await istiod.stop(signal, 5_000);
    },
  };
}

// The chart's own objects in a real cluster, and the real `waywarden serve` as their pods would run it.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { helmBinary, helmTemplate } from '../../../scripts/rules.ts';
import { at, records, text } from '../../../src/kube/json.ts';
import { type Balancer, startBalancer } from '../../harness/balancer.ts';
import { binary } from '../../harness/binaries.ts';
import { type Cluster, type ClusterOptions, type KubectlOptions, startCluster } from '../../harness/cluster.ts';
import { type CrdChoice, installCrds } from '../../harness/crds.ts';
import { exposeLocal, setWebhookPort } from '../../harness/expose.ts';
import { applyObjects, type Manifest, parseManifests } from '../../harness/objects.ts';
import type { Output } from '../../harness/process.ts';
import { type Replicas, startReplicas } from '../../harness/replicas.ts';
import type { ServeOptions } from '../../harness/serve.ts';
import { until } from '../../harness/wait.ts';

export const NAMESPACE = 'waywarden';
/** What members of this group write is counted and not judged: tests prepare with it what the guard would refuse. */
export const BREAK_GLASS = 'waywarden-tests';

export const VALIDATING = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/waywarden';
export const MUTATING = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/waywarden';

export interface InstallOptions {
  readonly cluster?: ClusterOptions;
  readonly crds?: CrdChoice;
  readonly replicas?: number;
  /** `--set` of helm. */
  readonly set?: readonly string[];
  /** More of `serve`. */
  readonly args?: readonly string[];
  /** The port under which replicas see the API server: a wire's. */
  readonly apiPort?: (cluster: Cluster) => Promise<number>;
}

export interface Installed {
  readonly cluster: Cluster;
  readonly replicas: Replicas;
  readonly balancer: Balancer;
  /** What the chart was rendered to, with the port of the balancer. */
  readonly objects: readonly Manifest[];
  /** waywarden.yaml of every replica; they look at it once a second. */
  readonly configFile: string;
  readonly serveOptions: ServeOptions;
  /** kubectl as somebody in the break-glass group. */
  unasked(...args: (string | KubectlOptions)[]): Promise<Output>;
  /** Figures of every replica, added up by what stands before the value. */
  figures(): Promise<ReadonlyMap<string, number>>;
  stop(): Promise<void>;
}

export const ALL_CRDS: CrdChoice = { gatewayApi: '1.6.1', channel: 'experimental', istio: '1.31', inference: true };

/** The arguments that the chart gives its container, for a process of this machine. */
function argumentsOf(objects: readonly Manifest[], configFile: string): readonly string[] {
  const deployment = objects.find(({ kind }) => kind === 'Deployment');
  const [container] = records(at(deployment, 'spec', 'template', 'spec', 'containers'));
  const args = container?.['args'];
  if (!Array.isArray(args)) throw new Error('the chart has no container with arguments');
  return args.map(arg =>
    String(arg).replace('$(POD_NAMESPACE)', NAMESPACE).replace('/etc/waywarden/waywarden.yaml', configFile),
  );
}

/** Starts a cluster with the guard installed in it; resolves once it is asked and answers. */
export async function install(options: InstallOptions = {}): Promise<Installed> {
  await binary('helm');
  const cluster = await startCluster(options.cluster);
  let balancer: Balancer | undefined;
  let replicas: Replicas | undefined;
  const stop = async () => {
    await (replicas === undefined ? balancer?.stop() : replicas.stop());
    await cluster.stop();
  };
  try {
    await installCrds(cluster, options.crds ?? ALL_CRDS);
    balancer = await startBalancer();
    const { port } = balancer;
    const set = [`admission.breakGlassGroups={${BREAK_GLASS}}`, 'namespace.create=true', ...(options.set ?? [])];
    const objects = parseManifests(
      helmTemplate(helmBinary() ?? '', '--skip-tests', ...set.flatMap(one => ['--set', one])),
    );
    setWebhookPort(objects, NAMESPACE, 'waywarden', port);
    await applyObjects(cluster.api, objects);
    await exposeLocal(cluster, NAMESPACE, 'waywarden', port);
    const configFile = join(cluster.dir, 'waywarden.yaml');
    const config = objects.find(({ kind }) => kind === 'ConfigMap');
    mkdirSync(cluster.dir, { recursive: true });
    writeFileSync(configFile, text(at(config, 'data', 'waywarden.yaml')) ?? '');
    const apiPort = options.apiPort === undefined ? {} : { port: await options.apiPort(cluster) };
    const serveOptions: ServeOptions = {
      args: ports => [
        ...argumentsOf(objects, configFile),
        `--service-address=127.0.0.1:${port}`,
        '--host=127.0.0.1',
        `--port=${ports.https}`,
        `--health-port=${ports.health}`,
        ...(options.args ?? []),
      ],
      kubeconfig: await cluster.kubeconfigFor(NAMESPACE, 'waywarden', apiPort),
    };
    const running = await startReplicas(options.replicas ?? 1, serveOptions, balancer);
    replicas = running;
    const asked = async () => {
      for (const path of [VALIDATING, MUTATING]) {
        const configuration = await cluster.api.call('GET', path);
        for (const entry of records(at(configuration, 'webhooks'))) {
          if (text(at(entry, 'clientConfig', 'caBundle')) === undefined) return false;
          const closed = text(entry['name'])?.startsWith('closed.') === true;
          if (closed && records(entry['rules']).length === 0) return false;
        }
      }
      return true;
    };
    await until('the guard to be asked', asked);
    const figures: Installed['figures'] = async () => {
      const sums = new Map<string, number>();
      for (const replica of running.list()) {
        const { text: exposition } = await replica.ask('/metrics');
        for (const [, series, value] of exposition.matchAll(/^([a-z_]+(?:\{[^\n]*\})?) ([0-9.e+-]+)$/gm))
          sums.set(series ?? '', (sums.get(series ?? '') ?? 0) + Number(value));
      }
      return sums;
    };
    const installed: Installed = {
      cluster,
      replicas: running,
      balancer,
      objects,
      configFile,
      serveOptions,
      unasked: (...args) =>
        cluster.kubectl('--as=preparing', '--as-group=system:masters', `--as-group=${BREAK_GLASS}`, ...args),
      figures,
      stop,
    };
    // the API server learns of rules a moment after they are stored
    await until('a review', async () => {
      await cluster.kubectl('create', 'configmap', 'probe', '--dry-run=server');
      const probe = await cluster.kubectl('create', '-f', '-', '--dry-run=server', { input: PROBE });
      if (probe.code !== 0) throw new Error(probe.stderr);
      return reviewsIn(await figures()) > 0;
    });
    return installed;
  } catch (error) {
    const logs = replicas?.list().map(replica => replica.output().slice(-2000));
    await stop();
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${logs?.join('\n') ?? ''}`, {
      cause: error,
    });
  }
}

const PROBE = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: { name: probe, namespace: default }
spec: {}
`;

/** How many reviews replicas have answered. */
export function reviewsIn(figures: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const [series, value] of figures) if (series.startsWith('waywarden_reviews_total')) sum += value;
  return sum;
}

import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Api } from './api.ts';
import { binary } from './binaries.ts';
import { type Component, type ControlPlaneOptions, startControlPlane } from './controlplane.ts';
import { writeKubeconfig } from './kubeconfig.ts';
import { type Kubelet, type KubeletOptions, startKubelet } from './kubelet.ts';
import { type Output, remove, removeAtExit, run, tail } from './process.ts';
import { until } from './wait.ts';

export interface ClusterOptions extends Partial<KubeletOptions>, ControlPlaneOptions {}

export interface KubectlOptions {
  /** What kubectl reads from stdin. */
  input?: string;
  /** Another user's kubeconfig. */
  kubeconfig?: string;
}

export interface Cluster {
  /** State, logs and kubeconfigs; removed by `stop`. */
  dir: string;
  server: string;
  /** The API server's port on 127.0.0.1. */
  port: number;
  /** The administrator's kubeconfig. */
  kubeconfig: string;
  /** The API as the administrator. */
  api: Api;
  kubelet: Kubelet;
  /** Runs kubectl as the administrator to its end, whatever its exit code. */
  kubectl(...args: (string | KubectlOptions)[]): Promise<Output>;
  /** `kubectl apply -f -`; anything but success is an error with what kubectl printed. */
  apply(yaml: string, ...args: string[]): Promise<string>;
  /** A kubeconfig for a ServiceAccount that exists, with a token that the API server issued; `port` is a wire's. */
  kubeconfigFor(namespace: string, serviceAccount: string, options?: { port?: number }): Promise<string>;
  pauseEtcd(): void;
  resumeEtcd(): void;
  stopApiServer(signal?: NodeJS.Signals): Promise<void>;
  startApiServer(): Promise<void>;
  /** Both of these, on the same port; SIGKILL gives it no time to say goodbye. */
  restartApiServer(signal?: NodeJS.Signals): Promise<void>;
  /** The end of a component's log. */
  log(component: Component, lines?: number): string;
  stop(): Promise<void>;
}

/** Starts an API server with its controllers and the stand-in for scheduler and kubelets; several fit side by side. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const kubectlFile = await binary('kubectl');
  const dir = mkdtempSync(join(tmpdir(), 'waywarden-cluster-'));
  removeAtExit(dir);
  const kubeconfig = join(dir, 'kubeconfig');
  const log: Cluster['log'] = (component, lines = 20) => tail(join(dir, `${component}.log`), lines);

  const plane = await startControlPlane(dir, options).catch((error: unknown) => {
    remove(dir);
    throw error;
  });
  const { api, etcd, login } = plane;
  let kubelet: Kubelet | undefined;
  const stop = async () => {
    kubelet?.stop();
    await plane.kill();
    remove(dir);
  };
  try {
    const { gitVersion } = await api.call<{ gitVersion: string }>('GET', '/version');
    kubelet = await startKubelet(api, { version: gitVersion, ...options });
    // A pod is refused as long as its namespace has no ServiceAccount `default`, which a controller makes.
    const account = '/api/v1/namespaces/default/serviceaccounts/default';
    await until('the default ServiceAccount', async () => (await api.send('GET', account)).status === 200);
  } catch (error) {
    const controllers = log('kube-controller-manager', 5);
    await stop();
    throw new Error(`the cluster did not start: ${String(error)}\n${controllers}`, { cause: error });
  }

  const env = { ...process.env, KUBECACHEDIR: join(dir, 'kubectl-cache') };
  const kubectl: Cluster['kubectl'] = (...args) => {
    const chosen: KubectlOptions = Object.assign({}, ...args.filter(each => typeof each === 'object'));
    const words = args.filter(each => typeof each === 'string');
    const who = { KUBECONFIG: chosen.kubeconfig ?? kubeconfig };
    return run(kubectlFile, words, { input: chosen.input, env: { ...env, ...who } });
  };

  return {
    dir,
    server: login.server,
    port: plane.port,
    kubeconfig,
    api,
    kubelet,
    kubectl,
    async apply(yaml, ...args) {
      const output = await kubectl('apply', '-f', '-', ...args, { input: yaml });
      if (output.code !== 0) throw new Error(`kubectl apply: ${output.stderr}${output.stdout}`);
      return output.stdout;
    },
    async kubeconfigFor(namespace, serviceAccount, { port = plane.port } = {}) {
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${serviceAccount}/token`;
      const body = {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 86_400 },
      };
      const { status } = await api.call<{ status: { token: string } }>('POST', path, body);
      mkdirSync(join(dir, 'kubeconfigs'), { recursive: true });
      const file = join(dir, 'kubeconfigs', `${namespace}.${serviceAccount}.${port}`);
      writeKubeconfig(file, { ...login, server: `https://127.0.0.1:${port}`, token: status.token });
      return file;
    },
    pauseEtcd: () => etcd.signal('SIGSTOP'),
    resumeEtcd: () => etcd.signal('SIGCONT'),
    stopApiServer: plane.stopApiServer,
    startApiServer: plane.startApiServer,
    async restartApiServer(signal) {
      await plane.stopApiServer(signal);
      await plane.startApiServer();
    },
    log,
    stop,
  };
}

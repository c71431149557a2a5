import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Api, connect } from './api.ts';
import { binary } from './binaries.ts';
import { type Kubelet, type KubeletOptions, startKubelet } from './kubelet.ts';
import { freePort } from './ports.ts';
import { type Output, type Running, remove, removeAtExit, run, start, tail } from './process.ts';
import { until } from './wait.ts';

export interface ClusterOptions extends Partial<KubeletOptions> {
  /** Admission plugins beside the API server's default ones; kubeadm's is NodeRestriction. */
  admissionPlugins?: string[];
  /** More flags of the API server: `--feature-gates=…`. */
  apiServerFlags?: string[];
}

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
  /** The administrator's kubeconfig. */
  kubeconfig: string;
  api: Api;
  kubelet: Kubelet;
  /** Runs kubectl as the administrator to its end, whatever its exit code. */
  kubectl(...args: (string | KubectlOptions)[]): Promise<Output>;
  /** `kubectl apply -f -`; anything but success is an error with what kubectl printed. */
  apply(yaml: string, ...args: string[]): Promise<string>;
  /** A kubeconfig for a ServiceAccount that exists, with a token that the API server issued. */
  kubeconfigFor(namespace: string, serviceAccount: string): Promise<string>;
  pauseEtcd(): void;
  resumeEtcd(): void;
  /** Stops the API server (at once with SIGKILL) and starts it again on the same port. */
  restartApiServer(signal?: NodeJS.Signals): Promise<void>;
  stopApiServer(signal?: NodeJS.Signals): Promise<void>;
  startApiServer(): Promise<void>;
  /** The end of a component's log. */
  log(component: 'etcd' | 'kube-apiserver' | 'kube-controller-manager', lines?: number): string;
  stop(): Promise<void>;
}

function writeKubeconfig(file: string, server: string, authority: string, token: string): void {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'harness', cluster: { server, 'certificate-authority': authority } }],
    users: [{ name: 'harness', user: { token } }],
    contexts: [{ name: 'harness', context: { cluster: 'harness', user: 'harness' } }],
    'current-context': 'harness',
  };
  writeFileSync(file, JSON.stringify(config, null, 2), { mode: 0o600 }); // JSON is YAML
}

/** What signs and checks the tokens of ServiceAccounts. */
function writeServiceAccountKeys(dir: string): void {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(join(dir, 'sa.key'), privateKey.export({ type: 'pkcs1', format: 'pem' }), { mode: 0o600 });
  writeFileSync(join(dir, 'sa.pub'), publicKey.export({ type: 'spki', format: 'pem' }));
}

/** Starts etcd, kube-apiserver, kube-controller-manager and the stand-in for the rest on loopback; several fit side by side. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const [etcdBinary, apiServerBinary, controllersBinary, kubectlBinary] = await Promise.all(
    (['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl'] as const).map(binary),
  );
  const [etcdPort, peerPort, apiPort, controllersPort] = await Promise.all([1, 2, 3, 4].map(freePort));
  const dir = mkdtempSync(join(tmpdir(), 'waywarden-cluster-'));
  removeAtExit(dir);
  const server = `https://127.0.0.1:${apiPort}`;
  const token = randomBytes(16).toString('hex');
  writeServiceAccountKeys(dir);
  writeFileSync(join(dir, 'tokens.csv'), `${token},admin,admin,system:masters\n`, { mode: 0o600 });

  // Without --tls-cert-file the API server makes a certificate here and signs it with an authority that stands in the
  // same file, behind it. It keeps both over a restart.
  const authority = join(dir, 'certs', 'apiserver.crt');
  const kubeconfig = join(dir, 'kubeconfig');
  writeKubeconfig(kubeconfig, server, authority, token);

  const launch = (name: string, program: string, args: string[]): Running =>
    start(name, program, args, { log: join(dir, `${name}.log`), cwd: dir });

  const etcd = launch('etcd', etcdBinary ?? '', [
    '--data-dir=data',
    '--unsafe-no-fsync', // nothing here outlives the machine
    `--listen-client-urls=http://127.0.0.1:${etcdPort}`,
    `--advertise-client-urls=http://127.0.0.1:${etcdPort}`,
    `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
    '--quota-backend-bytes=8589934592',
    '--log-level=warn',
  ]);
  const apiServerArgs = [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${apiPort}`,
    // Loopback is no address that may stand in the `kubernetes` Service's endpoints; nobody here needs them.
    '--advertise-address=127.0.0.1',
    '--endpoint-reconciler-type=none',
    '--cert-dir=certs',
    '--service-account-issuer=https://kubernetes.default.svc',
    '--service-account-key-file=sa.pub',
    '--service-account-signing-key-file=sa.key',
    '--token-auth-file=tokens.csv',
    '--authorization-mode=Node,RBAC',
    '--service-cluster-ip-range=10.96.0.0/16',
    '--allow-privileged=true', // kubeadm's setting; istio-cni and ztunnel ask for it
    `--enable-admission-plugins=${['NodeRestriction', ...(options.admissionPlugins ?? [])].join(',')}`,
    ...(options.apiServerFlags ?? []),
  ];
  let apiServer = launch('kube-apiserver', apiServerBinary ?? '', apiServerArgs);
  const apiServerAnswers = async (client: Api) => {
    if (!apiServer.alive()) throw new Error(`kube-apiserver ended:\n${tail(apiServer.log)}`);
    return (await client.send('GET', '/readyz')).status === 200;
  };

  let controllers: Running | undefined;
  let api: Api | undefined;
  let kubelet: Kubelet | undefined;

  async function stop(): Promise<void> {
    kubelet?.stop();
    api?.close();
    await Promise.all([controllers, apiServer, etcd].map(each => each?.stop('SIGKILL')));
    remove(dir);
  }

  try {
    await until('the certificate of kube-apiserver', () => existsSync(authority), { every: 20 });
    api = connect({ server, ca: readFileSync(authority, 'utf8'), token });
    const client = api;
    await until('kube-apiserver', () => apiServerAnswers(client), { timeout: 60_000, every: 30 });
    controllers = launch('kube-controller-manager', controllersBinary ?? '', [
      '--kubeconfig=kubeconfig',
      '--authentication-kubeconfig=kubeconfig',
      '--authorization-kubeconfig=kubeconfig',
      '--bind-address=127.0.0.1',
      `--secure-port=${controllersPort}`,
      '--cert-dir=controller-certs',
      '--service-account-private-key-file=sa.key',
      `--root-ca-file=${authority}`,
      '--use-service-account-credentials=true', // requests come from system:serviceaccount:kube-system:…, as with kubeadm
      '--leader-elect=false',
      // At the default of 20 requests a second it takes 4 seconds until every controller has its own credentials.
      '--kube-api-qps=1000',
      '--kube-api-burst=1000',
      '--authentication-skip-lookup', // of a ConfigMap that holds client authorities; there are none here
      // The node controllers would judge our nodes by a network that does not exist.
      '--controllers=*,-node-ipam-controller,-node-lifecycle-controller,-node-route-controller,-cloud-node-lifecycle-controller',
    ]);
    const { gitVersion } = await client.call<{ gitVersion: string }>('GET', '/version');
    kubelet = await startKubelet(client, { version: gitVersion, ...options });
    // A pod is refused as long as its namespace has no ServiceAccount `default`, which a controller makes.
    await until(
      'the ServiceAccount of namespace default',
      async () => (await client.send('GET', '/api/v1/namespaces/default/serviceaccounts/default')).status === 200,
    );
  } catch (error) {
    const logs = [etcd, apiServer, controllers].map(each => each && `${each.name}:\n${tail(each.log, 5)}`).join('\n');
    await stop();
    throw new Error(`the cluster did not start: ${String(error)}\n${logs}`, { cause: error });
  }
  const client = api;

  const env = { ...process.env, KUBECONFIG: kubeconfig, KUBECACHEDIR: join(dir, 'kubectl-cache') };
  const kubectl: Cluster['kubectl'] = (...args) => {
    const options: KubectlOptions = Object.assign({}, ...args.filter(each => typeof each === 'object'));
    const words = args.filter(each => typeof each === 'string');
    const who = { KUBECONFIG: options.kubeconfig ?? kubeconfig };
    return run(kubectlBinary ?? '', words, { input: options.input, env: { ...env, ...who } });
  };
  const stopApiServer = async (signal: NodeJS.Signals = 'SIGTERM') => {
    // On SIGTERM it stops listening at once, but goes on as long as anybody watches, which is a minute or more.
    await apiServer.stop(signal, 2_000);
  };
  const startApiServer = async () => {
    apiServer = launch('kube-apiserver', apiServerBinary ?? '', apiServerArgs);
    await until('kube-apiserver', () => apiServerAnswers(client), { timeout: 60_000, every: 30 });
  };

  return {
    dir,
    server,
    kubeconfig,
    api: client,
    kubelet,
    kubectl,
    async apply(yaml, ...args) {
      const output = await kubectl('apply', '-f', '-', ...args, { input: yaml });
      if (output.code !== 0) throw new Error(`kubectl apply: ${output.stderr}${output.stdout}`);
      return output.stdout;
    },
    async kubeconfigFor(namespace, serviceAccount) {
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${serviceAccount}/token`;
      const body = {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 86_400 },
      };
      const { status } = await client.call<{ status: { token: string } }>('POST', path, body);
      mkdirSync(join(dir, 'kubeconfigs'), { recursive: true });
      const file = join(dir, 'kubeconfigs', `${namespace}.${serviceAccount}`);
      writeKubeconfig(file, server, authority, status.token);
      return file;
    },
    pauseEtcd: () => etcd.signal('SIGSTOP'),
    resumeEtcd: () => etcd.signal('SIGCONT'),
    stopApiServer,
    startApiServer,
    async restartApiServer(signal) {
      await stopApiServer(signal);
      await startApiServer();
    },
    log: (component, lines = 20) => tail(join(dir, `${component}.log`), lines),
    stop,
  };
}

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Api, connect } from './api.ts';
import { binary } from './binaries.ts';
import { type Login, writeKubeconfig } from './kubeconfig.ts';
import { freePort } from './ports.ts';
import { type Running, start, tail } from './process.ts';
import { until } from './wait.ts';

export type Component = 'etcd' | 'kube-apiserver' | 'kube-controller-manager';

/** etcd, kube-apiserver and kube-controller-manager as processes on loopback. */
export interface ControlPlane {
  login: Login;
  port: number;
  api: Api;
  etcd: Running;
  stopApiServer(signal?: NodeJS.Signals): Promise<void>;
  startApiServer(): Promise<void>;
  /** Ends all of it at once. */
  kill(): Promise<void>;
}

export interface ControlPlaneOptions {
  /** Admission plugins beside the API server's default ones and NodeRestriction, which kubeadm adds. */
  admissionPlugins?: string[];
  /** More flags of the API server: `--feature-gates=…`. */
  apiServerFlags?: string[];
  /** Controllers that do not run: with `deployment-controller` among them, a Deployment stays what was written. */
  withoutControllers?: string[];
}

/** What signs and checks the tokens of ServiceAccounts. */
function writeServiceAccountKeys(dir: string): void {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(join(dir, 'sa.key'), privateKey.export({ type: 'pkcs1', format: 'pem' }), { mode: 0o600 });
  writeFileSync(join(dir, 'sa.pub'), publicKey.export({ type: 'spki', format: 'pem' }));
}

function etcdArgs(port: number, peerPort: number): string[] {
  return [
    '--data-dir=data',
    '--unsafe-no-fsync', // nothing here outlives the machine
    `--listen-client-urls=http://127.0.0.1:${port}`,
    `--advertise-client-urls=http://127.0.0.1:${port}`,
    `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
    '--quota-backend-bytes=8589934592',
    '--log-level=warn',
  ];
}

function apiServerArgs(port: number, etcdPort: number, options: ControlPlaneOptions): string[] {
  return [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
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
}

const NODE_CONTROLLERS = [
  'node-ipam-controller',
  'node-lifecycle-controller',
  'node-route-controller',
  'cloud-node-lifecycle-controller',
];

function controllersArgs(port: number, authority: string, without: string[]): string[] {
  return [
    '--kubeconfig=kubeconfig',
    '--authentication-kubeconfig=kubeconfig',
    '--authorization-kubeconfig=kubeconfig',
    '--authentication-skip-lookup', // of a ConfigMap that holds client authorities; there are none here
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    '--cert-dir=controller-certs',
    '--service-account-private-key-file=sa.key',
    `--root-ca-file=${authority}`,
    '--use-service-account-credentials=true', // requests come from system:serviceaccount:kube-system:…, as with kubeadm
    '--leader-elect=false',
    // At the default of 20 requests a second it takes 4 seconds until every controller has its own credentials.
    '--kube-api-qps=1000',
    '--kube-api-burst=1000',
    // The node controllers would judge our nodes by a network that does not exist.
    `--controllers=*,${[...NODE_CONTROLLERS, ...without].map(name => `-${name}`).join(',')}`,
  ];
}

/** Starts all three in `dir`, where each also writes its log, and waits until the API server is ready. */
export async function startControlPlane(dir: string, options: ControlPlaneOptions): Promise<ControlPlane> {
  const [etcdFile, apiServerFile, controllersFile] = await Promise.all([
    binary('etcd'),
    binary('kube-apiserver'),
    binary('kube-controller-manager'),
  ]);
  const [etcdPort = 0, peerPort = 0, port = 0, controllersPort = 0] = await Promise.all([1, 2, 3, 4].map(freePort));
  const token = randomBytes(16).toString('hex');
  writeServiceAccountKeys(dir);
  writeFileSync(join(dir, 'tokens.csv'), `${token},admin,admin,system:masters\n`, { mode: 0o600 });
  // Without --tls-cert-file the API server makes a certificate here and signs it with an authority that stands in the
  // same file, behind it. It keeps both over a restart.
  const authority = join(dir, 'certs', 'apiserver.crt');
  const login = { server: `https://127.0.0.1:${port}`, authority, token };
  writeKubeconfig(join(dir, 'kubeconfig'), login);

  const launch = (name: Component, file: string, args: string[]) =>
    start(name, file, args, { log: join(dir, `${name}.log`), cwd: dir });
  const launchApiServer = () => launch('kube-apiserver', apiServerFile, apiServerArgs(port, etcdPort, options));
  const etcd = launch('etcd', etcdFile, etcdArgs(etcdPort, peerPort));
  let apiServer = launchApiServer();
  let controllers: Running | undefined;
  let api: Api | undefined;

  const ready = async (client: Api) => {
    const answers = async () => !apiServer.alive() || (await client.send('GET', '/readyz')).status === 200;
    await until('kube-apiserver', answers, { timeout: 60_000, every: 30 });
    if (!apiServer.alive()) throw new Error('kube-apiserver ended');
  };
  const kill = async () => {
    api?.close();
    await Promise.all([controllers, apiServer, etcd].map(each => each?.stop('SIGKILL')));
  };

  try {
    await until('the certificate of kube-apiserver', () => existsSync(authority), { every: 20 });
    const client = connect({ server: login.server, ca: readFileSync(authority, 'utf8'), token });
    api = client;
    await ready(client);
    controllers = launch(
      'kube-controller-manager',
      controllersFile,
      controllersArgs(controllersPort, authority, options.withoutControllers ?? []),
    );
    return {
      login,
      port,
      api: client,
      etcd,
      async stopApiServer(signal = 'SIGTERM') {
        // On SIGTERM it stops listening at once, but goes on as long as anybody watches, which is a minute or more.
        await apiServer.stop(signal, 2_000);
      },
      async startApiServer() {
        apiServer = launchApiServer();
        await ready(client);
      },
      kill,
    };
  } catch (error) {
    await kill();
    const logs = [etcd, apiServer].map(each => `${each.name}:\n${tail(each.log, 5)}`).join('\n');
    throw new Error(`${String(error)}\n${logs}`, { cause: error });
  }
}

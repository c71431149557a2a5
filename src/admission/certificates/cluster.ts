// What `serve` in a cluster needs of all this: certificates of our own in a Secret, and both webhook configurations kept right.
import type { KubeClient } from '../../mesh/sources/cluster/client.ts';
import { type Keeper, type KeeperEvent, keepCertificates } from './keeper.ts';
import { type Address, keepRegistration, type Registration, type RegistrationEvent } from './registration.ts';
import type { Lifetimes } from './state.ts';

export interface ClusterCertificatesOptions {
  readonly client: KubeClient;
  /** The guard's own namespace. */
  readonly namespace: string;
  readonly service: string;
  readonly secret: string;
  /** Name of both webhook configurations. */
  readonly configurations: string;
  readonly lifetimes?: Lifetimes;
  readonly address?: Address;
  readonly patience?: number;
  readonly report?: (event: KeeperEvent | RegistrationEvent) => void;
}

export interface ClusterCertificates {
  /** For `startServing`. */
  readonly certificate: Keeper;
  readonly registration: Registration;
  /** One line for `/readyz` and the log where something is wrong; undefined where all is well. */
  trouble(): string | undefined;
  stop(): void;
}

/** Resolves once there is a leaf to serve. The configurations are written from then on, beside everything else. */
export async function clusterCertificates(options: ClusterCertificatesOptions): Promise<ClusterCertificates> {
  const { client, namespace, service, report } = options;
  let registration: Registration | undefined;
  const certificate = await keepCertificates({
    client,
    namespace,
    service,
    secret: options.secret,
    trusted: async bundle => (await registration?.trusts(bundle)) === true,
    ...(options.lifetimes === undefined ? {} : { lifetimes: options.lifetimes }),
    ...(options.patience === undefined ? {} : { patience: options.patience }),
    ...(report === undefined ? {} : { report }),
  });
  const kept = keepRegistration({
    client,
    name: options.configurations,
    service: { namespace, name: service },
    bundle: () => certificate.bundle(),
    ...(options.address === undefined ? {} : { address: options.address }),
    ...(report === undefined ? {} : { report }),
  });
  registration = kept;
  certificate.onChange(() => kept.look());
  return {
    certificate,
    registration: kept,
    trouble: () => certificate.status().trouble ?? kept.status().trouble[0],
    stop() {
      certificate.stop();
      kept.stop();
    },
  };
}

// Keeps a CA and a leaf in the Secret alive, and hands each new leaf to the server. Runs in every replica alike.
import { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from '../../mesh/sources/cluster/client.ts';
import { type CertificateSource, type Found, leafOf } from '../tls.ts';
import { followObject } from './follow.ts';
import { type Held, readSecret, secretStore } from './secret.ts';
import {
  bundleOf,
  type Certificates,
  checkLifetimes,
  LIFETIMES,
  type Lifetimes,
  nextStep,
  renewalOf,
  type Step,
  type StepName,
  taken,
} from './state.ts';

export interface KeeperOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the Secret. */
  readonly secret: string;
  /** Name of the Service, which the leaf is for. */
  readonly service: string;
  readonly lifetimes?: Lifetimes;
  /** Whether both webhook configurations trust all of these certificates: asked before leaves change over to a new CA. */
  readonly trusted: (bundle: string) => Promise<boolean>;
  readonly report?: (event: KeeperEvent) => void;
  /** Milliseconds to wait for the API server at start. */
  readonly patience?: number;
}

/** Something worth a line in the log. `trouble` without a reason: it is over. */
export type KeeperEvent =
  | { readonly event: 'step'; readonly step: StepName }
  | { readonly event: 'trouble'; readonly reason: string | undefined };

export interface KeeperStatus {
  /** When the leaf that is served expires. */
  readonly expires: Date;
  /** When the CA that signed it expires. */
  readonly authorityExpires: Date;
  /** Why the certificates cannot be kept at the moment, in one line. */
  readonly trouble?: string;
}

export interface Keeper extends CertificateSource {
  /** What the Secret says now, read anew: the `caBundle`. */
  bundle(): Promise<string>;
  /** Called whenever the certificates to trust may be others. */
  onChange(changed: () => void): void;
  status(): KeeperStatus;
  stop(): void;
}

/** Names under which the API server, other webhooks' clients and a person in the cluster reach the Service. */
export function serviceNames(namespace: string, service: string): readonly string[] {
  const short = `${service}.${namespace}`;
  return [`${short}.svc`, `${short}.svc.cluster.local`, short, service];
}

/** Longest that a timer waits: a clock that was set must not make us miss a renewal. */
const LONGEST = 10 * 60_000;

/** Resolves once there is a leaf to serve; rejects, in one line, where there is none within `patience`. */
export async function keepCertificates(options: KeeperOptions): Promise<Keeper> {
  const { client, namespace, lifetimes = LIFETIMES, patience = 60_000, report = () => {} } = options;
  checkLifetimes(lifetimes);
  const wanted = { lifetimes, names: serviceNames(namespace, options.service) };
  const store = secretStore(client, namespace, options.secret);
  const stopped = new AbortController();
  let current: Certificates | undefined;
  let trouble: string | undefined;
  let found: (found: Found) => void = () => {};
  let changed: () => void = () => {};

  function troubled(reason: string | undefined): void {
    if (reason !== trouble) report({ event: 'trouble', reason });
    trouble = reason;
  }

  function adopt(certificates: Certificates): void {
    const before = current;
    current = certificates;
    if (before === undefined) return;
    if (before.leaf.cert !== certificates.leaf.cert) found({ pair: certificates.leaf });
    if (bundleOf(before) !== bundleOf(certificates)) changed();
  }

  /** The step that this Secret calls for, now or later. */
  function dueOf({ certificates, rotate }: Held): Step {
    const step = nextStep(certificates, wanted, Date.now());
    return rotate && step.name !== 'make' && certificates?.next === undefined && certificates?.former === undefined
      ? { name: 'announce', at: Date.now() }
      : step;
  }

  /** Does everything that is due, or learns that another replica did. Returns when to look again. */
  async function settle(): Promise<number> {
    for (;;) {
      const held = await store.read();
      const { certificates } = held;
      const lost = current;
      if (certificates === undefined && lost !== undefined && nextStep(lost, wanted, Date.now()).name !== 'make') {
        // somebody emptied the Secret: what is served and trusted goes back into it
        await store.write(held, lost);
        continue;
      }
      const step = dueOf(held);
      const now = Date.now();
      if (step.at > now) {
        if (certificates !== undefined) adopt(certificates);
        troubled(undefined);
        return step.at;
      }
      if (step.name === 'promote' && certificates !== undefined && !(await options.trusted(bundleOf(certificates)))) {
        adopt(certificates);
        troubled('a new CA waits: the webhook configurations do not trust it yet');
        // the leaf does not wait for the CA
        if (nextStep({ ...certificates, since: now }, wanted, now).at > now) return now + lifetimes.overlap / 4;
        await store.write(held, await taken('renew', certificates, wanted, now));
        continue;
      }
      const after = await taken(step.name, certificates, wanted, now);
      if (await store.write(held, after)) {
        report({ event: 'step', step: step.name });
        adopt(after);
      }
    }
  }

  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let again = false;

  /** One at a time; a wish that comes meanwhile is granted after it. */
  function look(): void {
    if (stopped.signal.aborted) return;
    if (running !== undefined) {
      again = true;
      return;
    }
    clearTimeout(timer);
    running = settle()
      .catch((error: unknown) => {
        troubled(error instanceof Error ? error.message : String(error));
        return Date.now() + 1_000 + Math.random() * 1_000;
      })
      .then(next => {
        running = undefined;
        if (again) {
          again = false;
          look();
          return;
        }
        if (stopped.signal.aborted) return;
        timer = setTimeout(look, Math.min(LONGEST, Math.max(10, next - Date.now())));
        timer.unref();
      });
  }

  const until = Date.now() + patience;
  while (current === undefined) {
    try {
      await settle();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      troubled(reason);
      if (Date.now() > until)
        throw new Error(`no certificate from the Secret ${namespace}/${options.secret}: ${reason}`);
      await sleep(250 + Math.random() * 250);
    }
  }
  const first: Certificates = current;
  look();
  void followObject(
    client,
    { collection: store.collection, name: store.name, signal: stopped.signal, every: 300, trouble: () => {} },
    object => {
      const { certificates } = readSecret(object);
      if (certificates === undefined || current === undefined || !sameAs(certificates, current)) look();
      else if (readSecret(object).rotate) look();
    },
  );

  return {
    pair: first.leaf,
    follow(take) {
      found = take;
      // a leaf that came between the start and now
      if (current !== undefined && current.leaf.cert !== first.leaf.cert) take({ pair: current.leaf });
      return () => {
        found = () => {};
      };
    },
    async bundle() {
      const { certificates } = await store.read();
      if (certificates !== undefined) adopt(certificates);
      return bundleOf(certificates ?? current ?? first);
    },
    onChange(listener) {
      changed = listener;
    },
    status() {
      const { leaf, authority } = current ?? first;
      const expires = leafOf(leaf).validToDate;
      const said = trouble ?? overdue(leaf.cert, expires);
      return {
        expires,
        authorityExpires: new X509Certificate(authority.cert).validToDate,
        ...(said === undefined ? {} : { trouble: said }),
      };
    },
    stop() {
      stopped.abort();
      clearTimeout(timer);
    },
  };
}

/** One line where half of the time between renewal and end has passed without a renewal. */
function overdue(cert: string, expires: Date): string | undefined {
  const end = expires.getTime();
  if (Date.now() < (renewalOf(cert) + end) / 2) return undefined;
  return `the certificate ${Date.now() < end ? 'expires' : 'has expired'} at ${expires.toISOString()} and was not renewed`;
}

function sameAs(one: Certificates, other: Certificates): boolean {
  return one.leaf.cert === other.leaf.cert && bundleOf(one) === bundleOf(other);
}

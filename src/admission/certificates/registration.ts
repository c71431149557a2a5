// Both webhook configurations: the `caBundle` of every entry that calls us, and the rules of those that fail closed.
// docs/decisions/0001-who-closes-the-door.md says why the rules, and never the failure policy.
import { X509Certificate } from 'node:crypto';
import { connect } from 'node:tls';
import { parse } from 'yaml';
import { at, record, records, same, text } from '../../kube/json.ts';
import type { KubeClient } from '../../mesh/sources/cluster/client.ts';
import { followObject, refusal } from './follow.ts';

const GROUP = '/apis/admissionregistration.k8s.io/v1';
/** The collections of both. */
const COLLECTIONS = {
  ValidatingWebhookConfiguration: `${GROUP}/validatingwebhookconfigurations`,
  MutatingWebhookConfiguration: `${GROUP}/mutatingwebhookconfigurations`,
} as const;
type ConfigurationKind = keyof typeof COLLECTIONS;
const KINDS = Object.keys(COLLECTIONS) as ConfigurationKind[];

/** Field managers of our own: each applies one field, and takes no other one from anybody. */
export const BUNDLE_MANAGER = 'waywarden-ca-bundle';
export const RULES_MANAGER = 'waywarden-rules';

/** Annotation with the rules of entries that fail closed: entry's name to rules, as YAML. Written by the chart. */
export const RULES = 'waywarden.dev/rules-once-ready';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface RegistrationOptions {
  readonly client: KubeClient;
  /** Name of both configurations. */
  readonly name: string;
  /** The Service that our entries call. */
  readonly service: { readonly namespace: string; readonly name: string };
  /** The certificates to trust, read anew; undefined where somebody else writes the `caBundle` (cert-manager, or by hand). */
  readonly bundle?: () => Promise<string>;
  /** Where the Service is reached, to see whether a replica is ready behind it. Default: its name in the cluster, port 443. */
  readonly address?: Address;
  readonly report?: (event: RegistrationEvent) => void;
  /** Seconds after which the configurations are read anew, whatever their watch says. Default 60. */
  readonly every?: number;
}

export type RegistrationEvent =
  | { readonly event: 'applied'; readonly kind: string; readonly field: 'caBundle' | 'rules' }
  | { readonly event: 'trouble'; readonly kind: string; readonly reason: string | undefined };

export interface RegistrationStatus {
  /** Both configurations are there and all of our entries trust what they must. */
  readonly trusted: boolean;
  /** The entries that fail closed have their rules. */
  readonly closed: boolean;
  readonly trouble: readonly string[];
}

export interface Registration {
  /** Asks the API server whether every entry of ours trusts all of these certificates. */
  trusts(bundle: string): Promise<boolean>;
  /** The certificates to trust may be others. */
  look(): void;
  status(): RegistrationStatus;
  stop(): void;
}

type Entry = Readonly<Record<string, unknown>>;

/** The entries of a configuration that call this Service. */
export function ownEntries(configuration: unknown, service: RegistrationOptions['service']): readonly Entry[] {
  return records(at(configuration, 'webhooks')).filter(entry => {
    const called = at(entry, 'clientConfig', 'service');
    return at(called, 'namespace') === service.namespace && at(called, 'name') === service.name;
  });
}

const bundleIn = (entry: Entry) => Buffer.from(text(at(entry, 'clientConfig', 'caBundle')) ?? '', 'base64').toString();

/** Fingerprints of the certificates in a bundle. */
function fingerprints(bundle: string): ReadonlySet<string> {
  const pems = bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return new Set(
    pems.flatMap(pem => {
      try {
        return [new X509Certificate(pem).fingerprint256];
      } catch {
        return [];
      }
    }),
  );
}

/** Rules by entry, as the chart's annotation has them; none where it is missing or broken. */
function promisedRules(configuration: unknown): ReadonlyMap<string, unknown> {
  const written = text(at(configuration, 'metadata', 'annotations', RULES));
  if (written === undefined) return new Map();
  try {
    return new Map(Object.entries(record(parse(written)) ?? {}));
  } catch {
    return new Map();
  }
}

/** Our entries whose rules are not those that the annotation promises. */
function unclosed(configuration: unknown, service: RegistrationOptions['service']): readonly Entry[] {
  const promised = promisedRules(configuration);
  return ownEntries(configuration, service).flatMap(entry => {
    const rules = promised.get(text(entry['name']) ?? '');
    return rules === undefined || same(rules, entry['rules'] ?? []) ? [] : [{ name: entry['name'], rules }];
  });
}

/** Whether a replica answers there with a certificate that this bundle verifies: what the API server will ask for too. */
export function answers({ host, port }: Address, servername: string, ca: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host, port, servername, ca, ALPNProtocols: ['http/1.1'] });
    const done = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(3_000, () => done(false));
    socket.once('secureConnect', () => done(socket.authorized));
    socket.once('error', () => done(false));
  });
}

interface Side {
  /** The configuration as it was seen last; undefined where it is not there. */
  live?: unknown;
  /** Whether anybody has looked. */
  seen: boolean;
  failed?: string | undefined;
  watching?: string | undefined;
  busy: boolean;
  again: boolean;
  timer?: NodeJS.Timeout;
}

export function keepRegistration(options: RegistrationOptions): Registration {
  const { client, name, service, every = 60, report = () => {} } = options;
  const servername = `${service.name}.${service.namespace}.svc`;
  const address = options.address ?? { host: servername, port: 443 };
  const stopped = new AbortController();
  const sides = new Map<ConfigurationKind, Side>(KINDS.map(kind => [kind, { seen: false, busy: false, again: false }]));
  const sideOf = (kind: ConfigurationKind) => sides.get(kind) as Side;

  async function apply(kind: ConfigurationKind, manager: string, webhooks: readonly Entry[]): Promise<unknown> {
    const { status, body } = await client.request({
      method: 'PATCH',
      path: `${COLLECTIONS[kind]}/${encodeURIComponent(name)}?fieldManager=${manager}&force=true`,
      contentType: 'application/apply-patch+yaml',
      body: { apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata: { name }, webhooks },
    });
    if (status !== 200) throw new Error(refusal(status, body));
    return body;
  }

  async function healBundle(kind: ConfigurationKind, live: unknown): Promise<unknown> {
    if (options.bundle === undefined) return live;
    const own = ownEntries(live, service);
    // from the Secret, not from memory: an older bundle must not replace the newer one of another replica
    const bundle = await options.bundle();
    if (own.every(entry => bundleIn(entry) === bundle)) return live;
    const caBundle = Buffer.from(bundle).toString('base64');
    const after = await apply(
      kind,
      BUNDLE_MANAGER,
      own.map(entry => ({ name: entry['name'], clientConfig: { caBundle } })),
    );
    report({ event: 'applied', kind, field: 'caBundle' });
    return after;
  }

  /** Gives the closed entries their rules once a call would be answered. Resolves with false where that is not so yet. */
  async function close(kind: ConfigurationKind, live: unknown): Promise<boolean> {
    if (unclosed(live, service).length === 0) return true;
    const bundles = new Set(ownEntries(live, service).map(bundleIn));
    for (const bundle of bundles) if (bundle === '' || !(await answers(address, servername, bundle))) return false;
    // all of them, also those that are right already: what an apply leaves out, it takes away
    const promised = promisedRules(live);
    const entries = ownEntries(live, service).flatMap(({ name: entry }) => {
      const rules = promised.get(text(entry) ?? '');
      return rules === undefined ? [] : [{ name: entry, rules }];
    });
    sideOf(kind).live = await apply(kind, RULES_MANAGER, entries);
    report({ event: 'applied', kind, field: 'rules' });
    return true;
  }

  function troubled(kind: ConfigurationKind, reason: string | undefined): void {
    const side = sideOf(kind);
    if (side.failed !== reason) report({ event: 'trouble', kind, reason });
    side.failed = reason;
  }

  function look(kind: ConfigurationKind): void {
    const side = sideOf(kind);
    if (side.live === undefined || stopped.signal.aborted) return;
    if (side.busy) {
      side.again = true;
      return;
    }
    side.busy = true;
    clearTimeout(side.timer);
    const seen = side.live;
    healBundle(kind, seen)
      .then(healed => {
        if (side.live === seen) side.live = healed;
        return close(kind, healed);
      })
      .then(
        closed => {
          troubled(kind, undefined);
          return closed ? undefined : 1_000;
        },
        (error: unknown) => {
          troubled(kind, error instanceof Error ? error.message : String(error));
          return 1_000;
        },
      )
      .then(pause => {
        side.busy = false;
        if (side.again) {
          side.again = false;
          look(kind);
        } else if (pause !== undefined) {
          side.timer = setTimeout(() => look(kind), pause * (0.5 + Math.random()));
          side.timer.unref();
        }
      });
  }

  for (const kind of KINDS) {
    const side = sideOf(kind);
    const trouble = (reason: string | undefined) => {
      side.watching = reason;
    };
    void followObject(
      client,
      { collection: COLLECTIONS[kind], name, signal: stopped.signal, every, trouble },
      object => {
        side.live = object;
        look(kind);
      },
    );
  }

  return {
    async trusts(bundle) {
      const wanted = fingerprints(bundle);
      for (const kind of KINDS) {
        const { status, body } = await client.request({ path: `${COLLECTIONS[kind]}/${encodeURIComponent(name)}` });
        if (status !== 200) return false;
        for (const entry of ownEntries(body, service)) {
          const trusted = fingerprints(bundleIn(entry));
          for (const fingerprint of wanted) if (!trusted.has(fingerprint)) return false;
        }
      }
      return true;
    },
    look: () => KINDS.forEach(look),
    status() {
      const lives = KINDS.map(kind => sideOf(kind).live);
      const trouble = KINDS.flatMap(kind => {
        const { failed, watching, live, seen } = sideOf(kind);
        const missing = seen && live === undefined ? `there is no ${kind} ${name}` : undefined;
        return [failed ?? watching ?? missing].filter(reason => reason !== undefined);
      });
      return {
        trusted: lives.every(
          live =>
            live !== undefined && ownEntries(live, service).every(entry => fingerprints(bundleIn(entry)).size > 0),
        ),
        closed: lives.every(live => live !== undefined && unclosed(live, service).length === 0),
        trouble,
      };
    },
    stop() {
      stopped.abort();
      for (const side of sides.values()) clearTimeout(side.timer);
    },
  };
}

// Both webhook configurations: are they there, do they ask about what the policies judge, and can they lock anybody out?
import { X509Certificate } from 'node:crypto';
import { ownEntries } from '../../admission/certificates/registration.ts';
import { deletionKinds, failsClosed, judgedKinds, mutatedKinds, resourceOf } from '../../engine/asked.ts';
import type { Policy } from '../../engine/policy.ts';
import type { Settings } from '../../engine/settings.ts';
import { at, type JsonObject, records, text, texts } from '../../kube/json.ts';
import { type GroupKind, splitGroupKind } from '../../kube/kind.ts';
import { NAME_LABEL } from '../../mesh/kinds/cluster.ts';
import { COLLECTIONS, look, type Patient, type Symptom } from './symptom.ts';

export interface Configurations {
  readonly validating: readonly JsonObject[];
  readonly mutating: readonly JsonObject[];
}

const AGAIN = 'helm upgrade waywarden (or kubectl apply -f deploy/enforce.yaml) with this release';

/** The entries that call us, and what is wrong before any is looked at. */
export async function configurations(
  patient: Patient,
): Promise<{ readonly found?: Configurations; readonly symptoms: readonly Symptom[] }> {
  const { client, webhooks, namespace, service } = patient;
  const own: JsonObject[][] = [];
  for (const [kind, collection] of Object.entries(COLLECTIONS)) {
    const about = `${kind} ${webhooks}`;
    const looked = await look(client, `${collection}/${encodeURIComponent(webhooks)}`);
    if ('why' in looked)
      return { symptoms: [{ level: 'unknown', about, found: looked.why, repair: 'ask somebody who may read it' }] };
    if (looked.object === undefined) {
      return {
        symptoms: [
          {
            level: 'fail',
            about,
            found: 'is not there: the API server asks nobody',
            repair: `${AGAIN}, or give --webhooks NAME`,
          },
        ],
      };
    }
    const entries = ownEntries(looked.object, { namespace, name: service });
    if (entries.length === 0) {
      const found = `has no entry that calls the Service ${namespace}/${service}`;
      return { symptoms: [{ level: 'fail', about, found, repair: `${AGAIN}, or give --namespace and --service` }] };
    }
    own.push([...entries]);
  }
  const [validating = [], mutating = []] = own;
  return { found: { validating, mutating }, symptoms: [] };
}

/** Whether an entry's rules ask about writing a kind. */
function asks(entry: JsonObject, kind: GroupKind, operation: string): boolean {
  const { group } = splitGroupKind(kind);
  return records(entry['rules']).some(rule => {
    const groups = texts(rule['apiGroups']);
    const resources = texts(rule['resources']);
    const operations = texts(rule['operations']);
    return (
      (groups.includes(group) || groups.includes('*')) &&
      (resources.includes('*') || resources.includes('*/*') || resources.includes(resourceOf(kind))) &&
      (operations.includes(operation) || operations.includes('*'))
    );
  });
}

function listed(kinds: readonly string[]): string {
  return kinds.length > 4 ? `${kinds.slice(0, 4).join(', ')} and ${kinds.length - 4} more` : kinds.join(', ');
}

/** Whether an entry counts what members of a break-glass group write, and judges nothing. */
const counts = (entry: JsonObject) => text(entry['name'])?.startsWith('break-glass.') === true;

/** The rules against the kinds that these policies judge. */
export function rules(found: Configurations, policies: readonly Policy[]): readonly Symptom[] {
  const about = 'rules of the webhooks';
  const { mutating } = found;
  const validating = found.validating.filter(entry => !counts(entry));
  const closed = [...validating, ...mutating].filter(entry => text(entry['name'])?.startsWith('closed.') === true);
  const waiting = closed.filter(entry => records(entry['rules']).length === 0);
  if (waiting.length > 0) {
    return [
      {
        level: 'fail',
        about,
        found: `${listed(waiting.map(entry => text(entry['name']) ?? ''))} have no rules yet: no replica was ready and trusted so far`,
        repair: 'see the log of the replicas: they close the door once one of them answers over the Service',
      },
    ];
  }
  const missing = [
    ...judgedKinds(policies).filter(
      kind => !validating.some(entry => asks(entry, kind, 'CREATE') && asks(entry, kind, 'UPDATE')),
    ),
    ...mutatedKinds(policies).filter(kind => !mutating.some(entry => asks(entry, kind, 'CREATE'))),
    ...deletionKinds(policies).filter(kind => !validating.some(entry => asks(entry, kind, 'DELETE'))),
  ];
  const kinds = [...new Set(missing)];
  if (kinds.length > 0) {
    return [
      {
        level: 'warn',
        about,
        found: `enabled policies judge what nobody is asked about: ${listed(kinds)}`,
        repair: AGAIN,
      },
    ];
  }
  return [
    {
      level: 'ok',
      about,
      found: `ask about all ${judgedKinds(policies).length} kinds that the enabled policies judge`,
    },
  ];
}

const WRITES = ['CREATE', 'UPDATE', 'DELETE'];

/** Whether somebody hears of it when a member of a break-glass group writes. Nothing to say where there is no such group. */
export function breakGlass({ validating }: Configurations, policies: readonly Policy[]): readonly Symptom[] {
  const about = 'break-glass';
  const judging = validating.filter(entry => !counts(entry));
  const counting = validating.filter(counts);
  if (!judging.some(({ matchConditions }) => records(matchConditions).some(({ name }) => name === 'not-break-glass')))
    return [];
  const uncounted = judgedKinds(policies).filter(kind =>
    WRITES.some(
      operation =>
        judging.some(entry => asks(entry, kind, operation)) && !counting.some(entry => asks(entry, kind, operation)),
    ),
  );
  if (uncounted.length > 0) {
    return [
      {
        level: 'warn',
        about,
        found: `members of its group write ${listed(uncounted)} unjudged, and nobody counts it`,
        repair: AGAIN,
      },
    ];
  }
  return [{ level: 'ok', about, found: 'what members of its group write is not judged, and counted' }];
}

/** Whether kinds that must fail closed do, and whether anything can lock people out. */
export function failure(
  found: Configurations,
  { mode }: Settings,
  { namespace, webhooks }: Patient,
): readonly Symptom[] {
  const about = 'failure policies';
  const symptoms: Symptom[] = [];
  const all = [...found.validating, ...found.mutating];
  const locked = all.filter(entry => entry['failurePolicy'] === 'Fail');
  const unlocked = all.filter(
    entry => text(entry['name'])?.startsWith('closed.') === true && entry['failurePolicy'] !== 'Fail',
  );
  if (mode === 'enforce' && unlocked.length > 0) {
    symptoms.push({
      level: 'warn',
      about,
      found: `${unlocked.length} entries that should fail closed fail open: while no replica answers, everything passes`,
      repair:
        'after doctor --unlock: waywarden doctor --lock; with admission.failClosed: false that is what was asked for',
    });
  }
  for (const entry of locked) {
    const strays = records(entry['rules']).flatMap(rule =>
      texts(rule['apiGroups']).flatMap(group =>
        texts(rule['resources'])
          .filter(resource => !closes(group, resource))
          .map(resource => `${resource}.${group}`),
      ),
    );
    if (strays.length > 0) {
      symptoms.push({
        level: 'fail',
        about,
        found: `${text(entry['name'])} fails closed for ${listed(strays)}: with no replica, nobody can write them`,
        repair: AGAIN,
      });
    }
    const excluded = records(at(entry, 'namespaceSelector', 'matchExpressions'))
      .filter(({ key, operator }) => key === NAME_LABEL && operator === 'NotIn')
      .flatMap(({ values }) => texts(values));
    const exposed = [namespace, 'kube-system'].filter(name => !excluded.includes(name));
    if (exposed.length > 0) {
      symptoms.push({
        level: 'fail',
        about,
        found: `${text(entry['name'])} asks about ${exposed.join(' and ')}: the guard could keep itself from starting`,
        repair: AGAIN,
      });
    }
  }
  if (symptoms.length > 0) return symptoms;
  return [
    {
      level: 'ok',
      about,
      found: `${locked.length} entries of ${webhooks} fail closed, for kinds where that is right, and nobody is locked out`,
    },
  ];
}

/** Whether a resource is one of those that may fail closed. */
function closes(group: string, resource: string): boolean {
  const kind = { inferencepools: 'InferencePool', backendtlspolicies: 'BackendTLSPolicy' }[resource] ?? 'Any';
  return failsClosed(`${kind}.${group}`);
}

const DAY = 86_400_000;

function certificatesIn(bundle: string): readonly X509Certificate[] {
  const pems = bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return pems.flatMap(pem => {
    try {
      return [new X509Certificate(pem)];
    } catch {
      return [];
    }
  });
}

/** `leaf`: the PEM that replicas serve, where it could be read. `now`: the API server's clock. */
export function certificates(
  { validating, mutating }: Configurations,
  leaf: string | undefined,
  { namespace, service, secret }: Patient,
  now: number,
): readonly Symptom[] {
  const about = 'certificates';
  const renew = `kubectl -n ${namespace} annotate secret ${secret} waywarden.dev/rotate-ca=now, and see the log of the replicas`;
  const entries = [...validating, ...mutating];
  const bundles = entries.map(entry =>
    Buffer.from(text(at(entry, 'clientConfig', 'caBundle')) ?? '', 'base64').toString(),
  );
  const empty = entries.filter((_, index) => certificatesIn(bundles[index] ?? '').length === 0);
  if (empty.length > 0) {
    return [
      {
        level: 'fail',
        about,
        found: `the caBundle of ${empty.length} entries is empty or no certificate: the API server trusts no replica`,
        repair: `kubectl -n ${namespace} logs deployment/${service}: a replica writes it, or cert-manager's cainjector`,
      },
    ];
  }
  const authorities = certificatesIn(bundles[0] ?? '');
  const symptoms: Symptom[] = [];
  if (new Set(bundles).size > 1)
    symptoms.push({
      level: 'warn',
      about,
      found: 'entries trust different CAs: a change of CA is on its way, or somebody wrote one of them',
      repair: `look again in a minute; ${renew}`,
    });
  if (!authorities.some(({ validToDate }) => validToDate.getTime() > now))
    symptoms.push({ level: 'fail', about, found: 'every CA in the caBundle has expired', repair: renew });
  const [served] = leaf === undefined ? [] : certificatesIn(leaf);
  if (served === undefined) {
    symptoms.push({
      level: 'unknown',
      about,
      found: 'the served certificate could not be read',
      repair: `get the right to read the Secret ${namespace}/${secret}`,
    });
    return symptoms;
  }
  const name = `${service}.${namespace}.svc`;
  const left = served.validToDate.getTime() - now;
  const life = served.validToDate.getTime() - served.validFromDate.getTime();
  const expiry = served.validToDate.toISOString().slice(0, 10);
  if (!authorities.some(authority => served.verify(authority.publicKey)))
    symptoms.push({
      level: 'fail',
      about,
      found: 'the served certificate is not signed by a CA of the caBundle: the API server refuses it',
      repair: `kubectl -n ${namespace} rollout restart deployment/${service}`,
    });
  if (served.checkHost(name) === undefined)
    symptoms.push({ level: 'fail', about, found: `the served certificate does not name ${name}`, repair: renew });
  if (served.validFromDate.getTime() > now)
    symptoms.push({
      level: 'fail',
      about,
      found: 'the served certificate is not valid yet by the clock of the API server',
      repair: 'set the clocks of the nodes',
    });
  if (left <= 0)
    symptoms.push({ level: 'fail', about, found: `the served certificate expired on ${expiry}`, repair: renew });
  else if (left < life / 4)
    symptoms.push({
      level: 'warn',
      about,
      found: `the served certificate expires on ${expiry} and was not renewed`,
      repair: renew,
    });
  if (symptoms.some(({ level }) => level === 'fail')) return symptoms;
  const days = Math.floor(left / DAY);
  return [
    ...symptoms,
    { level: 'ok', about, found: `the chain verifies, for ${name}, until ${expiry} (${days} days)` },
  ];
}

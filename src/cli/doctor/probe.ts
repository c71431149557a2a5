// One dry-run write, to see what the API server does with it: the only way to know from outside that it reaches the guard.
import { at, text } from '../../kube/json.ts';
import { type Patient, type Symptom, saidIn } from './symptom.ts';

const POLICIES = '/apis/security.istio.io/v1/namespaces/default/authorizationpolicies?dryRun=All';

/** A value that is no boolean: found whatever the state of the mesh. */
const PROBE = {
  apiVersion: 'security.istio.io/v1',
  kind: 'AuthorizationPolicy',
  metadata: { name: 'waywarden-doctor', namespace: 'default', annotations: { 'istio.io/dry-run': 'waywarden-doctor' } },
  spec: { selector: { matchLabels: { app: 'waywarden-doctor' } } },
};

export interface Probed {
  readonly symptoms: readonly Symptom[];
  /** The API server's clock, in milliseconds since 1970. */
  readonly now: number;
}

function clock(date: number, began: number, ended: number): Symptom {
  const about = 'clock';
  if (Number.isNaN(date)) return { level: 'unknown', about, found: 'the API server does not tell its time' };
  // Date has whole seconds
  const off = date + 1000 < began ? began - date : date > ended ? date - ended : 0;
  if (off > 60_000)
    return {
      level: 'warn',
      about,
      found: `this machine and the API server differ by ${Math.round(off / 1000)} s: certificates may look expired or not yet valid`,
      repair: 'set the clocks by NTP',
    };
  return { level: 'ok', about, found: 'this machine and the API server agree' };
}

export async function probe({ client, namespace, service }: Patient): Promise<Probed> {
  const about = 'a dry-run request';
  const began = Date.now();
  const answer = await client.request({ method: 'POST', path: POLICIES, body: PROBE, timeout: 35_000 });
  const told = clock(answer.date, began, Date.now());
  const now = Number.isNaN(answer.date) ? Date.now() : answer.date;
  const message = saidIn(answer);
  const done = (symptom: Omit<Symptom, 'about'>): Probed => ({ symptoms: [{ about, ...symptom }, told], now });
  const logs = `kubectl -n ${namespace} get pods, and logs deployment/${service}`;
  if (
    /admission webhook "[^"]*waywarden[^"]*" denied the request/.test(message) ||
    answer.warnings.some(text => /dry-run/i.test(text) && /waywarden/.test(text))
  )
    return done({
      level: 'ok',
      found: `reached the guard, which ${answer.status >= 400 ? 'refused' : 'warned about'} it as it should`,
    });
  if (/failed calling webhook "[^"]*waywarden/.test(message))
    return done({
      level: 'fail',
      found: `the API server cannot reach the guard: ${message.replace(/^.*?: /, '').slice(0, 300)}`,
      repair: `${logs}; waywarden doctor --unlock lets everything pass meanwhile`,
    });
  if (answer.status === 404)
    return done({
      level: 'unknown',
      found: 'could not be made: AuthorizationPolicy is not served here',
      repair: 'install the CRDs of Istio',
    });
  if (answer.status === 403 && text(at(answer.body, 'details', 'kind')) === 'authorizationpolicies')
    return done({
      level: 'unknown',
      found: message,
      repair: 'ask somebody who may create AuthorizationPolicies in default',
    });
  if (answer.status >= 400) return done({ level: 'unknown', found: message.slice(0, 300) });
  return done({
    level: 'fail',
    found:
      'passed without a word: the guard was not asked, did not answer in time, or dry-run-skew is off in waywarden.yaml',
    repair: `see the rules below, and ${logs}`,
  });
}

// What the doctor says of webhook configurations and certificates, state by state. The whole of it is tried in test/e2e/lockout.test.ts.
import { beforeAll, describe, expect, it } from 'vitest';
import { policies } from '../policies/index.ts';
import { entryRules } from '../scripts/rules.ts';
import { issueAuthority, issueLeaf } from '../src/admission/certificates/issue.ts';
import type { Pair } from '../src/admission/tls.ts';
import type { Patient, Symptom } from '../src/cli/doctor/symptom.ts';
import { breakGlass, type Configurations, certificates, failure, rules } from '../src/cli/doctor/webhooks.ts';
import { DEFAULT_SETTINGS } from '../src/engine/settings.ts';

const DAY = 86_400_000;
const NOW = Date.parse('2026-05-01T12:00:00Z');
const patient = {
  namespace: 'waywarden',
  service: 'waywarden',
  webhooks: 'waywarden',
  secret: 'waywarden-certificates',
} as Patient;

let authority: Pair;
let another: Pair;
let leaf: Pair;
beforeAll(async () => {
  [authority, another] = (await Promise.all([1, 2].map(() => issueAuthority({ now: NOW, life: 900 * DAY })))) as [
    Pair,
    Pair,
  ];
  leaf = await issueLeaf(authority, ['waywarden.waywarden.svc'], { now: NOW, life: 90 * DAY });
});

const EXCLUDED = ['waywarden', 'kube-system', 'kube-node-lease'];
const { validate, mutate } = entryRules(policies);

function found({
  ca = authority.cert,
  failurePolicy = 'Fail',
  excluded = EXCLUDED,
  closed = validate.closed as readonly unknown[],
} = {}): Configurations {
  const entry = (name: string, itsRules: readonly unknown[], policy: string) => ({
    name: `${name}.waywarden.dev`,
    failurePolicy: policy,
    rules: itsRules,
    clientConfig: { caBundle: Buffer.from(ca).toString('base64') },
    namespaceSelector: {
      matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: excluded }],
    },
  });
  return {
    validating: [
      entry('closed.validate', closed, failurePolicy),
      entry('open.validate', validate.open, 'Ignore'),
      entry('deletions.validate', validate.deletions, 'Ignore'),
    ],
    mutating: [entry('closed.mutate', mutate.closed, failurePolicy), entry('open.mutate', mutate.open, 'Ignore')],
  };
}

const said = (symptoms: readonly Symptom[]) => symptoms.map(({ level, found: text }) => `${level}: ${text}`);
const everyFaultHasARepair = (symptoms: readonly Symptom[]) =>
  symptoms.every(({ level, repair }) => level === 'ok' || (repair ?? '') !== '');

describe('certificates', () => {
  it.each([
    [
      'are fine',
      () => certificates(found(), leaf.cert, patient, NOW),
      /^ok: the chain verifies, for waywarden\.waywarden\.svc, until 2026-07-30 \(90 days\)$/,
    ],
    [
      'are not trusted',
      () => certificates(found({ ca: '' }), leaf.cert, patient, NOW),
      /^fail: the caBundle of 5 entries is empty/,
    ],
    [
      'are of another CA',
      () => certificates(found({ ca: another.cert }), leaf.cert, patient, NOW),
      /^fail: .*not signed by a CA of the caBundle/,
    ],
    [
      'were not renewed',
      () => certificates(found(), leaf.cert, patient, NOW + 80 * DAY),
      /^warn: .*expires on 2026-07-30 and was not renewed/,
    ],
    ['have expired', () => certificates(found(), leaf.cert, patient, NOW + 91 * DAY), /^fail: .*expired on 2026-07-30/],
    [
      'are not valid yet',
      () => certificates(found(), leaf.cert, patient, NOW - DAY),
      /^fail: .*not valid yet by the clock/,
    ],
    [
      'are for another name',
      () => certificates(found(), leaf.cert, { ...patient, service: 'guard' }, NOW),
      /^fail: .*does not name guard\.waywarden\.svc/,
    ],
    [
      'cannot be seen',
      () => certificates(found(), undefined, patient, NOW),
      /^unknown: the served certificate could not be read/,
    ],
  ])('%s', (_, examine, wanted) => {
    const symptoms = examine();
    expect(said(symptoms)).toContainEqual(expect.stringMatching(wanted));
    expect(everyFaultHasARepair(symptoms)).toBe(true);
  });

  it('trusts two CAs while one takes the place of the other', () => {
    expect(said(certificates(found({ ca: another.cert + authority.cert }), leaf.cert, patient, NOW))).toEqual([
      expect.stringMatching(/^ok: /),
    ]);
  });
});

describe('rules', () => {
  it('are those that the policies call for', () => {
    expect(said(rules(found(), policies))).toEqual([expect.stringMatching(/^ok: ask about all \d+ kinds/)]);
  });

  it('have not come yet', () => {
    expect(said(rules(found({ closed: [] }), policies))).toEqual([
      expect.stringMatching(/^fail: closed\.validate.* have no rules yet/),
    ]);
  });

  it('lack a kind that an enabled policy judges', () => {
    const configurations = found();
    const [closed, ...others] = configurations.validating;
    const less = { ...configurations, validating: [{ ...closed, rules: validate.closed.slice(1) }, ...others] };
    expect(said(rules(less, policies))).toEqual([
      expect.stringMatching(/^warn: .*judge what nobody is asked about: BackendTLSPolicy\.gateway/),
    ]);
  });
});

describe('break-glass', () => {
  const everything = [...validate.closed, ...validate.open, ...validate.deletions];
  /** What the chart makes where there is a break-glass group. */
  function withGroup(counted: readonly unknown[] = everything, judged: readonly unknown[] = validate.closed) {
    const { validating, mutating } = found({ closed: judged });
    return {
      mutating,
      validating: [
        ...validating.map(entry => ({ ...entry, matchConditions: [{ name: 'not-break-glass' }] })),
        {
          ...validating[1],
          name: 'break-glass.validate.waywarden.dev',
          matchConditions: [{ name: 'break-glass' }],
          rules: counted,
        },
      ],
    };
  }

  it('is nothing to speak of where there is no group', () => {
    expect(breakGlass(found(), policies)).toEqual([]);
  });

  it('is counted for every kind that is judged', () => {
    expect(said(breakGlass(withGroup(), policies))).toEqual([expect.stringMatching(/^ok: .*counted$/)]);
  });

  it.each([
    ['has no rules', [], /^warn: .*write \S+, \S+, \S+, \S+ and \d+ more unjudged, and nobody/],
    [
      'does not ask about a kind',
      everything.slice(1),
      /^warn: .*write BackendTLSPolicy\.gateway\S+ unjudged, and nobody/,
    ],
    ['does not ask about deletions', [...validate.closed, ...validate.open], /^warn: .* and nobody counts it$/],
  ])('is not counted where its entry %s', (_, rulesOfIt, wanted) => {
    const symptoms = breakGlass(withGroup(rulesOfIt), policies);
    expect(said(symptoms)).toEqual([expect.stringMatching(wanted)]);
    expect(everyFaultHasARepair(symptoms)).toBe(true);
  });

  it('is no judge: a kind that its entry alone asks about is judged by nobody', () => {
    expect(said(rules(withGroup(everything, validate.closed.slice(1)), policies))).toEqual([
      expect.stringMatching(/^warn: .*judge what nobody is asked about: BackendTLSPolicy\.gateway/),
    ]);
  });

  it('never fails closed unnoticed', () => {
    const { mutating, validating } = withGroup();
    const closed = validating.map(entry => ({ ...entry, failurePolicy: 'Fail' }));
    expect(said(failure({ mutating, validating: closed }, DEFAULT_SETTINGS, patient))).toContainEqual(
      expect.stringMatching(/^fail: break-glass\.validate\.waywarden\.dev fails closed for /),
    );
  });
});

describe('failure policies', () => {
  it('are right', () => {
    expect(said(failure(found(), DEFAULT_SETTINGS, patient))).toEqual([
      expect.stringMatching(/^ok: 2 entries of waywarden fail closed/),
    ]);
  });

  it('are open, which is right in audit mode only', () => {
    const open = found({ failurePolicy: 'Ignore' });
    expect(said(failure(open, DEFAULT_SETTINGS, patient))).toEqual([
      expect.stringMatching(/^warn: 2 entries that should fail closed fail open/),
    ]);
    expect(said(failure(open, { ...DEFAULT_SETTINGS, mode: 'audit' }, patient))).toEqual([
      expect.stringMatching(/^ok: /),
    ]);
  });

  it('can lock people out', () => {
    const pods = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] };
    expect(said(failure(found({ closed: [...validate.closed, pods] }), DEFAULT_SETTINGS, patient))).toEqual([
      expect.stringMatching(/^fail: closed\.validate\.waywarden\.dev fails closed for pods/),
    ]);
    expect(said(failure(found({ excluded: ['kube-system'] }), DEFAULT_SETTINGS, patient))).toContainEqual(
      expect.stringMatching(/^fail: .*asks about waywarden: the guard could keep itself from starting/),
    );
  });
});

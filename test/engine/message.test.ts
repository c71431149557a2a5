import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Finding } from '../../src/engine/difference.ts';
import {
  denialOf,
  oneLine,
  sentence,
  WARNING_AT_MOST,
  WARNINGS_AT_MOST,
  warningsOf,
} from '../../src/engine/message.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';

const anyText = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'binary', maxLength: 400 }),
  fc.constant('x'.repeat(5000)),
);
const anyRef = fc.record({ kind: fc.constant('Service'), namespace: anyText, name: anyText });
const anyFinding: fc.Arbitrary<Finding> = fc.record({
  policy: fc.constantFrom('l7-needs-waypoint', 'stale-api-version'),
  finding: fc.constantFrom('deny-rule-never-matches', 'a', 'b'),
  subject: anyRef,
  action: fc.constantFrom('warn', 'deny', 'log'),
  standing: fc.constant('new'),
  key: anyText,
  effect: anyText,
  fix: anyText,
  evidence: fc.array(anyRef, { maxLength: 4 }),
  because: anyText,
});

const CONTROL = /[\u0000-\u001f\u007f]/;

test('no warning is longer than 256 characters or holds a control character, whatever the objects are called', () => {
  fc.assert(
    fc.property(fc.array(anyFinding, { maxLength: 12 }), fc.array(anyText, { maxLength: 4 }), (findings, notices) => {
      const warnings = warningsOf(findings, notices, DEFAULT_SETTINGS);
      for (const warning of warnings) {
        expect([...warning].length).toBeLessThanOrEqual(WARNING_AT_MOST);
        expect(CONTROL.test(warning)).toBe(false);
        expect(warning.isWellFormed()).toBe(true);
      }
      expect(warnings.reduce((total, warning) => total + [...warning].length, 0)).toBeLessThanOrEqual(WARNINGS_AT_MOST);
      for (const line of denialOf(findings, DEFAULT_SETTINGS).split('\n')) expect(CONTROL.test(line)).toBe(false);
    }),
    { numRuns: 500 },
  );
});

const finding: Finding = {
  policy: 'l7-needs-waypoint',
  finding: 'deny-rule-never-matches',
  subject: { kind: 'AuthorizationPolicy.security.istio.io', namespace: 'orders', name: 'no-admin' },
  action: 'deny',
  standing: 'new',
  key: 'orders',
  effect: 'this DENY rule never matches in ztunnel: requests to /admin are allowed',
  fix: 'deploy a waypoint and use targetRefs',
  evidence: [{ kind: 'Namespace', namespace: '', name: 'orders' }],
  because: 'ztunnel 1.31',
};

test('a warning and a denial name object, effect, evidence, fix and page', () => {
  const [warning] = warningsOf([{ ...finding, action: 'warn' }], [], DEFAULT_SETTINGS);
  expect(warning).toBe(
    'AuthorizationPolicy orders/no-admin: this DENY rule never matches in ztunnel: requests to /admin are allowed. Seen: Namespace orders, ztunnel 1.31. Fix: deploy a waypoint and use targetRefs. [l7-needs-waypoint/deny-rule-never-matches]',
  );
  expect(denialOf([finding], DEFAULT_SETTINGS)).toBe(
    [
      'AuthorizationPolicy orders/no-admin: this DENY rule never matches in ztunnel: requests to /admin are allowed.',
      '  Evidence: Namespace orders, ztunnel 1.31',
      '  Fix: Deploy a waypoint and use targetRefs.',
      '  More: waywarden explain l7-needs-waypoint (deny-rule-never-matches)',
    ].join('\n'),
  );
});

test.each([
  ['label it istio.io/use-waypoint', 'Label it istio.io/use-waypoint'],
  ['remove it; the opt-out is a label', 'Remove it; the opt-out is a label'],
  ['re-label the namespace', 'Re-label the namespace'],
  ['remove', 'Remove'],
  ['', ''],
])('a fix begins with a capital: %s', (fix, said) => {
  expect(sentence(fix)).toBe(said);
});

test.each([
  'inject.istio.io/templates: sidecar | gateway',
  'image: auto, as the injector wants it',
  'docker.io/istio, or a mirror of it',
  'istio/pilot of a release that is known',
  'v1 of the kind',
  '"true" or "false"',
  "'auto' alone",
  'cert-chain.pem with the whole chain',
  'minReplicas of at least 2',
])('a fix that begins with something literal is left as it is: %s', fix => {
  expect(sentence(fix)).toBe(fix);
  expect(denialOf([{ ...finding, fix }], DEFAULT_SETTINGS)).toContain(`  Fix: ${fix}.`);
});

test('findings of one kind are gathered into one with a count', () => {
  const many = ['a', 'b', 'c'].map(name => ({
    ...finding,
    action: 'warn' as const,
    subject: { ...finding.subject, name },
  }));
  const warnings = warningsOf(many, [], DEFAULT_SETTINGS);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain('AuthorizationPolicy orders/a and 2 more: ');
});

test('redacted: tenants do not learn the names of others', () => {
  const elsewhere = {
    ...finding,
    evidence: [{ kind: 'Gateway.gateway.networking.k8s.io', namespace: 'secret', name: 'wp' }],
  };
  const redact = { ...DEFAULT_SETTINGS, redact: true };
  expect(denialOf([elsewhere], redact)).not.toContain('secret');
  expect(denialOf([elsewhere], redact)).toContain('a Gateway of another namespace');
  expect(denialOf([elsewhere], DEFAULT_SETTINGS)).toContain('Gateway secret/wp');
});

test('one line is one line', () => {
  expect(oneLine('a\n\tb\u2028c\u0000d \ud800')).toBe('a b c d \ufffd');
});

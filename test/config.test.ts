// waywarden.yaml: what it comes to, and what is said about its mistakes.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { policies as realPolicies } from '../policies/index.ts';
import { configOf, loadConfig } from '../src/config/config.ts';
import { configJsonSchema } from '../src/config/schema.ts';
import { optionsOf } from '../src/engine/difference.ts';
import { definePolicy, type Policy } from '../src/engine/policy.ts';
import { DEFAULT_SETTINGS } from '../src/engine/settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'waywarden-config-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A policy with options and two findings, so that these tests do not depend on what the real ones are called. */
const policy = definePolicy({
  id: 'some-policy',
  title: 'A policy to be configured',
  subjects: ['Pod'],
  reads: [],
  findings: {
    'one-thing': { action: 'deny', seen: ['validate'], doc: 'One thing is wrong' },
    'other-thing': { action: 'warn', seen: ['validate'], doc: 'Another thing is wrong' },
  },
  options: z.object({ floor: z.string().default('v1'), onDelete: z.enum(['warn', 'deny']).default('warn') }),
  *check() {},
  *affected() {},
}) as Policy;
const policies = [policy];

function load(source: string) {
  const file = join(folder, 'waywarden.yaml');
  writeFileSync(file, source);
  return loadConfig(file, policies);
}

function mistakes(source: string): readonly string[] {
  try {
    load(source);
  } catch (error) {
    return error instanceof Error ? error.message.replaceAll(`${folder}/`, '').split('\n') : [];
  }
  return [];
}

describe('what a configuration comes to', () => {
  test.each(['', '# nothing yet\n', '{}'])('an empty one is the default', source => {
    expect(load(source)).toEqual({
      settings: DEFAULT_SETTINGS,
      declared: { controlPlanes: [] },
      breakGlassGroups: [],
    });
  });

  test('everything at once', () => {
    const { settings, declared, breakGlassGroups } = load(`
mode: audit
onTimeout: deny
onDelete: deny
redact: true
unguarded: [velero]
breakGlassGroups: [mesh-emergency]
policies:
  some-policy:
    action: warn
    findings: { other-thing: deny }
    options: { floor: v1beta1 }
namespaces:
  - names: [dev]
    selector: { matchLabels: { stage: test }, matchExpressions: [{ key: team, operator: Exists }] }
    policies: { some-policy: { action: log } }
exemptions:
  - { policy: some-policy, finding: one-thing, kind: Pod, namespace: a, name: b, owner: me, reason: soon, expires: 2027-03-31 }
controlPlanes:
  - { version: 1.30.2, tags: [prod], env: { PILOT_ENABLE_AMBIENT: "true" }, meshConfig: { trustDomain: td } }
rootNamespace: mesh
`);
    expect(settings).toMatchObject({ mode: 'audit', onTimeout: 'deny', onDelete: 'deny', redact: true });
    expect(breakGlassGroups).toEqual(['mesh-emergency']);
    expect(settings.unguarded).toEqual([...DEFAULT_SETTINGS.unguarded, 'velero']);
    expect(settings.policies['some-policy']).toMatchObject({ action: 'warn', findings: { 'other-thing': 'deny' } });
    expect(optionsOf(policy, settings)).toEqual({ floor: 'v1beta1', onDelete: 'warn' });
    expect(settings.namespaces).toMatchObject([
      {
        names: ['dev'],
        selector: { matchLabels: { stage: 'test' }, matchExpressions: [{ key: 'team', operator: 'Exists' }] },
      },
    ]);
    expect(settings.exemptions).toMatchObject([{ owner: 'me', expires: '2027-03-31' }]);
    expect(declared).toEqual({
      rootNamespace: 'mesh',
      controlPlanes: [
        {
          revision: 'default',
          version: '1.30.2',
          rootNamespace: 'istio-system',
          tags: ['prod'],
          env: { PILOT_ENABLE_AMBIENT: 'true' },
          meshConfig: { trustDomain: 'td' },
        },
      ],
    });
  });
});

describe('mistakes', () => {
  test.each([
    ['a key', 'mod: audit\n', ['waywarden.yaml:1:1: there is no setting "mod" (did you mean "mode"?)']],
    ['a value', 'mode: audti\n', ['waywarden.yaml:1:1: mode is one of enforce, audit (did you mean "audit"?)']],
    [
      'a policy',
      'policies:\n  some-polcy: {}\n',
      ['waywarden.yaml:2:3: there is no policy "some-polcy" (did you mean "some-policy"?)'],
    ],
    [
      'a finding',
      'policies:\n  some-policy:\n    findings:\n      one-thign: warn\n',
      ['waywarden.yaml:4:7: there is no finding "one-thign" (did you mean "one-thing"?)'],
    ],
    [
      'an option',
      'policies:\n  some-policy:\n    options:\n      flor: v1\n',
      ['waywarden.yaml:4:7: there is no setting "flor" (did you mean "floor"?)'],
    ],
    [
      'the finding of an exemption, and what it lacks',
      'exemptions:\n- policy: some-policy\n  finding: one-thing\n  owner: me\n  expires: 2027-02-30x\n',
      [
        'waywarden.yaml:2:3: exemptions[0].reason is missing',
        'waywarden.yaml:5:3: exemptions[0].expires: must be a day such as 2027-03-31',
      ],
    ],
    [
      'a finding of another policy',
      'exemptions:\n- {policy: some-policy, finding: two-things, owner: me, reason: x, expires: 2027-03-31}\n',
      ['waywarden.yaml:2:25: the policy some-policy has no finding "two-things"'],
    ],
    [
      'settings for no namespaces in particular',
      'namespaces:\n- policies: {}\n',
      ['waywarden.yaml:2:3: namespaces[0]: needs names, a selector or both, or it would hold everywhere'],
    ],
    [
      'a day that there is not',
      'exemptions:\n- {policy: some-policy, owner: me, reason: x, expires: 2027-02-31}\n',
      ['waywarden.yaml:2:47: exemptions[0].expires: must be a day such as 2027-03-31'],
    ],
    [
      'a release that says nothing',
      'controlPlanes:\n- version: latest\n',
      ['waywarden.yaml:2:3: controlPlanes[0].version: must be a release such as 1.31'],
    ],
    ['an empty text', 'rootNamespace: ""\n', ['waywarden.yaml:1:1: rootNamespace must not be empty']],
    ['another type', 'redact: "yes"\n', ['waywarden.yaml:1:1: redact: expected boolean']],
    ['a list', '- a\n', ['waywarden.yaml:1:1: the configuration: expected object']],
    [
      'two documents',
      'mode: audit\n---\nmode: enforce\n',
      ['waywarden.yaml:3:1: a configuration is one document, and here begins another'],
    ],
    ['no YAML', 'mode: "audit\n', [expect.stringMatching(/^waywarden\.yaml:\d+:\d+: \S/)]],
  ])('%s is told with its place', (_, source, expected) => {
    expect(mistakes(source)).toEqual(expected);
  });

  test('a key that objects have from birth is a key like any other', () => {
    expect(mistakes('constructor: 1\n')).toEqual(['waywarden.yaml:1:1: there is no setting "constructor"']);
  });
});

test('every policy can be configured with its own ids', () => {
  for (const { id, findings } of realPolicies) {
    const outcome = configOf(
      {
        policies: {
          [id]: { action: 'warn', findings: Object.fromEntries(Object.keys(findings).map(key => [key, 'log'])) },
        },
      },
      realPolicies,
    );
    expect('mistakes' in outcome ? outcome.mistakes : []).toEqual([]);
  }
});

test('config.schema.json is what the policies make it (npm run schema)', () => {
  const checkedIn: unknown = JSON.parse(readFileSync(join(import.meta.dirname, '../config.schema.json'), 'utf8'));
  expect(checkedIn).toEqual(JSON.parse(JSON.stringify(configJsonSchema(realPolicies))));
});

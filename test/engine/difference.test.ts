// What the engine makes of what policies find: identity, standing, enforcement, limits.
import { expect, test } from 'vitest';
import * as z from 'zod';
import { difference, type Question } from '../../src/engine/difference.ts';
import { type CheckContext, definePolicy, PAUSE, type Policy, type Report } from '../../src/engine/policy.ts';
import { DEFAULT_SETTINGS, type Settings } from '../../src/engine/settings.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { isOf, project } from '../../src/mesh/kinds.ts';
import type { Change } from '../../src/mesh/mesh.ts';
import { overlay } from '../../src/mesh/overlay.ts';
import { createStore } from '../../src/mesh/store.ts';

/** A policy of the test's own: Services want an `owner` label, or their namespace one, or a ConfigMap called owner. */
function ownedServices(extra: Partial<Report> = {}): Policy {
  return definePolicy({
    id: 'owned-services',
    title: 'Services have an owner',
    subjects: ['Service'],
    reads: ['Namespace', 'ConfigMap', 'Pod'],
    findings: {
      unowned: { action: 'deny', seen: ['validate', 'files', 'audit'], doc: 'nobody owns it' },
      promised: { action: 'warn', seen: ['validate', 'files', 'audit'], doc: 'an owner is promised' },
    },
    options: z.object({}),
    *check(subject: Meta, { mesh }: CheckContext<object>) {
      yield PAUSE;
      const owner =
        subject.labels['owner'] ??
        mesh.get('Namespace', '', subject.namespace)?.labels['owner'] ??
        mesh.get('ConfigMap', subject.namespace, 'owner')?.name;
      const about = {
        key: 'owner',
        about: 'owner',
        effect: 'nobody owns it',
        fix: 'set the label owner',
        evidence: [],
      };
      if (owner === undefined) yield { finding: 'unowned' as const, ...about, ...(extra as object) };
      else if (owner === 'soon') yield { finding: 'promised' as const, ...about };
    },
    *affected(change, { after }) {
      if (change.ref.kind === 'Namespace') for (const service of after.list('Service', change.ref.name)) yield service;
      if (change.ref.kind === 'ConfigMap') yield* after.list('Service', change.ref.namespace);
    },
  }) as Policy;
}

const service = (name: string, labels: object = {}, more: object = {}) =>
  project('Service', 'shop', { metadata: { name, namespace: 'shop', labels, ...more }, spec: { ports: [] } });
const namespace = (labels: object = {}, more: object = {}) =>
  project('Namespace', '', { metadata: { name: 'shop', labels, ...more } });
const pod = (labels: object = {}) => project('Pod', 'shop', { metadata: { name: 'p', labels }, spec: {} });

async function ask(stored: readonly Meta[], change: { before?: Meta; after?: Meta }, more: Partial<Question> = {}) {
  const store = createStore({ complete: () => true });
  for (const object of stored) store.put(object);
  const ref = change.after ?? change.before;
  if (ref === undefined) throw new Error('a change has an object');
  const made: Change = { ref: { kind: ref.kind, namespace: ref.namespace, name: ref.name }, ...change };
  return difference({
    policies: [ownedServices()],
    settings: DEFAULT_SETTINGS,
    before: change.before === undefined ? store : overlay(store, [{ ref, after: change.before }]),
    after: overlay(store, [made]),
    changes: [made],
    stage: 'validate',
    now: Date.parse('2026-11-30T12:00:00Z'),
    ...more,
  });
}

const told = ({ findings }: Awaited<ReturnType<typeof ask>>) =>
  findings.map(f => `${f.subject.name} ${f.finding} ${f.action} ${f.standing}`);

test('a new object with a finding is refused', async () => {
  expect(told(await ask([namespace()], { after: service('a') }))).toEqual(['a unowned deny new']);
});

test('an update that leaves an old finding as it was is a warning', async () => {
  expect(
    told(await ask([namespace(), service('a')], { before: service('a'), after: service('a', { x: 'y' }) })),
  ).toEqual(['a unowned warn old']);
});

test('a change elsewhere reports what it makes worse, and only that', async () => {
  const stored = [namespace({ owner: 'me' }), service('a'), service('b', { owner: 'b' })];
  expect(told(await ask(stored, { before: namespace({ owner: 'me' }), after: namespace() }))).toEqual([
    'a unowned deny new',
  ]);
  expect(told(await ask([namespace(), service('a')], { before: namespace(), after: namespace({ x: 'y' }) }))).toEqual(
    [],
  );
});

test('a deletion warns, unless the settings say that it is refused', async () => {
  const owner = project('ConfigMap', 'shop', { metadata: { name: 'owner' } });
  const stored = [namespace(), owner, service('a')];
  const change = { before: owner };
  expect(told(await ask(stored, change))).toEqual(['a unowned warn new']);
  expect(told(await ask(stored, change, { settings: { ...DEFAULT_SETTINGS, onDelete: 'deny' } }))).toEqual([
    'a unowned deny new',
  ]);
});

test('what stands in a namespace that is deleted goes with it', async () => {
  expect(told(await ask([namespace({ owner: 'me' }), service('a')], { before: namespace({ owner: 'me' }) }))).toEqual(
    [],
  );
});

test('a promise in the place of what worked is a loss', async () => {
  const instead: Report = {
    finding: 'unowned',
    key: 'owner',
    effect: 'its owner left',
    fix: 'keep the owner',
    evidence: [],
  };
  const policy = ownedServices();
  const losing: Policy = {
    ...policy,
    check: function* (subject, context) {
      for (const report of policy.check(subject, context)) {
        yield report === PAUSE || report.finding !== 'promised'
          ? report
          : { ...report, lost: { instead, held: was => was.get('Namespace', '', 'shop')?.labels['owner'] === 'me' } };
      }
    },
  };
  const more = { policies: [losing] };
  const promised = { after: namespace({ owner: 'soon' }) };
  const stored = [namespace(), service('a')];
  expect(told(await ask(stored, { before: namespace({ owner: 'me' }), ...promised }, more))).toEqual([
    'a unowned deny new',
  ]);
  // nothing was held before
  expect(told(await ask(stored, { before: namespace(), ...promised }, more))).toEqual([]);
  expect(told(await ask([namespace({ owner: 'soon' })], { after: service('a') }, more))).toEqual([
    'a promised warn new',
  ]);
});

test('progress is not new: a weaker finding about the same reference takes the place of a stronger one', async () => {
  const better = await ask([namespace(), service('a')], { before: namespace(), after: namespace({ owner: 'soon' }) });
  expect(told(better)).toEqual([]);
  const worse = await ask([namespace({ owner: 'soon' }), service('a')], {
    before: namespace({ owner: 'soon' }),
    after: namespace(),
  });
  expect(told(worse)).toEqual(['a unowned deny new']);
});

test('terminating objects and namespaces are left alone', async () => {
  const gone = { deletionTimestamp: '2026-11-30T00:00:00Z' };
  expect(told(await ask([namespace()], { after: service('a', {}, gone) }))).toEqual([]);
  expect(told(await ask([namespace({}, gone)], { after: service('a') }))).toEqual([]);
});

test('what rests on a guess never denies', async () => {
  expect(
    told(await ask([namespace()], { after: service('a') }, { policies: [ownedServices({ certain: false })] })),
  ).toEqual(['a unowned warn new']);
});

test('a workload is never refused for a finding of another object', async () => {
  const policy = ownedServices();
  const podsMatter: Policy = {
    ...policy,
    *check(subject, context) {
      if (isOf(subject, 'Service') && [...context.mesh.workloads({ app: 'x' }, 'shop')].length > 0)
        yield* policy.check(subject, context);
    },
    affected: (_change, { after }) => after.list('Service'),
  };
  expect(
    told(await ask([namespace(), service('a')], { after: pod({ app: 'x' }) }, { policies: [podsMatter] })),
  ).toEqual(['a unowned warn new']);
});

test('settings: mode, ceilings, exact actions, namespaces, exemptions', async () => {
  const at = async (settings: Partial<Settings>) =>
    ask([namespace({ team: 't' })], { after: service('a') }, { settings: { ...DEFAULT_SETTINGS, ...settings } });
  expect(told(await at({ mode: 'audit' }))).toEqual(['a unowned warn new']);
  expect((await at({ mode: 'audit' })).findings.map(({ audited }) => audited)).toEqual([true]);
  expect((await at({ mode: 'enforce' })).findings.map(({ audited }) => audited)).toEqual([undefined]);
  expect(told(await at({ policies: { 'owned-services': { action: 'warn' } } }))).toEqual(['a unowned warn new']);
  expect(told(await at({ policies: { 'owned-services': { action: 'off' } } }))).toEqual([]);
  expect(told(await at({ policies: { 'owned-services': { action: 'off', findings: { unowned: 'log' } } } }))).toEqual([
    'a unowned log new',
  ]);
  const override = { policies: { 'owned-services': { action: 'log' as const } } };
  expect(told(await at({ namespaces: [{ names: ['shop'], ...override }] }))).toEqual(['a unowned log new']);
  expect(told(await at({ namespaces: [{ names: ['other'], ...override }] }))).toEqual(['a unowned deny new']);
  expect(
    told(await at({ namespaces: [{ selector: { matchLabels: { team: 't' }, matchExpressions: [] }, ...override }] })),
  ).toEqual(['a unowned log new']);
  const exemption = { policy: 'owned-services', name: 'a', owner: 'me', reason: 'moving', expires: '2026-11-30' };
  expect(told(await at({ exemptions: [exemption] }))).toEqual(['a unowned log new']);
  const late = await at({ exemptions: [{ ...exemption, expires: '2026-11-29' }] });
  expect(told(late)).toEqual(['a unowned deny new']);
  expect(late.expired.map(({ name }) => name)).toEqual(['a']);
});

test('the search ends at the deadline and says so', async () => {
  const stored = [namespace({ owner: 'me' }), ...Array.from({ length: 50 }, (_, index) => service(`s${index}`))];
  const change = { before: namespace({ owner: 'me' }), after: namespace() };
  const late = await ask(stored, change, { deadline: performance.now() - 1 });
  expect(late.unfinished).toBe(true);
  expect(late.findings).toEqual([]);
  const examples = await ask(stored, change);
  expect(examples.findings).toHaveLength(20);
  expect(examples.unfinished).toBe(true);
});

test('a finding that the table lacks is a defect of the policy, said aloud', async () => {
  const policy = ownedServices();
  const broken: Policy = {
    ...policy,
    findings: { unowned: policy.findings['unowned'] as never },
    *check() {
      yield { finding: 'nothing', key: '', effect: '', fix: '', evidence: [] };
    },
  };
  // a finding that is in no table is seen nowhere
  expect(told(await ask([namespace()], { after: service('a') }, { policies: [broken] }))).toEqual([]);
});

test('what only warns does not hide what denies, however much of it there is', async () => {
  const promised = Array.from({ length: 40 }, (_, index) => service(`a${index}`, { owner: 'soon' }));
  const before = namespace({ owner: 'me' });
  const stored = [before, ...promised, service('z')];
  const policy = ownedServices();
  // the warnings are news too: their owner was promised by this change
  const fresh: Policy = {
    ...policy,
    *check(subject, context) {
      if (context.mesh.get('Namespace', '', 'shop')?.labels['owner'] === undefined)
        yield* policy.check(subject, context);
    },
    affected: (change, context) => policy.affected(change, context),
  };
  const answer = await ask(stored, { before, after: namespace() }, { policies: [fresh] });
  expect(told(answer).filter(line => line.includes('deny'))).toEqual(['z unowned deny new']);
  expect(answer.unfinished).toBe(false);
});

test('a finding that was weaker before is new: a dry run that is enforced now, a guess that is known now', async () => {
  const certain = ownedServices();
  const guess = ownedServices({ certain: false });
  const policy: Policy = {
    ...certain,
    *check(subject, context) {
      yield* (subject.labels['dry'] === undefined ? certain : guess).check(subject, context);
    },
  };
  const policies = { policies: [policy] };
  expect(
    told(await ask([namespace()], { before: service('a', { dry: 'yes' }), after: service('a') }, policies)),
  ).toEqual(['a unowned deny new']);
  expect(told(await ask([namespace()], { before: service('a'), after: service('a', { x: 'y' }) }, policies))).toEqual([
    'a unowned warn old',
  ]);
});

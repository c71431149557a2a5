// The whole suite of denials in audit mode: all of it passes, with warnings.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NOT_HELD } from './cases-not-held.ts';
import { admissionCases, startTrial, type Trial } from './support/trial.ts';

let trial: Trial;
beforeAll(async () => {
  trial = await startTrial({ set: ['mode=audit'] });
});
afterAll(() => trial?.guard.stop());

const denials = admissionCases().filter(
  ({ policy, name, verdict }) => verdict === 'deny' && !Object.hasOwn(NOT_HELD, `${policy.id}/${name}`),
);

test.each(denials.map(one => ({ id: `${one.policy.id}/${one.name}`, one })))('$id is warned about', async ({ one }) => {
  const said = await trial.tried(one);
  // what was denied early, to explain what the API server would refuse without a reason, it refuses itself now
  expect(['warn', 'refused by the API server'], said.text).toContain(said.verdict);
  expect(said.text).toMatch(new RegExp(`^Warning: would be refused: .*\\[${one.policy.id}/[a-z0-9.-]+\\]$`, 'm'));
});

test('nothing was refused', async () => {
  const refused = [...(await trial.guard.figures()).keys()].filter(
    series => series.startsWith('waywarden_reviews_total') && series.includes('verdict="deny"'),
  );
  expect(refused).toEqual([]);
  console.log(`${denials.length} denials passed in audit mode, with warnings`);
});

// Every case of every policy that a real API server can hold: its state is made in a cluster, its input written with kubectl, and
// what kubectl prints must be what `review` says. Those that cannot be held are listed in cases-not-held.ts, each with its reason.
import { appendFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NOT_HELD } from './cases-not-held.ts';
import { admissionCases, startTrial, type Trial } from './support/trial.ts';

let trial: Trial;
beforeAll(async () => {
  trial = await startTrial();
});
afterAll(() => trial?.guard.stop());

/** CASES=a pattern of ids: only those. RECORD=file: a line of JSON for each, to look at. */
const { CASES: only, RECORD: recordFile } = process.env;
const cases = admissionCases().filter(
  ({ policy, name }) => only === undefined || new RegExp(only).test(`${policy.id}/${name}`),
);
const tally = { held: 0, not: 0 };

describe('the policies’ own cases, by kubectl', () => {
  test.each(cases.map(one => ({ id: `${one.policy.id}/${one.name}`, one })))('$id', async ({ id, one }) => {
    const said = await trial.tried(one);
    if (recordFile !== undefined)
      appendFileSync(recordFile, `${JSON.stringify({ id, expected: one.verdict, ...said })}\n`);
    const named = one.finding === undefined || one.verdict === 'allow' || said.text.includes(one.policy.id);
    if (Object.hasOwn(NOT_HELD, id)) {
      expect(said.verdict === one.verdict && named, `${id} is held: take it out of cases-not-held.ts`).toBe(false);
      tally.not += 1;
      return;
    }
    expect(said.verdict, said.text).toBe(one.verdict);
    expect(named, said.text).toBe(true);
    tally.held += 1;
  });

  test('none is forgotten', () => {
    const known = new Set(admissionCases().map(({ policy, name }) => `${policy.id}/${name}`));
    expect(Object.keys(NOT_HELD).filter(id => !known.has(id))).toEqual([]);
    expect(tally.held + tally.not).toBe(cases.length);
    console.log(
      `${tally.held} cases judged through kubectl as by review; ${tally.not} that a real API server cannot hold`,
    );
  });
});

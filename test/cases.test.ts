// Every policy is judged by its own cases, in every order; and its page says what its table says.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { policies } from '../policies/index.ts';
import { caseNames, faultsOf, judgeCase, orderFaults, POLICIES, readCase } from './support/cases.ts';

describe.each(policies.map(policy => ({ id: policy.id, policy })))('$id', ({ policy }) => {
  const names = caseNames(policy.id);

  test.each(names)('%s', async name => {
    const one = readCase(policy, name);
    const verdict = await judgeCase(one);
    expect([...faultsOf(one, verdict), ...(await orderFaults(one, verdict))]).toEqual([]);
  });

  test('every finding has a case that triggers it and a near miss', () => {
    const cases = names.map(name => readCase(policy, name));
    const ids = Object.keys(policy.findings);
    expect(ids.filter(id => !cases.some(({ finding }) => finding === id))).toEqual([]);
    expect(ids.filter(id => !cases.some(({ nearMissOf }) => nearMissOf.includes(id)))).toEqual([]);
  });

  test('its page has a section for each finding, and none for others', () => {
    const page = readFileSync(join(POLICIES, policy.id, 'README.md'), 'utf8');
    const headings = [...page.matchAll(/^(##?) (.+?)[ \t]*$/gm)].map(([, rank, text]) => `${rank} ${text}`);
    expect(headings[0]).toBe(`# ${policy.id}`);
    expect(headings.at(-1)).toBe('## Deliberately not reported');
    expect(headings.slice(1, -1).sort()).toEqual(
      Object.keys(policy.findings)
        .map(id => `## ${id}`)
        .sort(),
    );
    for (const section of page.split(/^##? .+$/m).slice(1)) expect(section.trim().length).toBeGreaterThan(40);
  });

  test('its table is in order', () => {
    expect(policy.id).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
    expect(policy.title).toMatch(/^[^\n]{10,160}$/);
    for (const [id, { doc, since, until, seen }] of Object.entries(policy.findings)) {
      expect(id).toMatch(/^[a-z0-9.]+(-[a-z0-9.]+)*$/);
      expect(doc, id).toMatch(/^[^\n]{10,200}$/);
      expect(seen.length, id).toBeGreaterThan(0);
      for (const release of [since, until]) if (release !== undefined) expect(release, id).toMatch(/^1\.\d+$/);
    }
    // without options every policy has a default for each
    expect(() => policy.options.parse({})).not.toThrow();
  });
});

test('no id stands twice', () => {
  const ids = policies.map(({ id }) => id);
  expect([...new Set(ids)]).toEqual(ids);
});

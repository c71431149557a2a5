// `npm run cases [POLICY…]`: the policies' own cases in every order, then the shared ones where they are there.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { policies } from '../policies/index.ts';
import { caseNames, faultsOf, judgeCase, orderFaults, readCase } from '../test/support/cases.ts';

const ROOT = new URL('..', import.meta.url).pathname;
const asked = process.argv.slice(2);

let cases = 0;
let wrong = 0;
for (const policy of policies) {
  if (asked.length > 0 && !asked.includes(policy.id)) continue;
  for (const name of caseNames(policy.id)) {
    cases += 1;
    let faults: readonly string[];
    try {
      const one = readCase(policy, name);
      const verdict = await judgeCase(one);
      faults = [...faultsOf(one, verdict), ...(await orderFaults(one, verdict))];
    } catch (error) {
      faults = [error instanceof Error ? (error.stack ?? error.message) : String(error)];
    }
    if (faults.length === 0) continue;
    wrong += 1;
    for (const fault of faults) console.log(`${policy.id}/${name}: ${fault}`);
  }
}
console.log(`${cases - wrong} of ${cases} cases of the policies are judged as they must be`);

const score = join(ROOT, '../shared/cases/score.mjs');
let shared = 0;
if (existsSync(score)) {
  const ids = asked.length > 0 ? asked : [...policies.map(({ id }) => id), 'other', 'any'];
  const command = `${process.execPath} ${join(ROOT, 'dist/main.js')}`;
  shared = spawnSync(process.execPath, [score, command, '--policies', ids.join(',')], { stdio: 'inherit' }).status ?? 1;
} else console.log('the shared cases are not here: skipped');
process.exitCode = wrong > 0 || shared !== 0 || cases === 0 ? 1 : 0;

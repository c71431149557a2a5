// Each example of a mistake gets the finding that its head says.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { policies } from '../policies/index.ts';
import { review } from '../src/admission/judge.ts';
import { requestFor } from '../src/admission/request.ts';
import { check } from '../src/cli/check.ts';
import { DEFAULT_CONFIG } from '../src/config/default.ts';
import { DEFAULT_SETTINGS } from '../src/engine/settings.ts';
import { readManifests, readMesh } from '../src/mesh/sources/files.ts';
import { NOTHING_DECLARED } from '../src/mesh/store.ts';

const EXAMPLES = join(import.meta.dirname, '../examples');
const MESH = join(EXAMPLES, 'mesh.yaml');
const MISTAKES = join(EXAMPLES, 'mistakes');

test.each(readdirSync(MISTAKES))('%s', async name => {
  const file = join(MISTAKES, name);
  const [, verdict, policy, finding] =
    /^# waywarden: (deny|warn) ([a-z0-9-]+)\/([a-z0-9-]+)$/m.exec(readFileSync(file, 'utf8')) ?? [];
  const mesh = readMesh([MESH], NOTHING_DECLARED);
  const [object] = readManifests([file]).objects;
  const request = requestFor(object?.object, {});
  if (request === undefined) throw new Error('no object');
  const answer = await review({ policies, settings: DEFAULT_SETTINGS, mesh }, request);
  expect({ verdict: answer.verdict, findings: answer.findings.map(one => `${one.policy}/${one.finding}`) }).toEqual({
    verdict,
    findings: [`${policy}/${finding}`],
  });
});

test('there is nothing to say against the example mesh itself', async () => {
  const { findings, notices, objects } = await check([MESH], [], DEFAULT_CONFIG);
  expect(objects).toBeGreaterThan(15);
  expect(findings.map(({ finding }) => `${finding.policy}/${finding.finding}`)).toEqual([]);
  expect(notices).toEqual([]);
});

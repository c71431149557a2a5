// Manifests as people and tools write them, and as nobody should: anchors and aliases, keys twice, bombs, broken text. Each is
// read, or refused with a place; nothing else is ever thrown, and nothing takes long.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { policies } from '../../policies/index.ts';
import { review } from '../../src/admission/judge.ts';
import { requestFor } from '../../src/admission/request.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { createFileMesh, InputError, type Manifests, manifestsOf } from '../../src/mesh/sources/files.ts';
import { corpus } from './corpus.ts';
import { mutated, mutatedText, mutation, textMutation, textOf } from './mutations.ts';

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 2000);
const SEED = Number(process.env['FUZZ_SEED'] ?? 20_261_101);
const { objects } = corpus();

/** Reads a text; undefined where it is refused as it should be. */
function read(file: string, text: string): Manifests | undefined {
  const started = process.cpuUsage();
  try {
    return manifestsOf(file, text);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    expect(error.message).toMatch(/^[^\n]*:\d+:\d+: [^\n]+$/);
    return undefined;
  } finally {
    // CPU time, for the machine may have other things to do; it grows with the text and no faster
    const { user, system } = process.cpuUsage(started);
    expect((user + system) / 1000).toBeLessThan(2000 + text.length * 0.03);
  }
}

/** Every object of a text is judged, and has a place in it. */
async function judged(file: string, text: string): Promise<void> {
  const manifests = read(file, text);
  const mesh = createFileMesh({ controlPlanes: [] });
  for (const manifest of manifests?.objects ?? []) {
    const { line, column } = manifest.position('/spec/rules/0');
    expect(line).toBeGreaterThan(0);
    expect(line).toBeLessThanOrEqual(text.split('\n').length);
    expect(column).toBeGreaterThan(0);
    const request = requestFor(manifest.object, {});
    if (request === undefined) continue;
    const verdict = await review({ policies, settings: DEFAULT_SETTINGS, mesh }, request, performance.now() + 2000);
    expect(verdict.failures ?? []).toEqual([]);
    mesh.put(manifest.projection);
  }
}

/** YAML lines that stand between others. */
const LINES = [
  'x: &a {k: v}',
  'y: *a',
  'z: *nowhere',
  '<<: *a',
  '<<: [*a, *a]',
  '  metadata: {name: twice, name: thrice}',
  'kind: Pod',
  'kind: &k Service',
  '? {complex: key}\n: value',
  '? [a, b]\n: value',
  '- item',
  '---',
  '...',
  '--- !!set {a, b}',
  '%YAML 1.1',
  '%TAG ! tag:example.test,2000:',
  'n: !!binary aGVsbG8=',
  'n: !!js/function >\n  function f() {}',
  'n: !unknown {a: b}',
  '\ttab: 1',
  'a: "unclosed',
  "b: 'unclosed",
  'c: |9\n  text',
  'd: >-\n\n\n   folded\n  text',
  'e: {{ .Values.image }}',
  '{{- if .Values.enabled }}',
  '__proto__: {polluted: true}',
  'constructor: {prototype: {polluted: true}}',
  'when: 2026-11-30',
  'big: 123456789012345678901234567890',
  'no: NO',
  '\ufeffapiVersion: v1',
  'a\u0000b: c',
  '# comment',
  '&self {self: *self}',
  `${'? '.repeat(300)}k`,
  `${'? - '.repeat(300)}k`,
];

test('mutated manifests, written as YAML, are read or refused with a place, and judged', async () => {
  const property = fc.asyncProperty(
    fc.nat(objects.length - 1),
    fc.array(mutation, { maxLength: 3 }),
    fc.array(fc.tuple(fc.nat(), fc.constantFrom(...LINES)), { maxLength: 3 }),
    fc.array(textMutation, { maxLength: 1 }),
    fc.boolean(),
    async (index, mutations, lines, changes, json) => {
      const object = mutations.reduce<unknown>((current, one) => mutated(current, one), objects[index]);
      // through JSON first: what is too deep for the writer stays JSON, which is YAML too
      const written = textOf(object);
      const flow = json || written.length > 20_000 || /[[{]{500}|(\{"a":){500}/.test(written);
      const rows = (flow ? written : stringify(JSON.parse(written), { aliasDuplicateObjects: true })).split('\n');
      for (const [at, line] of lines) rows.splice(at % (rows.length + 1), 0, line);
      await judged(json ? 'fuzz.json' : 'fuzz.yaml', changes.reduce(mutatedText, rows.join('\n')));
    },
  );
  await fc.assert(property, { numRuns: RUNS, seed: SEED, endOnFailure: false });
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
}, 300_000);

const HEAD = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb, namespace: shop}\ndata:\n';

test('a bomb of aliases is refused or read without its weight', async () => {
  const levels = Array.from({ length: 30 }, (_, level) =>
    level === 0
      ? '  a0: &a0 [x, x, x, x, x, x, x, x, x, x]'
      : `  a${level}: &a${level} [${`*a${level - 1}, `.repeat(10)}]`,
  );
  await judged('bomb.yaml', `${HEAD}${levels.join('\n')}\n`);
  await judged('self.yaml', `${HEAD}  self: &self {inner: *self}\n`);
});

test('depth and width are bounded by the text alone', async () => {
  for (const depth of [100, 5000, 100_000]) {
    await judged('deep.yaml', `${HEAD}  a: ${'['.repeat(depth)}${']'.repeat(depth)}\n`);
    await judged('deep.yaml', `${HEAD}  a: ${'{b: '.repeat(depth)}${'}'.repeat(depth)}\n`);
    await judged('open.yaml', `${HEAD}  a: ${'['.repeat(depth)}`);
    await judged('deep.json', `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`);
    const nested = Array.from({ length: Math.min(depth, 2000) }, (_, level) => `${' '.repeat(level)}a:`).join('\n');
    await judged('steps.yaml', nested);
  }
  await judged('wide.yaml', HEAD + Array.from({ length: 20_000 }, (_, index) => `  k${index}: v`).join('\n'));
  await judged('twice.yaml', HEAD + '  same: v\n'.repeat(5000));
  await judged('many.yaml', '---\n'.repeat(20_000));
}, 60_000);

import { expect, test } from 'vitest';
import { readYaml, yamlIn } from '../../src/kube/yaml.ts';

test('YAML is read as Go reads it', () => {
  expect(yamlIn('a: 1\nb: [x, "y"]\nc: {d: ~}\n')).toEqual({ value: { a: 1, b: ['x', 'y'], c: { d: null } } });
  expect(yamlIn('on: yes')?.value).toEqual({ true: true });
  expect(yamlIn('a: 1\na: 2')?.value).toEqual({ a: 2 });
  expect(yamlIn('base: &b {x: 1}\n<<: *b\n')?.value).toEqual({ base: { x: 1 }, x: 1 });
  expect(yamlIn('"just text"')).toEqual({ value: 'just text' });
  expect(yamlIn('')).toEqual({ value: null });
  expect(yamlIn('[017, 0o17, 0x1f, 0b11, 08, 1_0, 1e1, 1:30]')?.value).toEqual([15, 15, 31, 3, 8, 10, 10, '1:30']);
  expect(yamlIn('[y, off, 2026-01-01, 2026-01-01T00:00:00Z]')?.value).toEqual([
    true,
    false,
    '2026-01-01',
    '2026-01-01T00:00:00Z',
  ]);
  // of several documents the first is all there is, whatever the others are
  expect(yamlIn('a: 1\n---\na: [')).toEqual({ value: { a: 1 } });
});

test('what stands in braces may stand in any column', () => {
  const read = { value: { spec: { replicas: 2, args: ['x', 'z'] }, more: 1 } };
  expect(readYaml('spec: {\nreplicas: 2,\n   args: [\nx,\nz\n]\n}\nmore: 1\n')).toEqual(read);
  expect(readYaml('spec:\n  replicas: 2\n  args: [\n x,\nz]\nmore: 1\n')).toEqual(read);
  expect(readYaml('a: {\n---\nb: 1}')).toEqual({ error: expect.any(String) });
  expect(readYaml('a: {')).toEqual({ error: expect.any(String) });
  expect(readYaml('a: {b: 1\nc: 2')).toEqual({ error: expect.any(String) });
  expect(readYaml(`a: [\n${'x,\n'.repeat(50_000)}]`)).toEqual({ error: undefined });
});

test('a comment may follow a bracket, a comma or a quote at once', () => {
  expect(yamlIn('a: { b: 2 }#c\nd: "x"#y\ne: [1,#2\n]')).toEqual({ value: { a: { b: 2 }, d: 'x', e: [1] } });
  expect(yamlIn('a: {\n# b\nc: 3\n# d\n}')).toEqual({ value: { a: { c: 3 } } });
  expect(yamlIn('a: b#c')).toEqual({ value: { a: 'b#c' } });
});

test('keys that are null and numbers that are infinite are refused, texts like them are not', () => {
  for (const text of ['null: x', '~: x', '? \n: x', ': x', 'a: { null: null }', '- { ~: 1 }']) {
    expect(readYaml(text), text).toEqual({ error: 'a key is null' });
  }
  for (const number of ['.inf', '-.inf', '.nan', '.INF']) {
    expect(readYaml(`a: [${number}]`)).toEqual({ error: `${number} is no number of JSON` });
  }
  expect(readYaml('"null": x\n"": z\na: ".inf"\nb: 1e400\nc: null')).toEqual({
    value: { null: 'x', '': 'z', a: '.inf', b: '1e400', c: null },
  });
});

test('what is no YAML, and what JSON cannot say, is undefined', () => {
  for (const text of ['a: [', 'a: "x', '\tx: 1', '{a: b}: c', '? [a]\n: b', 'k: &k {x: 1}\n*k : v', 'a: *nowhere']) {
    expect(yamlIn(text), text).toBeUndefined();
  }
});

test('a mistake is named, and what is too much to read is none', () => {
  expect(readYaml('a:\n\tb: 1')).toEqual({ error: 'Tabs are not allowed as indentation' });
  expect(readYaml('{a: b}: c')).toEqual({ error: 'a key is a mapping or a list' });
  expect(readYaml('a: *nowhere')).toEqual({ error: expect.stringMatching(/^Unresolved alias .*nowhere$/) });
  expect(readYaml('a: { <<: text }')).toEqual({ error: expect.stringMatching(/^Merge sources/) });
  // istiod reads these
  expect(readYaml(`a: &a x\nb: [${'*a, '.repeat(150)}]`)).toEqual({ error: undefined });
  expect(readYaml(`# ${'x'.repeat(600_000)}\na: 1`)).toEqual({ error: undefined });
});

// each of them takes seconds to hours where it is parsed without care
const repeated = (unit: string, length: number) => unit.repeat(Math.floor(length / unit.length));
const HOSTILE: Readonly<Record<string, string>> = {
  'keys in keys': repeated('? ', 2000),
  'keys in lists in keys': repeated('? - ', 2000),
  'flow keys': `${'{? '.repeat(400)}${'}'.repeat(400)}`,
  quotes: repeated('"', 60_000),
  brackets: repeated('[', 60_000),
  'closing brackets': repeated(']', 60_000),
  'balanced brackets': `${'['.repeat(30_000)}${']'.repeat(30_000)}`,
  braces: repeated('{a: ', 60_000),
  dashes: repeated('- ', 60_000),
  anchors: repeated('a: &x y\n', 60_000),
  'a bomb of aliases': Array.from({ length: 30 }, (_, level) =>
    level === 0 ? 'a0: &a0 [x, x, x, x, x]' : `a${level}: &a${level} [${repeated(`*a${level - 1}, `, 60)}]`,
  ).join('\n'),
  'lines of a list in column 0': `a: [\n${repeated('x,\n', 60_000)}]`,
  megabytes: repeated('k: v\n', 3_000_000),
};

test.each(Object.entries(HOSTILE))('%s are refused or read in time', (_, text) => {
  // CPU time: the machine may have other things to do
  const started = process.cpuUsage();
  yamlIn(text);
  const { user, system } = process.cpuUsage(started);
  expect((user + system) / 1000).toBeLessThan(3000);
});

test('what is part of itself by an alias is a mistake, as it is to Go: whoever walks through it never ends', () => {
  for (const source of ['a: &a {b: *a}', '&a [*a]', 'a: &a {b: [{c: *a}]}']) {
    expect(readYaml(source), source).toEqual({ error: expect.any(String) });
  }
  expect(yamlIn('a: &a {b: 1}\nc: [*a, *a]')?.value).toEqual({ a: { b: 1 }, c: [{ b: 1 }, { b: 1 }] });
});

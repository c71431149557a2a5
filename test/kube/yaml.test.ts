import { expect, test } from 'vitest';
import { yamlIn } from '../../src/kube/yaml.ts';

test('YAML is read as Go reads it', () => {
  expect(yamlIn('a: 1\nb: [x, "y"]\nc: {d: ~}\n')).toEqual({ value: { a: 1, b: ['x', 'y'], c: { d: null } } });
  expect(yamlIn('on: yes')?.value).toEqual({ true: true });
  expect(yamlIn('a: 1\na: 2')?.value).toEqual({ a: 2 });
  expect(yamlIn('base: &b {x: 1}\n<<: *b\n')?.value).toEqual({ base: { x: 1 }, x: 1 });
  expect(yamlIn('"just text"')).toEqual({ value: 'just text' });
  expect(yamlIn('')).toEqual({ value: null });
});

test('what is no YAML, and what JSON cannot say, is undefined', () => {
  for (const text of ['a: [', 'a: "x', '\tx: 1', '{a: b}: c', '? [a]\n: b', 'k: &k {x: 1}\n*k : v', 'a: *nowhere']) {
    expect(yamlIn(text), text).toBeUndefined();
  }
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
  megabytes: repeated('k: v\n', 3_000_000),
};

test.each(Object.entries(HOSTILE))('%s are refused or read in time', (_, text) => {
  // CPU time: the machine may have other things to do
  const started = process.cpuUsage();
  yamlIn(text);
  const { user, system } = process.cpuUsage(started);
  expect((user + system) / 1000).toBeLessThan(3000);
});

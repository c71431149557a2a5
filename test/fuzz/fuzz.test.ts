import { expect, test } from 'vitest';
import { fuzz } from './reviews.ts';

// a hundred thousand of them: npm run fuzz
test('reviews of every shape are answered with a review or a 4xx, in time and within bounded memory', async () => {
  const seed = Number(process.env['FUZZ_SEED'] ?? 20_261_101);
  const result = await fuzz({ runs: Number(process.env['FUZZ_RUNS'] ?? 3000), seed });
  expect(result.overSockets).toBeGreaterThan(50);
  // all ways to answer were taken
  for (const answer of ['allow', 'warn', 'deny', 'WW_NOT_JSON', 'WW_NOT_A_REVIEW']) {
    expect(result.answers[answer] ?? 0, answer).toBeGreaterThan(0);
  }
  expect(result.slowest).toBeLessThan(4500);
  expect(result.heapGrowth).toBeLessThan(64 * 1024 * 1024);
}, 120_000);

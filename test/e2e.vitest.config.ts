import { defineConfig } from 'vitest/config';

// The end-to-end tests and the harness's own. Build what they run first: node test/harness/build.ts all
export default defineConfig({
  test: {
    globalSetup: ['test/e2e/support/build.ts'],
    include: ['test/harness/**/*.selftest.test.ts', 'test/e2e/**/*.test.ts'],
    // A process of its own for each file: the harness ends what it started when its process ends.
    pool: 'forks',
    // Each file runs an API server or two of its own; side by side they would only slow each other down.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 180_000,
    teardownTimeout: 30_000,
  },
});

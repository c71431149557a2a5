import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'policies/**/*.test.ts', 'test/**/*.test.ts'],
    // what runs a real API server or a real istiod has a command of its own
    exclude: ['test/e2e/**', 'test/harness/**', 'test/oracle/**', 'node_modules/**'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'forks',
  },
});

// Bundles the command line: `dist/main.js`, with a chunk for each command, so that none waits for what it does not use.
import { rmSync } from 'node:fs';
import { build } from 'esbuild';

const ROOT = new URL('..', import.meta.url).pathname;

rmSync(`${ROOT}dist`, { recursive: true, force: true });
await build({
  absWorkingDir: ROOT,
  entryPoints: ['src/main.ts'],
  outdir: 'dist',
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  // slow to load and only wanted where there is a cluster: stays where npm has put it
  external: ['@kubernetes/client-node'],
  // fastify and pino are CommonJS and ask for Node's own modules
  banner: {
    js: "import { createRequire as createRequire_ } from 'node:module'; const require = createRequire_(import.meta.url);",
  },
  minifySyntax: true,
  minifyWhitespace: true,
  keepNames: true,
  legalComments: 'none',
  logLevel: 'warning',
});

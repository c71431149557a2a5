// Bundles the command line: `dist/main.js`, with a chunk for each command, so that none waits for what it does not use.
import { existsSync, renameSync, rmSync } from 'node:fs';
import { build } from 'esbuild';

const ROOT = new URL('..', import.meta.url).pathname;

// beside the old one first, so that nobody who runs it meanwhile finds half of it
const NEW = `dist.new-${process.pid}`;
const OLD = `dist.old-${process.pid}`;
await build({
  absWorkingDir: ROOT,
  entryPoints: ['src/main.ts'],
  outdir: NEW,
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  // slow to load, and wanted only where there is a cluster, or a certificate to be made: they stay where npm has put them
  external: ['@kubernetes/client-node', 'selfsigned'],
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
if (existsSync(`${ROOT}dist`)) renameSync(`${ROOT}dist`, `${ROOT}${OLD}`);
renameSync(`${ROOT}${NEW}`, `${ROOT}dist`);
rmSync(`${ROOT}${OLD}`, { recursive: true, force: true });

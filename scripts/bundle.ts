// The command line in one piece: `main.js`, with a chunk for each command, so that none waits for what it does not use.
import { build } from 'esbuild';

export const ROOT = new URL('..', import.meta.url).pathname;

/** Bundles into a folder below the package's, from which its external packages are found. */
export async function bundle(folder: string): Promise<void> {
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['src/main.ts'],
    outdir: folder,
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
    legalComments: 'none',
    logLevel: 'warning',
  });
}

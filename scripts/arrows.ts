// Holds the arrows between the parts: cli → admission, report → engine → mesh → kube. Policies see the mesh, kube and what a policy
// is. Only the source of live clusters, and commands that need one, see the slow client for it. Part of `npm run lint`.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

const ROOT = new URL('..', import.meta.url).pathname;

/** What each part may import of others, beside itself. The longest prefix of a file's path decides. */
const MAY: Readonly<Record<string, readonly string[]>> = {
  'src/kube/': [],
  'src/mesh/': ['src/kube/'],
  'src/engine/': ['src/mesh/', 'src/kube/'],
  'src/config/': ['src/engine/', 'src/mesh/', 'src/kube/'],
  'src/telemetry/': ['src/engine/', 'src/mesh/', 'src/kube/'],
  'src/admission/': ['src/telemetry/', 'src/engine/', 'src/mesh/', 'src/kube/'],
  'src/report/': ['src/engine/', 'src/mesh/', 'src/kube/'],
  'src/cli/': [
    'policies/index.ts',
    'src/admission/',
    'src/config/',
    'src/engine/',
    'src/kube/',
    'src/mesh/',
    'src/report/',
    'src/telemetry/',
  ],
  'src/main.ts': ['src/cli/', 'src/kube/'],
  'policies/': ['src/mesh/', 'src/kube/', 'src/engine/policy.ts'],
  'policies/index.ts': ['src/engine/policy.ts', 'policies/'],
};

/** Packages that only some files may import. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  '@kubernetes/client-node': ['src/mesh/sources/', 'src/cli/'],
  fastify: ['src/admission/'],
  selfsigned: ['src/admission/'],
  pino: ['src/telemetry/'],
  'prom-client': ['src/telemetry/'],
};

/** Of the mesh, policies see the model and never where it comes from. */
const NEVER: Readonly<Record<string, readonly string[]>> = { 'policies/': ['src/mesh/sources/'] };

const IMPORT = /(?:^|\n)\s*(?:import|export)\s[^;]*?from\s+'([^']+)'|import\('([^']+)'\)|(?:^|\n)import\s+'([^']+)'/g;

function sources(folder: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map(file => join(folder, file));
}

function longest<T>(
  table: Readonly<Record<string, T>>,
  file: string,
): { readonly part: string; readonly value: T } | undefined {
  const part = Object.keys(table)
    .filter(prefix => file.startsWith(prefix))
    .sort((a, b) => b.length - a.length)[0];
  return part === undefined ? undefined : { part, value: table[part] as T };
}

function within(file: string, prefixes: readonly string[]): boolean {
  return prefixes.some(prefix => file.startsWith(prefix));
}

/** Policies are folders of their own: one knows nothing of another. */
function folderOf(file: string): string {
  return file.startsWith('policies/') && file !== 'policies/index.ts' ? file.split('/').slice(0, 2).join('/') : '';
}

let wrong = 0;
let imports = 0;
for (const file of [...sources('src'), ...sources('policies')]) {
  const rule = longest(MAY, file);
  const say = (what: string) => {
    wrong += 1;
    console.error(`${file}: may not import ${what}`);
  };
  for (const [, from, lazily, bare] of readFileSync(join(ROOT, file), 'utf8').matchAll(IMPORT)) {
    const target = from ?? lazily ?? bare ?? '';
    imports += 1;
    if (!target.startsWith('.')) {
      const name = target.startsWith('@') ? target.split('/').slice(0, 2).join('/') : (target.split('/')[0] ?? '');
      const allowed = PACKAGES[name];
      if (allowed !== undefined && !within(file, allowed)) say(`the package ${name}`);
      continue;
    }
    const path = normalize(join(dirname(file), target));
    const samePart = rule !== undefined && path.startsWith(rule.part) && folderOf(path) === folderOf(file);
    const never = Object.entries(NEVER).some(([part, targets]) => file.startsWith(part) && within(path, targets));
    if (rule === undefined || never || (!samePart && !within(path, rule.value))) say(path);
  }
}
console.log(`${imports} imports looked at, ${wrong} against the arrows`);
process.exitCode = wrong > 0 || imports === 0 ? 1 : 0;

// Tables in data (YAML) that stand beside the policy that reads them.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

/** The folder of a policy: found from the source (`src/kube/…`) and from the bundle (`dist/main.js`) alike. */
function policyFolder(policy: string): string {
  let here = dirname(fileURLToPath(import.meta.url));
  for (;;) {
    const folder = join(here, 'policies', policy);
    if (existsSync(join(folder, 'README.md'))) return folder;
    const above = dirname(here);
    if (above === here)
      throw new Error(`the folder of the policy ${policy} is not there: the installation is incomplete`);
    here = above;
  }
}

/** The content of `policies/POLICY/FILE` as JSON. Throws where the file is missing or is no YAML. */
export function tableOf(policy: string, file: string): unknown {
  return parse(readFileSync(join(policyFolder(policy), file), 'utf8')) as unknown;
}

/** A value that is made at the first call and kept: a table is read when somebody needs it, not at start. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

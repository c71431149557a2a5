import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the package, from the source (`src/cli/…`) and from the bundle (`dist/…`) alike. */
export function packageRoot(): string {
  let here = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(here, 'package.json')) && dirname(here) !== here) here = dirname(here);
  return here;
}

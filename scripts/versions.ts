// Makes policies/stale-api-version/versions.gen.ts of versions.yaml: `node scripts/versions.ts`.
import { readFileSync, writeFileSync } from 'node:fs';
import { readVersions } from '../policies/stale-api-version/schema.ts';

const folder = new URL('../policies/stale-api-version/', import.meta.url);
const table = readVersions(readFileSync(new URL('versions.yaml', folder), 'utf8'));
writeFileSync(
  new URL('versions.gen.ts', folder),
  [
    '// Made by scripts/versions.ts of versions.yaml, which is what to edit.',
    "import type { VersionTable } from './table.ts';",
    '',
    `export const VERSIONS: VersionTable = ${JSON.stringify(table, undefined, 2)};`,
    '',
  ].join('\n'),
);

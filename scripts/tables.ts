// Makes the .gen.ts of each policy's table in data: `node scripts/tables.ts`.
import { readFileSync, writeFileSync } from 'node:fs';
import { readSettings } from '../policies/control-plane-settings/schema.ts';
import { readLabels } from '../policies/mesh-labels/schema.ts';

function generate(
  folder: string,
  file: string,
  type: string,
  from: string,
  name: string,
  read: (source: string) => unknown,
) {
  const here = new URL(`../policies/${folder}/`, import.meta.url);
  const table = read(readFileSync(new URL(`${file}.yaml`, here), 'utf8'));
  const text = [
    `// Made by scripts/tables.ts of ${file}.yaml, which is what to edit.`,
    `import type { ${type} } from '${from}';`,
    '',
    `export const ${name}: ${type} = ${JSON.stringify(table, undefined, 2)};`,
    '',
  ].join('\n');
  writeFileSync(new URL(`${file}.gen.ts`, here), text);
}

generate('mesh-labels', 'labels', 'LabelTable', './keys.ts', 'LABELS', readLabels);
generate('control-plane-settings', 'settings', 'SettingTable', './table.ts', 'SETTINGS', readSettings);

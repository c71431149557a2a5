// Writes config.schema.json, which editors check waywarden.yaml with. A test holds the file to what this writes.
import { writeFileSync } from 'node:fs';
import { policies } from '../policies/index.ts';
import { configJsonSchema } from '../src/config/schema.ts';

const FILE = new URL('../config.schema.json', import.meta.url).pathname;
writeFileSync(FILE, `${JSON.stringify(configJsonSchema(policies), null, 2)}\n`);

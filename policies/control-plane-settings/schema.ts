// The shape of settings.yaml, and its loader. Scripts and tests alone use it: what runs imports settings.gen.ts, which is made of the
// file once, so that no start pays for reading and validating it.
import { parse } from 'yaml';
import * as z from 'zod';
import type { SettingTable } from './table.ts';

const release = z.string().regex(/^1\.\d+$/);
const variable = z.string().regex(/^[A-Z][A-Z0-9_]+$/);

const env = z.strictObject({
  name: variable,
  type: z.enum(['bool', 'text', 'number', 'duration']),
  default: z.enum(['true', 'false']).optional(),
  values: z.array(z.string()).optional(),
  spelled: z.array(variable).optional(),
  since: release.optional(),
  removed: release.optional(),
  instead: z.string().max(90).optional(),
  info: z.literal(true).optional(),
  source: z.string(),
});

const value = z.strictObject({
  key: z.string(),
  since: release.optional(),
  charts: z.partialRecord(
    z.enum(['base', 'istiod', 'cni', 'ztunnel', 'gateway']),
    z.enum(['global', 'top', 'any', 'none']),
  ),
  values: z.array(z.string()).optional(),
  otherwise: z.string().optional(),
  configMap: variable.optional(),
  defaults: z.array(z.strictObject({ from: release, value: z.string() })).optional(),
  effect: z.string().max(110).optional(),
  source: z.string(),
});

const table = z.strictObject({
  env: z.array(env),
  otherEnv: z.array(variable),
  values: z.array(value),
  meshConfig: z.strictObject({
    keys: z.array(z.string()),
    providers: z.array(z.strictObject({ name: z.string(), removed: release, instead: z.string(), source: z.string() })),
  }),
  hubs: z.array(z.strictObject({ hub: z.string(), last: release })),
});

/** The table as settings.yaml has it. Throws where the text is no such table, with every place that is wrong. */
export function readSettings(source: string): SettingTable {
  return table.parse(parse(source)) as SettingTable;
}

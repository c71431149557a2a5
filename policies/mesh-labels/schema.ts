// The shape of labels.yaml, and its loader. Scripts and tests alone use it: what runs imports labels.gen.ts, which is made of the
// file once, so that no start pays for reading and validating it.
import { parse } from 'yaml';
import * as z from 'zod';
import type { LabelTable } from './keys.ts';

const rowSchema = z
  .object({
    key: z.string(),
    kinds: z.array(z.string()).min(1),
    values: z.array(z.string()).optional(),
    bool: z.literal(true).optional(),
    strict: z.literal(true).optional(),
    /** Letter case does not matter. */
    fold: z.literal(true).optional(),
    mistaken: z.array(z.string()).optional(),
    foreign: z.array(z.string()).optional(),
    ignored: z.string().optional(),
    spelled: z.array(z.string()).optional(),
    /** The key that must stand beside it. */
    needs: z.string().optional(),
    /** A label that is read as an annotation too. */
    either: z.literal(true).optional(),
    /** Who writes it: no author should. */
    status: z.string().optional(),
    instead: z.string().optional(),
    since: z.string().optional(),
    until: z.string().optional(),
    /** Variables of its proxyMetadata that are no longer read. */
    metadata: z.array(z.strictObject({ name: z.string(), until: z.string(), instead: z.string() })).optional(),
    quiet: z.literal(true).optional(),
    source: z.string().optional(),
  })
  .strict();

const tableSchema = z
  .object({ labels: z.array(rowSchema), annotations: z.array(rowSchema), known: z.array(z.string()) })
  .strict();

/** The table as labels.yaml has it. Throws where the text is no such table, with every place that is wrong. */
export function readLabels(source: string): LabelTable {
  return tableSchema.parse(parse(source)) satisfies LabelTable;
}

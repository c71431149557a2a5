// The shape of versions.yaml, and its loader. Scripts and tests alone use it: what runs imports versions.gen.ts, which is made of
// the file once, so that no start pays for reading and validating it.
import { parse } from 'yaml';
import * as z from 'zod';
import type { VersionTable } from './table.ts';

const name = z.string().regex(/^v\d+((alpha|beta)\d+)?$/);
const groupKind = z.string().regex(/^[A-Za-z]+(\.[a-z0-9-]+)+$/);
const bundle = z.string().regex(/^v?\d+\.\d+(\.\d+)?$/);
const release = z.string().regex(/^1\.\d+$/);
const path = z.string().regex(/^(\/[A-Za-z]+)+$/);

const rewriteStep = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('nest'), path, under: z.string() }),
  z.strictObject({ op: z.literal('list'), from: path, to: path, as: z.string().optional() }),
  z.strictObject({
    op: z.literal('move'),
    from: path,
    to: path,
    scalar: z.literal(true).optional(),
    note: z.string().optional(),
  }),
  z.strictObject({
    op: z.literal('default'),
    path,
    value: z.number(),
    unlessOther: z.strictObject({ path, than: z.array(z.string()) }),
  }),
  z.strictObject({ op: z.literal('drop'), path, note: z.string().optional() }),
]);

const kind = z.strictObject({
  kind: groupKind,
  plural: z.string().regex(/^[a-z]+$/),
  product: z.enum(['istio', 'gateway-api', 'inference-extension']),
  unread: z.string().max(60),
  reads: z
    .array(z.strictObject({ version: name, from: release.optional(), until: release.optional() }))
    .min(1)
    .optional(),
  neverRead: z.literal(true).optional(),
  obsoleteSince: release.optional(),
  successor: z.strictObject({ kind: groupKind, version: name, bundle }).optional(),
  hint: z.string().max(90).optional(),
  versions: z
    .array(
      z.strictObject({
        name,
        early: z.literal(true).optional(),
        hint: z.string().max(90).optional(),
        served: z
          .array(
            z.strictObject({ channel: z.enum(['standard', 'experimental']), from: bundle, until: bundle.optional() }),
          )
          .min(1),
      }),
    )
    .min(1),
  rewrite: z.array(rewriteStep).optional(),
});

const table = z.strictObject({
  kinds: z.array(kind),
  removed: z.array(
    z.strictObject({
      group: z.string(),
      last: z.string(),
      instead: z.string().max(90),
      kinds: z.array(z.string()).min(1),
    }),
  ),
});

/** The table as versions.yaml has it. Throws where the text is no such table, with every place that is wrong. */
export function readVersions(source: string): VersionTable {
  return table.parse(parse(source)) satisfies VersionTable;
}

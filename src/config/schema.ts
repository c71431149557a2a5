// The shape of waywarden.yaml. Made from the policies that there are, so that an id which none of them has is a mistake.
import * as z from 'zod';
import type { Policy } from '../engine/policy.ts';
import { parseRelease } from '../mesh/releases.ts';

const action = z.enum(['deny', 'warn', 'log', 'off']).meta({ id: 'action' });
const stringMap = z.record(z.string(), z.string());

const selector = z
  .strictObject({
    matchLabels: stringMap.optional(),
    matchExpressions: z
      .array(
        z.strictObject({
          key: z.string(),
          operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
          values: z.array(z.string()).optional(),
        }),
      )
      .optional(),
  })
  .describe('A label selector, as Kubernetes has it.');

/** Options are strict too, where they are an object as almost everywhere. */
function strictly(options: z.ZodType): z.ZodType {
  return options instanceof z.ZodObject ? options.strict() : options;
}

function policySettings(policy: Policy) {
  const findings = Object.entries(policy.findings).map(
    ([id, spec]) => [id, action.optional().describe(`${spec.doc} (default: ${spec.action})`)] as const,
  );
  return z
    .strictObject({
      action: action
        .optional()
        .describe(
          'A ceiling for all findings of the policy: `warn` turns its denials into warnings, `off` silences it.',
        ),
      findings: z
        .strictObject(Object.fromEntries(findings))
        .optional()
        .describe('Exactly this action for a finding, milder or stricter than its default.'),
      options: strictly(policy.options).optional(),
    })
    .optional()
    .describe(policy.title);
}

/** A day as YYYY-MM-DD, and one that there is: `Date.parse` takes February 31 for March 3. */
function isDay(value: string): boolean {
  const time = /^\d{4}-\d{2}-\d{2}$/.test(value) ? Date.parse(value) : Number.NaN;
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(value);
}

/** The schema of waywarden.yaml, for these policies. */
export function configSchema(policies: readonly Policy[]) {
  const ids = policies.map(policy => policy.id);
  const byPolicy = z
    .strictObject(Object.fromEntries(policies.map(policy => [policy.id, policySettings(policy)])))
    .meta({ id: 'policies' });
  const policyId = ids.length === 0 ? z.string() : z.enum(ids as [string, ...string[]]);
  return z
    .strictObject({
      mode: z
        .enum(['enforce', 'audit'])
        .optional()
        .describe('`audit` never denies: every denial becomes a warning. Default: enforce.'),
      onTimeout: z
        .enum(['allow', 'deny'])
        .optional()
        .describe('What a verdict that could not be reached in time comes to. Default: allow, with a warning.'),
      onDelete: z
        .enum(['warn', 'deny'])
        .optional()
        .describe('What a DELETE that takes an enforcement away comes to. Default: warn.'),
      redact: z
        .boolean()
        .optional()
        .describe(
          'Leaves names of objects in other namespaces than that of the subject out of messages. Default: false.',
        ),
      unguarded: z
        .array(z.string())
        .optional()
        .describe('Namespaces whose objects are never judged, beside kube-system and that of the guard itself.'),
      breakGlassGroups: z
        .array(z.string().min(1))
        .optional()
        .describe(
          'Groups that the webhook configuration lets pass, to name the one of a member in the log. The chart writes it from admission.breakGlassGroups.',
        ),
      policies: byPolicy.optional().describe('What becomes of findings, by policy.'),
      namespaces: z
        .array(
          z
            .strictObject({
              names: z.array(z.string()).min(1).optional(),
              selector: selector.optional(),
              policies: byPolicy,
            })
            .refine(({ names, selector: labels }) => names !== undefined || labels !== undefined, {
              error: 'needs names, a selector or both, or it would hold everywhere',
            }),
        )
        .optional()
        .describe('Other settings for some namespaces. The first entry that fits holds.'),
      exemptions: z
        .array(
          z.strictObject({
            policy: policyId,
            finding: z.string().optional().describe('Every finding of the policy where none is given.'),
            kind: z.string().optional().describe('Kind with its group, such as Pod or Deployment.apps.'),
            namespace: z.string().optional(),
            name: z.string().optional(),
            owner: z.string().min(1).describe('Who answers for it.'),
            reason: z.string().min(1),
            expires: z
              .string()
              .refine(isDay, { error: 'must be a day such as 2027-03-31' })
              .describe('The last day (UTC, YYYY-MM-DD) that it holds. An expired one is reported.'),
          }),
        )
        .optional()
        .describe('Findings that somebody has decided to live with for a while.'),
      controlPlanes: z
        .array(
          z.strictObject({
            revision: z.string().min(1).optional().describe('Default: default.'),
            version: z
              .string()
              .refine(version => parseRelease(version) !== undefined, { error: 'must be a release such as 1.31' })
              .optional()
              .describe('Release of Istio, such as 1.31.1. Unknown where none is given.'),
            rootNamespace: z.string().min(1).optional().describe('Default: istio-system.'),
            tags: z.array(z.string()).optional().describe('Revision tags that point to it.'),
            env: stringMap.optional().describe('Environment of istiod.'),
            meshConfig: z.record(z.string(), z.unknown()).optional().describe('MeshConfig, as in the istio ConfigMap.'),
          }),
        )
        .optional()
        .describe('Control planes outside of the cluster: external, managed, multi-primary.'),
      rootNamespace: z
        .string()
        .min(1)
        .optional()
        .describe('Root namespace of Istio where no istiod tells it. Default: istio-system.'),
    })
    .describe('Configuration of Waywarden: waywarden.yaml');
}

/** What waywarden.yaml holds. */
export type ConfigFile = z.infer<ReturnType<typeof configSchema>>;

/** The JSON Schema of waywarden.yaml, for editors. What stands in it twice is in its `$defs`. */
export function configJsonSchema(policies: readonly Policy[]): Readonly<Record<string, unknown>> {
  return z.toJSONSchema(configSchema(policies), { io: 'input', unrepresentable: 'any' });
}

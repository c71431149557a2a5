// waywarden.yaml, from the file to what the engine and the Mesh take from it.
import type * as z from 'zod';
import type { Policy } from '../engine/policy.ts';
import { DEFAULT_SETTINGS, type PolicySettings, type Settings } from '../engine/settings.ts';
import { at, type JsonObject, record, text } from '../kube/json.ts';
import { labelSelector } from '../kube/labels.ts';
import { didYouMean } from '../kube/near.ts';
import { pointer } from '../kube/patch.ts';
import type { Declared } from '../mesh/mesh.ts';
import { InputError, place, readValues } from '../mesh/sources/files.ts';
import type { Config } from './default.ts';
import { type ConfigFile, configJsonSchema, configSchema } from './schema.ts';

/** A mistake in a configuration, and the path to it. */
export interface Mistake {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

type Outcome = { readonly config: Config } | { readonly mistakes: readonly Mistake[] };

/** A part of the JSON Schema, found where it only refers to one of its `$defs`. */
function dereferenced(schema: JsonObject, part: unknown): JsonObject | undefined {
  const found = record(part);
  const name = text(found?.['$ref'])?.replace('#/$defs/', '');
  return name === undefined ? found : record(at(schema, '$defs', name));
}

/** The keys that the schema has at a path. */
function keysAt(schema: JsonObject, path: readonly (string | number)[]): readonly string[] {
  let current: JsonObject | undefined = schema;
  for (const part of path) {
    current = dereferenced(
      schema,
      typeof part === 'number' ? current?.['items'] : record(current?.['properties'])?.[part],
    );
  }
  return Object.keys(record(current?.['properties']) ?? {});
}

function mistakesOf(error: z.ZodError, policies: readonly Policy[]): readonly Mistake[] {
  const schema = configJsonSchema(policies);
  return error.issues.flatMap((issue): readonly Mistake[] => {
    const path = issue.path.filter(part => typeof part !== 'symbol');
    if (issue.code === 'unrecognized_keys') {
      const known = keysAt(schema, path);
      return issue.keys.map(key => ({
        path: [...path, key],
        message: `there is no ${kindOfKey(path)} "${key}"${didYouMean(key, known)}`,
      }));
    }
    if (issue.code === 'invalid_value') {
      const choices = issue.values.map(String);
      const given = typeof issue.input === 'string' ? issue.input : '';
      const listed = choices.length > 8 ? `${choices.slice(0, 8).join(', ')}, …` : choices.join(', ');
      return [{ path, message: `${named(path)} is one of ${listed}${didYouMean(given, choices)}` }];
    }
    if (issue.code === 'invalid_type' && issue.input === undefined)
      return [{ path, message: `${named(path)} is missing` }];
    if (issue.code === 'too_small') return [{ path, message: `${named(path)} must not be empty` }];
    const [message = ''] = issue.message.split(', received');
    return [{ path, message: `${named(path)}: ${message.replace(/^Invalid input: /, '')}` }];
  });
}

/** A path as one would write it: `exemptions[0].reason`. */
function named(path: readonly (string | number)[]): string {
  const written = path.map(part => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
  return written === '' ? 'the configuration' : written.replace(/^\./, '');
}

function kindOfKey(path: readonly (string | number)[]): string {
  if (path.at(-1) === 'policies') return 'policy';
  return path.at(-1) === 'findings' ? 'finding' : 'setting';
}

function exemptionMistakes({ exemptions }: ConfigFile, policies: readonly Policy[]): readonly Mistake[] {
  return (exemptions ?? []).flatMap(({ policy, finding }, index) => {
    const known = Object.keys(policies.find(({ id }) => id === policy)?.findings ?? {});
    return finding === undefined || known.includes(finding)
      ? []
      : [
          {
            path: ['exemptions', index, 'finding'],
            message: `the policy ${policy} has no finding "${finding}"${didYouMean(finding, known)}`,
          },
        ];
  });
}

type Policies = Readonly<Record<string, PolicySettings>>;

/** The configuration that a parsed waywarden.yaml is, or all of its mistakes. An empty file is the default. */
export function configOf(value: unknown, policies: readonly Policy[]): Outcome {
  const parsed = configSchema(policies).safeParse(value ?? {}, { reportInput: true });
  if (!parsed.success) return { mistakes: mistakesOf(parsed.error, policies) };
  const file = parsed.data;
  const mistakes = exemptionMistakes(file, policies);
  if (mistakes.length > 0) return { mistakes };
  // policies' options are kept as written: the engine parses them, with their defaults
  const asWritten = record(value) as ConfigFile | undefined;
  const settings: Settings = Object.freeze({
    mode: file.mode ?? DEFAULT_SETTINGS.mode,
    policies: (asWritten?.policies ?? {}) as Policies,
    namespaces: (asWritten?.namespaces ?? []).map(entry => {
      const selector = labelSelector(entry.selector);
      return {
        ...(entry.names === undefined ? {} : { names: entry.names }),
        ...(selector === undefined ? {} : { selector }),
        policies: entry.policies as Policies,
      };
    }),
    exemptions: file.exemptions ?? [],
    redact: file.redact ?? DEFAULT_SETTINGS.redact,
    onTimeout: file.onTimeout ?? DEFAULT_SETTINGS.onTimeout,
    onDelete: file.onDelete ?? DEFAULT_SETTINGS.onDelete,
    unguarded: [...new Set([...DEFAULT_SETTINGS.unguarded, ...(file.unguarded ?? [])])],
  });
  const declared: Declared = {
    controlPlanes: (file.controlPlanes ?? []).map(plane => ({
      revision: plane.revision ?? 'default',
      ...(plane.version === undefined ? {} : { version: plane.version }),
      rootNamespace: plane.rootNamespace ?? 'istio-system',
      tags: plane.tags ?? [],
      env: plane.env ?? {},
      ...(plane.meshConfig === undefined ? {} : { meshConfig: plane.meshConfig }),
    })),
    ...(file.rootNamespace === undefined ? {} : { rootNamespace: file.rootNamespace }),
  };
  return { config: { settings, declared, breakGlassGroups: file.breakGlassGroups ?? [] } };
}

/** Reads waywarden.yaml. Throws {@link InputError} with a line for each mistake, each with its place. */
export function loadConfig(file: string, policies: readonly Policy[]): Config {
  const [first, second] = readValues(file);
  if (second !== undefined) {
    throw new InputError(`${place(second.position())}: a configuration is one document, and here begins another`);
  }
  const outcome = configOf(first?.value, policies);
  if ('config' in outcome) return outcome.config;
  const located = outcome.mistakes
    .map(({ path, message }) => ({
      message,
      position: first?.position(pointer(...path)) ?? { file, line: 1, column: 1 },
    }))
    .sort((a, b) => a.position.line - b.position.line || a.position.column - b.position.column);
  throw new InputError(located.map(({ position, message }) => `${place(position)}: ${message}`).join('\n'));
}

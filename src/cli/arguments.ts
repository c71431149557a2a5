// Options of a command, with errors that a person understands.
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { didYouMean } from '../kube/near.ts';

/** A command that was called wrongly: one line, exit status 2. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}

/** What a command was called with. */
export interface Call {
  readonly positionals: readonly string[];
  /** The last value of an option; undefined where it was not given. */
  text(name: string): string | undefined;
  texts(name: string): readonly string[];
  flag(name: string): boolean;
  /** The value of an option that takes one of a few. */
  choice<T extends string>(name: string, choices: readonly T[], otherwise: T): T;
}

/** Reads the words behind a command. Undefined where help was asked for; throws {@link UsageError}. */
export function callOf(command: string, words: readonly string[], options: ParseArgsOptionsConfig): Call | undefined {
  const known: ParseArgsOptionsConfig = { ...options, help: { type: 'boolean', short: 'h' } };
  const hint = `see waywarden ${command} --help`;
  const { tokens } = parseArgs({
    args: [...words],
    options: known,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const positionals: string[] = [];
  const values = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const option = Object.hasOwn(known, token.name) ? known[token.name] : undefined;
    if (option === undefined) {
      const names = Object.keys(known).map(name => `--${name}`);
      throw new UsageError(`there is no option ${token.rawName}${didYouMean(token.rawName, names)}; ${hint}`);
    }
    if (option.type === 'string' && (token.value === undefined || token.value === '')) {
      throw new UsageError(`${token.rawName} needs a value; ${hint}`);
    }
    // parseArgs takes the next word whatever it is, also where a value was forgotten before another option
    if (option.type === 'string' && token.inlineValue === false && token.value?.startsWith('--') === true) {
      throw new UsageError(`${token.rawName} needs a value, and ${token.value} is an option; ${hint}`);
    }
    if (option.type === 'boolean' && token.value !== undefined) {
      throw new UsageError(`${token.rawName} takes no value; ${hint}`);
    }
    values.set(token.name, [...(values.get(token.name) ?? []), token.value ?? 'true']);
  }
  if (values.has('help')) return undefined;
  const text = (name: string) => values.get(name)?.at(-1);
  return {
    positionals,
    text,
    texts: name => values.get(name) ?? [],
    flag: name => values.has(name),
    choice<T extends string>(name: string, choices: readonly T[], otherwise: T): T {
      const value = text(name);
      if (value === undefined) return otherwise;
      const found = choices.find(choice => choice === value);
      if (found !== undefined) return found;
      throw new UsageError(
        `--${name} is one of ${choices.join(', ')}, not "${value}"${didYouMean(value, choices)}; ${hint}`,
      );
    },
  };
}

// `waywarden policies`: the table of all policies and their findings.
import { policies } from '../../policies/index.ts';
import { callOf, UsageError } from './arguments.ts';
import { type Paint, paintFor, print } from './terminal.ts';

const HELP = `waywarden policies: every policy and its findings

Usage: waywarden policies [--output text|json]

Each finding with what it leads to unless waywarden.yaml says otherwise: deny (the request is refused), warn (it is let
in with a warning), log or off.

Examples:
  waywarden policies
  waywarden policies --output json | jq -r '.[].findings | to_entries[] | select(.value.action == "deny").key'
  waywarden explain POLICY        the page of one of them
`;

const STYLE = { deny: 'red', warn: 'yellow', log: 'dim', off: 'dim' } as const;

function table(paint: Paint): string {
  const blocks = [...policies]
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .map(policy => {
      const width = Math.max(...Object.keys(policy.findings).map(id => id.length));
      const rows = Object.entries(policy.findings).map(([id, { action, since, until, doc }]) => {
        const releases = [
          ...(since === undefined ? [] : [`since ${since}`]),
          ...(until === undefined ? [] : [`until ${until}`]),
        ];
        const suffix = releases.length === 0 ? '' : ` (Istio ${releases.join(', ')})`;
        return `  ${id.padEnd(width)}  ${paint(STYLE[action], action.padEnd(4))}  ${doc}${suffix}`;
      });
      return `${paint('bold', policy.id)}: ${policy.title}\n${rows.join('\n')}\n`;
    });
  return blocks.join('\n');
}

function json(): string {
  const rows = policies.map(({ id, title, subjects, findings }) => ({ id, title, subjects, findings }));
  return `${JSON.stringify(rows, null, 2)}\n`;
}

/** Runs the command; resolves with the exit status. */
export async function run(words: readonly string[]): Promise<number> {
  const call = callOf('policies', words, { output: { type: 'string' } });
  if (call === undefined) {
    await print(HELP);
    return 0;
  }
  if (call.positionals.length > 0)
    throw new UsageError('policies takes no arguments; the page of one: waywarden explain ID');
  const output = call.choice('output', ['text', 'json'], 'text');
  await print(output === 'json' ? json() : table(paintFor(process.stdout)));
  return 0;
}

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';

export interface Running {
  name: string;
  pid: number;
  /** The file that stdout and stderr go to. */
  log: string;
  /** Resolves with how it ended: an exit code or the name of a signal. */
  exited: Promise<number | string>;
  alive(): boolean;
  signal(signal: NodeJS.Signals): void;
  /** Sends the signal and waits for the end; SIGKILL follows after `grace` milliseconds. */
  stop(signal?: NodeJS.Signals, grace?: number): Promise<number | string>;
}

// A test runner may kill its workers with SIGKILL, and then no handler of ours runs. So a shell in a session of its own
// holds the other end of a pipe: when it reads the end of the pipe, this process is gone, and it cleans up.
const reaperScript = `
trap '' INT TERM HUP
while read -r what value; do
  case $what in
    pid) pids="$pids $value " ;;
    end) pids=$(printf '%s' "$pids" | sed "s/ $value / /") ;;
    folder) folders="$folders $value" ;;
  esac
done
[ -n "\${pids# }" ] && kill -9 $pids 2>/dev/null
[ -n "$folders" ] && sleep 0.2 && rm -rf -- $folders
`;
let reaper: ChildProcess | undefined;

function tellReaper(line: string): void {
  if (!reaper) {
    reaper = spawn('/bin/sh', ['-c', reaperScript], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    reaper.unref();
    // A pipe keeps the event loop alive as long as it is referenced; its type does not know that it is a socket.
    if (reaper.stdin && 'unref' in reaper.stdin && typeof reaper.stdin.unref === 'function') reaper.stdin.unref();
    reaper.stdin?.on('error', () => {});
  }
  reaper.stdin?.write(`${line}\n`);
}

const running = new Set<number>();
const folders = new Set<string>();

function cleanUp(): void {
  for (const pid of running) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself a moment ago.
    }
  }
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
process.on('exit', cleanUp);

// 'exit' does not come with a signal: end through it, unless somebody else has a handler and decides.
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  process.on(signal, () => {
    if (process.listenerCount(signal) === 1) process.exit(code);
  });
}

/** The folder goes when this process ends, however it ends. */
export function removeAtExit(folder: string): void {
  folders.add(folder);
  tellReaper(`folder ${folder}`);
}

/** The folder goes now. */
export function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  folders.delete(folder);
}

/** Starts a program that ends with this process at the latest; what it prints goes to the file `log`. */
export function start(
  name: string,
  command: string,
  args: string[],
  { log, cwd, env = process.env }: { log: string; cwd?: string; env?: NodeJS.ProcessEnv },
): Running {
  const out = openSync(log, 'a');
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', out, out] });
  closeSync(out);
  const pid = child.pid ?? 0;
  if (pid) {
    running.add(pid);
    tellReaper(`pid ${pid}`);
  }
  const exited = new Promise<number | string>(resolve => {
    child.once('error', error => resolve(error.message));
    child.once('exit', (code, signal) => {
      running.delete(pid);
      tellReaper(`end ${pid}`);
      resolve(code ?? signal ?? 'unknown');
    });
  });
  child.unref();
  const alive = () => pid > 0 && child.exitCode === null && child.signalCode === null;
  const signal = (which: NodeJS.Signals) => {
    if (alive()) child.kill(which);
  };
  return {
    name,
    pid,
    log,
    exited,
    alive,
    signal,
    async stop(which = 'SIGTERM', grace = 10_000) {
      signal(which);
      const timer = setTimeout(() => signal('SIGKILL'), grace);
      const end = await exited;
      clearTimeout(timer);
      return end;
    },
  };
}

/** The last lines of what a program printed, for error messages. */
export function tail(log: string, lines = 20): string {
  try {
    return readFileSync(log, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '(no log)';
  }
}

export interface Output {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program to its end. `onLine` sees each line of stderr as it comes. */
export async function run(
  command: string,
  args: string[],
  {
    input,
    cwd,
    env = process.env,
    timeout,
    onLine,
  }: { input?: string; cwd?: string; env?: NodeJS.ProcessEnv; timeout?: number; onLine?: (line: string) => void } = {},
): Promise<Output> {
  const child = spawn(command, args, { cwd, env, timeout, stdio: ['pipe', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  let partial = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    stdout += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    stderr += chunk;
    if (!onLine) return;
    const lines = (partial + chunk).split('\n');
    partial = lines.pop() ?? '';
    for (const line of lines) onLine(line);
  });
  child.stdin.on('error', () => {}); // a program may end without having read all
  child.stdin.end(input ?? '');
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return { code: code ?? 1, stdout, stderr: signal ? `${stderr}ended by ${signal}\n` : stderr };
}

/** Like `run`, but anything other than exit code 0 is an error that shows what was printed. */
export async function runOrThrow(...[command, args, options]: Parameters<typeof run>): Promise<Output> {
  const output = await run(command, args, options);
  if (output.code !== 0) {
    const last = `${output.stdout}\n${output.stderr}`.trim().split('\n').slice(-30).join('\n');
    throw new Error(`${command} ${args.join(' ')} ended with ${output.code}:\n${last}`);
  }
  return output;
}

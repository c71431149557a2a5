import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './ports.ts';
import { type Running, remove, removeAtExit, start, tail } from './process.ts';
import { until } from './wait.ts';

const root = join(import.meta.dirname, '..', '..');

export interface ServePorts {
  /** Where it serves admission reviews, over TLS. */
  https: number;
  /** Where it serves /healthz, /readyz and /metrics, without TLS. */
  health: number;
}

export interface ServeOptions {
  /** What stands after `waywarden`: `ports => ['serve', '--port', String(ports.https), …]`. */
  args: (ports: ServePorts) => string[];
  /** Set in the environment, beside PATH; nothing else of ours is passed on. */
  env?: Record<string, string>;
  /** Whose rights it has: `cluster.kubeconfigFor('waywarden', 'waywarden')`. */
  kubeconfig?: string;
  /** Whether it is ready; the default asks for /readyz. */
  isReady?: (serving: Pick<Serving, 'ports'>) => Promise<boolean>;
  /** How long it may take to be ready; 0 does not wait. */
  timeout?: number;
  /** The script that is run, for tests of the harness itself. */
  program?: string;
}

export interface Serving {
  ports: ServePorts;
  pid: number;
  exited: Promise<number | string>;
  alive(): boolean;
  /** Asks its plain-HTTP port: status and text, or status 0 where nobody answers. */
  ask(path: string): Promise<{ status: number; text: string }>;
  /** Everything it printed. */
  output(): string;
  /** Its log, line by line, of those that are JSON. */
  logLines(): Record<string, unknown>[];
  /** Resident memory in bytes, where the machine has /proc. */
  memory(): number;
  kill(signal?: NodeJS.Signals): void;
  /** Sends the signal and waits for the end; gives the exit code, or the name of a signal. */
  stop(signal?: NodeJS.Signals): Promise<number | string>;
}

async function ask(port: number, path: string): Promise<{ status: number; text: string }> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(5_000) });
    return { status: response.status, text: await response.text() };
  } catch (error) {
    return { status: 0, text: String(error) };
  }
}

function jsonLines(text: string): Record<string, unknown>[] {
  return text.split('\n').flatMap(line => {
    if (!line.startsWith('{')) return [];
    try {
      return [JSON.parse(line) as Record<string, unknown>];
    } catch {
      return []; // a line that is being written
    }
  });
}

/** The `VmRSS` line of /proc/PID/status, which is in kB. */
function residentMemory(running: Running): number {
  const status = readFileSync(`/proc/${running.pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024;
}

/** Runs the built `waywarden` as its own process, in a folder of its own, and waits until it is ready. */
export async function startServe(options: ServeOptions): Promise<Serving> {
  const { args, env = {}, kubeconfig, timeout = 30_000, program = join(root, 'dist', 'main.js') } = options;
  const ports = { https: await freePort(), health: await freePort() };
  const dir = mkdtempSync(join(tmpdir(), 'waywarden-serve-'));
  removeAtExit(dir);
  const log = join(dir, 'serve.log');
  const running = start('waywarden', join(root, 'node_modules', '.bin', 'node'), [program, ...args(ports)], {
    log,
    cwd: dir,
    env: { PATH: process.env['PATH'], HOME: dir, ...(kubeconfig ? { KUBECONFIG: kubeconfig } : {}), ...env },
  });
  const serving: Serving = {
    ports,
    pid: running.pid,
    exited: running.exited,
    alive: running.alive,
    ask: path => ask(ports.health, path),
    output: () => readFileSync(log, 'utf8'),
    logLines: () => jsonLines(readFileSync(log, 'utf8')),
    memory: () => residentMemory(running),
    kill: (signal = 'SIGKILL') => running.signal(signal),
    stop: (signal = 'SIGTERM') => running.stop(signal, 35_000), // a little more than a pod's grace period
  };
  if (timeout === 0) return serving;
  const isReady = options.isReady ?? (async () => (await ask(ports.health, '/readyz')).status === 200);
  try {
    await until(
      'waywarden to be ready',
      async () => {
        if (!running.alive()) return 'ended';
        return (await isReady(serving)) && 'ready';
      },
      { timeout, every: 25 },
    );
    if (!running.alive()) throw new Error(`waywarden ended with ${await running.exited}`);
  } catch (error) {
    await running.stop('SIGKILL');
    const printed = tail(log, 40);
    remove(dir);
    throw new Error(`${String(error)}\n${printed}`, { cause: error });
  }
  return serving;
}

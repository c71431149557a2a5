// Waywarden against a bare fastify server: the same bodies, in turns, on one core, from another process. What counts are the
// ratios within this run; absolute figures belong to the machine.
// usage: npm run bench [-- --rounds 5 --seconds 2 --update]
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { generate } from 'selfsigned';
import { stringify } from 'yaml';
import { authorizationPolicy, cluster, manifests, pod2k, pod8k } from './bodies.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    update: { type: 'boolean', default: false },
  },
});
const ROUNDS = Number(values.rounds);
const SECONDS = Number(values.seconds);
/** Each has one review under way: enough that the server never waits. */
const CONNECTIONS = 16;
const root = join(import.meta.dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'waywarden-bench-'));
const node = process.execPath;
const say = (line: string) => console.log(line);

// one core for the server, the rest for whoever asks
const pinned = cpus().length > 1 && works('taskset', ['-c', '0', 'true']);
// whoever reads the logs as well
if (pinned) works('taskset', ['-acp', '1', String(process.pid)]);
function works(command: string, args: readonly string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
function start(core: string, args: readonly string[]): ChildProcess {
  const command = pinned ? ['taskset', '-c', core, node, ...args] : [node, ...args];
  return spawn(command[0] as string, command.slice(1), { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
}

interface Server {
  readonly name: string;
  readonly port: number;
  readonly process: ChildProcess;
  /** CPU time so far in microseconds, as the operating system counts it. */
  cpu(): number;
  /** Resident memory in MiB. */
  memory(): number;
  readonly listenMs: number;
}

const TICK = 1e6 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }).trim());

function serverOf(name: string, process: ChildProcess, port: number, listenMs: number): Server {
  const pid = process.pid ?? 0;
  return {
    name,
    port,
    process,
    listenMs,
    cpu() {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) * TICK;
    },
    memory: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024,
  };
}

/** Starts a server and waits for the line of its output that tells the port. */
function listening(name: string, process: ChildProcess, portOf: (line: string) => number | undefined): Promise<Server> {
  const started = performance.now();
  return new Promise((done, fail) => {
    process.on('exit', code => fail(new Error(`${name} ended with ${code} before it listened`)));
    for (const output of [process.stdout, process.stderr]) {
      if (output === null) continue;
      const lines = createInterface({ input: output });
      lines.on('line', line => {
        const port = portOf(line);
        if (port === undefined) return;
        done(serverOf(name, process, port, performance.now() - started));
        lines.close();
      });
      // read to the end, as whoever collects logs does
      lines.on('close', () => output.resume());
    }
  });
}

const told = (pattern: RegExp) => (line: string) => {
  const port = pattern.exec(line)?.[1];
  return port === undefined ? undefined : Number(port);
};
const barePort = told(/"port":(\d+)/);
const ownPort = told(/https on port (\d+)/);

interface Load {
  readonly count: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly wrong: number;
}

function load(
  server: Server,
  bodyFile: string,
  seconds: number,
  rate?: number,
): Promise<Load & { readonly cpu: number }> {
  const before = server.cpu();
  const args = [
    join(root, 'bench/load.ts'),
    String(server.port),
    join(folder, 'tls.crt'),
    bodyFile,
    String(seconds),
    String(CONNECTIONS),
    ...(rate === undefined ? [] : [String(rate)]),
  ];
  const process = start('1', args);
  return new Promise((done, fail) => {
    let text = '';
    process.stdout?.on('data', chunk => {
      text += chunk;
    });
    process.on('exit', code => {
      if (code !== 0) return fail(new Error(`the load ended with ${code}`));
      const result = JSON.parse(text) as Load;
      if (result.wrong > 0) return fail(new Error(`${server.name} gave ${result.wrong} answers that did not allow`));
      done({ ...result, cpu: (server.cpu() - before) / result.count });
    });
  });
}

const median = (numbers: readonly number[]) =>
  [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
const shown = (value: number, digits = 2) => value.toFixed(digits);

/** A folder with a cluster of so many namespaces as `kubectl get -o json` would print it. */
function state(namespaces: number): string {
  const file = join(folder, `cluster-${namespaces}.json`);
  writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [...cluster(namespaces)] }));
  return file;
}

const certificate = await generate([{ name: 'commonName', value: 'localhost' }], {
  keyType: 'ec',
  algorithm: 'sha256',
  extensions: [
    {
      name: 'subjectAltName',
      altNames: [
        { type: 2, value: 'localhost' },
        { type: 7, ip: '127.0.0.1' },
      ],
    },
  ],
});
writeFileSync(join(folder, 'tls.crt'), certificate.cert);
writeFileSync(join(folder, 'tls.key'), certificate.private);
const bodies = { pod2k, pod8k, authorizationPolicy };
for (const [name, body] of Object.entries(bodies)) writeFileSync(join(folder, `${name}.json`), body);

async function waywarden(name: string, stateFile: string): Promise<Server> {
  const args = [
    'dist/main.js',
    'serve',
    '--state',
    stateFile,
    '--port',
    '0',
    '--health-port',
    '0',
    '--tls-cert',
    join(folder, 'tls.crt'),
    '--tls-key',
    join(folder, 'tls.key'),
  ];
  return listening(name, start('0', args), ownPort);
}

const servers: Server[] = [];
try {
  say(
    `node ${process.version}, ${cpus()[0]?.model ?? 'unknown processor'}, ${cpus().length} cores${pinned ? ', servers on core 0, load on core 1' : ', not pinned'}`,
  );
  const bare = await listening(
    'bare fastify',
    start('0', ['bench/bare.ts', join(folder, 'tls.crt'), join(folder, 'tls.key')]),
    barePort,
  );
  const small = await waywarden('waywarden, 10 namespaces', state(10));
  const large = await waywarden('waywarden, 10,000 namespaces', state(10_000));
  servers.push(bare, small, large);
  const rssMiB = large.memory();

  const runs: readonly (readonly [string, Server, string])[] = [
    ['bare pod2k', bare, 'pod2k'],
    ['pod2k', small, 'pod2k'],
    ['bare pod8k', bare, 'pod8k'],
    ['pod8k', small, 'pod8k'],
    ['bare authorizationPolicy', bare, 'authorizationPolicy'],
    ['authorizationPolicy10', small, 'authorizationPolicy'],
    ['authorizationPolicy10k', large, 'authorizationPolicy'],
  ];
  const results = new Map<string, (Load & { cpu: number })[]>();
  // until V8 has compiled what there is to compile
  for (const [, server, body] of runs) await load(server, join(folder, `${body}.json`), 3);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, server, body] of runs)
      results.set(name, [...(results.get(name) ?? []), await load(server, join(folder, `${body}.json`), SECONDS)]);
  }
  say('\nreview                    CPU µs/review   reviews/s     p50 ms   p99 ms');
  for (const [name, loads] of results) {
    const of = (key: keyof Load | 'cpu') => median(loads.map(one => one[key]));
    say(
      `${name.padEnd(26)}${shown(of('cpu'), 0).padStart(12)}${shown(of('perSecond'), 0).padStart(12)}${shown(of('p50')).padStart(11)}${shown(of('p99')).padStart(9)}`,
    );
  }

  /** The ratio of each round, its median and its spread. */
  const ratio = (one: string, other: string) => {
    const each = (results.get(one) ?? []).map(
      (run, index) => run.cpu / (results.get(other)?.[index]?.cpu ?? Number.NaN),
    );
    return { median: median(each), low: Math.min(...each), high: Math.max(...each) };
  };
  const compared = {
    pod2k: ratio('pod2k', 'bare pod2k'),
    pod8k: ratio('pod8k', 'bare pod8k'),
    authorizationPolicy10k: ratio('authorizationPolicy10k', 'bare authorizationPolicy'),
    flatness: ratio('authorizationPolicy10k', 'authorizationPolicy10'),
  };
  say('\nratio of CPU per review            median     spread        at most');
  const LIMITS: Readonly<Record<string, number>> = { pod8k: 1.4, authorizationPolicy10k: 1.6, flatness: 1.2 };
  for (const [name, { median: middle, low, high }] of Object.entries(compared)) {
    say(
      `${name.padEnd(32)}${shown(middle).padStart(9)}   ${shown(low)}–${shown(high)}${String(LIMITS[name] ?? '').padStart(12)}`,
    );
  }

  const saturated = median((results.get('authorizationPolicy10k') ?? []).map(run => run.perSecond));
  const half: Load[] = [];
  const bareHalf: Load[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    bareHalf.push(await load(bare, join(folder, 'authorizationPolicy.json'), SECONDS, saturated / 2));
    half.push(await load(large, join(folder, 'authorizationPolicy.json'), SECONDS, saturated / 2));
  }
  const middle = (loads: readonly Load[], key: 'p50' | 'p99') => shown(median(loads.map(one => one[key])));
  say(
    `\nat half the rate that saturates waywarden with 10,000 namespaces (${shown(saturated / 2, 0)}/s): p50 ${middle(half, 'p50')} ms, p99 ${middle(half, 'p99')} ms (bare: ${middle(bareHalf, 'p50')} and ${middle(bareHalf, 'p99')})`,
  );
  say(
    `resident memory with 10,000 namespaces, 20,000 services, 20,000 workloads, 2,000 policies: ${shown(rssMiB, 0)} MiB at start, ${shown(large.memory(), 0)} MiB after the load (bare: ${shown(bare.memory(), 0)})`,
  );
  say(`serve on files listens ${shown(small.listenMs, 0)} ms after its start`);

  const repository = join(folder, 'repository');
  mkdirSync(repository);
  for (const [index, object] of [...manifests(1000)].slice(0, 1000).entries())
    writeFileSync(join(repository, `${index}.yaml`), stringify(object));
  const checks: number[] = [];
  for (let run = 0; run < 3; run += 1) {
    const started = performance.now();
    try {
      execFileSync(node, [join(root, 'dist/main.js'), 'check', repository, '--output', 'json'], {
        stdio: 'pipe',
        maxBuffer: 1 << 28,
      });
    } catch (error) {
      const { status } = error as { status?: number };
      if (status !== 1) throw error; // 1: it found something
    }
    checks.push((performance.now() - started) / 1000);
  }
  const checkSeconds = median(checks);
  say(`check on 1,000 manifests: ${shown(checkSeconds)} s, start included`);

  const latest = {
    ratios: {
      pod8k: compared.pod8k.median,
      authorizationPolicy10k: compared.authorizationPolicy10k.median,
      flatness: compared.flatness.median,
    },
    rssMiB: Math.round(rssMiB),
    checkSeconds,
    listenMs: Math.round(small.listenMs),
  };
  writeFileSync(join(root, 'bench/latest.json'), `${JSON.stringify(latest, undefined, 2)}\n`);
  if (values.update) writeFileSync(join(root, 'bench/baseline.json'), `${JSON.stringify(latest, undefined, 2)}\n`);

  // worse than the baseline by more than a percentage and by more than a floor: noise passes, a regression does not
  const baseline = JSON.parse(readFileSync(join(root, 'bench/baseline.json'), 'utf8')) as typeof latest;
  const compare: readonly (readonly [string, number, number, number])[] = [
    ['ratio pod8k', latest.ratios.pod8k, baseline.ratios.pod8k, 0.1],
    ['ratio authorizationPolicy10k', latest.ratios.authorizationPolicy10k, baseline.ratios.authorizationPolicy10k, 0.1],
    ['flatness', latest.ratios.flatness, baseline.ratios.flatness, 0.1],
    ['memory MiB', latest.rssMiB, baseline.rssMiB, 15],
  ];
  const worse = compare.filter(([, now, then, floor]) => now > then * 1.1 && now - then > floor);
  say('');
  for (const [name, now, then] of compare)
    say(`${name.padEnd(30)} ${shown(now)} (baseline ${shown(then)}, ${shown((now / then - 1) * 100, 0)} %)`);
  const exceeded = Object.entries(LIMITS).filter(
    ([name, limit]) => (compared[name as keyof typeof compared]?.median ?? 0) > limit,
  );
  for (const [name] of worse) say(`worse than the baseline: ${name}`);
  for (const [name, limit] of exceeded) say(`above its limit of ${limit}: ${name}`);
  process.exitCode = worse.length + exceeded.length > 0 ? 1 : 0;
} finally {
  for (const server of servers) server.process.kill();
  rmSync(folder, { recursive: true, force: true });
}

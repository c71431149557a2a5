// The command line as its users meet it: bundled, and each test runs the real process.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bundle } from '../scripts/bundle.ts';

const ROOT = join(import.meta.dirname, '..');
const BUNDLE = join(ROOT, `node_modules/.cache/waywarden-${process.pid}`);
const MAIN = join(BUNDLE, 'main.js');
const folder = mkdtempSync(join(tmpdir(), 'waywarden-cli-'));
beforeAll(() => bundle(BUNDLE));
afterAll(() => {
  for (const made of [folder, BUNDLE]) rmSync(made, { recursive: true });
});

function written(name: string, content: string): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  return file;
}

interface Ran {
  readonly status: number | null;
  readonly out: string;
  readonly err: string;
}

function start(words: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, [MAIN, ...words], { cwd: folder, env: { ...process.env, ...env } });
}

function ran(child: ChildProcess, input?: string): Promise<Ran> {
  return new Promise(resolve => {
    let out = '';
    let err = '';
    child.stdout?.on('data', chunk => {
      out += chunk;
    });
    child.stderr?.on('data', chunk => {
      err += chunk;
    });
    child.on('close', status => resolve({ status, out, err }));
    child.stdin?.end(input);
  });
}

const waywarden = (words: readonly string[], input?: string) => ran(start(words), input);

const ISTIOD = `apiVersion: apps/v1
kind: Deployment
metadata: { name: istiod, namespace: istio-system }
spec:
  template:
    metadata: { labels: { app: istiod } }
    spec: { containers: [{ name: discovery, image: "istio/pilot:1.31.1" }] }
`;
const MISSPELT = `# a comment
apiVersion: v1
kind: Namespace
metadata:
  name: warehouse
  labels:
    istio.io/dataplane-mod: ambient
`;
const CLEAN = 'apiVersion: v1\nkind: Namespace\nmetadata: { name: warehouse }\n';

describe('help and mistakes', () => {
  test.each(['serve', 'review', 'check', 'policies', 'explain'])('%s --help teaches by example', async command => {
    const { status, out, err } = await waywarden([command, '--help']);
    expect({ status, err }).toEqual({ status: 0, err: '' });
    expect(out).toContain(`Usage: waywarden ${command}`);
    expect(out).toMatch(/Examples:\n {2}\S/);
    expect((await waywarden(['--help'])).out).toContain(`  ${command} `);
  });

  test.each([
    [['chekc'], 'waywarden: there is no command "chekc" (did you mean "check"?); see waywarden --help\n'],
    [
      ['check', '--stat', 'x'],
      /^waywarden: there is no option --stat \(did you mean "--state"\?\); see waywarden check --help\n$/,
    ],
    [['check', '--state'], /^waywarden: --state needs a value;.*\n$/],
    [['check', 'x.yaml', '--state', '--istio'], /^waywarden: --state needs a value, and --istio is an option;.*\n$/],
    [
      ['check', 'x.yaml', '--fail-on', 'wran'],
      /^waywarden: --fail-on is one of deny, warn, never, not "wran" \(did you mean "warn"\?\);.*\n$/,
    ],
    [['check', 'x.yaml', '--istio', 'latest'], /^waywarden: --istio takes a release such as 1\.31, not "latest"\n$/],
    [['check'], /^waywarden: check needs a PATH.*\n$/],
    [['check', 'nowhere'], 'waywarden: nowhere: there is no such file or directory\n'],
    [['review'], /^waywarden: review needs a FILE.*\n$/],
    [['explain', 'no-such-policy-at-all'], /^waywarden: there is no policy or finding "no-such-policy-at-all".*\n$/],
    [
      ['explain', 'mesh-labels/half-a-pear'],
      /^waywarden: the policy mesh-labels has no finding "half-a-pear" \(did you mean "half-a-pair"\?\).*\n$/,
    ],
    [['serve'], /^waywarden: serve does not know which mesh to guard.*\n$/],
    [['serve', '--example', '--port', '70000'], /^waywarden: --port takes a port.*\n$/],
    [['serve', '--example', '--tls-cert', 'x'], /^waywarden: --tls-cert and --tls-key belong together.*\n$/],
  ])('%j: one line and exit status 2', async (words, expected) => {
    const { status, out, err } = await waywarden(words);
    expect({ status, out }).toEqual({ status: 2, out: '' });
    if (typeof expected === 'string') expect(err).toBe(expected);
    else expect(err).toMatch(expected);
  });

  test('an old Node says so in one line', async context => {
    const old = (process.env['PATH'] ?? '')
      .split(delimiter)
      .map(path => join(path, 'node'))
      .find(node => existsSync(node) && !node.includes('node_modules'));
    if (old === undefined) return context.skip();
    const version = (await ran(spawn(old, ['--version']))).out.trim();
    if (Number(version.slice(1).split('.')[0]) >= 22) return context.skip();
    expect(await ran(spawn(old, [MAIN, 'policies']))).toEqual({
      status: 2,
      out: '',
      err: `waywarden needs Node.js 22 or newer, and this is ${version.slice(1)} (in a clone: npx waywarden)\n`,
    });
  });
});

describe('check', () => {
  test('a mistake is told with file, line and column, and is exit status 1', async () => {
    const file = written('misspelt.yaml', `${MISSPELT}---\nreplicas: 2\n`);
    const { status, out, err } = await waywarden(['check', file]);
    expect({ status, err }).toEqual({ status: 1, err: '' });
    expect(out).toContain(`${file}:7:5  warn  mesh-labels/misspelled-key`);
    expect(out).toContain('1 object in 1 file, 1 document skipped that is no Kubernetes object: 1 warning');
    expect(out).not.toContain('\u001b[');
    expect((await waywarden(['check', file, '--fail-on', 'deny'])).status).toBe(0);
    expect((await waywarden(['check', file, '--fail-on', 'never'])).status).toBe(0);
  });

  test('standard input, JSON, and exit status 0 where it is clean', async () => {
    const clean = await waywarden(['check', '-', '--output', 'json'], CLEAN);
    expect(clean.status).toBe(0);
    expect(JSON.parse(clean.out)).toEqual({ findings: [], notices: [], objects: 1, files: 1, skipped: 0 });
    const wrong = await waywarden(['check', '-', '--output', 'json'], MISSPELT);
    expect(wrong.status).toBe(1);
    expect(JSON.parse(wrong.out)).toMatchObject({
      findings: [
        {
          policy: 'mesh-labels',
          finding: 'misspelled-key',
          action: 'warn',
          standing: 'new',
          subject: { kind: 'Namespace', namespace: '', name: 'warehouse' },
          position: { file: '<stdin>', line: 7, column: 5 },
        },
      ],
    });
  });

  test('what the state holds just so already is no change, and an old mistake stays a warning', async () => {
    const state = written('state.yaml', MISSPELT);
    expect((await waywarden(['check', state, '--state', state])).status).toBe(0);
    const changed = written('changed.yaml', `${MISSPELT}    istio.io/rev: stable\n`);
    const { out } = await waywarden(['check', changed, '--state', state, '--output', 'json']);
    const { findings } = JSON.parse(out) as { findings: readonly { finding: string; standing: string }[] };
    expect(findings.filter(({ finding }) => finding === 'misspelled-key')).toMatchObject([{ standing: 'old' }]);
  });

  test.each([
    ['replicas: 2\n', 'no Kubernetes object (apiVersion, kind)'],
    ['plain words\n', 'no Kubernetes object (apiVersion, kind)'],
    ['', 'no document'],
  ])('%j holds nothing to check, which is exit status 2', async (content, what) => {
    const file = written('nothing.yaml', content);
    expect(await waywarden(['check', file])).toEqual({
      status: 2,
      out: '',
      err: `waywarden: there is nothing to check: ${what} in ${file}\n`,
    });
    expect((await waywarden(['check', file, written('clean.yaml', CLEAN)])).status).toBe(0);
  });

  test('what cannot be read: one line with its place, and exit status 2', async () => {
    const file = written('broken.yaml', `${CLEAN}---\nkind: "Pod\n`);
    const { status, out, err } = await waywarden(['check', file]);
    expect({ status, out }).toEqual({ status: 2, out: '' });
    expect(err).toMatch(/^waywarden: \S+broken\.yaml:\d+:\d+: [^\n]+\n$/);
  });

  test('a configuration counts, and its mistakes are told', async () => {
    const file = written('misspelt.yaml', MISSPELT);
    const off = written('off.yaml', 'policies:\n  mesh-labels: { action: "off" }\n');
    expect((await waywarden(['check', file, '--config', off])).status).toBe(0);
    const wrong = written('wrong.yaml', 'policies:\n  mesh-label: {}\n');
    const { status, err } = await waywarden(['check', file, '--config', wrong]);
    expect(status).toBe(2);
    expect(err).toContain('wrong.yaml:2:3: there is no policy "mesh-label" (did you mean "mesh-labels"?)');
  });

  test('colours only on a terminal', async () => {
    const { out } = await ran(
      start(['check', written('misspelt.yaml', MISSPELT)], { NO_COLOR: '1', FORCE_COLOR: '1' }),
    );
    expect(out).not.toContain('\u001b[');
  });
});

describe('review', () => {
  test('the verdict on one object, in words and as JSON; exit status 0 whatever it is', async () => {
    const file = written('misspelt.yaml', MISSPELT);
    const state = written('istiod.yaml', ISTIOD);
    const words = await waywarden(['review', file, '--state', state]);
    expect(words.status).toBe(0);
    expect(words.out).toMatch(/^Namespace warehouse would be let in with a warning\n.*misspelt\.yaml:7:5 {2}warn/s);
    const { verdict, warnings, patch, findings } = JSON.parse(
      (await waywarden(['review', file, '--state', state, '--output', 'json'])).out,
    );
    expect({ verdict, patch }).toEqual({ verdict: 'warn', patch: [] });
    expect(warnings).toHaveLength(1);
    expect(findings).toMatchObject([{ policy: 'mesh-labels', finding: 'misspelled-key', action: 'warn' }]);
  });

  test('what it was before makes it an UPDATE, and an AdmissionReview brings its own operation', async () => {
    const file = written('misspelt.yaml', MISSPELT);
    const same = await waywarden(['review', file, '--old', file, '--output', 'json']);
    expect(JSON.parse(same.out)).toMatchObject({ verdict: 'allow', findings: [] });
    const object = {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'w', labels: { 'istio.io/dataplane-mod': 'ambient' } },
    };
    const asReview = (operation: string) =>
      JSON.stringify({
        apiVersion: 'admission.k8s.io/v1',
        kind: 'AdmissionReview',
        request: {
          uid: 'u',
          kind: { group: '', version: 'v1', kind: 'Namespace' },
          name: 'w',
          operation,
          object,
          oldObject: null,
        },
      });
    const created = await waywarden(['review', '-', '--output', 'json', '--operation', 'DELETE'], asReview('CREATE'));
    expect(JSON.parse(created.out)).toMatchObject({
      verdict: 'warn',
      findings: [{ position: { file: '<stdin>', line: 1 } }],
    });
  });

  test('what the state holds of the object is what it was before', async () => {
    const file = written('misspelt.yaml', MISSPELT);
    const review = async (operation: string, path: string, state: string) =>
      JSON.parse(
        (await waywarden(['review', path, '--operation', operation, '--state', state, '--output', 'json'])).out,
      );
    // nothing changes
    expect(await review('UPDATE', file, file)).toMatchObject({ verdict: 'allow', findings: [] });
    // an object of that name elsewhere is another one
    const other = written('other.yaml', MISSPELT.replace('warehouse', 'warehouse-2'));
    expect(await review('UPDATE', file, other)).toMatchObject({ verdict: 'warn', findings: [{ standing: 'new' }] });
    // created is created, whatever is there
    expect(await review('CREATE', file, file)).toMatchObject({ verdict: 'warn' });
    expect((await waywarden(['review', '-', '--state', '-'], MISSPELT)).err).toBe(
      'waywarden: standard input (-) can be read once only\n',
    );
  });

  test('an object that names no namespace is in that of --namespace, else in default', async () => {
    const file = written('cm.yaml', 'apiVersion: v1\nkind: Service\nmetadata: { name: a }\n');
    expect((await waywarden(['review', file])).out).toContain('Service default/a ');
    expect((await waywarden(['review', file, '--namespace', 'shop'])).out).toContain('Service shop/a ');
    const policy = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: { name: read-only }
spec:
  targetRefs: [{ group: "", kind: Service, name: ledger }]
  rules: [{ to: [{ operation: { methods: [GET] } }] }]
`;
    const words = ['check', '-', '--state', join(ROOT, 'examples/mesh.yaml'), '--namespace', 'payments'];
    expect((await waywarden(words, policy)).out).toContain('AuthorizationPolicy payments/read-only');
  });

  test('what is deleted is what the state holds, with its status', async () => {
    const mesh = readFileSync(join(ROOT, 'examples/mesh.yaml'), 'utf8');
    const waypoint = mesh.split(/^---\n/m).find(part => /kind: Gateway\n/.test(part)) ?? '';
    const bare = written('waypoint.yaml', waypoint.replace(/^status:(?:.*\n(?: .*\n)*)/m, ''));
    const policy = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: { name: read-only, namespace: shop }
spec:
  targetRefs: [{ group: "", kind: Service, name: storefront }]
  rules: [{ to: [{ operation: { methods: [GET] } }] }]
`;
    const state = written('guarded.yaml', `${mesh}---\n${policy}`);
    const words = ['review', bare, '--operation', 'DELETE', '--state', state, '--output', 'json'];
    const { findings } = JSON.parse((await waywarden(words)).out) as { findings: readonly { finding: string }[] };
    expect(findings).toContainEqual(
      expect.objectContaining({ finding: 'target-without-waypoint', action: 'warn', standing: 'new' }),
    );
  });

  test.each([
    ['nothing', '', /<stdin>|-:1:1: there is nothing in it/],
    ['no object', 'a: 1\n', /what is in it is no Kubernetes object/],
    ['two objects', `${CLEAN}---\n${CLEAN}`, /:5:1: a second object begins here; a set of them is for waywarden check/],
    [
      'a review of another version',
      'apiVersion: admission.k8s.io/v1beta1\nkind: AdmissionReview\nrequest: null\n',
      /:1:1: no AdmissionReview of admission\.k8s\.io\/v1: apiVersion is not what it must be\n/,
    ],
    [
      'a review without a request',
      'apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\n',
      /:1:1: no AdmissionReview of admission\.k8s\.io\/v1: request is missing\n/,
    ],
  ])('%s cannot be reviewed: one line and exit status 2', async (_, input, expected) => {
    const { status, out, err } = await waywarden(['review', '-'], input);
    expect({ status, out }).toEqual({ status: 2, out: '' });
    expect(err).toMatch(expected);
    expect(err.trimEnd()).not.toContain('\n');
  });
});

describe('doctor', () => {
  const CONFIG = `apiVersion: v1
kind: Config
clusters: [{ name: a, cluster: { server: "https://127.0.0.1:1" } }]
users: []
contexts: [{ name: a, context: { cluster: a, user: a } }]
current-context: a
`;
  test.each([
    ['no kubeconfig', undefined, [], /: no kubeconfig names a cluster with https: give --kubeconfig FILE/],
    ['a file that is not there', '/nope', [], /: there is no kubeconfig \/nope\n/],
    ['a tab', `${CONFIG}\tx: 1\n`, [], /: the kubeconfig \S+ is no valid YAML: \S/],
    ['no such context', CONFIG, ['--context', 'b'], /: the kubeconfig \S+ has no context "b" with a cluster\n/],
  ])('%s: one line and exit status 2', async (_, config, words, expected) => {
    const path = config === undefined || config === '/nope' ? (config ?? '') : written('kubeconfig', config);
    const env = { KUBECONFIG: path, HOME: folder, KUBERNETES_SERVICE_HOST: '' };
    const { status, out, err } = await ran(start(['doctor', ...words], env));
    expect({ status, out }).toEqual({ status: 2, out: '' });
    expect(err).toMatch(/^waywarden: the cluster cannot be reached: [^\n]+\n$/);
    expect(err).toMatch(expected);
  });
});

describe('policies and explain', () => {
  test('the table has every policy, and each of them explains itself and its findings', async () => {
    const { out } = await waywarden(['policies', '--output', 'json']);
    const table = JSON.parse(out) as readonly { id: string; findings: Readonly<Record<string, unknown>> }[];
    const text = (await waywarden(['policies'])).out;
    for (const { id, findings } of table) {
      expect(text).toContain(`${id}: `);
      for (const finding of Object.keys(findings)) expect(text).toContain(`  ${finding} `);
    }
    const page = (await waywarden(['explain', 'mesh-labels'])).out;
    expect(page).toBe(readFileSync(join(ROOT, 'policies/mesh-labels/README.md'), 'utf8'));
    const section = (await waywarden(['explain', 'mesh-labels/half-a-pair'])).out;
    expect(section).toMatch(/^## half-a-pair\n/);
    expect(section.match(/^## /gm)).toHaveLength(1);
  });
});

describe('serve', () => {
  async function post(
    port: number,
    ca: string,
    body: unknown,
    path = '/validate',
  ): Promise<Readonly<Record<string, unknown>>> {
    return new Promise((resolve, reject) => {
      const sent = request(
        {
          host: 'localhost',
          port,
          path,
          method: 'POST',
          ca,
          headers: { 'content-type': 'application/json' },
        },
        response => {
          let text = '';
          response.on('data', chunk => {
            text += chunk;
          });
          response.on('end', () =>
            resolve((JSON.parse(text) as { response: Readonly<Record<string, unknown>> }).response),
          );
        },
      );
      sent.on('error', reject);
      sent.end(JSON.stringify(body));
    });
  }

  function said(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      let text = '';
      const look = (chunk: unknown) => {
        text += String(chunk);
        const found = pattern.exec(text);
        if (found !== null) resolve(found);
      };
      child.stderr?.on('data', look);
      child.stdout?.on('data', look);
      child.on('close', () => reject(new Error(`it ended and said: ${text}`)));
    });
  }

  test('guards a state from files, takes a new configuration, keeps the old one where the new is broken, and ends on SIGTERM', async () => {
    const state = written('serve/state.yaml', ISTIOD);
    const config = written('serve/waywarden.yaml', 'mode: enforce\n');
    const child = start([
      'serve',
      '--state',
      state,
      '--config',
      config,
      '--certs',
      join(folder, 'serve/certs'),
      '--host',
      '127.0.0.1',
      '--port',
      '0',
      '--health-port',
      '0',
    ]);
    const ended = ran(child);
    const [, port] = await said(child, /https on port (\d+)/);
    const ca = readFileSync(join(folder, 'serve/certs/ca.crt'), 'utf8');
    const object = {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'w', labels: { 'istio.io/dataplane-mod': 'ambient' } },
    };
    const body = {
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      request: {
        uid: 'u',
        kind: { group: '', version: 'v1', kind: 'Namespace' },
        name: 'w',
        operation: 'CREATE',
        object,
        oldObject: null,
      },
    };
    expect((await post(Number(port), ca, body))['warnings']).toHaveLength(1);

    const kept = said(child, /the old one is kept/);
    written('serve/waywarden.yaml', 'mode: enforec\n');
    await kept;
    expect((await post(Number(port), ca, body))['warnings']).toHaveLength(1);

    const taken = said(child, /holds from now on/);
    written('serve/waywarden.yaml', 'policies: { mesh-labels: { action: "off" } }\nbreakGlassGroups: [emergency]\n');
    await taken;
    expect((await post(Number(port), ca, body))['warnings'] ?? []).toEqual([]);
    const logged = said(child, /"webhook":"break-glass".*"group":"emergency"/);
    const request = { ...body.request, userInfo: { username: 'anna', groups: ['emergency'] } };
    expect(await post(Number(port), ca, { ...body, request }, '/break-glass')).toEqual({ uid: 'u', allowed: true });
    await logged;

    await sleep(50);
    child.kill('SIGTERM');
    expect((await ended).status).toBe(0);
  });
});

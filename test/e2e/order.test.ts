// Any order, and any patience: people, Helm and GitOps bring things as they come, and take them away again.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { helm } from '../harness/helm.ts';
import { until } from '../harness/wait.ts';
import { type Installed, install } from './support/installation.ts';
import {
  ambientNamespace,
  answers,
  app,
  installAmbient,
  namespace,
  noAdmin,
  onService,
  program,
  waypoint,
} from './support/mesh.ts';

let guard: Installed;
beforeAll(async () => {
  guard = await install({ replicas: 2 });
  await installAmbient(guard.cluster);
});
afterAll(() => guard?.stop());

const kubectl: Installed['cluster']['kubectl'] = (...args) => guard.cluster.kubectl(...args);
const bound = { 'istio.io/use-waypoint': 'waypoint' };
const onWeb = (name: string) => noAdmin(name, 'no-admin', onService);

/** All that a team has, policy first or waypoint first. */
const whole = (name: string, first: 'policy' | 'waypoint') => {
  const rest = first === 'policy' ? onWeb(name) + waypoint(name) : waypoint(name) + onWeb(name);
  return ambientNamespace(name, bound) + app(name) + rest;
};

describe('what only waits for something that was promised is never refused', () => {
  it.each(['policy', 'waypoint'] as const)('kubectl apply -f of one stream, %s first', async first => {
    const name = `stream-${first}`;
    const { code, stderr } = await kubectl('apply', '-f', '-', { input: whole(name, first) });
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('denied the request')]);
    await program(guard.cluster, name);
    await answers(guard.cluster, onWeb(name), ({ code: after, stderr: said }) => after === 0 && said === '');
  });

  it.each(['policy', 'waypoint'] as const)('kubectl apply -f of a folder, %s first', async first => {
    const name = `folder-${first}`;
    const folder = mkdtempSync(join(guard.cluster.dir, 'folder-'));
    const documents = parseAllDocuments(whole(name, first)).map(document => document.toJS() as { kind: string } | null);
    for (const [index, document] of documents.filter(one => one !== null).entries())
      writeFileSync(join(folder, `${index}-${document.kind}.yaml`), stringify(document));
    const { code, stderr } = await kubectl('apply', '-f', folder);
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('denied the request')]);
  });

  it('helm install brings Services and Gateways in its own order', async () => {
    const chart = join(guard.cluster.dir, 'chart');
    mkdirSync(join(chart, 'templates'), { recursive: true });
    writeFileSync(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: team\nversion: 0.1.0\n');
    writeFileSync(join(chart, 'templates', 'all.yaml'), whole('by-helm', 'policy'));
    const { code, stdout, stderr } = await helm(guard.cluster, 'install', 'team', chart, '--wait=hookOnly');
    expect(code, stdout + stderr).toBe(0);
    await program(guard.cluster, 'by-helm');
    const upgraded = await helm(guard.cluster, 'upgrade', 'team', chart, '--wait=hookOnly');
    expect(upgraded.code, upgraded.stderr).toBe(0);
    const gone = await helm(guard.cluster, 'uninstall', 'team', '--wait=false');
    expect(gone.stderr).not.toContain('denied the request');
  });

  it('a set that is dry-run as a whole before anything of it is there', async () => {
    // as Flux does: Namespaces first, then everything by a dry run, then everything
    await guard.cluster.apply(ambientNamespace('by-flux', bound));
    const dry = await kubectl('apply', '--server-side', '--dry-run=server', '-f', '-', {
      input: whole('by-flux', 'policy'),
    });
    expect([dry.code, dry.stderr]).toEqual([0, expect.not.stringContaining('denied the request')]);
    const { code, stderr } = await kubectl('apply', '--server-side', '-f', '-', { input: whole('by-flux', 'policy') });
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('denied the request')]);
  });
});

describe('what takes away an enforcement that worked', () => {
  const working = async (name: string) => {
    await guard.cluster.apply(whole(name, 'waypoint'));
    await program(guard.cluster, name);
    await answers(guard.cluster, onWeb(name), ({ code, stderr }) => code === 0 && stderr === '');
  };

  it('is refused where a label goes', async () => {
    await working('label');
    const { code, stderr } = await kubectl('label', 'namespace', 'label', 'istio.io/use-waypoint-');
    expect(code).toBe(1);
    expect(stderr).toMatch(/denied the request: .*label\/no-admin/);
    // dry runs and diffs say the same
    const dry = await kubectl('label', 'namespace', 'label', 'istio.io/use-waypoint-', '--dry-run=server');
    expect(dry.stderr).toMatch(/denied the request/);
  });

  it('is warned about where the waypoint is deleted, and deleted', async () => {
    await working('deletion');
    const { code, stderr } = await kubectl('delete', 'gateway', 'waypoint', '-n', 'deletion');
    expect(code).toBe(0);
    expect(stderr).toMatch(/^Warning: .*deletion\/no-admin.*\[l7-needs-waypoint\//m);
  });

  it('a namespace goes with everything in it, without a word', async () => {
    await working('going');
    const { code, stderr } = await kubectl('delete', 'namespace', 'going', '--timeout=60s');
    expect(stderr).not.toContain('denied the request');
    expect(code).toBe(0);
    expect((await kubectl('get', 'namespace', 'going')).code).toBe(1);
  });
});

describe('a namespace that joins ambient', () => {
  it('is refused where a policy in it would be enforced no more, and passes once the policy is gone', async () => {
    await guard.cluster.apply(namespace('joining') + app('joining'));
    // nothing enforces it now either: nothing is made worse by writing it
    expect((await guard.unasked('create', '-f', '-', { input: noAdmin('joining') })).code).toBe(0);
    const join = () => kubectl('label', 'namespace', 'joining', 'istio.io/dataplane-mode=ambient');
    await until('a verdict', async () => {
      const { code, stderr } = await kubectl(
        'label',
        'namespace',
        'joining',
        'istio.io/dataplane-mode=ambient',
        '--dry-run=server',
      );
      return code === 1 && stderr.includes('denied the request');
    });
    const refused = await join();
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/joining\/no-admin/);
    await kubectl('delete', 'authorizationpolicy', 'no-admin', '-n', 'joining');
    const gone = performance.now();
    await until('it to pass', async () => (await join()).code === 0, { timeout: 1_000, every: 10 });
    expect(performance.now() - gone).toBeLessThan(1_000);
  });
});

describe('a denied change', () => {
  it('passes within one second once its reason is gone', async () => {
    await guard.cluster.apply(ambientNamespace('reason') + app('reason') + waypoint('reason'));
    await program(guard.cluster, 'reason');
    await answers(guard.cluster, onWeb('reason'), ({ code }) => code === 1);
    await kubectl('label', 'service', 'web', '-n', 'reason', 'istio.io/use-waypoint=waypoint');
    const took = await answers(
      guard.cluster,
      onWeb('reason'),
      ({ code, stderr }) => code === 0 && stderr === '',
      1_000,
    );
    expect(took).toBeLessThan(1_000);
  });
});

// `node scripts/rules.ts`: writes what follows from the policies into the chart (the guard's rights, the webhooks' rules), and renders
// the ready manifests. To be run after a policy has come or gone; a test compares.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { policies as every } from '../policies/index.ts';
import { deletionKinds, failsClosed, judgedKinds, mutatedKinds, resourceOf } from '../src/engine/asked.ts';
import { kindsRead } from '../src/engine/kinds.ts';
import type { Policy } from '../src/engine/policy.ts';
import { type GroupKind, splitGroupKind } from '../src/kube/kind.ts';
import { KINDS } from '../src/mesh/kinds.ts';
import { setFolder } from '../test/harness/binaries.ts';

const ROOT = new URL('..', import.meta.url).pathname;
export const DEPLOY = join(ROOT, 'deploy');
const FILES = join(DEPLOY, 'chart', 'files');

export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

export interface WebhookRule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly operations: readonly string[];
  readonly resources: readonly string[];
  readonly scope: '*';
}

function byGroup(kinds: readonly GroupKind[]): readonly (readonly [string, readonly GroupKind[]])[] {
  const groups = new Map<string, GroupKind[]>();
  for (const kind of kinds) {
    const { group } = splitGroupKind(kind);
    groups.set(group, [...(groups.get(group) ?? []), kind]);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

/**
 * What the guard may read: everything that it mirrors, listed and watched; ConfigMaps by name, and listed by a label in Istio's
 * namespaces, which a ClusterRole cannot say.
 */
export function clusterRules(policies: readonly Policy[]): readonly PolicyRule[] {
  // Secrets are nobody's but their owner's, whatever a policy reads
  const kinds = kindsRead(policies).filter(kind => (kind as GroupKind) !== 'Secret');
  const listed: readonly PolicyRule[] = byGroup(kinds.filter(kind => kind !== 'ConfigMap')).map(([group, members]) => ({
    apiGroups: [group],
    resources: members.map(resourceOf).sort(),
    verbs: ['get', 'list', 'watch'],
  }));
  const named: readonly PolicyRule[] = kinds.includes('ConfigMap')
    ? [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list'] }]
    : [];
  return [...listed, ...named];
}

const KNOWN_GROUPS: ReadonlySet<string> = new Set(Object.keys(KINDS).map(kind => splitGroupKind(kind).group));

function webhookRules(kinds: readonly GroupKind[], operations: readonly string[]): readonly WebhookRule[] {
  return byGroup(kinds).map(([group, members]) => ({
    apiGroups: [group],
    apiVersions: ['*'],
    operations,
    // of a group that no release has any more nobody knows the resources
    resources: KNOWN_GROUPS.has(group) ? members.map(resourceOf).sort() : ['*'],
    scope: '*',
  }));
}

const WRITES = ['CREATE', 'UPDATE'];
const open = (kind: GroupKind) => !failsClosed(kind);

/** Rules of each webhook entry, by the last part of its name. */
export function entryRules(policies: readonly Policy[]) {
  const judged = judgedKinds(policies);
  const mutated = mutatedKinds(policies);
  return {
    validate: {
      closed: webhookRules(judged.filter(failsClosed), WRITES),
      open: webhookRules(judged.filter(open), WRITES),
      deletions: webhookRules(deletionKinds(policies), ['DELETE']),
    },
    mutate: {
      closed: webhookRules(mutated.filter(failsClosed), WRITES),
      open: webhookRules(mutated.filter(open), WRITES),
    },
  };
}

const HEAD = '# Written by scripts/rules.ts from the policies: do not edit.\n';
const yaml = (value: unknown) => HEAD + stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });

/** The chart's derived files, by name. */
export function derivedFiles(policies: readonly Policy[] = every): Readonly<Record<string, string>> {
  return { 'rbac.yaml': yaml(clusterRules(policies)), 'webhooks.yaml': yaml(entryRules(policies)) };
}

/** The ready manifests, and the values that each is rendered with. */
export const MANIFESTS = ['enforce', 'audit', 'cert-manager'] as const;

/** The helm that the test harness builds; undefined where it was not built and none is in PATH. */
export function helmBinary(): string | undefined {
  const built = join(setFolder('helm'), 'helm');
  if (existsSync(built)) return built;
  return spawnSync('helm', ['version']).status === 0 ? 'helm' : undefined;
}

/** `helm template`: what would be installed. Throws with what helm says. */
export function helmTemplate(helm: string, ...args: string[]): string {
  const home = mkdtempSync(join(tmpdir(), 'waywarden-helm-'));
  try {
    const { status, stdout, stderr } = spawnSync(
      helm,
      ['template', 'waywarden', join(DEPLOY, 'chart'), '--namespace', 'waywarden', '--kube-version', '1.33.0', ...args],
      {
        encoding: 'utf8',
        maxBuffer: 64 * 1024 * 1024,
        env: {
          PATH: process.env['PATH'],
          HOME: home,
          HELM_CACHE_HOME: home,
          HELM_CONFIG_HOME: home,
          HELM_DATA_HOME: home,
        },
      },
    );
    if (status !== 0) throw new Error(stderr);
    return stdout;
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/** Webhook configurations first: they are harmless until a replica is ready, and `kubectl delete -f` takes them away first. */
const ORDER = ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration', 'Namespace'];

export function manifest(helm: string, name: (typeof MANIFESTS)[number]): string {
  const rendered = helmTemplate(helm, '--skip-tests', '--values', join(DEPLOY, 'values', `${name}.yaml`));
  const documents = rendered
    .split(/^---$/m)
    .map(document => document.replace(/^\n?# Source: .*\n/, '').trim())
    .filter(document => document !== '');
  const rank = (document: string) => {
    const index = ORDER.indexOf((parse(document) as { kind: string }).kind);
    return index < 0 ? ORDER.length : index;
  };
  const sorted = documents.map(document => ({ document, rank: rank(document) })).sort((a, b) => a.rank - b.rank);
  const head = `# Waywarden, rendered from deploy/chart with deploy/values/${name}.yaml by scripts/rules.ts: do not edit.\n# docs/install.md says how to install, upgrade and uninstall it.\n`;
  return `${head}${sorted.map(({ document }) => `---\n${document}\n`).join('')}`;
}

if (import.meta.main) {
  for (const [name, content] of Object.entries(derivedFiles())) {
    const file = join(FILES, name);
    if (!existsSync(file) || readFileSync(file, 'utf8') !== content) console.log(`deploy/chart/files/${name}: written`);
    writeFileSync(file, content);
  }
  const helm = helmBinary();
  if (helm === undefined)
    console.log('no helm (node test/harness/build.ts helm builds it): manifests were not rendered');
  else for (const name of MANIFESTS) writeFileSync(join(DEPLOY, `${name}.yaml`), manifest(helm, name));
}

// Ordinary situations (test/ordinary/*.yaml): what people have in their clusters, right as it stands. Each is judged in every way
// there is, and nobody may say a word.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { policies } from '../../policies/index.ts';
import { review } from '../../src/admission/judge.ts';
import { requestFor } from '../../src/admission/request.ts';
import { check } from '../../src/cli/check.ts';
import { configOf } from '../../src/config/config.ts';
import { type Config, DEFAULT_CONFIG } from '../../src/config/default.ts';
import { difference, type Finding } from '../../src/engine/difference.ts';
import type { RequestFacts } from '../../src/engine/policy.ts';
import { verdictOf } from '../../src/engine/verdict.ts';
import { at, type JsonObject, record } from '../../src/kube/json.ts';
import { refKey, spoken } from '../../src/kube/kind.ts';
import { controlPlanes } from '../../src/mesh/releases.ts';
import { createFileMesh, type Manifest, readManifests } from '../../src/mesh/sources/files.ts';
import { gatewayApiCrds, KUBELETS } from './bundles.ts';

export const FOLDER = new URL('../ordinary', import.meta.url).pathname;

/** One situation on one release of Istio. */
export interface Situation {
  readonly name: string;
  /** The first line of its file: what it shows. */
  readonly about: string;
  /** Release of Istio, with its patch. */
  readonly release: string;
  readonly config: Config;
  /** The parts of its cluster, by name. */
  readonly parts: readonly string[];
  readonly cluster: string;
  readonly manifests: string;
}

function minorOf(release: string): string {
  return release.split('.').slice(0, 2).join('.');
}

function clusterOf(parts: readonly string[], release: string): string {
  const minor = minorOf(release);
  const kubelet = KUBELETS[minor];
  if (kubelet === undefined) throw new Error(`no kubelet is known for Istio ${minor}`);
  return parts
    .map(part =>
      part === 'crds'
        ? gatewayApiCrds(minor)
        : readFileSync(join(FOLDER, 'clusters', `${part}.yaml`), 'utf8')
            .replaceAll('RELEASE', release)
            .replaceAll('KUBELET', kubelet)
            .replaceAll('WITH_ZTUNNEL', String(parts.includes('ztunnel'))),
    )
    .join('\n---\n');
}

function configFor(source: string | undefined, file: string): Config {
  if (source === undefined) return DEFAULT_CONFIG;
  const outcome = configOf(parse(source) as unknown, policies);
  if ('config' in outcome) return outcome.config;
  throw new Error(`${file}: ${outcome.mistakes.map(({ message }) => message).join('; ')}`);
}

/**
 * The situations of a file, one for each release that it names. Its comments say: on the first line what it shows, then `on:` the parts of
 * test/ordinary/clusters that the cluster has (`crds` are those of the Gateway API that suit the release; none: the file has its own), `releases:`
 * those of Istio, and perhaps `config:` one line of waywarden.yaml.
 */
export function situationsIn(name: string): readonly Situation[] {
  const file = join(FOLDER, `${name}.yaml`);
  const text = readFileSync(file, 'utf8');
  const said = (key: string) => new RegExp(`^# ${key}: (.*)$`, 'm').exec(text)?.[1];
  const about = /^# (.*)$/m.exec(text)?.[1] ?? '';
  const on = said('on');
  const releases = said('releases');
  if (about === '' || on === undefined || releases === undefined)
    throw new Error(`${file}: about, on or releases lacks`);
  const parts = on === 'none' ? [] : on.split(', ');
  const config = configFor(said('config'), file);
  return releases.split(', ').map(release => ({
    name,
    about,
    release,
    config,
    parts,
    cluster: clusterOf(parts, release),
    manifests: text.replaceAll('RELEASE', release),
  }));
}

/** The names of all situations. */
export function situationNames(): readonly string[] {
  return readdirSync(FOLDER)
    .filter(name => name.endsWith('.yaml'))
    .map(name => name.slice(0, -'.yaml'.length))
    .sort();
}

function told({ policy, finding, action, subject, effect, fix }: Finding): string {
  return `${policy}/${finding} (${action}) ${spoken(subject)}: ${effect}; ${fix}`;
}

interface Files {
  readonly cluster: readonly string[];
  readonly manifests: string;
}

async function withFiles<T>({ cluster, manifests }: Situation, use: (files: Files) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'waywarden-ordinary-'));
  try {
    const files = { cluster: join(folder, 'cluster.yaml'), manifests: join(folder, 'manifests.yaml') };
    writeFileSync(files.cluster, cluster);
    writeFileSync(files.manifests, manifests);
    return await use({ cluster: cluster === '' ? [] : [files.cluster], manifests: files.manifests });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What `check` says: of everything together, and of the manifests on the cluster. */
export function checked(situation: Situation): Promise<readonly string[]> {
  return withFiles(situation, async ({ cluster, manifests }) => {
    const together = await check([...cluster, manifests], [], situation.config);
    const onCluster = await check([manifests], cluster, situation.config);
    if (together.skipped + onCluster.skipped > 0) throw new Error(`${situation.name}: not every document is an object`);
    return [together, onCluster].flatMap(({ findings, notices }, index) =>
      // a situation may say more of a Namespace of the cluster: the later holds
      [
        ...findings.map(({ finding }) => told(finding)),
        ...notices.filter(line => !line.includes('more than once')),
      ].map(line => `${index === 0 ? 'all' : 'on'}: ${line}`),
    );
  });
}

function objectsOf(situation: Situation): Promise<readonly Manifest[]> {
  return withFiles(situation, async ({ cluster, manifests }) => {
    const { objects } = readManifests([...cluster, manifests]);
    return [...new Map(objects.map(one => [refKey(one.ref), one])).values()];
  });
}

/** What the webhook says where each object in turn comes last, on all the others. */
export async function reviewed(situation: Situation): Promise<readonly string[]> {
  const objects = await objectsOf(situation);
  const said: string[] = [];
  for (const last of objects) {
    // one with a uid was read from a cluster: nobody creates it so
    if (at(last.object, 'metadata', 'uid') !== undefined) continue;
    const mesh = createFileMesh(situation.config.declared);
    for (const one of objects) if (one !== last) mesh.put(one.projection);
    const request = requestFor(last.object, {});
    if (request === undefined) throw new Error(`${spoken(last.ref)} is no object`);
    const verdict = await review({ policies, settings: situation.config.settings, mesh }, request);
    // a state without an istiod is not complete, and what could not be checked on it is said once
    const complete = mesh.fact(controlPlanes).length > 0;
    const lines = [
      ...verdict.findings.map(told),
      ...verdict.warnings.filter(warning => complete || !verdict.notices.includes(warning)),
      ...(verdict.failures ?? []).map(({ policy }) => `${policy} failed`),
    ];
    if (verdict.patch.length > 0) lines.push(`a patch: ${JSON.stringify(verdict.patch)}`);
    if (verdict.verdict === 'deny' && lines.length === 0) lines.push(verdict.verdict);
    said.push(...lines.map(line => `${spoken(last.ref)} last: ${line}`));
  }
  return said;
}

/** The object after a change that takes nothing from the mesh: what tools write on it, a replica more, pods made anew. */
function touched(object: JsonObject): JsonObject {
  const metadata = record(object['metadata']) ?? {};
  const spec = record(object['spec']);
  const template = record(spec?.['template']);
  const written = {
    ...object,
    metadata: {
      ...metadata,
      labels: { ...record(metadata['labels']), 'app.kubernetes.io/managed-by': 'Helm' },
      annotations: { ...record(metadata['annotations']), 'argocd.argoproj.io/tracking-id': 'a:b/c:d/e' },
    },
  };
  if (spec === undefined || record(template?.['spec']) === undefined) return written;
  const pods = record(template?.['metadata']) ?? {};
  const annotations = { ...record(pods['annotations']), 'kubectl.kubernetes.io/restartedAt': '2026-11-30T10:00:00Z' };
  const replicas = typeof spec['replicas'] === 'number' ? { replicas: spec['replicas'] + 1 } : {};
  return { ...written, spec: { ...spec, ...replicas, template: { ...template, metadata: { ...pods, annotations } } } };
}

/** What the webhook says of an everyday change to each object, where all of them are there. */
export async function updated(situation: Situation): Promise<readonly string[]> {
  const objects = await objectsOf(situation);
  const mesh = createFileMesh(situation.config.declared);
  for (const { projection } of objects) mesh.put(projection);
  const said: string[] = [];
  for (const { ref, object } of objects) {
    const request = requestFor(touched(object), { old: object });
    if (request === undefined) throw new Error(`${spoken(ref)} is no object`);
    const {
      findings,
      failures = [],
      patch,
    } = await review({ policies, settings: situation.config.settings, mesh }, request);
    const lines = [...findings.map(told), ...failures.map(({ policy }) => `${policy} failed`)];
    if (patch.length > 0) lines.push(`a patch: ${JSON.stringify(patch)}`);
    said.push(...lines.map(line => `${spoken(ref)} changed: ${line}`));
  }
  return said;
}

/** What an audit of the cluster says. */
export async function audited(situation: Situation): Promise<readonly string[]> {
  const objects = await objectsOf(situation);
  const before = createFileMesh(situation.config.declared);
  const after = createFileMesh(situation.config.declared);
  for (const { projection } of objects) after.put(projection);
  const requests = new Map<string, RequestFacts>(
    objects.map(({ ref, version }) => [refKey(ref), { operation: 'CREATE', version, earlierVersions: [version] }]),
  );
  const answer = await difference({
    policies,
    settings: situation.config.settings,
    before,
    after,
    changes: objects.map(({ ref, projection }) => ({ ref, after: projection })),
    stage: 'audit',
    request: written => requests.get(refKey(written)),
    now: Date.now(),
  });
  return [...answer.findings.map(told), ...verdictOf(answer, situation.config.settings).warnings];
}

// `waywarden check`: a set of manifests judged together. What one of them brings, another may rely on.

import { CHART_NAMES, policies, VALUES_PATH, valuesManifest } from '../../policies/index.ts';
import { earlierVersions, withStatusOf } from '../admission/request.ts';
import type { Config } from '../config/default.ts';
import { difference, type Finding } from '../engine/difference.ts';
import type { RequestFacts } from '../engine/policy.ts';
import { noticesOf } from '../engine/verdict.ts';
import { record, same } from '../kube/json.ts';
import { refKey, spoken } from '../kube/kind.ts';
import { didYouMean } from '../kube/near.ts';
import { pointerParts } from '../kube/patch.ts';
import { GATEWAY } from '../mesh/kinds/gateways.ts';
import { identify, project } from '../mesh/kinds.ts';
import type { Change, Declared, Mesh } from '../mesh/mesh.ts';
import { compareRelease, istioReleases, KNOWLEDGE, OLDEST, parseRelease } from '../mesh/releases.ts';
import {
  createFileMesh,
  InputError,
  type Manifest,
  type Position,
  place,
  readManifests,
  readValues,
  STDIN,
} from '../mesh/sources/files.ts';
import { kedaAutoscaler } from '../mesh/sources/keda.ts';
import { checkJson } from '../report/json.ts';
import type { CheckReport, Located } from '../report/report.ts';
import { checkText } from '../report/text.ts';
import { callOf, UsageError } from './arguments.ts';
import { configFrom } from './config.ts';
import { paintFor, print, progress } from './terminal.ts';

const HELP = `waywarden check: judge a set of manifests together

Usage: waywarden check PATH... [--state PATH]... [--istio RELEASE] [--namespace NS] [--config FILE]
                       [--values CHART=FILE]... [--output text|json] [--fail-on deny|warn|never]

PATH is a file, a directory (with all .yaml, .yml and .json files below it) or - for standard input. The order of the
objects does not matter. What is no Kubernetes object, such as the values of a Helm chart, is skipped and counted.

  --state PATH        what the cluster holds already, such as the output of kubectl get -o yaml
  --istio RELEASE     the release of Istio where neither state nor manifests hold an istiod: 1.29
  --values CHART=FILE values for one of Istio's charts (base, istiod, cni, ztunnel, gateway): judged as settings;
                      several of one chart are merged as by helm -f, the later before the earlier
  --namespace NS      the namespace of manifests that name none (default)
  --config FILE       waywarden.yaml
  --output FORMAT     text (the default) or json
  --fail-on ACTION    what makes the exit status 1: deny, warn (the default: any finding) or never

Examples:
  waywarden check deploy/ --istio 1.31
  helm template shop ./chart | waywarden check - --state cluster.yaml
  kustomize build overlays/prod | waywarden check - --state cluster.yaml --fail-on deny
  waywarden check --values istiod=istiod.yaml --values ztunnel=ztunnel.yaml --istio 1.31
  waywarden check deploy/ --state cluster.yaml --output json | jq '.findings[].message'

With --state, what the manifests make worse is told, and not what the state holds already. To see everything, check the dump
itself, without --state of it: waywarden check cluster.yaml

A Gateway of the manifests counts as it will be once it runs: what Git holds has no status. What the state knows of an object's
status stays as it is.

Without an istiod in the state or in the manifests nobody knows what else the cluster holds: nothing is refused then
for want of it, and what could not be checked is said.

Exit status: 0 clean, 1 findings, 2 where the input cannot be read or no Kubernetes object is in it at all.
`;

const OPTIONS = {
  state: { type: 'string', multiple: true },
  istio: { type: 'string' },
  namespace: { type: 'string' },
  values: { type: 'string', multiple: true },
  config: { type: 'string' },
  output: { type: 'string' },
  'fail-on': { type: 'string' },
} as const;

/** Values of one of Istio's charts. */
export interface ChartValues {
  readonly chart: string;
  readonly file: string;
}

/** The values as a manifest like any other, whose positions are those of the values file. */
function chartManifest({ chart, file }: ChartValues): Manifest {
  if (file === '') throw new UsageError(`--values takes CHART=FILE, and there is no file behind "${chart}="`);
  const [first, second] = readValues(file);
  if (first === undefined) throw new InputError(`${file}: there are no values in it`);
  if (record(first.value) === undefined || identify(first.value) !== undefined) {
    const found = record(first.value) === undefined ? 'no mapping' : 'a Kubernetes object';
    throw new InputError(`${place(first.position())}: this is ${found}, and not the values of a chart`);
  }
  if (second !== undefined) throw new InputError(`${place(second.position())}: a values file is one document`);
  const object = record(valuesManifest(chart, first.value, first.quoted));
  const identity = identify(object);
  if (object === undefined || identity === undefined) {
    throw new UsageError(
      `--values knows no chart "${chart}"${didYouMean(chart, CHART_NAMES)}: ${CHART_NAMES.join(', ')}`,
    );
  }
  const { version, ...ref } = identity;
  return {
    ref,
    version,
    object,
    projection: project(ref.kind, ref.namespace, object),
    position: pointer =>
      first.position(pointer?.startsWith(VALUES_PATH) === true ? pointer.slice(VALUES_PATH.length) : ''),
  };
}

/** What helm makes of several files of values: mappings are merged, of anything else the later goes before. */
function mergedValues(earlier: unknown, later: unknown): unknown {
  const [under, over] = [record(earlier), record(later)];
  if (under === undefined || over === undefined) return later;
  const merged = new Map(Object.entries(under));
  for (const [key, value] of Object.entries(over))
    merged.set(key, merged.has(key) ? mergedValues(merged.get(key), value) : value);
  return Object.fromEntries(merged);
}

/** The manifests of all values, one for each chart: what stands in several files has the place of the last of them. */
function chartManifests(values: readonly ChartValues[]): readonly Manifest[] {
  const charts = new Map<string, Manifest>();
  for (const over of values.map(chartManifest)) {
    const key = refKey(over.ref);
    const under = charts.get(key);
    charts.set(key, under === undefined ? over : layered(under, over));
  }
  return [...charts.values()];
}

function layered(under: Manifest, over: Manifest): Manifest {
  const object = record(mergedValues(under.object, over.object)) ?? over.object;
  return {
    ...over,
    object,
    projection: project(over.ref.kind, over.ref.namespace, object),
    position: pointer => (holds(over.object, pointer) ? over : under).position(pointer),
  };
}

/** Whether something stands at a JSON pointer; lists are never merged, and so belong to one file as a whole. */
function holds(object: unknown, pointer = ''): boolean {
  let current = object;
  for (const part of pointerParts(pointer)) {
    if (Array.isArray(current)) return true;
    const members = record(current);
    if (members === undefined || !Object.hasOwn(members, part)) return false;
    current = members[part];
  }
  return true;
}

const ADDRESS = { addresses: [{ type: 'IPAddress', value: '192.0.2.1' }] };

/**
 * A manifest as the API server would have it: with the status that the object has already. A Gateway that is new has none in Git, and
 * counts as it will be once it runs: it is promised by the same set.
 */
function asStored(manifest: Manifest, old: Manifest | undefined): Manifest {
  const { ref, object } = manifest;
  const status = old === undefined && ref.kind === GATEWAY ? { status: ADDRESS } : old?.object;
  const stored = withStatusOf(status, object);
  const projection = stored === object ? manifest.projection : project(ref.kind, ref.namespace, stored);
  // what a file says of its deletion the API server clears
  return projection.terminating && ref.kind !== 'Namespace'
    ? { ...manifest, projection: Object.freeze({ ...projection, terminating: false }) }
    : { ...manifest, projection };
}

/** The findings of manifests on a state, each with its place. */
export async function check(
  paths: readonly string[],
  state: readonly string[],
  { settings, declared }: Config,
  say: (what: string) => void = () => {},
  values: readonly ChartValues[] = [],
  namespace?: string,
): Promise<CheckReport> {
  const reading = (file: string) => say(`reading ${file}`);
  const read = readManifests(paths, reading, namespace);
  const manifests = {
    ...read,
    objects: [...read.objects, ...chartManifests(values)],
    files: read.files + values.length,
  };
  const known = readManifests(state, reading);
  const before = createFileMesh(declared, state.length > 0);
  const after = createFileMesh(declared, state.length > 0);
  const places = new Map<string, Manifest>();
  for (const manifest of known.objects) {
    before.put(manifest.projection);
    after.put(manifest.projection);
    places.set(refKey(manifest.ref), manifest);
  }
  const inGit = new Set(manifests.objects.map(({ ref }) => refKey(ref)));
  const made = manifests.objects.flatMap(manifest => {
    const autoscaler = kedaAutoscaler(manifest);
    return autoscaler === undefined || inGit.has(refKey(autoscaler.ref)) ? [] : autoscaler;
  });
  const written = new Map<string, Change>();
  const twice = new Map<string, Manifest>();
  const requests = new Map<string, RequestFacts>();
  for (const one of [...manifests.objects, ...made]) {
    const key = refKey(one.ref);
    const manifest = asStored(one, places.get(key));
    if (written.has(key)) twice.set(key, manifest);
    const old = written.has(key) ? undefined : places.get(key);
    const was = written.get(key)?.before ?? old?.projection;
    after.put(manifest.projection);
    // what the state has just so already is no change
    if (was !== undefined && same(was, manifest.projection) && old?.version === manifest.version) continue;
    written.set(key, { ref: manifest.ref, ...(was === undefined ? {} : { before: was }), after: manifest.projection });
    requests.set(key, {
      operation: was === undefined ? 'CREATE' : 'UPDATE',
      version: manifest.version,
      earlierVersions: requests.get(key)?.earlierVersions ?? (old === undefined ? [] : earlierVersions(old.object)),
    });
    places.set(key, manifest);
  }
  say(`judging ${written.size} objects`);
  const answer = await difference({
    policies,
    settings,
    before,
    after,
    changes: [...written.values()],
    stage: 'files',
    request: written => requests.get(refKey(written)),
    now: Date.now(),
  });
  return {
    findings: inOrder(
      answer.findings
        .filter(({ action, subject }) => action !== 'off' && !settings.unguarded.includes(subject.namespace))
        .map(finding => located(finding, places)),
    ),
    notices: [...noticesOf(answer), ...twiceNotice([...twice.values()]), ...knowledgeNotice(after)],
    objects: read.objects.length + values.length,
    files: manifests.files,
    skipped: manifests.skipped,
  };
}

/** Overlays of one base that were not built have one object in several files: only the last of them is judged. */
function twiceNotice([first, ...others]: readonly Manifest[]): readonly string[] {
  if (first === undefined) return [];
  const more = others.length === 0 ? '' : `, and ${others.length} more objects`;
  return [
    `waywarden: ${spoken(first.ref)} stands there more than once, and only the last is judged (${place(first.position())}${more})`,
  ];
}

/** Releases beyond what Waywarden knows, said once. */
function knowledgeNotice(mesh: Mesh): readonly string[] {
  const beyond = mesh
    .fact(istioReleases)
    .filter(
      release =>
        release !== undefined && (compareRelease(release, KNOWLEDGE) > 0 || compareRelease(release, OLDEST) < 0),
    )
    .map(release => release?.text);
  return beyond.length === 0
    ? []
    : [`waywarden: Istio ${beyond.join(', ')} is judged by what is known of ${OLDEST} to ${KNOWLEDGE}`];
}

function located(finding: Finding, places: ReadonlyMap<string, Manifest>): Located {
  const position = places.get(refKey(finding.subject))?.position(finding.path);
  return { finding, ...(position === undefined ? {} : { position }) };
}

function inOrder(findings: readonly Located[]): readonly Located[] {
  const by = ({ file, line, column }: Position, other: Position) =>
    file < other.file ? -1 : file > other.file ? 1 : line - other.line || column - other.column;
  return [...findings].sort((a, b) =>
    a.position === undefined || b.position === undefined
      ? Number(a.position === undefined) - Number(b.position === undefined)
      : by(a.position, b.position),
  );
}

function declaredWith(declared: Declared, istio: string | undefined): Declared {
  if (istio === undefined) return declared;
  if (parseRelease(istio) === undefined) throw new UsageError(`--istio takes a release such as 1.31, not "${istio}"`);
  return { ...declared, istio };
}

/** Runs the command; resolves with the exit status. */
export async function run(words: readonly string[]): Promise<number> {
  const call = callOf('check', words, OPTIONS);
  if (call === undefined) {
    await print(HELP);
    return 0;
  }
  const { positionals: paths } = call;
  const state = call.texts('state');
  const values = call.texts('values').map(written => {
    const equals = written.indexOf('=');
    if (equals < 1) throw new UsageError(`--values takes CHART=FILE, not "${written}"`);
    return { chart: written.slice(0, equals), file: written.slice(equals + 1) };
  });
  if (paths.length + values.length === 0)
    throw new UsageError('check needs a PATH (or - for standard input); see waywarden check --help');
  if ([...paths, ...state].filter(path => path === STDIN).length > 1) {
    throw new UsageError('standard input (-) can be read once only');
  }
  const output = call.choice('output', ['text', 'json'], 'text');
  const failOn = call.choice('fail-on', ['deny', 'warn', 'never'], 'warn');
  const config = await configFrom(call.text('config'));
  const declared = declaredWith(config.declared, call.text('istio'));
  const report = await check(paths, state, { ...config, declared }, progress(), values, call.text('namespace'));
  if (paths.length > 0 && report.objects === values.length) {
    const skipped = report.skipped === 0 ? 'no document' : 'no Kubernetes object (apiVersion, kind)';
    throw new InputError(`there is nothing to check: ${skipped} in ${paths.join(', ')}`);
  }
  await print(
    output === 'json'
      ? checkJson(report, config.settings)
      : checkText(report, config.settings, paintFor(process.stdout)),
  );
  const failing = failOn === 'never' ? [] : failOn === 'deny' ? ['deny'] : ['deny', 'warn'];
  return report.findings.some(({ finding }) => failing.includes(finding.action)) ? 1 : 0;
}

// Settings one by one: variables, values, MeshConfig, hubs.
import type { Report } from '../../src/engine/policy.ts';
import { at, record, records } from '../../src/kube/json.ts';
import { pointer, pointerParts } from '../../src/kube/patch.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { compareRelease, istioReleases, parseBool, type Release } from '../../src/mesh/releases.ts';
import type { EnvSetting, Part, Place } from './places.ts';
import { closingHub, envRow, likelyEnv, likelyMeshKey, REMOVED_PROVIDERS, VALUE_ROWS, type ValueRow } from './table.ts';

export type SettingId =
  | 'setting-removed'
  | 'setting-unknown'
  | 'not-a-boolean'
  | 'native-sidecars-value'
  | 'wrong-level'
  | 'default-overridden'
  | 'image-hub';

/** The releases that a setting is for: the one that its object installs, else those that are there. */
function releasesFor({ release }: Part, mesh: Mesh): readonly (Release | undefined)[] {
  return release === undefined ? mesh.fact(istioReleases) : [release];
}

/** Whether every release is known and at least this one. */
function all(releases: readonly (Release | undefined)[], than: string): boolean {
  return releases.length > 0 && releases.every(release => release !== undefined && compareRelease(release, than) >= 0);
}

const child = (path: string, ...keys: readonly string[]) => pointer(...pointerParts(path), ...keys);
const clip = (value: string) => (value.length > 24 ? `${value.slice(0, 23)}…` : value);

function removed(
  name: string,
  since: string,
  instead: string | undefined,
  path: string,
  info?: true,
): Report<SettingId> {
  return {
    finding: 'setting-removed',
    key: name,
    effect: `Istio ${since} and newer do not read ${name}: it has no effect`,
    fix: instead ?? `remove ${name}`,
    evidence: [],
    ...(info === undefined ? {} : { action: 'log' as const }),
    path,
  };
}

export function* onEnv(part: Part, mesh: Mesh): Iterable<Report<SettingId>> {
  const releases = releasesFor(part, mesh);
  for (const { name, value, path } of part.env) {
    const row = envRow(name);
    if (row === undefined) {
      const likely = likelyEnv(name);
      if (likely === undefined) continue;
      yield {
        finding: 'setting-unknown',
        key: name,
        effect: `istiod knows no variable ${name}: it has no effect`,
        fix: `${likely} is probably meant`,
        evidence: [],
        path,
      };
    } else if (row.removed !== undefined && all(releases, row.removed)) {
      yield removed(name, row.removed, row.instead, path, row.info);
    } else if (name === 'ENABLE_NATIVE_SIDECARS') {
      yield* onNativeSidecars({ name, value, path }, releases);
    } else if (row.type === 'bool' && parseBool(value) === undefined && value !== '') {
      yield {
        finding: 'not-a-boolean',
        key: name,
        effect: `${name}: "${clip(value)}" is no boolean to istiod: the default (${row.default ?? 'unset'}) holds, only its log tells`,
        fix: 'write true or false (1, t, T, TRUE, True, 0, f, F, FALSE, False are read too)',
        evidence: [],
        path,
      };
    }
  }
}

/** From 1.27 on a text that is compared exactly; before, a boolean that was off by default (pilot/pkg/features/pilot.go). */
function* onNativeSidecars(
  { name, value, path }: EnvSetting,
  releases: readonly (Release | undefined)[],
): Iterable<Report<SettingId>> {
  const older = releases.some(release => release !== undefined && compareRelease(release, '1.27') < 0);
  const legal = older ? parseBool(value) !== undefined || value === 'auto' : ['true', 'false', 'auto'].includes(value);
  if (legal) return;
  yield {
    finding: 'native-sidecars-value',
    key: name,
    effect: `${name}: "${clip(value)}" is none of true, false and auto: it turns native sidecars off`,
    fix: 'write "true", "false" or "auto" (the default from 1.27 on)',
    evidence: [],
    path,
  };
}

export function* onMeshConfig({ meshConfig, release }: Part, mesh: Mesh): Iterable<Report<SettingId>> {
  for (const { value, path } of meshConfig) {
    for (const key of Object.keys(record(value) ?? {})) {
      const likely = likelyMeshKey(key);
      if (likely === undefined) continue;
      yield {
        finding: 'setting-unknown',
        key: `meshConfig.${key}`,
        effect: `meshConfig has no ${key}: istiod drops it without a word; ${likely} is probably meant`,
        fix: `write ${likely}`,
        evidence: [],
        path: path === '/data/mesh' ? path : child(path, key),
      };
    }
    const releases = release === undefined ? mesh.fact(istioReleases) : [release];
    for (const provider of records(at(value, 'extensionProviders'))) {
      const gone = REMOVED_PROVIDERS.find(({ name }) => Object.hasOwn(provider, name));
      if (gone === undefined || !all(releases, gone.removed)) continue;
      yield removed(
        `extensionProviders ${gone.name}`,
        gone.removed,
        gone.instead,
        path === '/data/mesh' ? path : child(path, 'extensionProviders'),
      );
    }
    for (const name of Object.keys(record(at(value, 'defaultConfig', 'proxyMetadata')) ?? {})) {
      const since = envRow(name)?.removed;
      if (since === undefined || !all(releases, since)) continue;
      const where = path === '/data/mesh' ? path : child(path, 'defaultConfig', 'proxyMetadata', name);
      yield removed(name, since, envRow(name)?.instead, where);
    }
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number'
    ? String(value)
    : undefined;
}

/** The explicit value of a row in a place, and where. */
function found(row: ValueRow, { value, path }: Place): { readonly said: string; readonly path: string } | undefined {
  const keys = row.key.split('.');
  const direct = textOf(at(value, ...keys));
  if (direct !== undefined) return { said: direct, path: child(path, ...keys) };
  const variable = row.configMap === undefined ? undefined : textOf(at(value, row.configMap));
  return variable === undefined || row.configMap === undefined
    ? undefined
    : { said: variable, path: child(path, row.configMap) };
}

function misplaced(row: ValueRow, part: Part, path: string, where: string): Report<SettingId> {
  return {
    finding: 'wrong-level',
    key: row.key,
    effect: `${row.key} stands where the ${part.chart} chart does not read it: the default holds`,
    fix: where,
    evidence: [],
    path,
  };
}

function* onLevel(row: ValueRow, part: Part): Iterable<Report<SettingId>> {
  const level = row.charts[part.chart];
  if (level === undefined) return;
  const [own, global] = [
    part.own.map(one => found(row, one)).find(one => one !== undefined),
    part.global === undefined ? undefined : found(row, part.global),
  ];
  // the ztunnel's own level in shared values is below `ztunnel`, so that the top belongs to nobody
  const shared = part.shared === undefined ? undefined : found(row, part.shared);
  if (level === 'global') {
    const wrong = own ?? shared;
    if (wrong !== undefined && global === undefined)
      yield misplaced(row, part, wrong.path, `write it below global: global.${row.key}`);
  } else if (level === 'any') {
    if (shared !== undefined) yield misplaced(row, part, shared.path, `write it below ${part.chart}`);
  } else if (level === 'none') {
    const wrong = own ?? global;
    if (wrong !== undefined) yield misplaced(row, part, wrong.path, `remove it: the ${part.chart} chart has none`);
  }
  const right = level === 'global' ? global : level === 'any' ? (own ?? global) : undefined;
  if (right !== undefined && row.values !== undefined && !row.values.includes(right.said)) {
    yield {
      finding: 'setting-unknown',
      key: row.key,
      effect: `${row.key}: "${clip(right.said)}" is none of ${row.values.join(', ')}: ${row.otherwise ?? 'it has no effect'}`,
      fix: `write one of ${row.values.join(', ')}`,
      evidence: [],
      path: right.path,
    };
  }
}

export function* onValues(part: Part, mesh: Mesh): Iterable<Report<SettingId>> {
  const releases = releasesFor(part, mesh);
  for (const row of VALUE_ROWS) {
    if (row.since === undefined || releases.length === 0 || all(releases, row.since)) yield* onLevel(row, part);
    const newest = row.defaults?.at(-1);
    if (newest === undefined || row.charts[part.chart] !== 'top' || !all(releases, newest.from)) continue;
    const said = part.own.map(one => found(row, one)).find(one => one !== undefined);
    if (said === undefined || said.said === newest.value) continue;
    yield {
      finding: 'default-overridden',
      key: row.key,
      effect: `${row.key}: ${clip(said.said)}: ${row.effect ?? 'the new behaviour is off'}`,
      fix: `remove ${row.key}, unless it is meant`,
      evidence: [],
      path: said.path,
    };
  }
}

export function* onImages({ images }: Part): Iterable<Report<SettingId>> {
  for (const { image, release, path } of images) {
    const closing = closingHub(image);
    if (closing === undefined) continue;
    const gone = release !== undefined && compareRelease(release, closing.last) > 0;
    yield {
      finding: 'image-hub',
      key: closing.hub,
      effect: gone
        ? `Istio ${release.text} is not on ${closing.hub}: from 1.31 on its images are on docker.io/istio alone`
        : `${closing.hub} ends in December 2026: these images cannot be pulled any more then`,
      fix: 'pull from docker.io/istio, or from a mirror of it',
      evidence: [],
      action: gone ? 'deny' : 'warn',
      path,
    };
  }
}

// The table of settings, and what is asked of it.
import { distance } from '../../src/kube/distance.ts';
import { SETTINGS } from './settings.gen.ts';

/** A Helm chart of Istio's. */
export type Chart = 'base' | 'istiod' | 'cni' | 'ztunnel' | 'gateway';

/** A variable that istiod reads, or has read. */
export interface EnvRow {
  readonly name: string;
  readonly type: 'bool' | 'text' | 'number' | 'duration';
  readonly default?: 'true' | 'false';
  readonly values?: readonly string[];
  readonly spelled?: readonly string[];
  readonly since?: string;
  readonly removed?: string;
  readonly instead?: string;
  /** True where charts of newer releases still set it: nobody can help it. */
  readonly info?: true;
  readonly source: string;
}

/** A key of the charts' values. */
export interface ValueRow {
  readonly key: string;
  readonly since?: string;
  /** Where it must stand, by chart: below `global`, at the chart's own top level, on either, or nowhere. */
  readonly charts: Readonly<Partial<Record<Chart, 'global' | 'top' | 'any' | 'none'>>>;
  readonly values?: readonly string[];
  readonly otherwise?: string;
  /** The key of istio-cni's ConfigMap that it becomes. */
  readonly configMap?: string;
  readonly defaults?: readonly { readonly from: string; readonly value: string }[];
  readonly effect?: string;
  readonly source: string;
}

export interface SettingTable {
  readonly env: readonly EnvRow[];
  readonly otherEnv: readonly string[];
  readonly values: readonly ValueRow[];
  readonly meshConfig: {
    readonly keys: readonly string[];
    readonly providers: readonly {
      readonly name: string;
      readonly removed: string;
      readonly instead: string;
      readonly source: string;
    }[];
  };
  readonly hubs: readonly { readonly hub: string; readonly last: string }[];
}

const ENV: ReadonlyMap<string, EnvRow> = new Map(SETTINGS.env.map(row => [row.name, row]));
const OTHERS: ReadonlySet<string> = new Set(SETTINGS.otherEnv);
const SPELLED: ReadonlyMap<string, string> = new Map(
  SETTINGS.env.flatMap(({ name, spelled = [] }) => spelled.map(wrong => [wrong, name] as const)),
);
const PREFIX = /^(?:PILOT|ISTIO|ISTIOD|AMBIENT)_/;
/** What is gone is nobody's advice. */
const BARE: ReadonlyMap<string, string> = new Map(
  SETTINGS.env.filter(row => row.removed === undefined).map(({ name }) => [name.replace(PREFIX, ''), name] as const),
);

export function envRow(name: string): EnvRow | undefined {
  return ENV.get(name);
}

/** The variable that an unknown one is probably meant to be; undefined where it is known, or may be anything. */
export function likelyEnv(name: string): string | undefined {
  if (ENV.has(name) || OTHERS.has(name)) return undefined;
  const listed = SPELLED.get(name);
  if (listed !== undefined) return listed;
  const bare = name.replace(PREFIX, '');
  const prefixed = BARE.get(bare);
  if (prefixed !== undefined && bare.length >= 12) return prefixed;
  if (name.length < 12) return undefined;
  return SETTINGS.env.find(row => row.removed === undefined && distance(row.name, name, 2) <= 2)?.name;
}

const MESH_KEYS: ReadonlySet<string> = new Set(
  SETTINGS.meshConfig.keys.flatMap(key => [key, key.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)]),
);

/** The MeshConfig key that an unknown one is probably meant to be. */
export function likelyMeshKey(name: string): string | undefined {
  // protojson takes names as in the proto too (mesh_mtls): those of acronyms are found by their letters
  const plain = (key: string) => key.replaceAll('_', '').toLowerCase();
  if (MESH_KEYS.has(name)) return undefined;
  const same = SETTINGS.meshConfig.keys.find(key => plain(key) === plain(name));
  if (same !== undefined) return name.includes('_') ? undefined : same;
  if (name.length < 8) return undefined;
  return SETTINGS.meshConfig.keys.find(key => key.length >= 8 && distance(key, name, 2) <= 2);
}

export const VALUE_ROWS = SETTINGS.values;
export const REMOVED_PROVIDERS = SETTINGS.meshConfig.providers;

/** The hub that Istio leaves, of an image or of a hub as values have it. */
export function closingHub(image: string): SettingTable['hubs'][number] | undefined {
  return SETTINGS.hubs.find(({ hub }) => image === hub || image.startsWith(`${hub}/`));
}

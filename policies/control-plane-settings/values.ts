// Values of Helm charts as objects that the Mesh can hold: `check --values CHART=FILE` adds one for each file.
import { record } from '../../src/kube/json.ts';
import { pointer } from '../../src/kube/patch.ts';
import type { Chart } from './table.ts';

/** The charts' names as people call them: in Istio's repository, in Helm releases, in umbrella charts. */
const CHARTS: Readonly<Record<string, Chart>> = {
  base: 'base',
  'istio-base': 'base',
  istiod: 'istiod',
  'istio-discovery': 'istiod',
  'istio-istiod': 'istiod',
  pilot: 'istiod',
  cni: 'cni',
  'istio-cni': 'cni',
  ztunnel: 'ztunnel',
  'istio-ztunnel': 'ztunnel',
  gateway: 'gateway',
  'istio-gateway': 'gateway',
  'istio-ingress': 'gateway',
  'istio-ingressgateway': 'gateway',
};

/** The names that `--values` takes. */
export const CHART_NAMES: readonly string[] = Object.keys(CHARTS);

/** The path under which the values stand in the manifest: cut it off a finding's path to find the line in the file. */
export const VALUES_PATH = '/spec';

const WORDS: ReadonlyMap<string, boolean> = new Map([
  ...['y', 'yes', 'on'].map(word => [word, true] as const),
  ...['n', 'no', 'off'].map(word => [word, false] as const),
]);

/** One of the ways in which YAML 1.1 writes a word: as it is, with a capital, or all in capitals. */
const WORD = /^(?:[a-z]+|[A-Z][a-z]*|[A-Z]+)$/;

/**
 * Values as helm reads them: its YAML makes booleans of `yes` and `on` where they are not in quotes (go.yaml.in/yaml/v2 resolve.go, by way
 * of sigs.k8s.io/yaml). What is in quotes stays the text that istiod then gets.
 */
function asHelm(value: unknown, quoted: (path: string) => boolean, path: readonly string[] = []): unknown {
  if (typeof value === 'string') {
    const word = value.length <= 3 && WORD.test(value) ? WORDS.get(value.toLowerCase()) : undefined;
    return word === undefined || quoted(pointer(...path)) ? value : word;
  }
  if (Array.isArray(value)) return value.map((item, index) => asHelm(item, quoted, [...path, String(index)]));
  const members = record(value);
  if (members === undefined) return value;
  return Object.fromEntries(Object.entries(members).map(([key, item]) => [key, asHelm(item, quoted, [...path, key])]));
}

/**
 * The manifest that stands for the values of a chart (the JSON of one values file): apply it like any other. `quoted` tells of a
 * text at a JSON pointer whether it is in quotes in the file. undefined where the chart is none of Istio's. One for each chart: the
 * caller merges several.
 */
export function valuesManifest(
  chart: string,
  values: unknown,
  quoted: (path: string) => boolean = () => true,
): object | undefined {
  const known = Object.hasOwn(CHARTS, chart) ? CHARTS[chart] : undefined;
  if (known === undefined) return undefined;
  return { apiVersion: 'helm.sh/v1', kind: 'Values', metadata: { name: known }, spec: asHelm(values, quoted) ?? {} };
}

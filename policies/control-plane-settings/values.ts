// Values of Helm charts as objects that the Mesh can hold: `check --values CHART=FILE` adds one for each file.
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

/**
 * The manifest that stands for the values of a chart (the JSON of one values file, or of several merged by the caller): apply it like
 * any other. undefined where the chart is none of Istio's. One for each chart: two of one name replace each other.
 */
export function valuesManifest(chart: string, values: unknown): object | undefined {
  const known = Object.hasOwn(CHARTS, chart) ? CHARTS[chart] : undefined;
  if (known === undefined) return undefined;
  return { apiVersion: 'helm.sh/v1', kind: 'Values', metadata: { name: known }, spec: values ?? {} };
}

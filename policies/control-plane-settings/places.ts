// Where people keep the settings of Istio: environment, charts' values, the operators' objects, ConfigMaps. Every one of them is read
// as the same few parts, so that a setting is judged alike wherever it stands.
import { at, record, records, text } from '../../src/kube/json.ts';
import { pointer } from '../../src/kube/patch.ts';
import { yamlIn } from '../../src/kube/yaml.ts';
import type { ConfigMap, Specified } from '../../src/mesh/kinds/cluster.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { templatePath, WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import {
  controlPlanes,
  imageRelease,
  meshConfigName,
  parseRelease,
  type Release,
  rootNamespaces,
} from '../../src/mesh/releases.ts';
import type { Chart } from './table.ts';

/** A value and where it stands. */
export interface Place {
  readonly value: unknown;
  /** JSON pointer into the subject. */
  readonly path: string;
}

export interface EnvSetting {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

/** What one object says of one chart. */
export interface Part {
  readonly chart: Chart;
  /** The release that it installs, where it says so. */
  readonly release?: Release;
  /** The profile that the operators' objects name. */
  readonly profile?: string;
  readonly env: readonly EnvSetting[];
  /** The chart's own values: several places where the chart merges them. */
  readonly own: readonly Place[];
  readonly global?: Place;
  /** Where a key stands that belongs to no chart: the top of the values that several charts share. */
  readonly shared?: Place;
  readonly meshConfig: readonly Place[];
  /** Images and hubs, the tag in its own field. */
  readonly images: readonly { readonly image: string; readonly release?: Release; readonly path: string }[];
}

export const CNI_CONFIG = 'istio-cni-config';
export const VALUES = 'Values.helm.sh';
export const OPERATOR_KINDS = [
  'Istio.sailoperator.io',
  'IstioCNI.sailoperator.io',
  'ZTunnel.sailoperator.io',
  'IstioOperator.install.istio.io',
  VALUES,
] as const;

const NOTHING = { env: [], own: [], meshConfig: [], images: [] } as const;

function scalar(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number'
    ? String(value)
    : undefined;
}

function place(root: unknown, ...path: readonly string[]): Place | undefined {
  const value = at(root, ...path);
  return value === undefined ? undefined : { value, path: pointer(...path) };
}

/** Environment as a map, as charts have it. */
function envMap(root: unknown, ...path: readonly string[]): readonly EnvSetting[] {
  return Object.entries(record(at(root, ...path)) ?? {}).flatMap(([name, value]) => {
    const said = scalar(value);
    return said === undefined ? [] : [{ name, value: said, path: pointer(...path, name) }];
  });
}

/** Environment as a list, as pods have it. */
function envList(root: unknown, ...path: readonly string[]): readonly EnvSetting[] {
  const list = at(root, ...path);
  return records(list).flatMap(entry => {
    const name = text(entry['name']);
    const value = scalar(entry['value']);
    if (name === undefined || value === undefined) return [];
    return [{ name, value, path: pointer(...path, (list as readonly unknown[]).indexOf(entry)) }];
  });
}

function releaseOf(...candidates: readonly unknown[]): Release | undefined {
  for (const candidate of candidates) {
    const found = parseRelease(scalar(candidate) ?? '');
    if (found !== undefined) return found;
  }
  return undefined;
}

function hubs(root: unknown, release: Release | undefined, ...paths: readonly (readonly string[])[]): Part['images'] {
  return paths.flatMap(path => {
    const hub = text(at(root, ...path));
    if (hub === undefined || hub === '') return [];
    const own = imageRelease(hub) ?? release;
    return [{ image: hub, ...(own === undefined ? {} : { release: own }), path: pointer(...path) }];
  });
}

const present = <T>(...items: readonly (T | undefined)[]): readonly T[] =>
  items.filter((item): item is T => item !== undefined);
const withProfile = (root: unknown) => {
  const profile = text(at(root, 'spec', 'profile'));
  return profile === undefined ? {} : { profile };
};
const withRelease = (release: Release | undefined) => (release === undefined ? {} : { release });
const withPlace = <K extends string>(key: K, found: Place | undefined) =>
  (found === undefined ? {} : { [key]: found }) as { readonly [P in K]?: Place };

function ofWorkload(workload: Workload): readonly Part[] {
  const { component, template } = workload;
  if (component === undefined || component === 'gateway') return [];
  const container = { istiod: 'discovery', ztunnel: 'istio-proxy', 'istio-cni': 'install-cni' }[component];
  const index = Math.max(
    0,
    template.containers.findIndex(({ name }) => name === container),
  );
  const found = template.containers[index];
  if (found === undefined) return [];
  const release = imageRelease(found.image);
  const path = [...templatePath(workload.kind), 'spec', 'containers', index];
  return [
    {
      ...NOTHING,
      chart: component === 'istio-cni' ? 'cni' : component,
      ...withRelease(release),
      env: Object.entries(found.env).map(([name, value]) => ({ name, value, path: pointer(...path, 'env') })),
      images: [{ image: found.image, ...withRelease(release), path: pointer(...path, 'image') }],
    },
  ];
}

/** True for the ConfigMap that a control plane reads its MeshConfig from (pilot/pkg/bootstrap/mesh.go). */
function holdsMeshConfig({ name, namespace }: ConfigMap, mesh: Mesh): boolean {
  const planes = mesh.fact(controlPlanes);
  if (planes.length === 0) return name === 'istio' && mesh.fact(rootNamespaces).includes(namespace);
  return planes.some(plane => plane.namespace === namespace && name === meshConfigName(plane.revision));
}

function parsed(source: string | undefined): unknown {
  return source === undefined ? undefined : yamlIn(source)?.value;
}

function ofConfigMap(configMap: ConfigMap, mesh: Mesh): readonly Part[] {
  if (configMap.name === CNI_CONFIG) {
    const release = releaseOf(configMap.data['CURRENT_AGENT_VERSION']);
    return [{ ...NOTHING, chart: 'cni', ...withRelease(release), own: [{ value: configMap.data, path: '/data' }] }];
  }
  if (!holdsMeshConfig(configMap, mesh)) return [];
  const value = parsed(configMap.data['mesh']);
  return value === undefined ? [] : [{ ...NOTHING, chart: 'istiod', meshConfig: [{ value, path: '/data/mesh' }] }];
}

/** The object with its spec where it stands in the manifest, so that pointers are right. */
const rooted = ({ spec }: Specified) => ({ spec });

function ofSail(object: Specified, chart: Chart, key: string): readonly Part[] {
  const root = rooted(object);
  const values = ['spec', 'values'] as const;
  const release = releaseOf(
    at(root, 'spec', 'version'),
    at(root, ...values, key, 'tag'),
    at(root, ...values, 'global', 'tag'),
  );
  return [
    {
      chart,
      ...withRelease(release),
      ...withProfile(root),
      env: envMap(root, ...values, key, 'env'),
      own: present(place(root, ...values, key)),
      ...withPlace('global', place(root, ...values, 'global')),
      ...withPlace('shared', place(root, ...values)),
      meshConfig: present(place(root, ...values, 'meshConfig')),
      images: hubs(root, release, [...values, 'global', 'hub'], [...values, key, 'hub'], [...values, key, 'image']),
    },
  ];
}

function ofIstioOperator(object: Specified): readonly Part[] {
  const root = rooted(object);
  const values = ['spec', 'values'] as const;
  const release = releaseOf(at(root, 'spec', 'tag'), at(root, ...values, 'global', 'tag'));
  const global = withPlace('global', place(root, ...values, 'global'));
  const of = (chart: Chart, key: string): Part => ({
    ...NOTHING,
    chart,
    ...withRelease(release),
    ...withProfile(root),
    env: [...envMap(root, ...values, key, 'env'), ...envList(root, 'spec', 'components', key, 'k8s', 'env')],
    own: present(place(root, ...values, key)),
    ...global,
  });
  return [
    {
      ...of('istiod', 'pilot'),
      ...withPlace('shared', place(root, ...values)),
      meshConfig: present(place(root, 'spec', 'meshConfig'), place(root, ...values, 'meshConfig')),
      images: hubs(root, release, ['spec', 'hub'], [...values, 'global', 'hub']),
    },
    of('cni', 'cni'),
    of('ztunnel', 'ztunnel'),
  ];
}

/** What the charts merge over: `helm show values` prints it, and people keep it. */
const DEFAULTS = '_internal_defaults_do_not_set';

/** The names under which an umbrella chart keeps the values of a chart, where they are no key of the chart itself. */
const WITHIN: Readonly<Record<Chart, readonly string[]>> = {
  base: ['istio-base'],
  istiod: ['istiod', 'istio-istiod', 'istio-discovery'],
  cni: ['istio-cni'],
  ztunnel: ['ztunnel', 'istio-ztunnel'],
  gateway: ['gateway', 'istio-gateway', 'istio-ingress', 'istio-ingressgateway'],
};

function ofChart(root: unknown, chart: Chart, within: readonly string[]): Part {
  const release = releaseOf(
    at(root, ...within, 'tag'),
    at(root, ...within, 'global', 'tag'),
    at(root, 'spec', 'global', 'tag'),
  );
  // the charts merge what stands below their old names: `pilot` in istiod, `cni` in istio-cni (tried with helm on 1.31)
  const old = chart === 'istiod' ? 'pilot' : chart === 'cni' ? 'cni' : undefined;
  return {
    chart,
    ...withRelease(release),
    env: [...envMap(root, ...within, 'env'), ...(old === undefined ? [] : envMap(root, ...within, old, 'env'))],
    own: present(place(root, ...within), old === undefined ? undefined : place(root, ...within, old)),
    // an umbrella's `global` is that of its charts too
    ...withPlace('global', place(root, ...within, 'global') ?? place(root, 'spec', 'global')),
    meshConfig: present(place(root, ...within, 'meshConfig')),
    images: hubs(root, release, [...within, 'hub'], [...within, 'global', 'hub'], [...within, 'image']),
  };
}

function ofValues(object: Specified): readonly Part[] {
  const root = rooted(object);
  const chart = object.name as Chart;
  const inner = WITHIN[chart].map(key => ['spec', key]).filter(path => record(at(root, ...path)) !== undefined);
  return [['spec'], ...inner]
    .flatMap(path => [path, [...path, DEFAULTS]])
    .filter(path => path.length === 1 || record(at(root, ...path)) !== undefined)
    .map(path => ofChart(root, chart, path));
}

/** What an object says of the settings of Istio; empty for objects that say nothing. */
export function partsOf(subject: Meta, mesh: Mesh): readonly Part[] {
  if (WORKLOADS.has(subject.kind)) return ofWorkload(subject as Workload);
  switch (subject.kind) {
    case 'ConfigMap':
      return ofConfigMap(subject as ConfigMap, mesh);
    case 'Istio.sailoperator.io':
      return ofSail(subject as Specified, 'istiod', 'pilot');
    case 'IstioCNI.sailoperator.io':
      return ofSail(subject as Specified, 'cni', 'cni');
    case 'ZTunnel.sailoperator.io':
      return ofSail(subject as Specified, 'ztunnel', 'ztunnel');
    case 'IstioOperator.install.istio.io':
      return ofIstioOperator(subject as Specified);
    case VALUES:
      return ofValues(subject as Specified);
    default:
      return [];
  }
}

// nftables instead of iptables is set twice: for the init containers that istiod injects, and for istio-cni.
import type { Report } from '../../src/engine/policy.ts';
import { at } from '../../src/kube/json.ts';
import { type GroupKind, ref } from '../../src/kube/kind.ts';
import { pointer, pointerParts } from '../../src/kube/patch.ts';
import type { ConfigMap } from '../../src/mesh/kinds/cluster.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import type { Kind } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { cniAgents, compareRelease, controlPlanes, type Release } from '../../src/mesh/releases.ts';
import { CNI_CONFIG, partsOf, VALUES } from './places.ts';

/** What one object says of one side. */
interface Side {
  readonly of: 'istiod' | 'cni';
  readonly on: boolean;
  readonly path: string;
  /** Of istio-cni: whether it serves ambient mode, and its release. */
  readonly ambient: boolean;
  readonly release?: Release;
}

/** Names of the injector's ConfigMaps, whose `values` are what istiod was installed with. */
const INJECTOR = /^istio-sidecar-injector(?:-|$)/;
const OPERATOR = 'IstioOperator.install.istio.io';
const KEY = ['global', 'nativeNftables'] as const;

function json(source: string | undefined): unknown {
  try {
    return source === undefined ? undefined : (JSON.parse(source) as unknown);
  } catch {
    return undefined;
  }
}

function sideOf(subject: Meta, mesh: Mesh): Side | undefined {
  if (subject.kind === 'ConfigMap') {
    const { name, data } = subject as ConfigMap;
    if (INJECTOR.test(name)) {
      return { of: 'istiod', on: at(json(data['values']), ...KEY) === true, path: '/data/values', ambient: false };
    }
    if (name !== CNI_CONFIG) return undefined;
    const [part] = partsOf(subject, mesh);
    const release = part?.release ?? mesh.fact(cniAgents).find(agent => agent.release !== undefined)?.release;
    return {
      of: 'cni',
      on: data['NATIVE_NFTABLES'] === 'true',
      path: '/data/NATIVE_NFTABLES',
      ambient: data['AMBIENT_ENABLED'] === 'true',
      ...(release === undefined ? {} : { release }),
    };
  }
  // an umbrella's values say it in one of several places
  const parts = partsOf(subject, mesh).filter(({ chart }) =>
    // an IstioOperator sets both sides: istio-cni's is the one that ambient depends on
    subject.kind === OPERATOR ? chart === 'cni' : chart === 'istiod' || chart === 'cni',
  );
  const part = parts.find(({ global }) => at(global?.value, 'nativeNftables') !== undefined) ?? parts[0];
  if (part === undefined) return undefined;
  const { global, own, shared, release, chart, profile } = part;
  const on = at(global?.value, 'nativeNftables');
  const ambient =
    own.some(({ value }) => at(value, 'ambient', 'enabled') === true || at(value, 'profile') === 'ambient') ||
    [global?.value, shared?.value].some(value => at(value, 'profile') === 'ambient') ||
    profile === 'ambient';
  return {
    of: chart === 'istiod' ? 'istiod' : 'cni',
    on: on === true || on === 'true',
    path: pointer(...pointerParts(global?.path ?? ''), 'nativeNftables'),
    ambient,
    ...(release === undefined ? {} : { release }),
  };
}

/** The objects of the same sort that set the other side. */
function* counterparts(subject: Meta, mesh: Mesh): Iterable<Meta> {
  const kinds: Partial<Record<GroupKind, Kind>> = {
    'Istio.sailoperator.io': 'IstioCNI.sailoperator.io',
    'IstioCNI.sailoperator.io': 'Istio.sailoperator.io',
    [VALUES]: VALUES,
  };
  const kind = kinds[subject.kind];
  if (kind !== undefined) yield* mesh.list(kind);
  if (subject.kind !== 'ConfigMap') return;
  if (subject.name === CNI_CONFIG) {
    for (const plane of mesh.fact(controlPlanes)) {
      const name = plane.revision === 'default' ? 'istio-sidecar-injector' : `istio-sidecar-injector-${plane.revision}`;
      const found = mesh.get('ConfigMap', plane.namespace, name);
      if (found !== undefined) yield found;
    }
    return;
  }
  for (const namespace of new Set([
    subject.namespace,
    ...mesh.fact(cniAgents).map(({ workload }) => workload.namespace),
  ])) {
    const found = mesh.get('ConfigMap', namespace, CNI_CONFIG);
    if (found !== undefined) yield found;
  }
}

const CALLED = { istiod: 'istiod', cni: 'istio-cni' } as const;

export function* onNftables(subject: Meta, mesh: Mesh): Iterable<Report<'nftables-half-set'>> {
  const side = sideOf(subject, mesh);
  if (side?.on !== true) return;
  if (side.of === 'cni' && side.ambient && side.release !== undefined && compareRelease(side.release, '1.28') < 0) {
    yield {
      finding: 'nftables-half-set',
      key: 'ambient',
      effect: `istio-cni ${side.release.text} cannot redirect ambient pods with nftables: that came with 1.28`,
      fix: 'set global.nativeNftables: false, or upgrade istio-cni to 1.28',
      evidence: [],
      action: 'deny',
      path: side.path,
    };
  }
  // one set of values with both charts in it sets both
  if (subject.kind === OPERATOR) return;
  for (const other of counterparts(subject, mesh)) {
    const theirs = sideOf(other, mesh);
    if (theirs === undefined || theirs.of === side.of || theirs.on) continue;
    yield {
      finding: 'nftables-half-set',
      key: 'half',
      effect: `${CALLED[side.of]} uses nftables and ${CALLED[theirs.of]} iptables: each expects rules of its own kind in the pods`,
      fix: `set global.nativeNftables: true for ${CALLED[theirs.of]} too`,
      evidence: [ref(other)],
      path: side.path,
    };
    return;
  }
}

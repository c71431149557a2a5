// The shared cases as meshes: their state and their input, in namespaces of their own, under the istiod that is there.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { at, record, records, text } from '../../src/kube/json.ts';
import { identify } from '../../src/mesh/kinds.ts';
import { type Manifest, parseManifests } from '../harness/objects.ts';
import type { Situation } from './situation.ts';

/** A case, and which of its objects it is about. */
export interface CaseMesh {
  readonly situation: Situation;
  readonly input: string;
}

/** Policies of whose findings istiod shows the ground. */
const SHOWN = [
  'l7-needs-waypoint',
  'route-needs-waypoint',
  'waypoint-binding',
  'native-sidecar',
  'service-entry',
  'peer-authentication',
  'dataplane-mode-conflict',
  'mesh-labels',
];
const FIXED = new Set(['istio-system', 'kube-system', 'kube-public', 'default']);
/** The control plane is the one that runs, and definitions are those that are installed. */
const LEFT_OUT = new Set([
  'CustomResourceDefinition',
  'Node',
  'MutatingWebhookConfiguration',
  'ValidatingWebhookConfiguration',
  'GatewayClass',
  'NetworkPolicy',
]);

/** Fields and labels whose value is the name of a namespace. */
const NAMING = new Set([
  'namespace',
  'istio.io/use-waypoint-namespace',
  'istio.io/use-waypoint-canary-namespace',
  'kubernetes.io/metadata.name',
]);

/** The same value with each of these namespaces called by another name, wherever it is spoken of. */
function rename(value: unknown, names: ReadonlyMap<string, string>, key = ''): unknown {
  if (Array.isArray(value)) return value.map(entry => rename(entry, names, key));
  if (typeof value === 'string') {
    const other = names.get(value);
    if (other !== undefined && (NAMING.has(key) || key === 'exportTo' || /amespaces$/.test(key) || key === 'values'))
      return other;
    let said = value;
    for (const [from, to] of names) {
      said = said
        .replaceAll(`.${from}.svc`, `.${to}.svc`)
        .replaceAll(`/ns/${from}/`, `/ns/${to}/`)
        .replace(new RegExp(`^${from}/`), `${to}/`);
    }
    return said;
  }
  const object = record(value);
  return object === undefined
    ? value
    : Object.fromEntries(Object.entries(object).map(([name, entry]) => [name, rename(entry, names, name)]));
}

/** What a client sends of an object in a file. */
function sent(object: Manifest, names: ReadonlyMap<string, string>): Manifest {
  const { creationTimestamp: _, uid: __, resourceVersion: ___, ...metadata } = record(object.metadata) ?? {};
  const { status: ____, ...rest } = { ...object, metadata } as Manifest;
  const other = rename(rest, names) as Manifest;
  return object.kind === 'Namespace'
    ? { ...other, metadata: { ...other.metadata, name: names.get(object.metadata.name) ?? object.metadata.name } }
    : other;
}

/** The objects of a file: those of a list one by one, and of an AdmissionReview the one that it is about. */
function objectsIn(source: string): readonly Manifest[] {
  return parseManifests(source).flatMap(one => {
    const inner = one.kind === 'AdmissionReview' ? [at(one, 'request', 'object')] : (at(one, 'items') ?? [one]);
    return records(inner).filter(object => record(object['metadata']) !== undefined) as unknown as Manifest[];
  });
}

/** Cases of a folder that can be had here, by name. */
export function caseMeshes(folder: string, istio: string): readonly CaseMesh[] {
  if (!existsSync(folder)) return [];
  const found: CaseMesh[] = [];
  const names = readdirSync(folder, { withFileTypes: true }).filter(entry => entry.isDirectory());
  for (const [number, { name }] of names.entries()) {
    const read = (file: string) =>
      existsSync(join(folder, name, file)) ? readFileSync(join(folder, name, file), 'utf8') : '';
    const expected = parse(read('expect.yaml')) as unknown;
    if (!SHOWN.includes(text(at(expected, 'policy')) ?? '')) continue;
    const operation = text(at(expected, 'operation')) ?? 'CREATE';
    const [input] = objectsIn(read('input.yaml'));
    if (input === undefined || operation === 'DELETE' || identify(input) === undefined) continue;
    const prefix = `c${number}v${istio.replace('.', '')}`;
    const state = objectsIn(read('state.yaml')).filter(
      one =>
        !(
          one.kind === input.kind &&
          one.metadata.name === input.metadata.name &&
          one.metadata.namespace === input.metadata.namespace
        ),
    );
    const all = [...state, input].filter(one => !LEFT_OUT.has(one.kind));
    const ofControlPlane = (one: Manifest) =>
      FIXED.has(one.metadata.namespace ?? '') || (one.kind === 'Namespace' && FIXED.has(one.metadata.name));
    if (!all.includes(input) || ofControlPlane(input)) continue;
    const kept = all.filter(one => !ofControlPlane(one));
    const namespaces = new Set(
      kept.map(one => (one.kind === 'Namespace' ? one.metadata.name : (one.metadata.namespace ?? 'default'))),
    );
    if ([...namespaces].some(one => FIXED.has(one))) continue;
    const renamed = new Map([...namespaces].map(one => [one, `${prefix}-${one}`] as const));
    const described = new Set(kept.filter(({ kind }) => kind === 'Namespace').map(({ metadata }) => metadata.name));
    const missing = [...namespaces]
      .filter(one => !described.has(one))
      .map((one): Manifest => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: one } }));
    const subject = sent(input, renamed);
    found.push({
      situation: {
        title: `case ${name}`,
        prefix,
        objects: [
          ...missing.map(one => sent(one, renamed)),
          ...kept.map(one => (one === input ? subject : sent(one, renamed))),
        ],
        alone: false,
        ...(subject.kind === 'ServiceEntry' ? { younger: `${subject.kind} ${subject.metadata.name}` } : {}),
      },
      input: `${subject.kind} ${subject.metadata.namespace ?? ''}/${subject.metadata.name}`,
    });
  }
  return found;
}

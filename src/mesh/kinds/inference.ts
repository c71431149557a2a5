import { at, fingerprint, list, number, record, text } from '../../kube/json.ts';
import { type GroupKind, groupKind } from '../../kube/kind.ts';
import { lastApplied, type Meta, metaOf } from './meta.ts';

export const INFERENCE_POOL = 'InferencePool.inference.networking.k8s.io';
export const ALPHA_INFERENCE_POOL = 'InferencePool.inference.networking.x-k8s.io';

export interface EndpointPicker {
  readonly group: string;
  /** 'Service' where none is given. */
  readonly kind: string;
  readonly name: string;
  readonly port?: number;
}

/** An InferencePool of either group. */
export interface InferencePool extends Meta {
  readonly picker?: EndpointPicker;
  readonly targetPorts: readonly number[];
  /** Of the spec of a pool of the old group, in which everything that is changed is changed in vain. */
  readonly specDigest?: number;
  /** Paths of fields of an earlier shape, as in V§1.3, with where they were seen. */
  readonly removedFields: readonly string[];
}

/**
 * Fields that some earlier shape of the kind had and that v1 has not (V§1.2, V§1.3), as they stand in a spec. In the last-applied
 * annotation (`stored` is then the spec beside it) they count only where nothing has taken their place: a patch leaves the annotation
 * behind.
 */
function removedFields(spec: unknown, stored?: unknown, own?: string): readonly string[] {
  const found: string[] = [];
  const replaced: Readonly<Record<string, boolean>> =
    stored === undefined
      ? {}
      : {
          'spec.extensionRef': record(at(stored, 'endpointPickerRef')) !== undefined,
          'spec.targetPortNumber': list(at(stored, 'targetPorts')).length > 0,
          'spec.selector': record(at(stored, 'selector', 'matchLabels')) !== undefined,
          'spec.endpointPickerRef.portNumber': at(stored, 'endpointPickerRef', 'port', 'number') !== undefined,
          'spec.endpointPickerRef.targetPortNumber': at(stored, 'endpointPickerRef', 'port', 'number') !== undefined,
          'spec.endpointPickerRef.port': at(stored, 'endpointPickerRef', 'port', 'number') !== undefined,
          // pruned: what is left means the pool's own namespace, which may be what was meant
          'spec.endpointPickerRef.namespace': at(spec, 'endpointPickerRef', 'namespace') === own,
        };
  const note = (path: string, there: boolean) => {
    if (there && replaced[path] !== true) found.push(path);
  };
  note('spec.extensionRef', at(spec, 'extensionRef') !== undefined);
  note('spec.targetPortNumber', at(spec, 'targetPortNumber') !== undefined);
  const selector = record(at(spec, 'selector'));
  note(
    'spec.selector',
    selector !== undefined &&
      record(selector['matchLabels']) === undefined &&
      Object.keys(selector).some(key => typeof selector[key] === 'string'),
  );
  const picker = at(spec, 'endpointPickerRef');
  note('spec.endpointPickerRef.portNumber', at(picker, 'portNumber') !== undefined);
  note('spec.endpointPickerRef.targetPortNumber', at(picker, 'targetPortNumber') !== undefined);
  note('spec.endpointPickerRef.namespace', at(picker, 'namespace') !== undefined);
  note('spec.endpointPickerRef.port', typeof at(picker, 'port') === 'number');
  return found;
}

export function inferencePool(kind: GroupKind, namespace: string, object: unknown): InferencePool {
  const spec = at(object, 'spec');
  const reference = record(at(spec, 'endpointPickerRef')) ?? record(at(spec, 'extensionRef'));
  const port = number(at(reference, 'port', 'number'));
  const applied = kind === INFERENCE_POOL ? at(lastApplied(object), 'spec') : undefined;
  return {
    ...metaOf(kind, namespace, object),
    ...(reference === undefined
      ? {}
      : {
          picker: {
            group: text(reference['group']) ?? '',
            kind: text(reference['kind']) || 'Service',
            name: text(reference['name']) ?? '',
            ...(port === undefined ? {} : { port }),
          },
        }),
    ...(kind === ALPHA_INFERENCE_POOL ? { specDigest: fingerprint(spec) } : {}),
    targetPorts: list(at(spec, 'targetPorts')).flatMap(entry => number(at(entry, 'number')) ?? []),
    removedFields:
      kind === INFERENCE_POOL
        ? [
            ...new Set([
              ...removedFields(spec),
              ...(applied === undefined ? [] : removedFields(applied, spec ?? {}, namespace)),
            ]),
          ]
        : [],
  };
}

/** InferenceObjective, InferenceModel and other kinds that name a pool. */
export interface PoolReferrer extends Meta {
  readonly pool?: { readonly kind: GroupKind; readonly name: string; readonly groupWritten: boolean };
}

export function poolReferrer(kind: GroupKind, namespace: string, object: unknown): PoolReferrer {
  const reference = record(at(object, 'spec', 'poolRef'));
  const name = text(reference?.['name']);
  if (name === undefined) return metaOf(kind, namespace, object);
  const group = text(reference?.['group']);
  // the default of an omitted group flipped when InferenceModel gave way to InferenceObjective (V§1.5)
  const usual = kind.startsWith('InferenceModel.') ? 'inference.networking.x-k8s.io' : 'inference.networking.k8s.io';
  return {
    ...metaOf(kind, namespace, object),
    pool: {
      kind: groupKind(group ?? usual, text(reference?.['kind']) ?? 'InferencePool'),
      name,
      groupWritten: group !== undefined,
    },
  };
}

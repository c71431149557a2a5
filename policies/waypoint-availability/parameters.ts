// The ConfigMaps from which istiod takes changes to what it makes for a Gateway: `parametersRef` and the defaults of a class.
// What follows from them was tried with istiod 1.31 and an API server 1.36, by what came of 300 such ConfigMaps.
import { type JsonObject, list, record } from '../../src/kube/json.ts';
import { nearest } from '../../src/kube/near.ts';
import { readYaml } from '../../src/kube/yaml.ts';
import type { ConfigMap } from '../../src/mesh/kinds/cluster.ts';
import { type List, type Mapping, SHAPES, type Shape } from './shapes.ts';

/**
 * What is not made or changed because of a fault. istiod renders everything before it writes anything, and stops at the first object
 * that the API server refuses: ServiceAccount, Deployment, Service, HorizontalPodAutoscaler, PodDisruptionBudget.
 */
export type Stopped = 'everything' | 'service' | 'autoscaler' | 'budget';

/** A part of such a ConfigMap that istiod cannot render, or of which the API server refuses what istiod makes of it. */
export interface Fault {
  /** The key and the path below it: `deployment.spec.replica`. */
  readonly path: string;
  /** What is wrong, as a clause: 'is no field of a Deployment'. */
  readonly what: string;
  readonly fix: string;
  readonly stops: Stopped;
  /** False where a newer Kubernetes may know the field, or what it changes is not known. */
  readonly certain: boolean;
}

type Amount = number | string;

/** What one ConfigMap says; null takes away what was said before. */
export interface Parameters {
  readonly faults: readonly Fault[];
  /** True where a part of it is too much to read here: istiod may read more in it. */
  readonly unread: boolean;
  /** `deployment.spec.replicas`. */
  readonly replicas?: number | null;
  /** Set where there is a `horizontalPodAutoscaler`, if an empty one: istiod then makes one from 1 to 1. */
  readonly autoscaler?: { readonly minReplicas?: number | null; readonly maxReplicas?: number | null };
  /** Set where there is a `podDisruptionBudget`. */
  readonly budget?: { readonly minAvailable?: Amount | null; readonly maxUnavailable?: Amount | null };
}

/** What several ConfigMaps say together. */
export interface Merged {
  /** What only all of them together do wrong. */
  readonly faults: readonly Fault[];
  readonly unread: boolean;
  readonly replicas?: number;
  /** Where there is an autoscaler: its `minReplicas`, which is 1 where nobody sets it. */
  readonly autoscaledFrom?: number;
  readonly budget?: { readonly minAvailable?: Amount; readonly maxUnavailable?: Amount };
}

const KEYS = Object.keys(SHAPES);
/** Mistakes that are told, of those that are certain and of those that are not: a ConfigMap has room for many thousand. */
const AT_MOST = 20;
/** Characters of a key: these are a few fields. What is longer is not known. */
const LONGEST = 32 * 1024;

const STOPS: Readonly<Record<string, Stopped>> = {
  service: 'service',
  horizontalPodAutoscaler: 'autoscaler',
  podDisruptionBudget: 'budget',
};
const stopsOf = (key: string): Stopped => STOPS[key] ?? 'everything';

/** Where in a key something stands. */
interface Place {
  readonly key: string;
  readonly path: string;
  readonly kind: string;
  /** True in what istiod reads itself. */
  readonly read?: boolean;
  /** 'item': in an item that Istio's templates do not have, in which nulls stay; 'list': in a list that they do not have, in which none stays. */
  readonly added?: 'item' | 'list';
}

const certainly = (place: Place, what: string, fix: string, stops = stopsOf(place.key)): Fault => ({
  path: place.path,
  what,
  fix,
  stops,
  certain: true,
});

function* faultsIn(value: unknown, shape: Shape, place: Place): Iterable<Fault> {
  const last = place.path.slice(place.path.lastIndexOf('.') + 1);
  if (shape === 'any') return;
  if (shape === 'text') {
    if (value === null || typeof value === 'string') return;
    const fix = typeof value === 'object' ? `write a text for ${last}` : `write ${last} in quotes`;
    yield certainly(place, 'is no text', fix);
  } else if (shape === 'texts') yield* texts(value, place);
  else if (value === null) {
    if (shape.needed !== true) return;
    const read = 'read' in shape && shape.read === true;
    yield certainly(
      place,
      `is null, and that takes away what a ${place.kind} needs`,
      `remove ${last}, or write something below it`,
      read ? 'everything' : stopsOf(place.key),
    );
  } else if ('items' in shape) yield* items(value, shape, place);
  else yield* fieldsOf(value, shape, place);
}

/** Annotations, labels, selectors: the API server refuses values that are no texts, and istiod itself those that are objects or lists. */
function* texts(value: unknown, place: Place): Iterable<Fault> {
  if (value === null) return;
  const stops = (wrong: unknown) => (place.read === true && typeof wrong === 'object' ? 'everything' : undefined);
  const object = record(value);
  if (object === undefined) {
    const fix = `write a mapping of texts for ${place.path}`;
    yield certainly(place, 'is no mapping', fix, place.read === true ? 'everything' : undefined);
    return;
  }
  for (const name of Object.keys(object)) {
    const text = object[name];
    if (typeof text === 'string' || text === null || name.startsWith('$')) continue;
    const fix = typeof text === 'object' ? `write a text for ${name}` : `write the value of ${name} in quotes`;
    yield certainly({ ...place, path: `${place.path}.${name}` }, 'is no text', fix, stops(text));
  }
}

function* items(value: unknown, shape: List, place: Place): Iterable<Fault> {
  if (!Array.isArray(value)) {
    yield certainly(place, 'is no list', `write a list for ${place.path}`);
    return;
  }
  for (const item of list(value)) {
    const object = record(item);
    if (object === undefined) {
      yield certainly(place, `has an item that is no mapping`, `write ${shape.by}: and more for each of ${place.path}`);
      return;
    }
    const directive = object['$patch'];
    // what is taken away is not looked at
    if (directive === 'delete') continue;
    if (directive === undefined && !Object.hasOwn(object, shape.by)) {
      yield certainly(place, `has an item without ${shape.by}`, `write ${shape.by}: for each of ${place.path}`);
    }
    const added =
      place.added ?? (shape.there === 'none' ? 'list' : object[shape.by] === shape.there ? undefined : 'item');
    yield* faultsIn(object, shape.items, { ...place, ...(added === undefined ? {} : { added }) });
  }
}

function* fieldsOf(value: unknown, shape: Mapping, place: Place): Iterable<Fault> {
  const object = record(value);
  if (object === undefined) {
    const fix = `write a mapping for ${place.path}`;
    yield certainly(place, 'is no mapping', fix, shape.read === true ? 'everything' : undefined);
    return;
  }
  for (const field of Object.keys(object)) {
    if (field.startsWith('$')) continue; // directives of a strategic merge patch
    const inner = Object.hasOwn(shape.fields, field) ? shape.fields[field] : undefined;
    const path = `${place.path}.${field}`;
    if (inner !== undefined) {
      yield* faultsIn(object[field], inner, { ...place, path, read: shape.read === true });
      continue;
    }
    // null takes a field away that is not there; only in an item that is new it stays
    const nothing = object[field] === null;
    if (nothing && place.added !== 'item') continue;
    const near = nearest(field, Object.keys(shape.fields));
    yield {
      path,
      what: `is no field of a ${place.kind}`,
      fix:
        near === undefined
          ? `remove ${field} from ${place.path}`
          : `write ${near} instead of ${field} in ${place.path}`,
      stops: stopsOf(place.key),
      certain: near !== undefined && !nothing,
    };
  }
}

/** Counts that the API server checks: the key, the field below `spec`, the least that it takes. An autoscaler from 0 is a feature gate's. */
const COUNTS = [
  ['deployment', 'replicas', 0],
  ['deployment', 'minReadySeconds', 0],
  ['deployment', 'revisionHistoryLimit', 0],
  ['horizontalPodAutoscaler', 'minReplicas', 0],
  ['horizontalPodAutoscaler', 'maxReplicas', 1],
] as const;

/**
 * A count as it is stored: the API server keeps the lower 32 bits of it, so that 4294967298 is 2 and 2147483648 is negative. Undefined
 * where it is none, or is beyond 64 bits, of which every processor makes something else.
 */
function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && Math.abs(value) < 2 ** 63 ? value | 0 : undefined;
}

function countFault(value: unknown, path: string, least: number): Fault | undefined {
  if (value === undefined || value === null) return undefined;
  const [key = '', , field = ''] = path.split('.');
  const count = countOf(value);
  if (count !== undefined && count >= least) return undefined;
  const place = { key, path, kind: '' };
  if (!Number.isInteger(value))
    return certainly(place, 'is no whole number', `write a whole number without quotes for ${field}`);
  const fix = `write a whole number from ${least} to 2147483647 for ${field}`;
  const what = Number(value) < least ? `is less than ${least}` : 'is more than 2147483647';
  return { ...certainly(place, what, fix), certain: count !== undefined };
}

/** `minAvailable` and `maxUnavailable`: a number of 32 bits from 0 on, or a percentage of at most 100 (policy/v1). */
function amountFault(value: unknown, path: string): Fault | undefined {
  if (value === undefined || value === null) return undefined;
  const number = typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 31;
  const percentage = typeof value === 'string' && /^[0-9]+%$/.test(value) && Number.parseInt(value, 10) <= 100;
  if (number || percentage) return undefined;
  const fix = `write a whole number from 0 on or a percentage up to 100% for ${path}`;
  const what = 'is neither a whole number from 0 on nor a percentage';
  return certainly({ key: 'podDisruptionBudget', path, kind: '' }, what, fix);
}

function read(configMap: ConfigMap): Parameters {
  const faults: Fault[] = [];
  const values: Record<string, JsonObject> = {};
  let unread = false;
  for (const key in configMap.data) {
    const known = Object.hasOwn(SHAPES, key) ? SHAPES[key] : undefined;
    if (known === undefined) {
      const near = nearest(key, KEYS);
      const fix = near === undefined ? `remove the key; istiod knows ${KEYS.join(', ')}` : `call the key ${near}`;
      faults.push({ path: key, what: 'is no key that istiod knows', fix, stops: 'everything', certain: true });
      continue;
    }
    const text = readYaml(configMap.data[key] ?? '', LONGEST);
    if ('error' in text) {
      unread ||= text.error === undefined;
      if (text.error === undefined) continue;
      // the log of istiod says 'invalid JSON document', whatever the mistake
      const what = `is no YAML (${text.error})`;
      faults.push({ path: key, what, fix: `correct the YAML under ${key}`, stops: 'everything', certain: true });
      continue;
    }
    // nothing, or null, is an object without fields
    const object = text.value === null ? {} : record(text.value);
    if (object === undefined) {
      const fix = `write a mapping such as spec: under ${key}`;
      const what = `is no object of a ${known.kind}`;
      faults.push({ path: key, what, fix, stops: 'everything', certain: true });
      continue;
    }
    values[key] = object;
    const told = { certain: 0, doubtful: 0 };
    for (const fault of faultsIn(object, known.shape, { key, path: key, kind: known.kind })) {
      // what is not certain must not hide what is
      const kind = fault.certain ? 'certain' : 'doubtful';
      told[kind] += 1;
      if (told[kind] <= AT_MOST) faults.push(fault);
    }
  }
  const spec = (key: string) => record(values[key]?.['spec']);
  for (const [key, field, least] of COUNTS) {
    const fault = countFault(spec(key)?.[field], `${key}.spec.${field}`, least);
    if (fault !== undefined) faults.push(fault);
  }
  for (const field of ['minAvailable', 'maxUnavailable']) {
    const fault = amountFault(spec('podDisruptionBudget')?.[field], `podDisruptionBudget.spec.${field}`);
    if (fault !== undefined) faults.push(fault);
  }
  const counted = <Name extends string>(key: string, field: Name) => {
    const value = spec(key)?.[field];
    const count = value === null ? null : countOf(value);
    return (count === undefined ? {} : { [field]: count }) as { readonly [name in Name]?: number | null };
  };
  const amount = <Name extends string>(field: Name) => {
    const value = spec('podDisruptionBudget')?.[field];
    const good = value === null || typeof value === 'string' || typeof value === 'number';
    return (good ? { [field]: value } : {}) as { readonly [name in Name]?: Amount | null };
  };
  return {
    faults,
    unread,
    ...counted('deployment', 'replicas'),
    ...(values['horizontalPodAutoscaler'] === undefined
      ? {}
      : {
          autoscaler: {
            ...counted('horizontalPodAutoscaler', 'minReplicas'),
            ...counted('horizontalPodAutoscaler', 'maxReplicas'),
          },
        }),
    ...(values['podDisruptionBudget'] === undefined
      ? {}
      : { budget: { ...amount('minAvailable'), ...amount('maxUnavailable') } }),
  };
}

const known = new WeakMap<ConfigMap, Parameters>();

/** What such a ConfigMap says; read once for each stored state of it. */
export function parametersOf(configMap: ConfigMap): Parameters {
  let found = known.get(configMap);
  if (found === undefined) {
    found = read(configMap);
    known.set(configMap, found);
  }
  return found;
}

/**
 * What ConfigMaps say together, the weakest first: fields of a later one replace those of an earlier one, and null takes them away. Upon
 * Istio's own template, in which an autoscaler has `maxReplicas: 1`.
 */
export function mergeParameters(said: readonly Parameters[]): Merged {
  const faults: Fault[] = [];
  const autoscalers = said.flatMap(({ autoscaler }) => autoscaler ?? []);
  const budgets = said.flatMap(({ budget }) => budget ?? []);
  const replicas = said.findLast(one => one.replicas !== undefined)?.replicas ?? undefined;
  const least = autoscalers.findLast(one => one.minReplicas !== undefined)?.minReplicas ?? 1;
  const most = autoscalers.findLast(one => one.maxReplicas !== undefined)?.maxReplicas;
  // what is wrong by itself, or was not read, is not held against anything else
  const sound = (stops: Stopped) => said.every(one => !one.unread && !one.faults.some(fault => fault.stops === stops));
  if (autoscalers.length > 0 && (most === null || least > (most ?? 1)) && sound('autoscaler')) {
    faults.push({
      path: 'horizontalPodAutoscaler.spec.maxReplicas',
      what:
        most === undefined
          ? `is 1 unless it is set, and minReplicas is ${least}`
          : most === null
            ? 'is null'
            : 'is less than minReplicas',
      fix: `set maxReplicas to at least ${least} beside minReplicas`,
      stops: 'autoscaler',
      certain: true,
    });
  }
  const minAvailable = budgets.findLast(one => one.minAvailable !== undefined)?.minAvailable ?? undefined;
  const maxUnavailable = budgets.findLast(one => one.maxUnavailable !== undefined)?.maxUnavailable ?? undefined;
  if (minAvailable !== undefined && maxUnavailable !== undefined && sound('budget')) {
    faults.push({
      path: 'podDisruptionBudget.spec',
      what: 'has minAvailable and maxUnavailable, of which only one may be set',
      fix: 'remove one of them, or set it to null where the defaults of the class have it',
      stops: 'budget',
      certain: true,
    });
  }
  return {
    faults,
    unread: said.some(({ unread }) => unread),
    ...(replicas === undefined ? {} : { replicas }),
    ...(autoscalers.length === 0 ? {} : { autoscaledFrom: least }),
    ...(budgets.length === 0
      ? {}
      : {
          budget: {
            ...(minAvailable === undefined ? {} : { minAvailable }),
            ...(maxUnavailable === undefined ? {} : { maxUnavailable }),
          },
        }),
  };
}

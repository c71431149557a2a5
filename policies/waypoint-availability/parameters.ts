// The ConfigMaps from which istiod takes changes to what it makes for a Gateway: `parametersRef` and the defaults of a class.
// What follows from them was tried with istiod 1.31 and an API server 1.36, by what came of 300 such ConfigMaps.
import { type JsonObject, list, record } from '../../src/kube/json.ts';
import { nearest } from '../../src/kube/near.ts';
import { readYaml } from '../../src/kube/yaml.ts';
import type { ConfigMap } from '../../src/mesh/kinds/cluster.ts';
import { DAEMON_SET, FROM_ELSEWHERE, type List, type Mapping, SHAPES, type Shape, type Untouchable } from './shapes.ts';

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
  /** No mistake for a Gateway of which this is the name, the namespace, or the name of what is made. */
  readonly unless?: { readonly of: 'name' | 'namespace' | 'gateway'; readonly is: string };
}

type Amount = number | string;

/** What one ConfigMap says; null takes away what was said before. */
export interface Parameters {
  readonly faults: readonly Fault[];
  /** True where a part of it is too much to read here: istiod may read more in it. */
  readonly unread: boolean;
  /** True where the Deployment becomes a DaemonSet, which has a pod on every node that takes it. */
  readonly daemonSet?: true;
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
  readonly daemonSet?: true;
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

/** What a field must hold that is neither looked into nor left alone. */
const SORTS = {
  text: ['is no text', (value: unknown) => typeof value === 'string'],
  image: ['is no text', (value: unknown) => typeof value === 'string'],
  flag: ['is neither true nor false', (value: unknown) => typeof value === 'boolean'],
  number: ['is no number', (value: unknown) => typeof value === 'number'],
  object: ['is no mapping', (value: unknown) => record(value) !== undefined],
  words: ['is no list of texts', (value: unknown) => isListOf(value, one => typeof one === 'string')],
  objects: ['is no list of mappings', (value: unknown) => isListOf(value, one => record(one) !== undefined)],
} as const;

function isListOf(value: unknown, is: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(is);
}

function mendingOf(sort: keyof typeof SORTS, value: unknown, last: string): string {
  switch (sort) {
    case 'flag':
      return `write true or false without quotes for ${last}`;
    case 'number':
      return `write a number without quotes for ${last}`;
    case 'object':
      return `write a mapping for ${last}`;
    case 'words':
      return `write ${last} as a list, each item in quotes`;
    case 'objects':
      return `write ${last} as a list of mappings`;
    default:
      return typeof value === 'object' ? `write a text for ${last}` : `write ${last} in quotes`;
  }
}

function* faultsIn(value: unknown, shape: Shape, place: Place): Iterable<Fault> {
  const last = place.path.slice(place.path.lastIndexOf('.') + 1);
  if (shape === 'any') return;
  if (shape === 'texts') yield* texts(value, place);
  else if (value === null) yield* nothing(shape, place, last);
  else if (shape === 'kept') yield* keptTexts(value, place);
  else if (typeof shape === 'string') {
    const [what, is] = SORTS[shape];
    if (!is(value)) yield certainly(place, what, mendingOf(shape, value, last));
  } else if ('only' in shape) {
    const right = typeof value === 'string' && shape.only.includes(value);
    const stops = typeof value === 'string' ? undefined : 'everything';
    if (!right) yield certainly(place, `is not ${shape.only.join(' or ')}`, `leave ${last} out`, stops);
  } else if ('untouchable' in shape) yield* untouchable(value, shape, place, last);
  else if ('items' in shape) yield* items(value, shape, place);
  else yield* fieldsOf(value, shape, place);
}

/** Null, which takes a field away, where something is needed in its place. */
function* nothing(shape: Exclude<Shape, 'any' | 'texts'>, place: Place, last: string): Iterable<Fault> {
  const taken = `is null, and that takes away what a ${place.kind} needs`;
  const leave = `leave ${last} out`;
  if (typeof shape === 'string') {
    // an image that is not there is none in a new container either
    if (shape === 'kept' || (shape === 'image' && place.added === undefined)) yield certainly(place, taken, leave);
  } else if ('only' in shape) yield certainly(place, taken, leave);
  else if ('untouchable' in shape) {
    const { untouchable } = shape;
    // of the owners and the names there is one, which null takes away
    if (untouchable === 'owners' || untouchable === 'name' || untouchable === 'namespace') {
      yield certainly(place, taken, leave, 'everything');
    }
  } else if (shape.needed === true) {
    const read = 'read' in shape && shape.read === true;
    const fix = `remove ${last}, or write something below it`;
    yield certainly(place, taken, fix, read ? 'everything' : stopsOf(place.key));
  }
}

/** What istiod compares with its own: it renders nothing where that was changed ("illegal metadata change"). */
function* untouchable(
  value: unknown,
  { untouchable: which }: Untouchable,
  place: Place,
  last: string,
): Iterable<Fault> {
  const changed = 'changes what istiod lets nobody change';
  const leave = `leave ${last} out`;
  if (which === 'name' || which === 'namespace') {
    const other = certainly(place, changed, leave, 'everything');
    yield typeof value === 'string' ? { ...other, unless: { of: which, is: value } } : other;
  } else if (which === 'fields') {
    const empty = Array.isArray(value) && value.length === 0;
    yield certainly(place, 'is what only the API server writes', leave, empty ? undefined : 'everything');
  } else {
    const nought = value === '' || value === 0 || (Array.isArray(value) && value.length === 0);
    if (!nought || last === 'deletionGracePeriodSeconds') yield certainly(place, changed, leave, 'everything');
  }
}

const GATEWAY_NAME = 'gateway.networking.k8s.io/gateway-name';

/** Labels of pods, of which the selector needs the one with the Gateway's name. */
function* keptTexts(value: unknown, place: Place): Iterable<Fault> {
  yield* texts(value, place);
  const name = record(value)?.[GATEWAY_NAME];
  const replaced = record(value)?.['$patch'] !== undefined;
  if (name === undefined && !replaced) return;
  const path = `${place.path}.${GATEWAY_NAME}`;
  const fault = certainly(
    { ...place, path },
    'is what the selector asks for',
    `leave ${GATEWAY_NAME} as istiod has it`,
  );
  yield typeof name === 'string' ? { ...fault, unless: { of: 'gateway', is: name } } : fault;
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
  const isThere = shape.there !== 'none' && place.added === undefined;
  // istiod merges lists that it has; others go to the API server as they are
  const stops = isThere ? 'everything' : undefined;
  let [kept, replaced, takenAway] = [0, false, 0];
  for (const item of list(value)) {
    const object = record(item);
    if (object === undefined) {
      yield certainly(place, `has an item that is no mapping`, `write ${shape.by}: and more for each of ${place.path}`);
      return;
    }
    const directive = object['$patch'];
    const keyed = Object.hasOwn(object, shape.by);
    if (isThere && directive !== undefined && directive !== 'delete' && directive !== 'replace') {
      yield unknownDirective(place, `${place.path}.$patch`, 'delete or replace');
      continue;
    }
    if (directive === 'replace') {
      replaced = true;
      continue;
    }
    if (!keyed && shape.keyless !== true && (directive === undefined || isThere)) {
      yield certainly(place, `has an item without ${shape.by}`, `write ${shape.by}: for each of ${place.path}`, stops);
    }
    // what is taken away is not looked at
    if (directive === 'delete') {
      if (shape.there !== 'none' && shape.there.includes(String(object[shape.by]))) takenAway += 1;
      continue;
    }
    kept += 1;
    const own = shape.there !== 'none' && shape.there.includes(String(object[shape.by]));
    const added = place.added ?? (shape.there === 'none' ? 'list' : own ? undefined : 'item');
    yield* faultsIn(object, shape.items, { ...place, ...(added === undefined ? {} : { added }) });
    if (shape.by === 'name' && added === undefined) yield* twofold(object, place);
  }
  if (shape.needed === true && kept === 0 && (replaced || takenAway > 0)) {
    const none = certainly(
      place,
      `is left without an item, which a ${place.kind} needs`,
      `write one for ${place.path}`,
    );
    // others may have added one
    yield { ...none, certain: replaced };
  }
}

/** A variable of Istio's own with a value beside where it comes from (tried with istiod 1.30 and 1.31: "may not be specified when `value` is not empty"). */
function* twofold(variable: JsonObject, place: Place): Iterable<Fault> {
  const { name, value, valueFrom } = variable;
  if (!place.path.endsWith('.env') || typeof name !== 'string' || !FROM_ELSEWHERE.includes(name)) return;
  if (typeof value !== 'string' || value === '' || valueFrom === null) return;
  const what = `gives ${name} a value beside the valueFrom of Istio's template`;
  yield certainly(
    { ...place, path: `${place.path}.${name}` },
    what,
    `write valueFrom: null beside the value of ${name}`,
  );
}

const unknownDirective = (place: Place, path: string, known: string) =>
  certainly({ ...place, path }, 'is no directive of a merge', `write ${known}, or remove it`, 'everything');

/** `$patch` in a mapping that Istio's templates have; undefined where what is beside it is merged. */
function* directiveOf(object: JsonObject, shape: Mapping, place: Place): Iterable<Fault> {
  const directive = object['$patch'];
  const path = `${place.path}.$patch`;
  const top = place.path === place.key;
  if (directive !== 'delete' && directive !== 'replace') yield unknownDirective(place, path, 'delete or replace');
  else if (top || shape.read === true) {
    const fix = `remove $patch from ${place.path}`;
    yield certainly({ ...place, path }, 'takes away the name that istiod gives', fix, 'everything');
  } else if (directive === 'delete') {
    if (shape.needed !== true) return;
    yield certainly({ ...place, path }, `takes away what a ${place.kind} needs`, `remove $patch from ${place.path}`);
  } else {
    const missing = (shape.requires ?? []).filter(field => object[field] === undefined || object[field] === null);
    if (missing.length === 0) return;
    const what = `leaves nothing of Istio's own, and a ${place.kind} needs ${missing.join(' and ')}`;
    yield certainly({ ...place, path }, what, `write ${missing.join(' and ')} beside it, or remove $patch`);
  }
}

function* fieldsOf(value: unknown, shape: Mapping, place: Place): Iterable<Fault> {
  const object = record(value);
  if (object === undefined) {
    const fix = `write a mapping for ${place.path}`;
    yield certainly(place, 'is no mapping', fix, shape.read === true ? 'everything' : undefined);
    return;
  }
  const merged = place.added === undefined && shape.open !== true;
  const directed = merged && Object.hasOwn(object, '$patch');
  if (directed) yield* directiveOf(object, shape, place);
  if (directed && object['$patch'] === 'delete') return;
  const inside: Place = directed ? { ...place, added: 'list' } : place;
  for (const field of Object.keys(object)) {
    // directives of a strategic merge patch
    if (/^\$(?:patch|retainKeys|setElementOrder\/.*|deleteFromPrimitiveList\/.*)$/.test(field)) continue;
    const inner = Object.hasOwn(shape.fields, field) ? shape.fields[field] : undefined;
    const path = `${place.path}.${field}`;
    if (inner !== undefined) {
      yield* faultsIn(object[field], inner, { ...inside, path, read: shape.read === true });
      continue;
    }
    if (shape.open === true) continue;
    // null takes a field away that is not there; only in an item that is new it stays
    const nothing = object[field] === null;
    if (nothing && place.added !== 'item') continue;
    const near = field.startsWith('$') ? undefined : nearest(field, Object.keys(shape.fields));
    yield {
      path,
      what: `is no field of a ${place.kind}`,
      fix:
        near === undefined
          ? `remove ${field} from ${place.path}`
          : `write ${near} instead of ${field} in ${place.path}`,
      stops: stopsOf(place.key),
      certain: (near !== undefined || field.startsWith('$')) && !nothing,
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
  const place = { key, path, kind: '' };
  if (count === 0 && least === 0 && key === 'horizontalPodAutoscaler') {
    const what = 'is 0, which the API server takes with the feature gate HPAScaleToZero only';
    return { ...certainly(place, what, `set ${field} to 2 or more`), certain: false };
  }
  if (count !== undefined && count >= least) return undefined;
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
  let strange = 0;
  for (const key in configMap.data) {
    const known = Object.hasOwn(SHAPES, key) ? SHAPES[key] : undefined;
    if (known === undefined) {
      strange += 1;
      if (strange > AT_MOST) continue;
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
    const { kind, shape } = key === 'deployment' && object['kind'] === DAEMON_SET.kind ? DAEMON_SET : known;
    for (const fault of faultsIn(object, shape, { key, path: key, kind })) {
      // what is not certain must not hide what is
      const sort = fault.certain ? 'certain' : 'doubtful';
      told[sort] += 1;
      if (told[sort] <= AT_MOST) faults.push(fault);
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
    ...(values['deployment']?.['kind'] === DAEMON_SET.kind ? { daemonSet: true as const } : {}),
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
    ...(said.some(({ daemonSet }) => daemonSet) ? { daemonSet: true as const } : {}),
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

// Rules of other policy engines that reach for the proxy by its name, and in which list of the pod they do.
import { at, type JsonObject, list, record, records, text, texts } from '../../src/kube/json.ts';
import { type GroupKind, splitGroupKind } from '../../src/kube/kind.ts';
import { yamlIn } from '../../src/kube/yaml.ts';
import { either, type Lists, listsIn, meansProxy, mentions, type Named, NEITHER } from './mentions.ts';

/** One rule of an object, and where it reaches for `istio-proxy`. */
export interface Rule {
  /** Its name, location or number: what tells it from the others of the object. */
  readonly key: string;
  /** JSON pointer to it. */
  readonly path: string;
  readonly lists: Lists;
  /** True for a rule that changes pods; false for one that allows or refuses them. */
  readonly mutates: boolean;
  /** True where it names the proxy only to let it off, and neither it nor another rule of the object judges init containers. */
  readonly needless?: true;
}

/** Keys whose text people read and no engine does. */
const PROSE = new Set(['message', 'messageExpression', 'description', 'reason', 'auditAnnotations']);

/** Kyverno's anchors around a key: `(name)`, `=(containers)`, `+(…)`, `X(…)`, `^(…)`, `<(…)`, and `~.` of assertions. */
const plain = (key: string): string => (/^[=X^+<]?\((.*)\)$/s.exec(key)?.[1] ?? key).replace(/^~\w*\./, '');

function listNamed(key: string): Lists | undefined {
  if (key === 'containers') return { regular: true, init: false };
  return key === 'initContainers' ? { regular: false, init: true } : undefined;
}

/** Everything that is text in a JSON value, prose left out. */
function textsIn(value: unknown): readonly string[] {
  const texts: string[] = [];
  const walk = (part: unknown, depth: number): void => {
    if (typeof part === 'string') texts.push(part);
    else if (depth > DEPTH) return;
    else if (Array.isArray(part)) for (const item of part) walk(item, depth + 1);
    else {
      const object = record(part);
      for (const key in object) if (!PROSE.has(key)) walk(object[key], depth + 1);
    }
  };
  walk(value, 0);
  return texts;
}

/** Deeper than any rule that somebody wrote. */
const DEPTH = 80;

const saysProxy = (value: unknown): boolean => textsIn(value).some(meansProxy);

/** A condition `{ key, operator, value }`: the key says which list, the value what is looked for, or the other way round. */
function inCondition(condition: JsonObject, around: Lists, named: Named): Lists {
  const whole = [...textsIn(condition['key']), ...textsIn(condition['value'])];
  const direct = whole.reduce((lists, one) => either(lists, mentions(one, named)), NEITHER);
  if (direct.regular || direct.init) return direct;
  if (!whole.some(one => meansProxy(one) || one.includes('istio-proxy'))) return NEITHER;
  const own = whole.reduce((lists, one) => either(lists, listsIn(one, named)), NEITHER);
  return own.regular || own.init ? own : around;
}

/** A JSON Patch: a path says the list, the value or another operation's test which container. */
function inJsonPatch(patch: unknown, around: Lists, named: Named): Lists {
  const operations = records(typeof patch === 'string' ? yamlIn(patch)?.value : patch);
  if (!operations.some(operation => saysProxy(operation['value']) || mentioned(operation['path']))) return NEITHER;
  const own = operations.reduce((lists, operation) => {
    const path = text(operation['path']) ?? '';
    return path.startsWith('/spec/') ? either(lists, listsIn(path, named)) : lists;
  }, NEITHER);
  return own.regular || own.init ? own : around;
}

/** Whether a JSON value speaks of init containers, in a key or in a text. */
function saysInit(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return /initContainers|\.\*\[\]/.test(value);
  if (depth > DEPTH) return true;
  if (Array.isArray(value)) return value.some(item => saysInit(item, depth + 1));
  const object = record(value) ?? {};
  return Object.keys(object).some(
    key => !PROSE.has(key) && (key.includes('initContainers') || saysInit(object[key], depth + 1)),
  );
}

const LETS_OFF =
  /(?:!=\s*['"`]istio-proxy['"`])|(?:['"`]istio-proxy['"`]\s*!=)|(?:==\s*['"`]istio-proxy['"`]\s*\|\|)|(?:!\s*\(?[\w.]+\s+in\s*\[[^\]]*['"`]istio-proxy['"`][^\]]*\])/g;

/** A text that names the proxy only to let it off: `!istio-proxy`, `c.name != 'istio-proxy'`, `c.name == 'istio-proxy' || …`. */
function textLetsOff(said: string): boolean {
  if (said.length > 10_000) return false;
  if (/^\s*!/.test(said) && meansProxy(said)) return !/[|&,]/.test(said);
  return !said.replace(LETS_OFF, '').includes('istio-proxy') && !meansProxy(said);
}

/** Whether everything that names the proxy in a JSON value lets it off: conditions that ask that it is not the proxy, and texts. */
function onlyLetsOff(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return textLetsOff(value);
  if (depth > DEPTH) return false;
  if (Array.isArray(value)) return value.every(item => onlyLetsOff(item, depth + 1));
  const object = record(value);
  if (object === undefined) return true;
  const operator = text(object['operator']);
  if ('key' in object && operator !== undefined) {
    if (!saysProxy(object['value']) && !mentioned(object['value'])) return onlyLetsOff(object['key'], depth + 1);
    return /^(?:NotEquals?|AnyNotIn|AllNotIn|NotIn)$/.test(operator);
  }
  return Object.keys(object).every(
    key => PROSE.has(key) || (!/istio-proxy/.test(key) && onlyLetsOff(object[key], depth + 1)),
  );
}

const mentioned = (value: unknown): boolean => text(value)?.includes('istio-proxy') === true;

/** Pod security's exemption by image and field (`validate.podSecurity.exclude`). */
function inPodSecurity(exclude: JsonObject): Lists {
  const images = texts(exclude['images']);
  if (!images.some(image => /istio|proxyv2/.test(image))) return NEITHER;
  const field = text(exclude['restrictedField']);
  return field === undefined ? { regular: true, init: true } : listsIn(field);
}

/** A Kyverno rule, or any part of it. `around`: the list that what stands around this part means. */
function inKyverno(value: unknown, around: Lists, named: Named, depth = 0): Lists {
  if (depth > DEPTH) return NEITHER;
  if (typeof value === 'string') {
    const direct = mentions(value, named);
    if (direct.regular || direct.init) return direct;
    return around.regular || around.init ? (value.includes('istio-proxy') ? around : NEITHER) : NEITHER;
  }
  if (Array.isArray(value)) {
    return value.reduce<Lists>((lists, item) => either(lists, inKyverno(item, around, named, depth + 1)), NEITHER);
  }
  const object = record(value);
  if (object === undefined) return NEITHER;
  if ('controlName' in object) return inPodSecurity(object);
  if ('key' in object && 'operator' in object) return inCondition(object, around, named);
  let lists = NEITHER;
  // an entry of a foreach: its list is what `element` is taken from
  const iterated = text(object['list']);
  const here = iterated === undefined ? around : listsIn(iterated, named);
  for (const key in object) {
    const name = plain(key);
    const part = object[key];
    // a pod template's override is moved to where the proxy is: only pods themselves matter
    if (name === 'template' || PROSE.has(name)) continue;
    if (name === 'patchesJson6902') lists = either(lists, inJsonPatch(part, here, named));
    else if (name === 'name') {
      if (typeof part === 'string' && meansProxy(part)) lists = either(lists, here);
    } else {
      // an assertion's key may be an expression: `(containers[?name == 'istio-proxy'])`
      lists = either(lists, either(mentions(name, named), inKyverno(part, listNamed(name) ?? here, named, depth + 1)));
    }
  }
  return lists;
}

/** What a rule's own context, and CEL variables, call a list of containers. */
function namesOf(variables: readonly JsonObject[], known: Named = new Map()): Named {
  const named = new Map(known);
  for (const variable of variables) {
    const name = text(variable['name']);
    if (name === undefined || name.length < 2) continue;
    const said = [...textsIn(variable['variable']), ...textsIn(variable['expression'])];
    const lists = said.reduce((all, one) => either(all, listsIn(one, named)), NEITHER);
    if (lists.regular || lists.init) named.set(name, lists);
  }
  return named;
}

function* kyvernoRules(spec: unknown): Iterable<Rule> {
  // pod security judges containers of every kind
  const judgesInit =
    saysInit(at(spec, 'rules')) ||
    records(at(spec, 'rules')).some(rule => at(rule, 'validate', 'podSecurity') !== undefined);
  for (const [index, rule] of list(at(spec, 'rules')).entries()) {
    // match and exclude pick objects by kind, name and label; what a rule generates is no pod that is admitted
    const { match: _match, exclude: _exclude, generate: _generate, name: _name, ...rest } = record(rule) ?? {};
    yield {
      key: text(at(rule, 'name')) ?? String(index),
      path: `/spec/rules/${index}`,
      lists: inKyverno(
        rest,
        NEITHER,
        namesOf([...records(rest['context']), ...records(at(rest, 'validate', 'cel', 'variables'))]),
      ),
      mutates: rest['mutate'] !== undefined,
      ...(!judgesInit && rest['validate'] !== undefined && onlyLetsOff(rest) ? { needless: true as const } : {}),
    };
  }
}

/** The policies that are written in CEL: Kyverno's newer kinds and the API server's own. */
function* celRules(spec: unknown): Iterable<Rule> {
  const named = namesOf(records(at(spec, 'variables')));
  const reach = (value: unknown) => textsIn(value).reduce((lists, one) => either(lists, mentions(one, named)), NEITHER);
  const mutates = list(at(spec, 'mutations')).length > 0;
  const letsOff = !mutates && !saysInit(spec) && onlyLetsOff(spec);
  function* part(key: string, mutates: boolean): Iterable<Rule> {
    for (const [index, item] of list(at(spec, key)).entries()) {
      yield {
        key: `${key}/${index}`,
        path: `/spec/${key}/${index}`,
        lists: reach(item),
        mutates,
        ...(letsOff ? { needless: true as const } : {}),
      };
    }
  }
  yield* part('variables', mutates);
  yield* part('matchConditions', mutates);
  yield* part('mutations', true);
  yield* part('validations', false);
}

/** Gatekeeper's mutators: one location (`spec.containers[name:istio-proxy].image`), and tests of paths. */
function gatekeeperRules(spec: unknown): readonly Rule[] {
  const location = text(at(spec, 'location')) ?? '';
  const tests = records(at(spec, 'parameters', 'pathTests')).flatMap(test => text(test['subPath']) ?? []);
  const lists = [location, ...tests].reduce((all, one) => either(all, mentions(one)), NEITHER);
  return [{ key: location, path: '/spec/location', lists, mutates: true }];
}

/**
 * A constraint's parameters mean what its template makes of them. A list of container names alone (`exemptContainers`) usually
 * holds for every list of the pod; only where there is another one for init containers, or a path, is it known which is meant.
 */
function constraintRules(spec: unknown): readonly Rule[] {
  const parameters = at(spec, 'parameters');
  const lists = textsIn(parameters).reduce((all, one) => either(all, mentions(one)), inParameters(parameters));
  return [{ key: 'parameters', path: '/spec/parameters', lists, mutates: false }];
}

function inParameters(value: unknown, depth = 0): Lists {
  if (depth > DEPTH) return NEITHER;
  if (Array.isArray(value))
    return value.reduce<Lists>((lists, item) => either(lists, inParameters(item, depth + 1)), NEITHER);
  const object = record(value) ?? {};
  const isInit = (key: string) => /init/i.test(key);
  const keys = Object.keys(object).filter(key => /container/i.test(key));
  const apart = keys.some(isInit) && !keys.every(isInit);
  let lists = NEITHER;
  for (const key in object) {
    if (apart && keys.includes(key) && saysProxy(object[key])) {
      lists = either(lists, { regular: !isInit(key), init: isInit(key) });
    } else lists = either(lists, inParameters(object[key], depth + 1));
  }
  return lists;
}

const GATEKEEPER_MUTATORS = new Set(['Assign', 'AssignImage', 'ModifySet']);

/** More parts than any policy that somebody wrote has; its rules would be looked through for seconds. */
const PARTS = 20_000;

/** True for a spec of which nothing is said for its size. */
export function isTooLarge(spec: unknown): boolean {
  let left = PARTS;
  const walk = (value: unknown, depth: number): void => {
    left -= 1;
    if (left < 0 || depth > DEPTH || typeof value !== 'object' || value === null) return;
    for (const part of Array.isArray(value) ? (value as readonly unknown[]) : Object.values(value)) {
      walk(part, depth + 1);
      if (left < 0) return;
    }
  };
  walk(spec, 0);
  return left < 0;
}

/** The rules of another engine's object, one after the other: each takes its time. */
export function rulesOf(kind: GroupKind, spec: unknown): Iterable<Rule> {
  const { group, kind: name } = splitGroupKind(kind);
  if (group === 'kyverno.io') return kyvernoRules(spec);
  if (group === 'policies.kyverno.io' || group === 'admissionregistration.k8s.io') return celRules(spec);
  if (group === 'mutations.gatekeeper.sh' && GATEKEEPER_MUTATORS.has(name)) return gatekeeperRules(spec);
  return group === 'constraints.gatekeeper.sh' ? constraintRules(spec) : [];
}

/**
 * The rules that reach for the proxy among the regular containers only. A rule for the other list beside it, of the same sort,
 * makes both whole; an exemption from a rule that judges regular containers alone is needless with a native proxy, and does no harm.
 */
export function narrowRules(of: Iterable<Rule>): readonly Rule[] {
  const rules = [...of];
  // whether rules that change pods, and rules that do not, have one for init containers
  const whole = new Set(rules.filter(({ lists }) => lists.init && !lists.regular).map(({ mutates }) => mutates));
  return rules.filter(
    ({ needless, lists, mutates }) => needless !== true && lists.regular && !lists.init && !whole.has(mutates),
  );
}

/** Gatekeeper has one location an object: what this one would be called for the other list. */
export function counterpartLocation(spec: unknown): string | undefined {
  const location = text(at(spec, 'location'));
  return location?.startsWith('spec.containers[') === true
    ? location.replace('spec.containers[', 'spec.initContainers[')
    : undefined;
}

/** Names of the templates that istiod's chart brings; those are written for both kinds of sidecars. */
export const BUILT_IN: ReadonlySet<string> = new Set([
  'sidecar',
  'gateway',
  'grpc-simple',
  'grpc-agent',
  'waypoint',
  'kube-gateway',
  'agentgateway',
  'agentgateway-waypoint',
]);

export const isBuiltIn = (template: string): boolean => BUILT_IN.has(template);

/** A comment of Go's templates, which ends at the first sign of an end, or else with the text: no part is looked through twice. */
const COMMENT = /\{\{-?\s{0,20}\/\*[\s\S]*?(?:\*\/\s{0,20}(?:-?\}\})?|$)/g;

/**
 * True for an operator's own injection template that patches `istio-proxy` under `containers` whatever the proxy is. One that
 * runs the proxy itself (its own image or arguments) is used alone, as a gateway's is.
 */
export function patchesRegularOnly(template: string): boolean {
  const said = template.replace(COMMENT, '').replace(/(^|\s)#[^\n]*/g, '$1');
  if (/nativeSidecar/i.test(said)) return false;
  if (/image:\s*["']?(?:auto\b|\{\{[^{}]{0,200}ProxyImage)|-\s*["']?(?:router|sidecar)["']?\s*$/m.test(said))
    return false;
  const lists = mentions(said);
  return lists.regular && !lists.init;
}

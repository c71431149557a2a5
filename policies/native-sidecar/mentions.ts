// Which list of containers a text means where it speaks of `istio-proxy`: CEL, JMESPath, Go templates and paths alike.

/** The lists of a pod that can hold the proxy. `neither` stays empty: a name without a list says nothing. */
export interface Lists {
  readonly regular: boolean;
  readonly init: boolean;
}

export const NEITHER: Lists = Object.freeze({ regular: false, init: false });

export function either(a: Lists, b: Lists): Lists {
  return { regular: a.regular || b.regular, init: a.init || b.init };
}

/** Lists that other parts of an object have given a name: CEL variables, Kyverno's context. */
export type Named = ReadonlyMap<string, Lists>;

const PROXY = 'istio-proxy';
/** Texts longer than this are no rules that somebody wrote. */
const AT_MOST = 200_000;

/** A pattern of Kyverno's (`istio-*`, `!istio-proxy`, `a | b`) that means the proxy by name; one that means everything does not. */
export function meansProxy(pattern: string): boolean {
  if (pattern.length > 4096) return false;
  return pattern.split(/[|&,]/).some(part => {
    const glob = part
      .trim()
      .replace(/^[!=<>\s]+/, '')
      .replace(/^["']|["']$/g, '');
    if (glob === PROXY) return true;
    if (!/[*?]/.test(glob) || !glob.includes('istio') || glob.length > 64) return false;
    const source = glob
      .replace(/[.+^${}()|[\]\\]/g, '\\$&')
      .replace(/\*+/g, '.*')
      .replaceAll('?', '.');
    return new RegExp(`^${source}$`).test(PROXY);
  });
}

interface Reference {
  readonly from: number;
  readonly to: number;
  readonly lists: Lists;
}

const REFERENCE =
  /(?<template>(?:template|jobTemplate)(?:\.|\/)(?:\??spec)(?:\.|\/)(?:template(?:\.|\/)\??spec(?:\.|\/))?\??)?\b(?<list>initContainers|containers)\b|\b(?<name>[A-Za-z_]\w*)\b/g;

/** Every place of a text that means a list of containers, in its order. Pod templates are left out: their overrides are moved. */
function referencesIn(text: string, named: Named): readonly Reference[] {
  const found: Reference[] = [];
  for (const match of text.matchAll(REFERENCE)) {
    const { template, list, name } = match.groups ?? {};
    const from = match.index;
    const to = from + match[0].length;
    if (list !== undefined) {
      const lists = template === undefined ? { regular: list === 'containers', init: list !== 'containers' } : NEITHER;
      found.push({ from, to, lists });
    } else if (name !== undefined && named.has(name)) found.push({ from, to, lists: named.get(name) ?? NEITHER });
  }
  return found;
}

/** What may stand between two lists that are joined into one: `a + b`, `[a, b]`, `has(b) ? b : []`. */
const JOINT = /^[\s.,+\w?[\]():'"|]{0,120}$/;
const SPLIT = /\.(?:all|exists|exists_one|existsOne|filter|map|transformList)\s*\(|\[\s*\?|\|\||\n\s*\n/;

function joined(text: string, references: readonly Reference[], index: number, step: 1 | -1): Lists {
  let lists = references[index]?.lists ?? NEITHER;
  for (let at = index; ; at += step) {
    const here = references[at];
    const next = references[at + step];
    if (here === undefined || next === undefined) return lists;
    const [left, right] = step === 1 ? [here, next] : [next, here];
    const between = text.slice(left.to, right.from);
    if (!JOINT.test(between) || SPLIT.test(between)) return lists;
    lists = either(lists, next.lists);
  }
}

/** The lists in which a text looks for the proxy by its name: those that the name stands next to. */
export function mentions(text: string, named: Named = new Map()): Lists {
  if (text.length > AT_MOST || !text.includes(PROXY)) return NEITHER;
  const references = referencesIn(text, named);
  const known = new Map<string, Lists>();
  const around = (index: number, step: 1 | -1): Lists => {
    const key = `${index} ${step}`;
    const lists = known.get(key) ?? joined(text, references, index, step);
    known.set(key, lists);
    return lists;
  };
  let lists = NEITHER;
  let next = 0;
  for (let at = text.indexOf(PROXY); at >= 0; at = text.indexOf(PROXY, at + PROXY.length)) {
    // `istio-proxy-debug` and `my-istio-proxy` are others
    if (/[\w-]/.test(text[at - 1] ?? '') || /[\w-]/.test(text[at + PROXY.length] ?? '')) continue;
    while (next < references.length && (references[next]?.to ?? 0) <= at) next += 1;
    const isLeftOfIn = /^['"]\s*in\b/.test(text.slice(at + PROXY.length, at + PROXY.length + 12));
    const comesAfter = isLeftOfIn || next === 0;
    if (!comesAfter) lists = either(lists, around(next - 1, -1));
    else if (next < references.length) lists = either(lists, around(next, 1));
  }
  return lists;
}

/** The lists that a text is about, whatever it looks for in them. */
export function listsIn(text: string, named: Named = new Map()): Lists {
  if (text.length > AT_MOST) return NEITHER;
  return referencesIn(text, named).reduce((lists, reference) => either(lists, reference.lists), NEITHER);
}

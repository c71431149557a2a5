// Where rules of other engines reach for the proxy: one table of rules, and what they mean.
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { seeded } from '../../test/generate/random.ts';
import { meansProxy, mentions } from './mentions.ts';
import { narrowRules, patchesRegularOnly, rulesOf } from './rules.ts';

const isNarrow = (kind: string, spec: unknown) => narrowRules(rulesOf(kind, spec)).length > 0;

describe('Kyverno', () => {
  test.each<[string, string, boolean]>([
    [
      'a query in a condition',
      `validate: { deny: { conditions: { any: [{ key: "{{ request.object.spec.containers[?name=='istio-proxy'] | length(@) }}", operator: Equals, value: 0 }] } } }`,
      true,
    ],
    [
      'a query of both lists',
      `validate: { deny: { conditions: { any: [{ key: "{{ request.object.spec.[containers, initContainers][][?name=='istio-proxy'] }}", operator: Equals, value: [] }] } } }`,
      false,
    ],
    [
      'names of a list against a value',
      `preconditions: { all: [{ key: istio-proxy, operator: AnyIn, value: "{{ request.object.spec.containers[].name }}" }] }`,
      true,
    ],
    [
      'a foreach over a query',
      `mutate: { foreach: [{ list: "request.object.spec.containers[?name=='istio-proxy']", patchStrategicMerge: { spec: { containers: [{ (name): "{{ element.name }}" }] } } }] }`,
      true,
    ],
    [
      'a list that the context names',
      `{ context: [{ name: mine, variable: { jmesPath: request.object.spec.containers } }], validate: { deny: { conditions: { all: [{ key: istio-proxy, operator: AnyNotIn, value: "{{ mine[].name }}" }] } } } }`,
      true,
    ],
    [
      'both lists that the context names',
      `{ context: [{ name: every, variable: { jmesPath: "request.object.spec.[containers, initContainers][]" } }], validate: { deny: { conditions: { all: [{ key: istio-proxy, operator: AnyNotIn, value: "{{ every[].name }}" }] } } } }`,
      false,
    ],
    [
      'a JSON Patch that adds a container',
      `mutate: { patchesJson6902: "- { op: add, path: /spec/containers/-, value: { name: istio-proxy, image: auto } }" }`,
      true,
    ],
    [
      'a JSON Patch for another container',
      `mutate: { patchesJson6902: "- { op: add, path: /spec/containers/-, value: { name: agent } }" }`,
      false,
    ],
    [
      'an exemption of pod security by field',
      `validate: { podSecurity: { level: restricted, exclude: [{ controlName: Capabilities, images: ["*/istio/proxyv2*"], restrictedField: "spec.containers[*].securityContext.capabilities.drop" }] } }`,
      true,
    ],
    [
      'an exemption of pod security for the image',
      `validate: { podSecurity: { level: restricted, exclude: [{ controlName: Capabilities, images: ["*/istio/proxyv2*"] }] } }`,
      false,
    ],
    [
      'an assertion',
      `validate: { assert: { all: [{ check: { spec: { "(containers[?name == 'istio-proxy'])": { (length(@)): 1 } } } }] } }`,
      true,
    ],
    [
      'CEL in a rule',
      `validate: { cel: { expressions: [{ expression: "object.spec.containers.exists(c, c.name == 'istio-proxy')" }] } }`,
      true,
    ],
    [
      'CEL with a variable',
      `validate: { cel: { variables: [{ name: every, expression: "object.spec.containers + object.spec.?initContainers.orValue([])" }], expressions: [{ expression: "variables.every.exists(c, c.name == 'istio-proxy')" }] } }`,
      false,
    ],
    [
      'what it says in its message',
      `validate: { message: "istio-proxy in spec.containers", pattern: { spec: { containers: [{ image: "*:*" }] } } }`,
      false,
    ],
    [
      'what it matches',
      `{ match: { any: [{ resources: { names: [istio-proxy] } }] }, validate: { pattern: { spec: { containers: [{ image: "*:*" }] } } } }`,
      false,
    ],
    [
      'pod templates',
      `validate: { pattern: { spec: { template: { spec: { containers: [{ (name): "!istio-proxy", image: "*:*" }] } } } } }`,
      false,
    ],
    [
      'a query of pod templates',
      `validate: { deny: { conditions: { any: [{ key: "{{ request.object.spec.template.spec.containers[?name=='istio-proxy'] }}", operator: Equals, value: [] }] } } }`,
      false,
    ],
  ])('%s', (_, rule, expected) => {
    expect(isNarrow('ClusterPolicy.kyverno.io', { rules: [{ name: 'one', ...(parse(rule) as object) }] })).toBe(
      expected,
    );
  });

  test('a mutation for one list is not made whole by a validation of the other', () => {
    const regular = {
      name: 'a',
      mutate: { patchStrategicMerge: { spec: { containers: [{ '(name)': 'istio-proxy' }] } } },
    };
    const validate = { name: 'b', validate: { pattern: { spec: { initContainers: [{ '(name)': 'istio-proxy' }] } } } };
    const init = {
      name: 'c',
      mutate: { patchStrategicMerge: { spec: { initContainers: [{ '(name)': 'istio-proxy' }] } } },
    };
    expect(isNarrow('Policy.kyverno.io', { rules: [regular, validate] })).toBe(true);
    expect(isNarrow('Policy.kyverno.io', { rules: [regular, init] })).toBe(false);
  });
});

describe('CEL', () => {
  test.each<[string, { regular: boolean; init: boolean }]>([
    ["object.spec.containers.exists(c, c.name == 'istio-proxy')", { regular: true, init: false }],
    ["object.spec.initContainers.exists(c, c.name == 'istio-proxy')", { regular: false, init: true }],
    ["'istio-proxy' in object.spec.containers.map(c, c.name)", { regular: true, init: false }],
    [
      "'istio-proxy' in (object.spec.containers + object.spec.initContainers).map(c, c.name)",
      { regular: true, init: true },
    ],
    [
      "[object.spec.containers, object.spec.initContainers].all(l, l.all(c, c.name != 'istio-proxy'))",
      { regular: true, init: true },
    ],
    [
      "object.spec.initContainers.all(c, has(c.x)) && object.spec.containers.all(c, c.name == 'istio-proxy')",
      { regular: true, init: false },
    ],
    [
      "object.spec.containers.all(c, has(c.x)) || object.spec.initContainers.exists(c, c.name == 'istio-proxy')",
      { regular: false, init: true },
    ],
    ["object.spec.containers.exists(c, c.name == 'istio-proxy-debug')", { regular: false, init: false }],
    ["object.spec.template.spec.containers.exists(c, c.name == 'istio-proxy')", { regular: false, init: false }],
    ["object.metadata.name == 'istio-proxy'", { regular: false, init: false }],
  ])('%s', (expression, expected) => {
    expect(mentions(expression)).toEqual(expected);
  });
});

test.each<[string, boolean]>([
  ['istio-proxy', true],
  ['!istio-proxy', true],
  ['istio-*', true],
  ['vault-agent | istio-proxy', true],
  ['*', false],
  ['?*', false],
  ['istio-init', false],
  ['my-istio-proxy', false],
  ['istio-?', false],
])('the pattern %s means the proxy: %s', (pattern, expected) => {
  expect(meansProxy(pattern)).toBe(expected);
});

test.each<[string, unknown, boolean]>([
  ['apart', { exempt: { containers: ['istio-proxy'], initContainers: ['istio-init'] } }, true],
  ['apart, in both', { exemptContainers: ['istio-proxy'], exemptInitContainers: ['istio-init', 'istio-proxy'] }, false],
  ['by name alone', { exemptContainers: ['istio-proxy'] }, false],
  ['by a path', { paths: ['spec.containers[name:istio-proxy].image'] }, true],
  ['by image', { exemptImages: ['docker.io/istio/proxyv2*'] }, false],
])('a constraint that exempts %s', (_, parameters, expected) => {
  expect(isNarrow('RequireLimits.constraints.gatekeeper.sh', { parameters })).toBe(expected);
});

test.each<[string, string, boolean]>([
  ['a patch', 'spec:\n  containers:\n  - name: istio-proxy\n    env: []', true],
  ['a patch in flow style', 'spec: { containers: [{ name: istio-proxy, tty: true }] }', true],
  ['a patch of the init container', 'spec:\n  initContainers:\n  - name: istio-proxy\n    env: []', false],
  ['a comment', '# containers: istio-proxy\nspec: {}', false],
  ['a comment of the template', '{{- /* containers: istio-proxy */ -}}\nspec: {}', false],
  ['another container', 'spec:\n  containers:\n  - name: agent', false],
])('an injection template with %s', (_, template, expected) => {
  expect(patchesRegularOnly(template)).toBe(expected);
});

test('no rule, whatever its shape, is too much', () => {
  const random = seeded(7);
  const words = [
    'istio-proxy',
    'containers',
    'spec',
    'name',
    '(name)',
    'list',
    'key',
    'operator',
    'value',
    'controlName',
    'rules',
    'mutate',
    'patchesJson6902',
    'template',
    '__proto__',
    "{{ a[?b=='istio-proxy'] }}",
  ];
  const any = (depth: number): unknown => {
    if (depth === 0 || random.chance(0.2)) return random.pick([null, 1, true, ...words]);
    if (random.chance(0.4)) return [any(depth - 1), any(depth - 1)];
    return Object.fromEntries(random.some(words, 0.3).map(word => [word, any(depth - 1)]));
  };
  const kinds = [
    'ClusterPolicy.kyverno.io',
    'MutatingPolicy.policies.kyverno.io',
    'Assign.mutations.gatekeeper.sh',
    'Any.constraints.gatekeeper.sh',
  ];
  for (let run = 0; run < 400; run += 1) {
    for (const kind of kinds) expect(() => isNarrow(kind, any(6))).not.toThrow();
  }
  const long = "containers + 'istio-proxy' ".repeat(7000);
  const began = performance.now();
  mentions(long);
  meansProxy('istio-*'.repeat(500));
  let deep: unknown = 'istio-proxy';
  for (let depth = 0; depth < 2000; depth += 1) deep = { containers: [{ name: deep }] };
  for (const kind of kinds) isNarrow(kind, { rules: [{ validate: deep }], mutations: [deep], parameters: deep });
  expect(performance.now() - began).toBeLessThan(2000);
});

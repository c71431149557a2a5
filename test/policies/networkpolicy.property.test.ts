// The evaluator of NetworkPolicies, held against a plain one that decides packet by packet.
import { BlockList, isIPv4 } from 'node:net';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type NetworkPolicy, networkPolicy } from '../../src/mesh/kinds/network.ts';
import {
  admits,
  covered,
  type Direction,
  type End,
  grantsAt,
  type PodEnd,
  peerMatches,
} from '../../src/mesh/networkpolicy.ts';

type Json = Record<string, unknown>;

const RUNS = 4000;
const NAMESPACES: Readonly<Record<string, Record<string, string>>> = {
  shop: { 'kubernetes.io/metadata.name': 'shop', team: 'a' },
  batch: { 'kubernetes.io/metadata.name': 'batch', team: 'b' },
  edge: { 'kubernetes.io/metadata.name': 'edge' },
};
const PORTS = [80, 8080, 9090, 15007, 15008, 15009];
const ADDRESSES = ['10.0.0.1', '10.0.1.1', '10.1.0.1', '192.0.2.1', 'fd00::1', 'fd00:0:0:1::1', '2001:db8::1'];

const entry = <T>(...values: readonly T[]) => fc.constantFrom(...values);
const labels = fc.record({ app: entry('web', 'api'), tier: entry('front', 'back') }, { requiredKeys: [] });
const requirement = fc.oneof(
  fc.record({
    key: entry('app', 'tier', 'team'),
    operator: entry('In', 'NotIn'),
    values: fc.subarray(['web', 'api', 'front', 'a', 'b'], { minLength: 1 }),
  }),
  fc.record({ key: entry('app', 'tier', 'team'), operator: entry('Exists', 'DoesNotExist') }),
);
const podSelector = fc.record(
  { matchLabels: labels, matchExpressions: fc.array(requirement, { maxLength: 1 }) },
  { requiredKeys: [] },
);
const namespaceSelector = fc.record(
  {
    matchLabels: fc.oneof(
      fc.constant({}),
      fc.record({ 'kubernetes.io/metadata.name': entry('shop', 'batch', 'edge') }),
      fc.record({ team: entry('a', 'b') }),
    ),
    matchExpressions: fc.array(requirement, { maxLength: 1 }),
  },
  { requiredKeys: [] },
);
const cidrs = [
  '10.0.0.0/8',
  '10.0.0.0/24',
  '10.0.1.0/24',
  '0.0.0.0/0',
  '::/0',
  'fd00::/8',
  'fd00::/64',
  '2001:db8::/32',
  '192.0.2.1/32',
];
const peer: fc.Arbitrary<Json> = fc.oneof(
  fc.record({ podSelector }),
  fc.record({ namespaceSelector }),
  fc.record({ namespaceSelector, podSelector }),
  fc.record({
    ipBlock: fc.record(
      { cidr: entry(...cidrs), except: fc.subarray(cidrs, { maxLength: 2 }) },
      { requiredKeys: ['cidr'] },
    ),
  }),
);
const port: fc.Arbitrary<Json> = fc.oneof(
  fc.record(
    { protocol: entry('TCP', 'UDP'), port: entry<number | string>(...PORTS, 'http', 'hbone') },
    { requiredKeys: [] },
  ),
  fc.record(
    { port: entry(80, 8080, 15000), endPort: entry(8080, 9090, 15008, 15999), protocol: entry('TCP', 'UDP') },
    { requiredKeys: ['port', 'endPort'] },
  ),
);
const rule = (direction: 'from' | 'to') =>
  fc.record(
    { [direction]: fc.array(peer, { maxLength: 2 }), ports: fc.array(port, { maxLength: 2 }) },
    { requiredKeys: [] },
  );
const policy = fc.record({
  metadata: fc.record({ name: entry('a', 'b', 'c'), namespace: entry('shop', 'batch') }),
  spec: fc.record(
    {
      podSelector,
      ingress: fc.array(rule('from'), { maxLength: 2 }),
      egress: fc.array(rule('to'), { maxLength: 2 }),
      policyTypes: fc.subarray(['Ingress', 'Egress']),
    },
    { requiredKeys: ['podSelector'] },
  ),
});
const pod = fc
  .record({
    namespace: entry('shop', 'batch', 'edge'),
    labels,
    ports: fc.subarray([
      { name: 'http', number: 8080, protocol: 'TCP' },
      { name: 'http', number: 80, protocol: 'UDP' },
      { name: 'hbone', number: 15008, protocol: 'TCP' },
    ]),
    addresses: fc.subarray(ADDRESSES, { minLength: 1, maxLength: 2 }),
  })
  .map(
    (made): PodEnd => ({
      ...made,
      labels: made.labels as PodEnd['labels'],
      namespaceLabels: NAMESPACES[made.namespace] ?? {},
    }),
  );
const outside: fc.Arbitrary<End> = entry(...ADDRESSES).map(address => ({ addresses: [address] }));

const project = (object: Json): NetworkPolicy => {
  const metadata = object['metadata'] as { namespace: string };
  return networkPolicy('NetworkPolicy.networking.k8s.io', metadata.namespace, object);
};

// ---- the plain evaluator: raw objects, one packet, written from the documentation of NetworkPolicy -------------------------

function plainSelects(selector: Json, of: Readonly<Record<string, string>>): boolean {
  for (const [key, value] of Object.entries((selector['matchLabels'] ?? {}) as Record<string, string>)) {
    if (of[key] !== value) return false;
  }
  for (const { key, operator, values } of (selector['matchExpressions'] ?? []) as {
    key: string;
    operator: string;
    values?: string[];
  }[]) {
    const has = Object.hasOwn(of, key);
    const listed = has && (values ?? []).includes(of[key] as string);
    const met = { In: listed, NotIn: !listed, Exists: has, DoesNotExist: !has }[operator];
    if (!met) return false;
  }
  return true;
}

function plainInBlock(cidr: string, address: string): boolean {
  const list = new BlockList();
  const [network = '', prefix = ''] = cidr.split('/');
  if (isIPv4(network) !== isIPv4(address)) return false;
  list.addSubnet(network, Number(prefix), isIPv4(network) ? 'ipv4' : 'ipv6');
  return list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
}

function plainPeer(peer: Json, namespace: string, end: End): boolean {
  const block = peer['ipBlock'] as { cidr: string; except?: string[] } | undefined;
  if (block !== undefined) {
    return (end.addresses ?? []).some(
      address => plainInBlock(block.cidr, address) && !(block.except ?? []).some(hole => plainInBlock(hole, address)),
    );
  }
  if (!('labels' in end)) return false;
  const wantedPods = peer['podSelector'] as Json | undefined;
  const wantedNamespaces = peer['namespaceSelector'] as Json | undefined;
  const inNamespace =
    wantedNamespaces === undefined
      ? end.namespace === namespace
      : plainSelects(wantedNamespaces, end.namespaceLabels ?? {});
  return inNamespace && (wantedPods === undefined || plainSelects(wantedPods, end.labels));
}

function plainPort(item: Json, protocol: string, number: number, receiver: End): boolean {
  if ((item['protocol'] ?? 'TCP') !== protocol) return false;
  const wanted = item['port'];
  if (wanted === undefined) return true;
  if (typeof wanted === 'string') {
    return (
      'labels' in receiver &&
      receiver.ports.some(known => known.name === wanted && known.protocol === protocol && known.number === number)
    );
  }
  for (let open = wanted as number; open <= ((item['endPort'] ?? wanted) as number); open += 1) {
    if (open === number) return true;
  }
  return false;
}

function plainAdmits(
  objects: readonly Json[],
  direction: Direction,
  self: PodEnd,
  other: End,
  protocol: string,
  number: number,
): boolean {
  let isolated = false;
  for (const object of objects) {
    const { namespace } = object['metadata'] as { namespace: string };
    const spec = object['spec'] as Json;
    let types = (spec['policyTypes'] ?? []) as string[];
    if (types.length === 0)
      types = ((spec['egress'] ?? []) as unknown[]).length > 0 ? ['Ingress', 'Egress'] : ['Ingress'];
    if (!types.includes(direction === 'ingress' ? 'Ingress' : 'Egress')) continue;
    if (namespace !== self.namespace || !plainSelects((spec['podSelector'] ?? {}) as Json, self.labels)) continue;
    isolated = true;
    for (const one of (spec[direction] ?? []) as Json[]) {
      const peers = (one[direction === 'ingress' ? 'from' : 'to'] ?? []) as Json[];
      const ports = (one['ports'] ?? []) as Json[];
      const portOpen =
        ports.length === 0 ||
        ports.some(item => plainPort(item, protocol, number, direction === 'ingress' ? self : other));
      if (portOpen && (peers.length === 0 || peers.some(each => plainPeer(each, namespace, other)))) return true;
    }
  }
  return !isolated;
}

// ----------------------------------------------------------------------------------------------------------------------------

const scene = fc.record({
  objects: fc.array(policy, { maxLength: 4 }) as fc.Arbitrary<Json[]>,
  direction: entry<Direction>('ingress', 'egress'),
  self: pod,
  other: fc.oneof({ weight: 3, arbitrary: pod as fc.Arbitrary<End> }, { weight: 1, arbitrary: outside }),
  protocol: entry('TCP', 'UDP'),
  number: entry(...PORTS),
});

test(`the evaluator decides like one that goes packet by packet (${RUNS} packets)`, () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(scene, ({ objects, direction, self, other, protocol, number }) => {
      const plain = plainAdmits(objects, direction, self, other, protocol, number) ? 'yes' : 'no';
      seen.add(`${direction} ${plain}`);
      expect(admits(objects.map(project), { direction, pod: self, other, protocol, port: number })).toBe(plain);
    }),
    { numRuns: RUNS },
  );
  expect([...seen].sort()).toEqual(['egress no', 'egress yes', 'ingress no', 'ingress yes']);
});

test('what the evaluator does not know it never calls a refusal or a pass', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(
      scene,
      fc.boolean(),
      fc.boolean(),
      ({ objects, direction, self, other, protocol, number }, known, named) => {
        if (!('labels' in other)) return;
        const { addresses, namespaceLabels, ...rest } = other;
        const hidden: End = {
          ...rest,
          ...(known && addresses !== undefined ? { addresses } : {}),
          ...(named && namespaceLabels !== undefined ? { namespaceLabels } : {}),
        };
        const answer = admits(objects.map(project), { direction, pod: self, other: hidden, protocol, port: number });
        seen.add(`${known} ${named} ${answer}`);
        // addresses can only add passes: what passes without any passes for certain
        if (named && !known) {
          const bare = { ...hidden, addresses: [] };
          expect(answer === 'yes').toBe(plainAdmits(objects, direction, self, bare, protocol, number));
        }
        if (answer === 'unknown') return;
        expect(answer).toBe(plainAdmits(objects, direction, self, other, protocol, number) ? 'yes' : 'no');
      },
    ),
    { numRuns: 5 * RUNS },
  );
  // what it can know it does not call unknown, and where something is hidden it can still tell at times
  expect([...seen].sort()).toEqual([
    ...['no', 'unknown', 'yes'].map(answer => `false false ${answer}`),
    ...['no', 'unknown', 'yes'].map(answer => `false true ${answer}`),
    ...['no', 'unknown', 'yes'].map(answer => `true false ${answer}`),
    ...['no', 'yes'].map(answer => `true true ${answer}`),
  ]);
});

/** A peer like one of the policies, or with a requirement more, or a random one: selectors that have nothing to do with a grant are never covered. */
const like = fc.record({
  at: fc.nat(),
  more: fc.option(requirement),
  fewer: fc.boolean(),
  label: fc.option(labels),
  without: entry('nothing', 'namespaceSelector', 'podSelector'),
  random: fc.record({ podSelector, namespaceSelector }, { requiredKeys: [] }),
});

function peerLike(
  objects: readonly Json[],
  { at, more, fewer, label, without, random }: typeof like extends fc.Arbitrary<infer T> ? T : never,
): Json {
  const peers = objects.flatMap(object =>
    (((object['spec'] as Json)['ingress'] as Json[] | undefined) ?? []).flatMap(one => (one['from'] ?? []) as Json[]),
  );
  const found = at % 4 === 0 ? undefined : peers[at % (peers.length || 1)];
  const base: Json = structuredClone(found === undefined || found['ipBlock'] !== undefined ? (random as Json) : found);
  if (without !== 'nothing') delete base[without];
  const pods = (base['podSelector'] ?? (base['namespaceSelector'] === undefined ? {} : undefined)) as Json | undefined;
  if (pods === undefined) return base;
  return {
    ...base,
    podSelector: {
      ...pods,
      matchLabels: { ...(pods['matchLabels'] as Json | undefined), ...label },
      matchExpressions: [
        ...((pods['matchExpressions'] ?? []) as { values?: string[] }[]).map(one =>
          fewer && one.values !== undefined && one.values.length > 1 ? { ...one, values: one.values.slice(1) } : one,
        ),
        ...(more === null ? [] : [more]),
      ],
    },
  };
}

// policies that select the pod, with peers by selectors: random ones hardly ever grant anything to anybody who is asked about
const podPeer = peer.filter(made => made['ipBlock'] === undefined || Object.keys(made).length > 1);
const granting = fc.record({
  metadata: fc.record({ name: entry('a', 'b'), namespace: fc.constant('shop') }),
  spec: fc.record({
    podSelector: fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: podSelector }),
    ingress: fc.array(
      fc.record({
        from: fc.oneof(
          { weight: 6, arbitrary: fc.array(podPeer, { minLength: 1, maxLength: 2 }) },
          { weight: 1, arbitrary: fc.array(peer, { maxLength: 1 }) },
        ),
        ports: fc.array(entry<Json>({ port: 15008 }, { port: 8080, endPort: 15999 }, { port: 80 }), { maxLength: 1 }),
      }),
      { minLength: 1, maxLength: 2 },
    ),
  }),
});
const asking = fc.record({
  objects: fc.array(granting, { minLength: 1, maxLength: 2 }) as fc.Arbitrary<Json[]>,
  self: pod.map((made): PodEnd => ({ ...made, namespace: 'shop', namespaceLabels: NAMESPACES['shop'] ?? {} })),
  others: fc.array(pod, { minLength: 8, maxLength: 8 }),
});

test('whoever the grants at a port cover gets through there', () => {
  let covers = 0;
  let everybody = 0;
  fc.assert(
    fc.property(asking, like, ({ objects, self, others }, wanted) => {
      const grants = grantsAt(objects.map(project), self, 'ingress', { protocol: 'TCP', port: 15008 });
      const raw = peerLike(objects, wanted);
      const made = project({
        metadata: { name: 'asked', namespace: 'shop' },
        spec: { podSelector: {}, ingress: [{ from: [raw] }] },
      }).ingress?.[0]?.peers[0];
      if (made === undefined || (grants !== 'everybody' && !covered(made, 'shop', grants))) return;
      for (const other of others) {
        if (!plainPeer(raw, 'shop', other)) continue;
        if (grants === 'everybody') everybody += 1;
        else covers += 1;
        expect(plainAdmits(objects, 'ingress', self, other, 'TCP', 15008)).toBe(true);
      }
    }),
    { numRuns: 2 * RUNS },
  );
  expect(covers).toBeGreaterThan(RUNS);
  expect(everybody).toBeGreaterThan(RUNS / 2);
});

test('what the grants at a port do not name does not get through there', () => {
  let refused = 0;
  fc.assert(
    fc.property(asking, ({ objects, self, others }) => {
      const grants = grantsAt(objects.map(project), self, 'ingress', { protocol: 'TCP', port: 15008 });
      for (const other of others) {
        const named =
          grants === 'everybody' ||
          grants.some(
            ({ policy: { namespace }, peer: one }) => one === undefined || peerMatches(one, namespace, other) === 'yes',
          );
        if (!named) refused += 1;
        expect(plainAdmits(objects, 'ingress', self, other, 'TCP', 15008)).toBe(named);
      }
    }),
    { numRuns: RUNS },
  );
  expect(refused).toBeGreaterThan(RUNS);
});

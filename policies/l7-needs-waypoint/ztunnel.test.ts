// What ztunnel makes of rules, attribute by attribute (pilot/pkg/serviceregistry/ambient/authorization.go).
import { expect, test } from 'vitest';
import { AUTHORIZATION_POLICY, authorizationPolicy } from '../../src/mesh/kinds/security.ts';
import { misreadings } from './ztunnel.ts';

function found(action: string, rule: unknown, domains: readonly string[] = ['cluster.local']): string {
  const policy = authorizationPolicy(AUTHORIZATION_POLICY, 'shop', {
    metadata: { name: 'p' },
    spec: { action, rules: [rule] },
  });
  return misreadings(policy, domains)
    .map(({ finding, attributes }) => `${finding} ${attributes}`)
    .join(', ');
}

const from = (...sources: readonly unknown[]) => ({ from: sources.map(source => ({ source })) });
const to = (...operations: readonly unknown[]) => ({ to: operations.map(operation => ({ operation })) });
const when = (...keys: readonly string[]) => ({ when: keys.map(key => ({ key, values: ['x'] })) });

const L4_SOURCE = ['principals', 'namespaces', 'serviceAccounts', 'ipBlocks'];
const L4_KEYS = ['source.ip', 'source.namespace', 'source.principal', 'destination.ip', 'destination.port'];

test('what ztunnel knows is as it is written', () => {
  for (const action of ['ALLOW', 'DENY']) {
    for (const key of L4_SOURCE) {
      expect(found(action, from({ [key]: ['a'] }))).toBe('');
      expect(found(action, from({ [`not${key[0]?.toUpperCase()}${key.slice(1)}`]: ['a'] }))).toBe('');
    }
    for (const key of ['ports', 'notPorts']) expect(found(action, to({ [key]: ['80'] }))).toBe('');
    for (const key of L4_KEYS) expect(found(action, when(key))).toBe('');
    expect(found(action, {})).toBe('');
  }
});

test.each([
  ['hosts', to({ hosts: ['a'] })],
  ['notHosts', to({ notHosts: ['a'] })],
  ['methods', to({ methods: ['GET'] })],
  ['notMethods', to({ notMethods: ['GET'] })],
  ['paths', to({ paths: ['/a'] })],
  ['notPaths', to({ notPaths: ['/a'] })],
  ['requestPrincipals', from({ requestPrincipals: ['*'] })],
  ['notRequestPrincipals', from({ notRequestPrincipals: ['*'] })],
  ['remoteIpBlocks', from({ remoteIpBlocks: ['10.0.0.0/8'] })],
  ['notRemoteIpBlocks', from({ notRemoteIpBlocks: ['10.0.0.0/8'] })],
  ['request.headers', when('request.headers[x-team]')],
  ['request.auth.claims', when('request.auth.claims[iss]')],
  ['remote.ip', when('remote.ip')],
  ['connection.sni', when('connection.sni')],
  ['source.serviceAccount', when('source.serviceAccount')],
  ['source.trustDomain', when('source.trustDomain')],
  ['experimental.envoy.filters.a', when('experimental.envoy.filters.a[b]')],
])('%s is HTTP for ztunnel', (attributes, rule) => {
  expect(found('ALLOW', rule)).toBe(`allow-rule-dropped ${attributes}`);
  expect(found('DENY', rule)).toBe(`deny-rule-never-matches ${attributes}`);
  // an empty list is no attribute
  expect(found('DENY', to({ paths: [], ports: ['80'] }))).toBe('');
});

test('a clause with nothing left ends a DENY rule, whatever the others say', () => {
  expect(found('DENY', { ...from({ namespaces: ['a'] }), ...to({ paths: ['/a'] }) })).toBe(
    'deny-rule-never-matches paths',
  );
  expect(found('DENY', { ...to({ ports: ['80'] }), ...when('source.ip', 'request.headers[a]') })).toBe(
    'deny-rule-never-matches request.headers',
  );
  expect(found('ALLOW', { ...from({ namespaces: ['a'] }), ...to({ paths: ['/a'] }) })).toBe('allow-rule-dropped paths');
});

test('a DENY rule with something left in every clause is broader than written', () => {
  expect(found('DENY', to({ ports: ['80'], methods: ['GET'] }))).toBe('deny-rule-too-broad methods');
  expect(found('DENY', from({ namespaces: ['a'], requestPrincipals: ['*'] }))).toBe(
    'deny-rule-too-broad requestPrincipals',
  );
});

test('of alternatives those with nothing left vanish', () => {
  expect(found('DENY', to({ ports: ['80'] }, { paths: ['/a'] }))).toBe('deny-rule-never-matches paths');
  expect(found('DENY', to({ ports: ['80'], hosts: ['h'] }, { paths: ['/a'] }))).toBe(
    'deny-rule-never-matches paths, deny-rule-too-broad hosts',
  );
});

test('trust domains go without a word', () => {
  expect(found('ALLOW', from({ trustDomains: ['a'], namespaces: ['b'] }))).toBe(
    'trust-domains-dropped trustDomains wider',
  );
  expect(found('ALLOW', from({ trustDomains: ['a'] }))).toBe('trust-domains-dropped trustDomains never');
  expect(found('DENY', from({ notTrustDomains: ['a'], namespaces: ['b'] }))).toBe(
    'trust-domains-dropped notTrustDomains wider',
  );
  expect(found('DENY', from({ trustDomains: ['a'] }, { namespaces: ['b'] }))).toBe(
    'trust-domains-dropped trustDomains alternative',
  );
  // dropped whole for another reason
  expect(found('ALLOW', { ...from({ trustDomains: ['a'] }), ...to({ paths: ['/a'] }) })).toBe(
    'allow-rule-dropped paths',
  );
  expect(found('DENY', { ...from({ trustDomains: ['a'] }), ...to({ ports: ['80'], paths: ['/a'] }) })).toBe(
    'trust-domains-dropped trustDomains never',
  );
});

test('principals that no identity has', () => {
  const spiffe = 'spiffe://cluster.local/ns/a/sa/b';
  expect(found('DENY', from({ principals: [spiffe] }))).toBe('deny-rule-never-matches principals spiffe');
  expect(found('ALLOW', from({ principals: [spiffe] }))).toBe('allow-rule-dropped principals spiffe');
  // one of them beside others is the same mistake for that caller
  const mixed = from({ principals: [spiffe, 'cluster.local/ns/a/sa/c'] });
  expect(found('DENY', mixed)).toBe('deny-rule-never-matches principals spiffe');
  expect(found('ALLOW', mixed)).toBe('allow-rule-dropped principals spiffe');
  const local = from({ principals: ['cluster.local/ns/a/sa/b'] });
  expect(found('DENY', local, ['prod.test'])).toBe('deny-rule-never-matches principals cluster.local');
  expect(found('DENY', local, ['prod.test', 'cluster.local'])).toBe('');
  expect(found('DENY', local, [])).toBe('');
});

test('CUSTOM and AUDIT never come to ztunnel', () => {
  expect(found('CUSTOM', {})).toBe('action-not-enforced CUSTOM');
  expect(found('AUDIT', {})).toBe('action-not-enforced AUDIT');
});

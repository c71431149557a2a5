// Which ports have a TCP filter chain alone, and what HTTP rules do there.
import { expect, test } from 'vitest';
import { AUTHORIZATION_POLICY, type AuthorizationRule, authorizationPolicy } from '../../src/mesh/kinds/security.ts';
import { closes, declaredAs, httpAttributes, opens } from './ports.ts';

test.each([
  ['http', 'http'],
  ['HTTP-web', 'http'],
  ['http2', 'http'],
  ['grpc-api', 'http'],
  ['grpc-web-api', 'http'],
  ['https', 'tcp'],
  ['tls-mail', 'tcp'],
  ['tcp-db', 'tcp'],
  ['redis', 'tcp'],
  ['mongo-main', 'tcp'],
  ['web', 'nothing'],
  ['', 'nothing'],
  ['udp', 'other'],
])('a port called %s is declared as %s', (name, expected) => {
  expect(declaredAs(8080, name, 'TCP', undefined)).toBe(expected);
});

test('appProtocol goes before the name, and the protocol before both', () => {
  expect(declaredAs(8080, 'http', 'TCP', 'tcp')).toBe('tcp');
  expect(declaredAs(8080, 'tcp', 'TCP', 'kubernetes.io/h2c')).toBe('http');
  expect(declaredAs(8080, 'tcp', 'TCP', 'kubernetes.io/ws')).toBe('http');
  expect(declaredAs(8080, 'http', 'TCP', 'kubernetes.io/wss')).toBe('tcp');
  expect(declaredAs(8080, 'http', 'TCP', 'example.test/own')).toBe('nothing');
  expect(declaredAs(8080, 'http', 'UDP', undefined)).toBe('other');
  expect(declaredAs(3306, '', 'TCP', undefined)).toBe('tcp');
  expect(declaredAs(3306, 'http', 'TCP', undefined)).toBe('http');
});

function policyOf(action: string, rules: readonly unknown[]) {
  return authorizationPolicy(AUTHORIZATION_POLICY, 'shop', { metadata: { name: 'p' }, spec: { action, rules } });
}

function ruleOf(rule: unknown): AuthorizationRule {
  const [found] = policyOf('DENY', [rule]).rules;
  if (found === undefined) throw new Error('no rule');
  return found;
}

test('HTTP for Envoy is less than HTTP for ztunnel', () => {
  const rule = ruleOf({
    from: [{ source: { remoteIpBlocks: ['10.0.0.0/8'], requestPrincipals: ['*'], trustDomains: ['a'] } }],
    to: [{ operation: { paths: ['/a'], ports: ['80'] } }],
    when: [
      { key: 'connection.sni', values: ['a'] },
      { key: 'request.headers[a]', values: ['b'] },
    ],
  });
  expect(httpAttributes(rule)).toEqual(['paths', 'requestPrincipals', 'request.headers[a]']);
});

const DB = { number: 5432, target: 15432, name: 'tcp-db' };

test.each([
  ['a rule for everybody', {}, true],
  ['a rule for the port', { to: [{ operation: { ports: ['5432'] } }] }, true],
  ['a rule for the port of the pods', { to: [{ operation: { ports: ['15432'] } }] }, true],
  ['a rule for another port', { to: [{ operation: { ports: ['80'] } }] }, false],
  ['a rule for all but the port', { to: [{ operation: { notPorts: ['5432'] } }] }, false],
  ['a rule for some clients', { from: [{ source: { namespaces: ['a'] } }] }, true],
  ['a condition on the port', { when: [{ key: 'destination.port', values: ['80'] }] }, false],
  ['a rule by method', { to: [{ operation: { methods: ['GET'] } }] }, false],
  [
    'a rule for the port by token',
    { to: [{ operation: { ports: ['5432'] } }], when: [{ key: 'request.auth.claims[a]', values: ['b'] }] },
    false,
  ],
])('%s opens a TCP port or not', (_, rule, expected) => {
  expect(opens(policyOf('ALLOW', [rule]), DB)).toBe(expected);
});

test.each([
  ['paths', { to: [{ operation: { paths: ['/a'] } }] }, 'all'],
  ['paths on a port of its choice', { to: [{ operation: { paths: ['/a'], ports: ['80'] } }] }, 'nothing'],
  [
    'one alternative without a port',
    { to: [{ operation: { paths: ['/a'] } }, { operation: { ports: ['80'] } }] },
    'all',
  ],
  ['no token', { from: [{ source: { notRequestPrincipals: ['*'] } }] }, 'all'],
  [
    'no token, on a port of its choice',
    { from: [{ source: { notRequestPrincipals: ['*'] } }], to: [{ operation: { ports: ['80'] } }] },
    'nothing',
  ],
  [
    'paths for some clients',
    { from: [{ source: { namespaces: ['a'] } }], to: [{ operation: { paths: ['/a'] } }] },
    'sources',
  ],
  ['a header', { when: [{ key: 'request.headers[a]', values: ['b'] }] }, 'all'],
  [
    'a header and an address',
    {
      when: [
        { key: 'request.headers[a]', values: ['b'] },
        { key: 'source.ip', values: ['10.0.0.1'] },
      ],
    },
    'sources',
  ],
  [
    'a header and a port',
    {
      when: [
        { key: 'request.headers[a]', values: ['b'] },
        { key: 'destination.port', values: ['80'] },
      ],
    },
    'nothing',
  ],
  ['no HTTP', { from: [{ source: { namespaces: ['a'] } }] }, 'nothing'],
])('a DENY rule by %s', (_, rule, expected) => {
  expect(closes(ruleOf(rule))).toBe(expected);
});

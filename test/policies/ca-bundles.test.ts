import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { caBundleOf } from '../../src/mesh/certificates.ts';
import { configMap } from '../../src/mesh/kinds/cluster.ts';

// the CA of a case, made with openssl: a certificate that is really one
const example = parse(
  readFileSync(new URL('../../policies/backend-tls-policy/cases/ca-in-a-configmap.yaml', import.meta.url), 'utf8'),
) as { state: { kind: string; data?: Record<string, string> }[] };
const PEM = example.state.find(({ kind }) => kind === 'ConfigMap')?.data?.['ca.crt'] ?? '';

const read = (data: Record<string, string>) =>
  caBundleOf(configMap('ConfigMap', 'shop', { metadata: { name: 'ca' }, data }));

test('a certificate is read under either key, and cacert goes before ca.crt', () => {
  expect(read({ 'ca.crt': PEM })).toEqual({ key: 'ca.crt', certificates: 1 });
  expect(read({ cacert: PEM, 'ca.crt': 'x' })).toEqual({ key: 'cacert', certificates: 1 });
});

test('comments and line ends of Windows do not matter', () => {
  expect(read({ 'ca.crt': `# root\n${PEM}\n${PEM.replaceAll('\n', '\r\n')}` })).toEqual({
    key: 'ca.crt',
    certificates: 2,
  });
});

test.each([
  ['nothing', {}, 'has neither cacert nor ca.crt in its data'],
  ['another key', { 'tls.crt': PEM }, 'has neither cacert nor ca.crt in its data'],
  ['no block', { 'ca.crt': 'hello' }, 'has a ca.crt without a certificate in PEM'],
  ['a block cut short', { 'ca.crt': PEM.slice(0, 200) }, 'has a ca.crt without a certificate in PEM'],
  [
    'one that is none among others',
    { 'ca.crt': `${PEM}\n-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----` },
    'has a ca.crt that is no certificate',
  ],
])('%s cannot be loaded', (_, data, fault) => {
  expect(read(data as Record<string, string>).fault).toBe(fault);
});

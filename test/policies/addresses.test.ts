import { expect, test } from 'vitest';
import { contains, overlap, parseAddress, parseBlock } from '../../src/kube/addresses.ts';

const block = (text: string) => {
  const found = parseBlock(text);
  if (found === undefined) throw new Error(`no block: ${text}`);
  return found;
};

test('a block holds its addresses and no others, in both families', () => {
  expect(contains(block('10.0.0.0/8'), block('10.255.255.255'))).toBe(true);
  expect(contains(block('10.0.0.0/8'), block('11.0.0.0'))).toBe(false);
  expect(contains(block('0.0.0.0/0'), block('203.0.113.9'))).toBe(true);
  expect(contains(block('0.0.0.0/0'), block('::1'))).toBe(false);
  expect(contains(block('fd16:9254::/32'), block('fd16:9254:7127:1337:ffff:ffff:ffff:ffff'))).toBe(true);
  expect(contains(block('::/0'), block('::ffff:10.0.0.1'))).toBe(true);
});

test('host bits of a block do not count', () => {
  expect(block('10.1.2.3/16')).toEqual(block('10.1.0.0/16'));
});

test('blocks overlap where one holds the other', () => {
  expect(overlap(block('10.0.0.0/8'), block('10.9.0.0/16'))).toBe(true);
  expect(overlap(block('10.9.0.0/16'), block('10.0.0.0/8'))).toBe(true);
  expect(overlap(block('10.0.0.0/9'), block('10.128.0.0/9'))).toBe(false);
});

test.each(['', 'x', '10.0.0.0/33', '10.0.0/8', '::/129', '10.0.0.0/', '10.0.0.0/-1', 'fe80::1%eth0', '1.2.3.4/8/9'])(
  '%j is no block',
  text => {
    expect(parseBlock(text)).toBeUndefined();
  },
);

test('short and long forms of an IPv6 address are the same', () => {
  expect(parseAddress('2001:db8::1')).toEqual(parseAddress('2001:0DB8:0:0:0:0:0:1'));
});

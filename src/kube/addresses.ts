// IP addresses and blocks of both families, as numbers.
import { isIP } from 'node:net';

/** An address, or a block of them: those whose first `prefix` bits are those of `value`. */
export interface Block {
  readonly bits: 32 | 128;
  readonly value: bigint;
  readonly prefix: number;
}

function ipv4(text: string): bigint {
  return text.split('.').reduce((value, part) => (value << 8n) | BigInt(Number(part)), 0n);
}

function ipv6(text: string): bigint {
  // the last 32 bits may be written as an IPv4 address
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted !== null) {
    const low = ipv4(dotted[2] ?? '');
    return ipv6(`${dotted[1]}${(low >> 16n).toString(16)}:${(low & 0xffffn).toString(16)}`);
  }
  const [head = '', tail] = text.split('::');
  const words = (part: string) => (part === '' ? [] : part.split(':'));
  const first = words(head);
  const last = words(tail ?? '');
  const zeros = Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => '0');
  return [...first, ...(tail === undefined ? [] : zeros), ...last].reduce(
    (value, word) => (value << 16n) | BigInt(`0x${word}`),
    0n,
  );
}

/** An address as a block of one, undefined where the text is none. */
export function parseAddress(text: string): Block | undefined {
  const family = isIP(text);
  if (family === 0 || text.includes('%')) return undefined;
  return family === 4
    ? { bits: 32, value: ipv4(text), prefix: 32 }
    : { bits: 128, value: ipv6(text.toLowerCase()), prefix: 128 };
}

/** A block in CIDR notation, undefined where the text is none. Host bits do not count. */
export function parseBlock(text: string): Block | undefined {
  const slash = text.indexOf('/');
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (address === undefined || slash < 0) return address;
  const length = text.slice(slash + 1);
  const prefix = /^\d{1,3}$/.test(length) ? Number(length) : -1;
  if (prefix < 0 || prefix > address.bits) return undefined;
  const rest = BigInt(address.bits - prefix);
  return { bits: address.bits, value: (address.value >> rest) << rest, prefix };
}

/** Whether every address of `inner` is one of `outer`. */
export function contains(outer: Block, inner: Block): boolean {
  if (outer.bits !== inner.bits || outer.prefix > inner.prefix) return false;
  const rest = BigInt(outer.bits - outer.prefix);
  return outer.value >> rest === inner.value >> rest;
}

/** Whether two blocks have an address in common: of two blocks one contains the other, or they are apart. */
export function overlap(a: Block, b: Block): boolean {
  return contains(a, b) || contains(b, a);
}

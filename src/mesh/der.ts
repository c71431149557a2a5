// As much of DER (X.690) as certificates and revocation lists need. Total: what is no DER gives undefined, never an exception.

/** One element: its tag, the bytes of its content, and those of the whole of it. */
export interface Element {
  readonly tag: number;
  readonly content: Buffer;
  readonly whole: Buffer;
}

export const SEQUENCE = 0x30;
export const OBJECT_IDENTIFIER = 0x06;
export const BIT_STRING = 0x03;
export const OCTET_STRING = 0x04;

/** The element that begins at an offset; undefined where none does. Multi-byte tags and indefinite lengths are not DER here. */
export function elementAt(bytes: Buffer, offset = 0): Element | undefined {
  const tag = bytes[offset];
  const first = bytes[offset + 1];
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f || first === 0x80) return undefined;
  const long = first > 0x80 ? first & 0x7f : 0;
  if (long > 4 || offset + 2 + long > bytes.length) return undefined;
  const length = long === 0 ? first : bytes.readUIntBE(offset + 2, long);
  const start = offset + 2 + long;
  const end = start + length;
  if (end > bytes.length) return undefined;
  return { tag, content: bytes.subarray(start, end), whole: bytes.subarray(offset, end) };
}

/** The elements that a constructed one consists of; undefined where its content is none. */
export function elementsOf(content: Buffer): readonly Element[] | undefined {
  const found: Element[] = [];
  let offset = 0;
  while (offset < content.length) {
    const element = elementAt(content, offset);
    if (element === undefined) return undefined;
    found.push(element);
    offset += element.whole.length;
  }
  return found;
}

/** An object identifier in dots: '2.5.29.15'. */
export function objectIdentifier({ content }: Element): string {
  const parts: number[] = [];
  let value = 0;
  for (const byte of content) {
    value = value * 128 + (byte & 0x7f);
    if (byte >= 0x80) continue;
    if (parts.length === 0) {
      const top = Math.min(2, Math.floor(value / 40));
      parts.push(top, value - top * 40);
    } else parts.push(value);
    value = 0;
  }
  return parts.join('.');
}

/** The bits of a BIT STRING; undefined where its bits are no whole bytes (signatures always are). */
export function wholeBits({ content }: Element): Buffer | undefined {
  return content[0] === 0 ? content.subarray(1) : undefined;
}

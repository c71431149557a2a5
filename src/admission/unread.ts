// What an API server sends and nobody reads: `managedFields`, often a third of a body and more than a third of what parsing it
// costs. It is cut out of the bytes of a CREATE before they are parsed.

/** Bytes of a body below which looking costs as much as parsing. */
const WORTH = 2048;

// as the API server writes JSON, which has no spaces; anything else is parsed as it is. Inside of a string the quotes would be
// escaped, so that these are never found there
const CREATE = Buffer.from('"operation":"CREATE"');
const METADATA = Buffer.from('"metadata":{');
const MANAGED = Buffer.from('"managedFields":[');

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BRACKET = 0x5b;
const END_BRACKET = 0x5d;
const BRACE = 0x7b;
const END_BRACE = 0x7d;

/** Where the array or object that begins at `from` ends: the index behind it, or -1 where it does not before `limit`. */
function behind(body: Buffer, from: number, limit: number): number {
  let depth = 0;
  for (let index = from; index < limit; index += 1) {
    const byte = body[index];
    if (byte === QUOTE) {
      for (index += 1; index < limit && body[index] !== QUOTE; index += 1) if (body[index] === BACKSLASH) index += 1;
    } else if (byte === BRACE || byte === BRACKET) depth += 1;
    else if (byte === END_BRACE || byte === END_BRACKET) {
      depth -= 1;
      if (depth === 0) return index + 1;
    }
  }
  return -1;
}

/**
 * The text of a body that says that it is a CREATE, with an empty list for the first `metadata.managedFields`. Undefined where
 * there is nothing to be cut out. The sender may have lied: whoever finds another operation in it parses the whole.
 */
export function withoutManagedFields(body: Buffer): string | undefined {
  if (body.length < WORTH) return undefined;
  const operation = body.indexOf(CREATE);
  if (operation < 0) return undefined;
  const found = body.indexOf(MANAGED, operation);
  if (found < 0) return undefined;
  // a field of some metadata, and not of a spec that calls something so
  const metadata = body.lastIndexOf(METADATA, found);
  if (metadata < operation || !isOpen(body, metadata + METADATA.length - 1, found)) return undefined;
  const list = found + MANAGED.length - 1;
  const end = behind(body, list, body.length);
  if (end < 0) return undefined;
  return `${body.toString('utf8', 0, list)}[]${body.toString('utf8', end)}`;
}

/** Whether the object that begins at `from` is the innermost one that is still open at `to`. */
function isOpen(body: Buffer, from: number, to: number): boolean {
  let index = from + 1;
  while (index < to) {
    const byte = body[index];
    if (byte === BRACE || byte === BRACKET) {
      index = behind(body, index, to);
      if (index < 0) return false;
    } else if (byte === END_BRACE || byte === END_BRACKET) return false;
    else if (byte === QUOTE) {
      for (index += 1; index < to && body[index] !== QUOTE; index += 1) if (body[index] === BACKSLASH) index += 1;
      index += 1;
    } else index += 1;
  }
  return true;
}

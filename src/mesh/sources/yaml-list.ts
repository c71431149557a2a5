// The elements of a long List in YAML text, found by the columns of its lines: a parser would have all of them in memory at once,
// with many times the size of the text.

/** Where the elements of a List stand; what stands around them is its head. */
export interface YamlList {
  /** The text without the elements, and with an empty list in their place. */
  readonly head: string;
  /** Where each element begins (at the start of the line of its dash), and where the last ends. */
  readonly bounds: readonly number[];
}

const ITEMS = /(?<![^\n])items:(?:[ \t]+#[^\n]*|[ \t\r]*)\n/g;
const DASH = /-(?=[ \t\r\n])/y;

/** The first line at or after the beginning of one that is neither empty nor a comment: where it begins, and its column. */
function contentFrom(text: string, from: number): { readonly line: number; readonly column: number } {
  let line = from;
  while (line < text.length) {
    let at = line;
    while (text.charCodeAt(at) === 32) at += 1;
    const first = text.charAt(at);
    if (first !== '\n' && first !== '\r' && first !== '#' && first !== '') return { line, column: at - line };
    const end = text.indexOf('\n', at);
    line = end < 0 ? text.length : end + 1;
  }
  return { line: text.length, column: -1 };
}

/**
 * The List in the text of one document; undefined where there is no list under a key `items` of the first column. In YAML whatever
 * belongs to an element stands deeper than its dash, texts of several lines too. So what is cut here is what a parser would have
 * cut, or else no YAML, and then one of the parts is none either.
 */
export function yamlList(text: string): YamlList | undefined {
  ITEMS.lastIndex = 0;
  const key = ITEMS.exec(text);
  if (key === null) return undefined;
  const begin = key.index + key[0].length;
  const first = contentFrom(text, begin);
  const bounds: number[] = [];
  let { line, column } = first;
  for (;;) {
    DASH.lastIndex = line + column;
    const isDash = column >= 0 && DASH.test(text);
    if (column < first.column || (column === first.column && !isDash)) break;
    if (column === first.column) bounds.push(line);
    const end = text.indexOf('\n', line);
    ({ line, column } = contentFrom(text, end < 0 ? text.length : end + 1));
  }
  if (bounds.length === 0) return undefined;
  bounds.push(line);
  return { head: `${text.slice(0, key.index)}items: []\n${text.slice(line)}`, bounds };
}

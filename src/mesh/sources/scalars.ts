// What an unquoted YAML scalar means. Numbers as kubectl, Helm and Argo CD read them (go.yaml.in/yaml/v2 resolve.go, by way of
// sigs.k8s.io/yaml): 0755 is octal and 1_000 a number. Words as YAML 1.2 has them: `on` or `yes` as a label's value, which
// those tools make a boolean that the API server then refuses, can only have been meant as the text.

type Scalar = string | number | boolean | null;

const WORDS: ReadonlyMap<string, Scalar> = new Map<string, Scalar>([
  ...['true', 'True', 'TRUE'].map(word => [word, true] as const),
  ...['false', 'False', 'FALSE'].map(word => [word, false] as const),
  ...['', '~', 'null', 'Null', 'NULL'].map(word => [word, null] as const),
]);

const DECIMAL = /^[-+]?(?:0|[1-9][0-9]*)$/;
const BASED = /^([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))$/;
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;

function based(digits: RegExpExecArray): number {
  const [, sign, hexadecimal, binary, octal] = digits;
  const value =
    hexadecimal !== undefined
      ? Number.parseInt(hexadecimal, 16)
      : binary !== undefined
        ? Number.parseInt(binary, 2)
        : Number.parseInt(octal ?? '0', 8);
  return sign === '-' ? -value : value;
}

/** The value of an unquoted scalar. Dates stay text, as they do for kubectl. */
export function plainScalar(source: string): Scalar {
  const first = source.charCodeAt(0);
  const digit = (first >= 48 && first <= 57) || first === 43 || first === 45 || first === 46;
  if (!digit) {
    if (source.length > 5) return source;
    const word = WORDS.get(source);
    return word === undefined ? source : word;
  }
  const digits = source.includes('_') ? source.replaceAll('_', '') : source;
  if (DECIMAL.test(digits)) return Number(digits);
  const other = BASED.exec(digits);
  if (other !== null) return based(other);
  return FLOAT.test(digits) ? Number(digits) : source;
}

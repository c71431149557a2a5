// How long a review may take: the API server appends its webhook's timeout to the URL (facts/admission.md §f).
import { performance } from 'node:perf_hooks';

/** The API server's default where the URL says nothing. */
const DEFAULT_TIMEOUT = 10_000;
/** `timeoutSeconds` is at most 30. */
const LONGEST = 30_000;
/** What is left for the way there and back. */
const MARGIN = 500;

const UNITS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 0.001,
  µs: 0.001,
  μs: 0.001,
  ns: 0.000001,
};
const GO_DURATION = /^(?:\d{1,9}(?:\.\d{0,9})?(?:h|ms|m|s|us|µs|μs|ns))+$/;

/** A duration as Go writes it (`10s`, `1m30s`, `500ms`) in milliseconds; undefined for anything else. */
export function goDuration(text: string): number | undefined {
  if (text.length > 64 || !GO_DURATION.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/([\d.]+)([a-zµμ]+)/g))
    total += Number(amount) * (UNITS[unit ?? ''] ?? 0);
  return total;
}

/** Milliseconds from the arrival of a request with this query string within which it has to be judged. */
function budgetFor(query: string): number {
  const timeout = goDuration(new URLSearchParams(query).get('timeout') ?? '') ?? DEFAULT_TIMEOUT;
  const known = timeout > 0 ? Math.min(timeout, LONGEST) : DEFAULT_TIMEOUT;
  // a timeout of a second or less leaves half of it
  return known - Math.min(MARGIN, known / 2);
}

export interface Budget {
  readonly [key: string]: unknown;
  /** Milliseconds. */
  readonly budget: number;
}

/** A parser of query strings that remembers the few that there are: one for each webhook entry. */
export function budgets(): (query: string) => Budget {
  const known = new Map<string, Budget>();
  return query => {
    const budget = known.get(query);
    if (budget !== undefined) return budget;
    const made: Budget = Object.freeze({ budget: budgetFor(query) });
    if (known.size < 64) known.set(query, made);
    return made;
  };
}

/** The moment, in `performance.now()` milliseconds. */
export function deadlineOf(arrived: number, { budget }: Budget): number {
  return arrived + budget;
}

export const clock = (): number => performance.now();

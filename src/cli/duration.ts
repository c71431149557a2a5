// Durations as people write them: 90d, 1h, 30s, 250ms.
import { UsageError } from './arguments.ts';

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Milliseconds of a duration that an option was given. Throws {@link UsageError} where it is none. */
export function durationOf(text: string, option: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text);
  const [, number = '', unit] = match ?? [];
  const milliseconds = unit === undefined ? 0 : Number(number) * UNITS[unit as keyof typeof UNITS];
  if (milliseconds > 0) return milliseconds;
  throw new UsageError(`--${option} takes a duration such as 90d, 1h or 30s, not "${text}"`);
}

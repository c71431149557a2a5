import { setTimeout as sleep } from 'node:timers/promises';

/** Asks again and again until `check` gives something truthy; an error counts as "not yet" and is told when time is up. */
export async function until<T>(
  what: string,
  check: () => T | Promise<T>,
  { timeout = 30_000, every = 50 }: { timeout?: number; every?: number } = {},
): Promise<NonNullable<T>> {
  const end = performance.now() + timeout;
  let last: unknown;
  for (;;) {
    try {
      const value = await check();
      if (value) return value;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (performance.now() > end) {
      throw new Error(`waited ${timeout / 1000} s for ${what}${last ? `; last: ${String(last)}` : ''}`);
    }
    await sleep(every);
  }
}

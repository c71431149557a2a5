// A seeded source of chance: the same seed gives the same meshes on every machine.

export interface Random {
  /** A whole number from 0 to `below` - 1. */
  int(below: number): number;
  /** True with this probability (0 to 1). */
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
  /** Some of them, each with this probability, in order. */
  some<T>(from: readonly T[], probability: number): readonly T[];
}

/** mulberry32: small, fast and good enough to choose test data with. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const random: Random = {
    int: below => Math.floor(next() * below),
    chance: probability => next() < probability,
    pick: from => {
      if (from.length === 0) throw new RangeError('nothing to pick from');
      return from[random.int(from.length)] as (typeof from)[number];
    },
    some: (from, probability) => from.filter(() => random.chance(probability)),
  };
  return random;
}

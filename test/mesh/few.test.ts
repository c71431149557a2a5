// A collection of few objects is a Map by its keys, however many it holds.
import { expect, test } from 'vitest';
import { type Few, fewFind, fewSize, fewValues, fewWith, fewWithout } from '../../src/mesh/few.ts';
import { seeded } from '../generate/random.ts';

interface Named {
  readonly name: string;
}
const nameOf = ({ name }: Named) => name;

test('it holds what a Map would hold, in the order of a Map', () => {
  for (let seed = 1; seed <= 30; seed += 1) {
    const random = seeded(seed);
    const names = 1 + random.int(30);
    let few: Few<Named> | undefined;
    const map = new Map<string, Named>();
    for (let step = 0; step < 100; step += 1) {
      const name = `n${random.int(names)}`;
      const known = map.has(name);
      if (known && few !== undefined) few = fewWithout(few, nameOf, name);
      map.delete(name);
      if (!known || random.chance(0.6)) {
        const object = { name };
        few = fewWith(few, nameOf, object);
        map.set(name, object);
      }
      expect([...fewValues(few)], `seed ${seed}`).toEqual([...map.values()]);
      expect(few === undefined ? 0 : fewSize(few)).toBe(map.size);
      for (let one = 0; one < names; one += 1) expect(fewFind(few, nameOf, `n${one}`)).toBe(map.get(`n${one}`));
    }
  }
});

test('without what is not there it stays as it is', () => {
  const one = { name: 'one' };
  expect(fewWithout<Named>(one, nameOf, 'other')).toBe(one);
});

// Nothing cries wolf: ordinary manifests that are right as they stand, judged in every way there is.
import { describe, expect, test } from 'vitest';
import { audited, checked, reviewed, situationNames, situationsIn, updated } from './support/ordinary.ts';

const situations = situationNames().flatMap(name => situationsIn(name));

describe.each(situations.map(one => ({ name: one.name, release: one.release, one })))(
  '$name on $release',
  ({ one }) => {
    test('a check of the files has no finding', async () => expect(await checked(one)).toEqual([]));
    test('no object is held up when it comes last', async () => expect(await reviewed(one)).toEqual([]));
    test('no everyday change is held up', async () => expect(await updated(one)).toEqual([]));
    test('an audit has no finding', async () => expect(await audited(one)).toEqual([]));
  },
);

test('there are enough of them, and each shows something of its own', () => {
  expect(situationNames().length).toBeGreaterThanOrEqual(160);
  const abouts = situationNames().map(name => situationsIn(name)[0]?.about);
  expect(abouts.filter((about, index) => abouts.indexOf(about) !== index)).toEqual([]);
});

test('the same judges do speak where one thing is wrong', async () => {
  const [right] = situationsIn('bookinfo-ambient');
  if (right === undefined) throw new Error('bookinfo-ambient is not there');
  const wrong = { ...right, manifests: right.manifests.replace(', istio.io/use-waypoint: waypoint }', ' }') };
  const finding = expect.stringContaining('l7-needs-waypoint/target-without-waypoint (deny)');
  expect(await checked(wrong)).toContainEqual(finding);
  expect(await reviewed(wrong)).toContainEqual(finding);
  expect(await updated(wrong)).toContainEqual(expect.stringContaining('l7-needs-waypoint/target-without-waypoint'));
  expect(await audited(wrong)).toContainEqual(finding);
});

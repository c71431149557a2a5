// What one mesh draws its objects with: chance, its two namespaces, and how well its author meant it.
import type { Random } from '../../generate/random.ts';

export type Entries = Record<string, unknown>;
export type Labels = Record<string, string>;

export interface Mood {
  readonly random: Random;
  readonly a: string;
  readonly b: string;
  /**
   * True for a mesh whose waypoints mostly work. What comes after a binding is asked of these only; of the others what comes of
   * labels that nobody thought through.
   */
  readonly sound: boolean;
  /** Whether a release knows what 1.31 brought. */
  readonly recent: boolean;
  maybe<T>(probability: number, value: T): T | undefined;
  /** Labels that name a waypoint, or nothing. */
  useWaypoint(probability: number): Entries;
}

/** An object without its undefined fields. */
export const without = (entries: Entries): Entries =>
  Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));

export const labelled = (entries: Entries): Labels => without(entries) as Labels;

const WILD = ['waypoint', 'waypoint', 'shared', 'none', 'missing', 'ingress', 'None', ''];
const SOUND = ['waypoint', 'waypoint', 'waypoint', 'waypoint', 'shared', 'none', 'ingress'];

export function moodOf(random: Random, a: string, b: string, recent: boolean): Mood {
  const sound = random.chance(0.6);
  const maybe = <T>(probability: number, value: T): T | undefined => (random.chance(probability) ? value : undefined);
  return {
    random,
    a,
    b,
    sound,
    recent,
    maybe,
    useWaypoint: probability =>
      random.chance(probability)
        ? without({
            'istio.io/use-waypoint': random.pick(sound ? SOUND : WILD),
            'istio.io/use-waypoint-namespace': maybe(sound ? 0.12 : 0.35, random.pick([a, b])),
          })
        : {},
  };
}

export const APPS = ['web', 'api'];

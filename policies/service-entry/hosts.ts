// Hosts that more than one object brings: who of them wins.
import type { ServiceEntry } from '../../src/mesh/kinds/services.ts';

/** Whether `one` comes before `other`: the older, one that is not stored yet last, then by name as istiod sorts. */
export function isOlder(one: ServiceEntry, other: ServiceEntry): boolean {
  if (one.created !== other.created) {
    if (one.created === '') return false;
    if (other.created === '') return true;
    return one.created < other.created;
  }
  const name = (entry: ServiceEntry) => `${entry.name}.${entry.namespace}`;
  return name(one) < name(other);
}

/** The namespaces that see an entry by its `exportTo`; 'all' where every one does. */
export function visibleTo(entry: ServiceEntry): 'all' | ReadonlySet<string> {
  if (entry.exportTo.length === 0 || entry.exportTo.includes('*')) return 'all';
  return new Set(entry.exportTo.map(name => (name === '.' ? entry.namespace : name)));
}

/** Whether some namespace sees both entries. */
export function meet(one: ServiceEntry, other: ServiceEntry): boolean {
  const a = visibleTo(one);
  const b = visibleTo(other);
  if (a === 'all') return b === 'all' || b.size > 0;
  return b === 'all' ? a.size > 0 : [...a].some(namespace => b.has(namespace));
}

/** Whether it makes a difference which of two entries of one host a client uses. */
export function differ(one: ServiceEntry, other: ServiceEntry): boolean {
  const shape = (entry: ServiceEntry) =>
    JSON.stringify([
      entry.resolution,
      entry.location,
      entry.addresses,
      entry.ports.map(port => [port.number, port.protocol, port.targetPort]),
      entry.labels['istio.io/use-waypoint'] ?? '',
    ]);
  // endpoints are not kept one by one: entries that have any are taken for different
  return shape(one) !== shape(other) || one.endpoints + other.endpoints > 0 || one.workloadSelector !== undefined;
}

/** Ports of an entry that the other one does not have. */
export function portsMissingIn(entry: ServiceEntry, other: ServiceEntry): readonly number[] {
  return entry.ports.map(port => port.number).filter(port => !other.ports.some(({ number }) => number === port));
}

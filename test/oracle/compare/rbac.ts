// What an RBAC filter of Envoy lets through, as far as ports decide it: everything else about a connection could be as the rule wants.
import { at, number, record, records } from '../../../src/kube/json.ts';

/** Whether a permission or principal can hold for a connection to one of these ports. */
function possible(condition: unknown, ports: readonly number[]): boolean {
  const object = record(condition) ?? {};
  const and = at(object, 'andRules', 'rules') ?? at(object, 'andIds', 'ids');
  if (and !== undefined) return records(and).every(one => possible(one, ports));
  const or = at(object, 'orRules', 'rules') ?? at(object, 'orIds', 'ids');
  if (or !== undefined) return records(or).some(one => possible(one, ports));
  const not = object['notRule'] ?? object['notId'];
  if (not !== undefined) return !always(not, ports);
  const port = number(object['destinationPort']);
  return port === undefined || ports.includes(port);
}

/** Whether it holds for every connection to these ports. */
function always(condition: unknown, ports: readonly number[]): boolean {
  const object = record(condition) ?? {};
  const and = at(object, 'andRules', 'rules') ?? at(object, 'andIds', 'ids');
  if (and !== undefined) return records(and).every(one => always(one, ports));
  const or = at(object, 'orRules', 'rules') ?? at(object, 'orIds', 'ids');
  if (or !== undefined) return records(or).some(one => always(one, ports));
  const not = object['notRule'] ?? object['notId'];
  if (not !== undefined) return !possible(not, ports);
  const port = number(object['destinationPort']);
  return port === undefined ? object['any'] === true : ports.every(one => one === port);
}

/** Whether one policy of a filter can match a connection to one of these ports. */
export function canMatch(policy: unknown, ports: readonly number[]): boolean {
  return (
    records(at(policy, 'permissions')).some(one => possible(one, ports)) &&
    records(at(policy, 'principals')).some(one => possible(one, ports))
  );
}

/** The same of a policy with `ports` as the port that it is known by and another one: either may be what Envoy compares. */
export const eitherPort = (port: number, target: number): readonly number[] => [...new Set([port, target])];

// What becomes of a policy without targets in ztunnel, in the words of our findings: read off the policy that ztunnel receives, by ztunnel's
// own rules for empty matches (src/rbac.rs).
import { at, records, text } from '../../../src/kube/json.ts';
import type { AuthorizationPolicy } from '../../../src/mesh/kinds/security.ts';
import type { Manifest } from '../../harness/objects.ts';
import type { Observation } from '../observe.ts';
import { attributes } from './common.ts';

const TRUST = ['trustDomains', 'notTrustDomains'];

/** One alternative of a clause: what it had as it was written, and what came of it. */
interface Alternative {
  readonly written: readonly string[];
  readonly kept: readonly string[];
  /** Its principals are all ones that no workload of the mesh can have. */
  readonly nobody: boolean;
  /** Some of its principals begin with spiffe://, which none has in ztunnel (I§12). */
  readonly spiffe: boolean;
}

/** The alternatives of each clause as written, in the order in which istiod sends the clauses. */
function writtenClauses(rule: unknown): readonly (readonly (readonly string[])[])[] {
  const alternatives = (key: string, inner: string) => records(at(rule, key)).map(one => attributes(at(one, inner)));
  const conditions = records(at(rule, 'when')).map(one => [
    attributes({ values: one['values'], notValues: one['notValues'] }),
  ]);
  return [alternatives('to', 'operation'), alternatives('from', 'source'), ...conditions].filter(
    clause => clause.length > 0,
  );
}

/** True where no identity of a mesh with this trust domain matches any of the principals. */
function isNobody(match: unknown, trustDomain: string): boolean {
  const principals = records(at(match, 'principals'));
  return (
    principals.length > 0 &&
    principals.every(one => {
      const said = text(one['exact']) ?? text(one['prefix']) ?? '';
      return said.startsWith('spiffe://') || (said.startsWith('cluster.local/') && trustDomain !== 'cluster.local');
    })
  );
}

function hasSpiffe(match: unknown): boolean {
  return records(at(match, 'principals')).some(one =>
    (text(one['exact']) ?? text(one['prefix']) ?? '').startsWith('spiffe://'),
  );
}

function clausesOf(group: unknown, rule: unknown, trustDomain: string): readonly (readonly Alternative[])[] {
  const written = writtenClauses(rule);
  return records(at(group, 'rules')).map((clause, index) =>
    records(at(clause, 'matches')).map((match, position) => ({
      written: written[index]?.[position] ?? [],
      kept: attributes(match),
      nobody: isNobody(match, trustDomain),
      spiffe: hasSpiffe(match),
    })),
  );
}

const isTrust = (attribute: string) => TRUST.includes(attribute);
const lostHttp = ({ written, kept }: Alternative) => written.filter(one => !isTrust(one)).length > kept.length;
const lostTrust = ({ written }: Alternative) => written.some(isTrust);

function* denied(clauses: readonly (readonly Alternative[])[]): Iterable<string> {
  if (clauses.some(clause => clause.length > 0 && clause.every(({ nobody }) => nobody))) {
    yield 'deny-rule-never-matches';
    return;
  }
  const spiffe = clauses.flat().some(one => one.spiffe);
  const inert = clauses.filter(clause => clause.length > 0 && clause.every(({ kept }) => kept.length === 0));
  if (inert.length > 0) {
    // a source of which trust domains alone are left out never matches either
    yield inert.some(clause => clause.some(lostHttp)) ? 'deny-rule-never-matches' : 'trust-domains-dropped';
    if (spiffe && !clauses.flat().some(lostHttp)) yield 'deny-rule-never-matches';
    return;
  }
  // whom the rule names so is not refused, whatever it says of others
  if (spiffe) yield 'deny-rule-never-matches';
  for (const one of clauses.flat()) {
    // an alternative that is gone never matches either; what stays of others matches more
    if (lostHttp(one)) yield one.kept.length === 0 ? 'deny-rule-never-matches' : 'deny-rule-too-broad';
    if (lostTrust(one)) yield 'trust-domains-dropped';
  }
}

/** What ztunnel calls the attributes of a policy that it knows under another name; conditions are told by their number alone. */
const CALLED: Readonly<Record<string, string>> = {
  ports: 'destinationPorts',
  notPorts: 'notDestinationPorts',
  ipBlocks: 'sourceIps',
  notIpBlocks: 'notSourceIps',
};
const isCondition = (attribute: string) => attribute === 'values' || attribute === 'notValues';

/** True where a group that was sent is what a rule comes to, of which nothing but trust domains was left out. */
function isOf(group: unknown, rule: unknown): boolean {
  const written = writtenClauses(rule);
  const kept = records(at(group, 'rules')).map(one => records(at(one, 'matches')).map(attributes));
  return (
    kept.length === written.length &&
    kept.every((clause, index) => {
      const wanted = written[index] ?? [];
      return (
        clause.length === wanted.length &&
        clause.every((names, position) => {
          const own = (wanted[position] ?? []).filter(one => !isTrust(one));
          if (own.length !== names.length) return false;
          return own.every(isCondition) || own.every(one => names.includes(CALLED[one] ?? one));
        })
      );
    })
  );
}

/** The groups that istiod sent and the rules that they came from. Rules of an ALLOW policy may be gone: the others are whole and keep their order. */
function* pairs(groups: readonly unknown[], rules: readonly unknown[], denies: boolean) {
  if (denies || groups.length === rules.length) {
    for (const [index, group] of groups.entries()) yield [group, rules[index]] as const;
    return;
  }
  let next = 0;
  for (const group of groups) {
    while (next < rules.length && !isOf(group, rules[next])) next += 1;
    yield [group, rules[next]] as const;
    next += 1;
  }
}

/** True for pods that ztunnel captures, as istiod tells it. */
export function isCaptured(workload: unknown): boolean {
  return text(at(workload, 'tunnelProtocol')) === 'HBONE' && at(workload, 'nativeTunnel') !== true;
}

/** `nobody` where it is for no captured pod of these namespaces, `not sent`, `attached to nothing`, `as written`, or findings. */
export function ztunnelSays(
  policy: AuthorizationPolicy,
  object: Manifest,
  seen: Observation,
  inNamespace: (namespace: string) => boolean,
  trustDomain: string,
): string {
  const key = `${policy.namespace}/${policy.name}`;
  const received = seen.policies.get(key);
  const selects = (workload: unknown) =>
    Object.entries(policy.selector?.matchLabels ?? {}).every(([label, value]) => {
      const stored = seen.stored.get(`Pod/${text(at(workload, 'namespace'))}/${text(at(workload, 'name'))}`);
      return stored?.metadata.labels?.[label] === value;
    });
  const captured = [...seen.workloads.values()].filter(
    workload => inNamespace(text(at(workload, 'namespace')) ?? '') && isCaptured(workload) && selects(workload),
  );
  if (captured.length === 0) return 'nobody';
  if (received === undefined) return 'not sent';
  const scope = text(at(received, 'scope')) ?? 'GLOBAL';
  const listed = captured.some(workload =>
    (at(workload, 'authorizationPolicies') as string[] | undefined)?.includes(key),
  );
  if (scope === 'WORKLOAD_SELECTOR' && !listed) return 'attached to nothing';
  const rules = records(at(object, 'spec', 'rules'));
  const groups = records(at(received, 'groups'));
  const denies = text(at(received, 'action')) === 'DENY';
  const said = new Set<string>();
  if (!denies && groups.length < rules.length) said.add('allow-rule-dropped');
  for (const [group, rule] of pairs(groups, rules, denies)) {
    const clauses = clausesOf(group, rule, trustDomain);
    if (denies) for (const one of denied(clauses)) said.add(one);
    else if (clauses.some(clause => clause.length > 0 && clause.every(({ nobody }) => nobody)))
      said.add('allow-rule-dropped');
    else {
      if (clauses.flat().some(({ spiffe }) => spiffe)) said.add('allow-rule-dropped');
      if (clauses.flat().some(lostTrust)) said.add('trust-domains-dropped');
    }
  }
  return said.size === 0 ? 'as written' : [...said].sort().join(' ');
}

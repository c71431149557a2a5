// What ztunnel makes of an AuthorizationPolicy (pilot/pkg/serviceregistry/ambient/authorization.go, ztunnel src/rbac.rs; the same from
// 1.26 to 1.31): HTTP attributes drop an ALLOW rule, and blank a part of a DENY rule, where an empty part matches nothing.
import type { AuthorizationPolicy, AuthorizationRule, Match } from '../../src/mesh/kinds/security.ts';
import type { Id } from './findings.ts';

const SOURCE_L4 = new Set([
  'principals',
  'notPrincipals',
  'namespaces',
  'notNamespaces',
  'serviceAccounts',
  'notServiceAccounts',
  'ipBlocks',
  'notIpBlocks',
]);
const SOURCE_L7 = new Set(['requestPrincipals', 'notRequestPrincipals', 'remoteIpBlocks', 'notRemoteIpBlocks']);
const OPERATION_L4 = new Set(['ports', 'notPorts']);
const OPERATION_L7 = new Set(['hosts', 'notHosts', 'methods', 'notMethods', 'paths', 'notPaths']);
const TRUST_DOMAINS = new Set(['trustDomains', 'notTrustDomains']);
const WHEN_L4 = new Set(['source.ip', 'source.namespace', 'source.principal', 'destination.ip', 'destination.port']);

/** One thing that ztunnel does otherwise than is written. */
export interface Misreading {
  readonly finding: Extract<
    Id,
    | 'deny-rule-never-matches'
    | 'deny-rule-too-broad'
    | 'allow-rule-dropped'
    | 'action-not-enforced'
    | 'trust-domains-dropped'
  >;
  /** The attributes at fault, in order: what makes it the same finding tomorrow. */
  readonly attributes: string;
  readonly effect: string;
  /** Milder than the table says. */
  readonly action?: 'warn';
  /** JSON pointer into the policy. */
  readonly path: string;
}

/** The HTTP attributes of one alternative, and whether anything is left of it for ztunnel. */
interface Part {
  readonly l7: readonly string[];
  readonly trust: readonly string[];
  /** True where ztunnel has something to match. */
  readonly l4: boolean;
  /** True where its principals all begin with spiffe://, which no identity does in ztunnel (I§12). */
  readonly nobody: boolean;
  /** True where its principals are all of `cluster.local`: sidecars take that for the mesh's own trust domain, ztunnel does not. */
  readonly alias: boolean;
}

function all(values: readonly string[] | undefined, prefix: string): boolean {
  return values !== undefined && values.length > 0 && values.every(value => value.startsWith(prefix));
}

function partOf(match: Match, l4: ReadonlySet<string>, l7: ReadonlySet<string>): Part {
  const keys = Object.keys(match);
  return {
    l7: keys.filter(key => l7.has(key)),
    trust: keys.filter(key => TRUST_DOMAINS.has(key)),
    l4: keys.some(key => l4.has(key)),
    nobody: all(match['principals'], 'spiffe://'),
    alias: all(match['principals'], 'cluster.local/'),
  };
}

/** The clauses of a rule: `from`, `to` and each `when`; all of them must match, and of each one alternative. */
function clausesOf(rule: AuthorizationRule): readonly (readonly Part[])[] {
  const clauses: (readonly Part[])[] = [];
  if (rule.to !== undefined) clauses.push(rule.to.map(match => partOf(match, OPERATION_L4, OPERATION_L7)));
  if (rule.from !== undefined) clauses.push(rule.from.map(match => partOf(match, SOURCE_L4, SOURCE_L7)));
  for (const { key, values } of rule.when ?? []) {
    const l4 = WHEN_L4.has(key);
    const principals = key === 'source.principal' ? values : undefined;
    const [nobody, alias] = [all(principals, 'spiffe://'), all(principals, 'cluster.local/')];
    clauses.push([{ l7: l4 ? [] : [key], trust: [], l4, nobody, alias }]);
  }
  return clauses;
}

/** `request.headers[x-team]` is one attribute whatever its header. */
function plain(attribute: string): string {
  const bracket = attribute.indexOf('[');
  return bracket < 0 ? attribute : attribute.slice(0, bracket);
}

function names(attributes: Iterable<string>): readonly string[] {
  return [...new Set([...attributes].map(plain))].sort();
}

/** At most so many names in words. */
export function listed(values: readonly string[], atMost = 3): string {
  const shown = values.slice(0, atMost).join(', ');
  return values.length > atMost ? `${shown} and ${values.length - atMost} more` : shown;
}

/** What a rule is about, in the words of its author: 'requests to /admin*', 'requests without a token'. */
function requestsOf(rule: AuthorizationRule, attributes: readonly string[]): string {
  const [only, ...others] = attributes;
  const values = (key: string) => [...(rule.to ?? []), ...(rule.from ?? [])].flatMap(match => match[key] ?? []);
  if (others.length === 0 && only !== undefined) {
    if (only === 'paths') return `requests to ${listed(values('paths'), 2)}`;
    if (only === 'methods') return `${listed(values('methods'), 4)} requests`;
    if (only === 'hosts') return `requests to host ${listed(values('hosts'), 2)}`;
    if (only === 'notRequestPrincipals' && values(only).includes('*')) return 'requests without a token';
  }
  return `requests that it means by ${listed(attributes)}`;
}

/** A rule that matches nobody, for the way in which the principals of all its sources are written. */
function nobodysRule(
  clauses: readonly (readonly Part[])[],
  action: 'ALLOW' | 'DENY',
  path: string,
  domains: readonly string[],
): Misreading | undefined {
  const finding = action === 'DENY' ? 'deny-rule-never-matches' : 'allow-rule-dropped';
  const outcome = `this ${action} rule ${action === 'DENY' ? 'refuses nobody' : 'lets nobody in'}`;
  if (clauses.some(parts => parts.every(part => part.nobody))) {
    const effect = `principals that begin with spiffe:// match nobody in ztunnel: ${outcome}`;
    return { finding, attributes: 'principals spiffe', effect, path };
  }
  const [domain] = domains;
  if (domain === undefined || domains.includes('cluster.local')) return undefined;
  if (!clauses.some(parts => parts.every(part => part.alias))) return undefined;
  // callers of another mesh may be meant, whose trust domain that is
  const effect = `for ztunnel cluster.local is not trust domain ${domain}: ${outcome}`;
  return { finding, attributes: 'principals cluster.local', effect, path, action: 'warn' };
}

/** Callers that are written with spiffe:// beside others that are not: those are nobody for ztunnel, the rest of the rule holds. */
function someSpiffe(rule: AuthorizationRule, action: 'ALLOW' | 'DENY', path: string): readonly Misreading[] {
  const written = [
    ...(rule.from ?? []).flatMap(source => source['principals'] ?? []),
    ...(rule.when ?? []).filter(({ key }) => key === 'source.principal').flatMap(({ values }) => values),
  ].find(principal => principal.startsWith('spiffe://'));
  if (written === undefined) return [];
  const attributes = 'principals spiffe';
  return action === 'DENY'
    ? [
        {
          finding: 'deny-rule-never-matches',
          attributes,
          effect: `${written} matches nobody in ztunnel: this DENY rule does not refuse it`,
          path,
        },
      ]
    : [
        {
          finding: 'allow-rule-dropped',
          attributes,
          effect: `${written} matches nobody in ztunnel: this ALLOW rule does not let it in`,
          action: 'warn',
          path,
        },
      ];
}

function denyRule(rule: AuthorizationRule, index: number, domains: readonly string[]): readonly Misreading[] {
  const clauses = clausesOf(rule);
  const nobody = nobodysRule(clauses, 'DENY', `/spec/rules/${index}`, domains);
  if (nobody !== undefined) return [nobody];
  const l7 = names(clauses.flat().flatMap(part => part.l7));
  const found: Misreading[] = [];
  const path = `/spec/rules/${index}`;
  if (l7.length > 0) {
    const requests = requestsOf(rule, l7);
    const attributes = l7.join(' ');
    // an alternative without anything for ztunnel never matches; a clause of such alternatives ends the rule
    const inert = clauses.some(parts => empty(parts) && parts.some(part => part.l7.length > 0));
    const lost = names(clauses.flatMap(parts => parts.filter(part => !part.l4).flatMap(part => part.l7)));
    const blanked = names(clauses.flatMap(parts => parts.filter(part => part.l4).flatMap(part => part.l7)));
    if (inert) {
      found.push({
        finding: 'deny-rule-never-matches',
        attributes,
        effect: `this DENY rule never matches in ztunnel: ${requests} are not denied`,
        path,
      });
      return found;
    }
    // a source with nothing but trust domains ends the rule as well
    if (clauses.some(empty)) return trustDomains(clauses, 'DENY', path);
    if (lost.length > 0) {
      found.push({
        finding: 'deny-rule-never-matches',
        attributes: lost.join(' '),
        effect: `ztunnel never matches the alternative by ${listed(lost)}: ${requestsOf(rule, lost)} are not denied`,
        path,
      });
    }
    if (blanked.length > 0) {
      found.push({
        finding: 'deny-rule-too-broad',
        attributes: blanked.join(' '),
        effect: `ztunnel leaves ${listed(blanked)} out of this DENY rule: it refuses all that the rest of it matches`,
        path,
      });
    }
  }
  return [...someSpiffe(rule, 'DENY', path), ...found, ...trustDomains(clauses, 'DENY', path)];
}

function allowRule(
  rule: AuthorizationRule,
  index: number,
  noneLeft: boolean,
  domains: readonly string[],
): readonly Misreading[] {
  const clauses = clausesOf(rule);
  const l7 = names(clauses.flat().flatMap(part => part.l7));
  const path = `/spec/rules/${index}`;
  const nobody = nobodysRule(clauses, 'ALLOW', path, domains);
  if (nobody !== undefined) return [nobody];
  if (l7.length === 0) return [...someSpiffe(rule, 'ALLOW', path), ...trustDomains(clauses, 'ALLOW', path)];
  const consequence = noneLeft ? 'no rule is left, so it lets nothing in' : 'what only it allows is refused';
  return [
    {
      finding: 'allow-rule-dropped',
      attributes: l7.join(' '),
      effect: `ztunnel drops this ALLOW rule because of ${listed(l7)}: ${consequence}`,
      path,
    },
  ];
}

/** True where ztunnel has nothing to match in any alternative of a clause, so that the rule never matches. */
function empty(parts: readonly Part[]): boolean {
  return parts.every(part => !part.l4);
}

/** `trustDomains` is neither known to ztunnel nor counted as HTTP: it goes without a word (I§1a). */
function trustDomains(
  clauses: readonly (readonly Part[])[],
  action: 'ALLOW' | 'DENY',
  path: string,
): readonly Misreading[] {
  const concerned = clauses.filter(parts => parts.some(part => part.trust.length > 0));
  const parts = concerned.flat().filter(part => part.trust.length > 0);
  if (parts.length === 0) return [];
  const attributes = names(parts.flatMap(part => part.trust));
  const said = attributes.join(' and ');
  const outcome = concerned.some(empty) ? 'never' : parts.some(part => part.l4) ? 'wider' : 'alternative';
  const effects = {
    never:
      action === 'ALLOW'
        ? `ztunnel knows no ${said} and has nothing else to match: this ALLOW rule lets nobody in`
        : `ztunnel knows no ${said} and has nothing else to match: this DENY rule refuses nobody`,
    wider:
      action === 'ALLOW'
        ? `ztunnel leaves ${said} out: this ALLOW rule lets callers of every trust domain in`
        : `ztunnel leaves ${said} out: this DENY rule refuses callers of every trust domain`,
    alternative: `ztunnel never matches the source by ${said}: this ${action} rule is narrower than written`,
  };
  return [
    {
      finding: 'trust-domains-dropped',
      attributes: `${attributes.join(' ')} ${outcome}`,
      effect: effects[outcome],
      path,
    },
  ];
}

/**
 * All that ztunnel does otherwise than a policy says, which has no `targetRefs`: the others never reach it. `trustDomains` are those
 * of the control planes that serve it, where they are known.
 */
export function misreadings(policy: AuthorizationPolicy, trustDomains: readonly string[]): readonly Misreading[] {
  if (policy.action === 'CUSTOM') {
    const provider = policy.provider === undefined || policy.provider === '' ? 'its provider' : policy.provider;
    return [
      {
        finding: 'action-not-enforced',
        attributes: 'CUSTOM',
        effect: `ztunnel knows no CUSTOM action: requests pass and ${provider} is never asked`,
        path: '/spec/action',
      },
    ];
  }
  if (policy.action === 'AUDIT') {
    return [
      {
        finding: 'action-not-enforced',
        attributes: 'AUDIT',
        effect: 'ztunnel knows no AUDIT action: nothing is audited',
        action: 'warn',
        path: '/spec/action',
      },
    ];
  }
  if (policy.rules.every(rule => isPlain(rule, trustDomains))) return NOTHING;
  if (policy.action === 'DENY') return policy.rules.flatMap((rule, index) => denyRule(rule, index, trustDomains));
  const noneLeft = policy.rules.every(hasL7);
  return policy.rules.flatMap((rule, index) => allowRule(rule, index, noneLeft, trustDomains));
}

const NOTHING: readonly never[] = Object.freeze([]);

/** True for a rule in which there is nothing that ztunnel could misread: what nearly every one is, seen without taking it apart. */
function isPlain(rule: AuthorizationRule, domains: readonly string[]): boolean {
  if (hasL7(rule) || (domains.length > 0 && !domains.includes('cluster.local'))) return false;
  for (const source of rule.from ?? NOTHING) {
    if (hasSome(source, TRUST_DOMAINS) || source['principals']?.some(isSpiffe) === true) return false;
  }
  for (const operation of rule.to ?? NOTHING) if (hasSome(operation, TRUST_DOMAINS)) return false;
  for (const { key, values } of rule.when ?? NOTHING)
    if (key === 'source.principal' && values.some(isSpiffe)) return false;
  return true;
}

const isSpiffe = (principal: string): boolean => principal.startsWith('spiffe://');

/** True for a rule that ztunnel reads HTTP attributes in. */
export function hasL7({ from, to, when }: AuthorizationRule): boolean {
  for (const source of from ?? NOTHING) if (hasSome(source, SOURCE_L7)) return true;
  for (const operation of to ?? NOTHING) if (hasSome(operation, OPERATION_L7)) return true;
  for (const { key } of when ?? NOTHING) if (!WHEN_L4.has(key)) return true;
  return false;
}

function hasSome(match: Match, attributes: ReadonlySet<string>): boolean {
  for (const key in match) if (attributes.has(key)) return true;
  return false;
}

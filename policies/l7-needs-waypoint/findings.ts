import type { FindingSpec, PAUSE, Report } from '../../src/engine/policy.ts';

const SEEN = ['validate', 'files', 'audit'] as const;

/** What can be wrong with an AuthorizationPolicy where ambient mode is. */
export const findings = {
  'deny-rule-never-matches': {
    action: 'deny',
    seen: SEEN,
    doc: 'a DENY rule that ztunnel can never match, so that what it should refuse is allowed',
  },
  'deny-rule-too-broad': {
    action: 'deny',
    seen: SEEN,
    doc: 'a DENY rule of which ztunnel leaves the HTTP part out, so that it refuses more than is written',
  },
  'allow-rule-dropped': {
    action: 'deny',
    seen: SEEN,
    doc: 'an ALLOW rule that ztunnel drops for its HTTP part, so that what it should allow is refused',
  },
  'action-not-enforced': { action: 'deny', seen: SEEN, doc: 'CUSTOM or AUDIT, which ztunnel does not know' },
  'target-without-waypoint': {
    action: 'deny',
    seen: SEEN,
    doc: 'a target whose traffic no waypoint takes, so that nothing enforces the policy',
  },
  'waypoint-pending': {
    action: 'warn',
    seen: SEEN,
    doc: 'the waypoint of the target is named, and not there or not ready yet',
  },
  'target-cannot-bind': {
    action: 'deny',
    // what the CRD refuses itself can only be explained before
    seen: ['mutate', ...SEEN],
    doc: 'a target or selector that no waypoint is ever given',
  },
  'target-without-address': {
    action: 'deny',
    seen: SEEN,
    doc: 'a target without an address of its own: its status says bound, and nothing is enforced',
  },
  'ignored-by-revision': {
    action: 'deny',
    seen: SEEN,
    doc: 'an istio.io/rev label that is the revision of no istiod here, so that the policy is ignored',
  },
  'target-not-found': { action: 'warn', seen: SEEN, doc: 'the target does not exist (yet)' },
  'empty-selector': {
    action: 'deny',
    seen: SEEN,
    doc: 'selector: {}, which attaches to nothing in ambient mode',
  },
  'tcp-ports-closed': {
    action: 'deny',
    seen: SEEN,
    doc: 'HTTP rules at a waypoint that refuse all traffic to a port declared as other than HTTP',
  },
  'provider-unknown': {
    action: 'deny',
    seen: SEEN,
    doc: 'CUSTOM with an extension provider that MeshConfig does not define: what the rules match is refused',
  },
  'provider-unreached': {
    action: 'warn',
    seen: SEEN,
    doc: 'CUSTOM with an extension provider whose Service istiod does not find, or whose port proxies do not have',
  },
  'several-providers': {
    action: 'deny',
    seen: SEEN,
    doc: 'two CUSTOM policies with different providers at one proxy, which then refuses what they match',
  },
  'trust-domains-dropped': {
    action: 'deny',
    since: '1.30',
    seen: SEEN,
    doc: 'trustDomains, which ztunnel leaves out without a word',
  },
  'waypoint-identity-refused': {
    action: 'warn',
    seen: SEEN,
    doc: 'an ALLOW policy on workloads behind a waypoint that does not let the waypoint in',
  },
  'ingress-bypasses-waypoint': {
    action: 'warn',
    seen: SEEN,
    doc: 'a target that gateways reach without going through its waypoint',
  },
} as const satisfies Readonly<Record<string, FindingSpec>>;

export type Id = keyof typeof findings;
export type Found = Report<Id>;
export type Search = Iterable<Found | typeof PAUSE>;

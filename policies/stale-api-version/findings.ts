import type { FindingSpec } from '../../src/engine/policy.ts';

// All but group-removed need what a mutating webhook knows no better: nothing of them is refused by a schema.
const SEEN = ['validate', 'files', 'audit'] as const;

export const findings = {
  'version-not-read': {
    action: 'deny',
    seen: SEEN,
    doc: 'The installed Istio does not read what the cluster would store',
  },
  'version-superseded': {
    action: 'deny',
    seen: ['validate', 'files'],
    doc: 'An early version that the API server still converts into the one that Istio reads',
  },
  'version-not-served': {
    action: 'deny',
    seen: ['validate', 'files'],
    doc: 'The CRD in the cluster does not serve the version',
  },
  'no-way-forward': {
    action: 'deny',
    seen: SEEN,
    doc: 'Istio does not read it, and the CRDs in the cluster have nothing newer to write instead',
  },
  'version-too-new': {
    action: 'warn',
    seen: SEEN,
    doc: 'The running Istio is too old for the version',
  },
  'twin-in-use': {
    action: 'warn',
    seen: SEEN,
    doc: 'An old InferencePool beside a v1 pool of the same name that the routes use',
  },
  'reference-to-stale-group': {
    action: 'deny',
    since: '1.28',
    seen: SEEN,
    doc: 'A route, ReferenceGrant or poolRef names an InferencePool of the old group',
  },
  'group-removed': {
    action: 'deny',
    seen: SEEN,
    doc: 'A group that no CRD bundle has any more',
    objectAlone: true,
  },
  'below-floor': {
    action: 'off',
    seen: ['validate', 'files'],
    doc: 'Older than the floor set in the options',
  },
} as const satisfies Readonly<Record<string, FindingSpec>>;

export type FindingId = keyof typeof findings;

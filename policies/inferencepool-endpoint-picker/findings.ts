import type { FindingSpec } from '../../src/engine/policy.ts';

/** Where what the CRD's own rules refuse can be explained: only a mutating webhook is asked before them. */
const BEFORE_SCHEMA = ['mutate', 'validate', 'files', 'audit'] as const;
const SEEN = ['validate', 'files', 'audit'] as const;

export const findings = {
  'port-missing': {
    action: 'deny',
    since: '1.28',
    seen: BEFORE_SCHEMA,
    doc: 'The endpoint picker is a Service and has no port: nothing is inferred any more',
    objectAlone: true,
  },
  'field-removed': {
    action: 'deny',
    since: '1.28',
    seen: BEFORE_SCHEMA,
    doc: 'A field that an earlier shape of the kind had and v1 has not',
    objectAlone: true,
  },
  'picker-missing': {
    action: 'warn',
    since: '1.28',
    seen: SEEN,
    doc: 'The pool has no endpoint picker that Istio could ask',
  },
  'picker-service-missing': {
    action: 'warn',
    since: '1.28',
    seen: SEEN,
    doc: "No Service of the picker's name in the pool's namespace",
  },
  'port-not-exposed': {
    action: 'warn',
    since: '1.28',
    seen: SEEN,
    doc: "The picker's Service has no such port",
  },
  'one-picker-per-rule': {
    action: 'deny',
    since: '1.28',
    seen: SEEN,
    doc: "Several pools in one rule of a route: the last one's picker serves them all",
  },
  'no-picker-on-route': {
    action: 'warn',
    since: '1.28',
    seen: SEEN,
    doc: 'A route sends to a pool in a way that asks no endpoint picker',
  },
  'mesh-parent': {
    action: 'deny',
    since: '1.28',
    seen: SEEN,
    doc: 'A route of a Service has a pool as its backend: no endpoint picker is asked',
  },
  'extension-off': {
    action: 'warn',
    since: '1.28',
    seen: SEEN,
    doc: 'istiod does not have ENABLE_GATEWAY_API_INFERENCE_EXTENSION=true: the pool is ignored',
  },
} as const satisfies Readonly<Record<string, FindingSpec>>;

export type FindingId = keyof typeof findings;

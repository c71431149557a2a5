import { definePolicy } from '../../src/engine/policy.ts';
import { GATEWAY, GATEWAY_CLASS, ROUTE_KINDS } from '../../src/mesh/kinds/gateways.ts';
import { affected } from './affected.ts';
import { checkVersion } from './check.ts';
import { findings } from './findings.ts';
import { options } from './options.ts';
import { REFERRERS } from './ownership.ts';
import { checkReferences } from './references.ts';
import { TABLE_KINDS } from './table.ts';

/** Versions and groups that the cluster or its Istio no longer reads, or will not for long. */
export const staleApiVersion = definePolicy({
  id: 'stale-api-version',
  title: 'API versions and groups that the cluster or its Istio no longer reads',
  subjects: [...new Set([...TABLE_KINDS, ...ROUTE_KINDS, ...REFERRERS])],
  reads: [
    'CustomResourceDefinition.apiextensions.k8s.io',
    GATEWAY,
    GATEWAY_CLASS,
    'Namespace',
    'Deployment.apps',
    'ConfigMap',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
  ],
  findings,
  options,
  *check(subject, context) {
    yield* checkVersion(subject, context);
    yield* checkReferences(subject, context);
  },
  affected,
});

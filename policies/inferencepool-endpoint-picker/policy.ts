import * as z from 'zod';
import { definePolicy } from '../../src/engine/policy.ts';
import { GATEWAY, GATEWAY_CLASS, ROUTE_KINDS, type Route } from '../../src/mesh/kinds/gateways.ts';
import { INFERENCE_POOL } from '../../src/mesh/kinds/inference.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import { affected, JUDGED_ROUTES } from './affected.ts';
import { findings } from './findings.ts';
import { checkPool } from './pool.ts';
import { checkRoute } from './route.ts';

/** InferencePools whose endpoint picker Istio would not find or not ask. */
export const inferencePoolEndpointPicker = definePolicy({
  id: 'inferencepool-endpoint-picker',
  title: 'InferencePools whose endpoint picker would not be found or not be asked',
  subjects: [INFERENCE_POOL, ...JUDGED_ROUTES],
  reads: [
    'Service',
    ...ROUTE_KINDS.filter(kind => !(JUDGED_ROUTES as readonly string[]).includes(kind)),
    GATEWAY,
    GATEWAY_CLASS,
    'Namespace',
    'Deployment.apps',
    'ConfigMap',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
  ],
  findings,
  options: z.strictObject({}),
  *check(subject, context) {
    if (isOf(subject, INFERENCE_POOL)) yield* checkPool(subject, context);
    else if (context.stage !== 'mutate') yield* checkRoute(subject as Route, context);
  },
  affected,
});

import * as z from 'zod';

export const options = z.strictObject({
  floor: z
    .record(z.string(), z.string().regex(/^v\d+((alpha|beta)\d+)?$/, 'a version, such as v1 or v1beta1'))
    .default({})
    .describe(
      'The oldest version allowed, by group (security.istio.io) or by kind (Gateway.gateway.networking.k8s.io)',
    ),
});

export type Options = z.infer<typeof options>;

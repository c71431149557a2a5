import * as z from 'zod';
import { definePolicy, PAUSE, type Report } from '../../src/engine/policy.ts';
import { parseAddress } from '../../src/kube/addresses.ts';
import { ambient } from '../../src/mesh/enrolment.ts';
import { GATEWAY, GATEWAY_CLASS } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { NETWORK_POLICY, type NetworkPolicy } from '../../src/mesh/kinds/network.ts';
import { AUTHORIZATION_POLICY } from '../../src/mesh/kinds/security.ts';
import { WORKLOAD_KINDS } from '../../src/mesh/kinds/workloads.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { affected } from './affected.ts';
import { egress } from './egress.ts';
import { CILIUM_POLICY, type Finding, type Found, ingress, type Options } from './ingress.ts';
import { selectedBy } from './pods.ts';

const SEEN = ['validate', 'files', 'audit'] as const;

/** HOST_PROBE_SNAT_IP and HOST_PROBE_SNAT_IPV6 of istio-cni. */
const PROBES = ['169.254.7.127', 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff'];

function* check(policy: NetworkPolicy, mesh: Mesh, options: Options): Found {
  if (mesh.fact(ambient).state === 'off') return;
  // one report for each way in which a policy hits somebody: the first certain one, else the first
  const reports = new Map<string, Report<Finding>>();
  let count = 0;
  for (const pod of selectedBy(mesh, policy)) {
    if (pod === PAUSE) {
      yield PAUSE;
      continue;
    }
    if (pod.by === 'nobody') continue;
    count += 1;
    if (count % 5 === 0) yield PAUSE;
    for (const found of [ingress(policy, pod, mesh, options), egress(policy, pod, mesh)]) {
      for (const report of found) {
        if (report === PAUSE) {
          yield PAUSE;
          continue;
        }
        const key = `${report.finding} ${report.key}`;
        const known = reports.get(key);
        if (known === undefined || (known.certain === false && report.certain !== false)) reports.set(key, report);
      }
    }
  }
  yield* reports.values();
}

export const hbonePort = definePolicy({
  id: 'hbone-port',
  title: 'NetworkPolicies that close TCP 15008, over which the mesh talks in ambient mode',
  subjects: [NETWORK_POLICY],
  reads: [
    NETWORK_POLICY,
    'Namespace',
    'Service',
    'ConfigMap',
    GATEWAY,
    GATEWAY_CLASS,
    AUTHORIZATION_POLICY,
    CILIUM_POLICY,
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
    ...WORKLOAD_KINDS,
  ],
  findings: {
    'ingress-blocked': {
      action: 'deny',
      seen: SEEN,
      doc: 'ambient pods are let in to on application ports only, and TCP 15008 stays closed to the mesh',
    },
    'egress-blocked': {
      action: 'deny',
      seen: SEEN,
      doc: 'ambient pods are let out to others on application ports only, and TCP 15008 stays closed',
    },
    'waypoint-blocked': {
      action: 'deny',
      seen: SEEN,
      doc: 'a waypoint on the way is kept out, or cannot be reached',
    },
    'default-deny': {
      action: 'warn',
      seen: SEEN,
      doc: 'a policy that closes everything closes HBONE and probes too',
    },
    'probes-blocked': {
      action: 'warn',
      seen: SEEN,
      doc: "the kubelet's probes come from an address of istio-cni that the policy does not let in",
    },
    'sidecar-destination': {
      action: 'warn',
      seen: SEEN,
      doc: 'sidecar pods whose ambient clients call them on TCP 15008, which stays closed',
    },
    'open-to-every-peer': {
      action: 'warn',
      seen: SEEN,
      doc: 'TCP 15008 is open to everybody beside ports that are limited to some',
    },
  },
  options: z.strictObject({
    probeAddresses: z
      .array(z.string().refine(text => parseAddress(text) !== undefined, 'an IPv4 or IPv6 address'))
      .min(1)
      .default(PROBES),
    probes: z.enum(['cilium', 'always', 'never']).default('cilium'),
  }),
  *check(subject: Meta, { mesh, options }): Found {
    if (isOf(subject, NETWORK_POLICY)) yield* check(subject, mesh, options);
  },
  affected,
});

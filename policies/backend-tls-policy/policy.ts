import * as z from 'zod';
import { type CheckContext, definePolicy, PAUSE, type Report } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { caBundleOf } from '../../src/mesh/certificates.ts';
import { ambient, enforcerOf } from '../../src/mesh/enrolment.ts';
import { CRD, WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { DESTINATION_RULE } from '../../src/mesh/kinds/destinationrules.ts';
import {
  type BackendTlsPolicy,
  GATEWAY,
  GATEWAY_CLASS,
  ISTIO_GATEWAY,
  ROUTE_KINDS,
} from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import { WORKLOAD_KINDS } from '../../src/mesh/kinds/workloads.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { ordinaryPod } from '../../src/mesh/ordinary.ts';
import {
  atLeast,
  type ControlPlane,
  compareRelease,
  controlPlanes,
  crdOf,
  flag,
  ownersOf,
  parseRelease,
  type Release,
} from '../../src/mesh/releases.ts';
import { waypointOf } from '../../src/mesh/waypoints.ts';
import { affected } from './affected.ts';
import { type Backend, gatewaysTo, overridesOf } from './rules.ts';

const BACKEND_TLS_POLICY = 'BackendTLSPolicy.gateway.networking.k8s.io';
const IGNORE = 'istio.io/ignore-policy-attachment';
const SEEN = ['validate', 'files', 'audit'] as const;

type Finding =
  | 'target-not-found'
  | 'section-name-unknown'
  | 'ca-kind-unsupported'
  | 'ca-unreadable'
  | 'first-ca-only'
  | 'conflicts'
  | 'destination-rule-wins'
  | 'hostname-not-verified'
  | 'no-waypoint';

type Found = Iterable<Report<Finding> | typeof PAUSE>;
type Target = BackendTlsPolicy['targets'][number];

/** Whether a control plane reads the kind: v1 from 1.28 on, with a CRD bundle of 1.4 or later; before, with a flag. */
function reads(mesh: Mesh, plane: ControlPlane): boolean {
  if (atLeast(plane.release, '1.28') === false) return flag(plane, 'PILOT_ENABLE_ALPHA_GATEWAY_API', false);
  const crd = crdOf(mesh, BACKEND_TLS_POLICY);
  if (typeof crd === 'string') return true;
  const bundle = parseRelease(crd.bundleVersion ?? '');
  return bundle !== undefined && compareRelease(bundle, '1.4') >= 0;
}

/**
 * The control planes that make something of a policy; undefined where there are some here, and none does. The annotation is read from
 * 1.30.1 on (strings.EqualFold in pilot/pkg/config/kube/gateway/backend_policies.go; a label of that name is nothing).
 */
function readersOf(mesh: Mesh, policy: BackendTlsPolicy): readonly ControlPlane[] | undefined {
  const told = policy.annotations[IGNORE]?.toLowerCase() === 'true';
  const planes = ownersOf(mesh, policy).filter(plane => reads(mesh, plane));
  if (told && !(planes.length > 0 && planes.every(plane => atLeast(plane.release, '1.30.1') === false)))
    return undefined;
  return planes.length === 0 && mesh.fact(controlPlanes).length > 0 ? undefined : planes;
}

/** Whether sidecars of this release send plaintext where the CA is of no use (GHSA-qm8v-g4f9-qhjx). */
function fallsBack(release: Release | undefined): boolean {
  if (release === undefined) return false;
  const fixed: Readonly<Record<number, string>> = { 29: '1.29.7', 30: '1.30.4', 31: '1.31.1' };
  const patch = fixed[release.minor];
  return release.major === 1 && (release.minor < 29 || (patch !== undefined && compareRelease(release, patch) < 0));
}

const isBackend = ({ kind }: ObjectRef) => kind === 'Service' || kind === SERVICE_ENTRY;

const find = (mesh: Mesh, target: ObjectRef): Backend | 'absent' | 'unknown' =>
  target.kind === SERVICE_ENTRY
    ? mesh.find(SERVICE_ENTRY, target.namespace, target.name)
    : mesh.find('Service', target.namespace, target.name);

/** True where only Gateways of other implementations lead to the targets, and nobody of the mesh is there. */
function isForOthers(mesh: Mesh, policy: BackendTlsPolicy, targets: readonly Target[]): boolean {
  const distinct = [...new Map(targets.map(target => [refKey(target), target])).values()];
  const gateways = distinct.flatMap(target => gatewaysTo(mesh, target));
  if (gateways.length === 0 || gateways.some(({ istio }) => istio)) return false;
  return enforcerOf(mesh, ordinaryPod(policy.namespace)).by === 'nobody';
}

/** What becomes of connections whose CA is of no use. */
function consequence(planes: readonly ControlPlane[]): string {
  return planes.some(plane => fallsBack(plane.release))
    ? 'gateways and waypoints refuse every connection to the backend, sidecars send plaintext'
    : 'every connection to the backend fails';
}

function* certificates(policy: BackendTlsPolicy, mesh: Mesh, planes: readonly ControlPlane[]): Found {
  const [first, ...others] = policy.certificateRefs;
  if (first === undefined) return;
  const certain = planes.length > 0;
  const path = '/spec/validation/caCertificateRefs';
  if (first.kind !== 'ConfigMap') {
    yield {
      finding: 'ca-kind-unsupported',
      key: refKey(first),
      about: 'ca',
      effect: `Istio takes a CA from a ConfigMap only: ${consequence(planes)}`,
      fix: 'put the CA in PEM under ca.crt of a ConfigMap, and refer to it with group: "" and kind: ConfigMap',
      evidence: [first],
      certain,
      path,
    };
  } else {
    const configMap = mesh.find('ConfigMap', first.namespace, first.name);
    if (configMap === 'absent') {
      yield {
        finding: 'ca-unreadable',
        key: `missing ${first.name}`,
        about: 'ca',
        effect: `the ConfigMap with its CA is not there: until it comes, ${consequence(planes)}`,
        fix: `create ConfigMap ${first.namespace}/${first.name} with the CA in PEM under ca.crt`,
        evidence: [first],
        action: 'warn',
        path,
      };
    } else if (configMap !== 'unknown') {
      const { fault } = caBundleOf(configMap);
      if (fault !== undefined) {
        yield {
          finding: 'ca-unreadable',
          key: first.name,
          about: 'ca',
          effect: `its ConfigMap ${fault}: ${consequence(planes)}`,
          fix: `put the CA certificate in PEM into ca.crt of ConfigMap ${first.namespace}/${first.name}`,
          evidence: [ref(configMap)],
          because: 'the status says it is valid',
          certain,
          path,
        };
      }
    }
  }
  if (others.length > 0) {
    yield {
      finding: 'first-ca-only',
      key: 'others',
      effect: `Istio uses the first of its ${others.length + 1} CAs only: backends with a certificate of another one are refused`,
      fix: 'put all CA certificates into ca.crt of one ConfigMap',
      evidence: [first, ...others],
      path,
    };
  }
}

const isOlder = (one: Meta, other: Meta): boolean => {
  if (one.created === other.created) return one.name < other.name;
  if (one.created === '' || other.created === '') return one.created !== '';
  return one.created < other.created;
};

function* rivals(policy: BackendTlsPolicy, target: Target, mesh: Mesh): Found {
  for (const other of mesh.referring(refKey(target), BACKEND_TLS_POLICY)) {
    if (other.name === policy.name || other.namespace !== policy.namespace || isOlder(policy, other)) continue;
    const both = other.targets.some(
      theirs => refKey(theirs) === refKey(target) && theirs.sectionName === target.sectionName,
    );
    if (!both || readersOf(mesh, other) === undefined) continue;
    yield {
      finding: 'conflicts',
      key: `${refKey(target)}#${target.sectionName ?? ''} ${other.name}`,
      effect: `BackendTLSPolicy ${other.name} is for the same target and wins, as the older or first by name: this one is ignored`,
      fix: 'keep one policy for a target, or give each a sectionName of its own',
      evidence: [ref(other), ref(target)],
      path: '/spec/targetRefs',
    };
  }
}

function* overruled(target: Target, backend: Backend, mesh: Mesh, planes: readonly ControlPlane[]): Found {
  for (const { rule, client, keepsTls, certain } of overridesOf(mesh, backend, target.sectionName, planes)) {
    const where =
      client === undefined
        ? 'DestinationRules of its namespace win from 1.31 on'
        : `it stands in the namespace of ${client.kind === 'Namespace' ? 'sidecars' : `${client.kind.split('.')[0]} ${client.name}`}`;
    yield {
      finding: 'destination-rule-wins',
      key: `${refKey(target)} ${rule.namespace}/${rule.name}`,
      effect: keepsTls
        ? `DestinationRule ${rule.namespace}/${rule.name} goes before this policy: its tls counts, not the CA and the names given here`
        : `DestinationRule ${rule.namespace}/${rule.name} switches this policy off${client === undefined ? '' : ' there'}: the backend is called without its TLS`,
      fix: keepsTls
        ? 'keep one of the two: remove tls from the rule, or the policy'
        : `put trafficPolicy.tls into DestinationRule ${rule.namespace}/${rule.name}, or delete it`,
      evidence: [ref(rule), ...(client === undefined ? [] : [client])],
      because: where,
      certain,
      ...(keepsTls ? { action: 'warn' as const } : {}),
      path: '/spec/targetRefs',
    };
  }
}

function* nobodyOriginates(target: Target, backend: Backend, mesh: Mesh): Found {
  if (mesh.fact(ambient).state !== 'on') return;
  if (enforcerOf(mesh, ordinaryPod(backend.namespace)).by !== 'ztunnel') return;
  const binding = waypointOf(mesh, backend, 'service');
  if (!['none', 'opted-out', 'never', 'wrong-traffic-type'].includes(binding.state)) return;
  if (gatewaysTo(mesh, target).some(({ istio }) => istio)) return;
  // an ingress gateway of Istio's older kind may lead here; VirtualServices are not followed that far
  for (const _ of mesh.list(ISTIO_GATEWAY)) return;
  yield {
    finding: 'no-waypoint',
    key: refKey(target),
    about: `waypoint of ${refKey(target)}`,
    effect:
      'ambient clients call this backend without TLS: ztunnel does not read the policy, and no waypoint serves the target',
    fix: `label ${target.kind === 'Service' ? 'Service' : 'ServiceEntry'} ${target.name} istio.io/use-waypoint with a waypoint of its namespace`,
    evidence: [ref(target)],
    because: binding.why,
    path: '/spec/targetRefs',
  };
}

function* check(policy: BackendTlsPolicy, { mesh }: CheckContext<unknown>): Found {
  const targets = policy.targets.filter(isBackend);
  if (targets.length === 0) return;
  const planes = readersOf(mesh, policy);
  if (planes === undefined) return;
  if (isForOthers(mesh, policy, targets)) return;
  yield* certificates(policy, mesh, planes);
  // every version has a hostname; where there is none it is one of an older shape, which says nothing here
  if (policy.subjectAltNames === 0 && policy.hostname !== '') {
    const system = policy.wellKnown === 'System';
    yield {
      finding: 'hostname-not-verified',
      key: 'hostname',
      effect: system
        ? `any certificate of a public CA passes: ${policy.hostname} is sent as SNI, and not compared with the certificate`
        : `every certificate of its CA passes: ${policy.hostname} is sent as SNI, and not compared with the certificate`,
      fix: 'add validation.subjectAltNames with type: Hostname and the name in the certificate',
      evidence: [],
      ...(system ? {} : { action: 'log' as const }),
      path: '/spec/validation',
    };
  }
  const seen = new Set<string>();
  for (const target of targets) {
    const identity = `${refKey(target)}#${target.sectionName ?? ''}`;
    if (seen.has(identity)) continue;
    seen.add(identity);
    if (seen.size % 10 === 0) yield PAUSE;
    const backend = find(mesh, target);
    if (backend === 'absent') {
      yield {
        finding: 'target-not-found',
        key: refKey(target),
        effect: 'its target does not exist in its namespace: nothing is called with TLS because of it',
        fix: `create it, or correct spec.targetRefs (a target stands in the policy's own namespace)`,
        evidence: [ref(target)],
        path: '/spec/targetRefs',
      };
      continue;
    }
    yield* rivals(policy, target, mesh);
    if (backend === 'unknown') continue;
    const { sectionName } = target;
    const names = backend.ports.map(port => port.name);
    if (sectionName !== undefined && !names.includes(sectionName)) {
      yield {
        finding: 'section-name-unknown',
        key: `${refKey(target)}#${sectionName}`,
        effect: `sectionName ${sectionName} is no port name of its target: the policy has no effect there`,
        fix: `write the name of a port (${names.filter(name => name !== '').join(', ') || 'its ports have none'}), not its number`,
        evidence: [ref(target)],
        path: '/spec/targetRefs',
      };
      continue;
    }
    yield* overruled(target, backend, mesh, planes);
    yield* nobodyOriginates(target, backend, mesh);
  }
}

export const backendTlsPolicyPolicy = definePolicy({
  id: 'backend-tls-policy',
  title: 'BackendTLSPolicies that Istio ignores, cannot use, or that something else switches off',
  subjects: [BACKEND_TLS_POLICY],
  reads: [
    BACKEND_TLS_POLICY,
    'Service',
    SERVICE_ENTRY,
    'ConfigMap',
    'Namespace',
    DESTINATION_RULE,
    GATEWAY,
    GATEWAY_CLASS,
    ISTIO_GATEWAY,
    CRD,
    WEBHOOKS,
    ...ROUTE_KINDS,
    ...WORKLOAD_KINDS,
  ],
  findings: {
    'target-not-found': { action: 'warn', seen: SEEN, doc: "the target does not exist in the policy's namespace" },
    'section-name-unknown': {
      action: 'warn',
      seen: SEEN,
      doc: 'sectionName is no name of a port of the target',
    },
    'ca-kind-unsupported': { action: 'deny', seen: SEEN, doc: 'a CA that is not in a ConfigMap' },
    'ca-unreadable': {
      action: 'deny',
      seen: SEEN,
      doc: 'the ConfigMap holds no certificate that can be read (a missing one is warned about)',
    },
    'first-ca-only': { action: 'warn', seen: SEEN, doc: 'several CAs, of which Istio uses the first' },
    conflicts: { action: 'warn', seen: SEEN, doc: 'an older policy for the same target wins' },
    'destination-rule-wins': {
      action: 'deny',
      seen: SEEN,
      doc: 'a DestinationRule for the same host goes before the policy: no TLS, and the status stays accepted',
    },
    'hostname-not-verified': {
      action: 'warn',
      seen: SEEN,
      doc: 'without subjectAltNames the name in the certificate is not checked',
    },
    'no-waypoint': {
      action: 'warn',
      seen: SEEN,
      doc: 'ambient clients and no waypoint: nobody reads the policy for them',
    },
  },
  options: z.strictObject({}),
  *check(subject: Meta, context): Found {
    if (isOf(subject, BACKEND_TLS_POLICY)) yield* check(subject, context);
  },
  affected,
});

// PeerAuthentications that do not apply the mode that they say.
import * as z from 'zod';
import { type CheckContext, definePolicy, PAUSE, pausing, type Report } from '../../src/engine/policy.ts';
import { ref } from '../../src/kube/kind.ts';
import { matchesLabels } from '../../src/kube/labels.ts';
import { pointer } from '../../src/kube/patch.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { type MtlsMode, PEER_AUTHENTICATION, type PeerAuthentication } from '../../src/mesh/kinds/security.ts';
import type { Service, ServicePort } from '../../src/mesh/kinds/services.ts';
import { WORKLOAD_KINDS, WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { rootNamespaces } from '../../src/mesh/releases.ts';

type Id = 'port-is-the-services' | 'selector-in-root';

/** Workloads that are looked at; more of the same selector say nothing new. */
const ENOUGH = 200;

/** The oldest PeerAuthentication of a namespace without a selector: the one that counts (policy_applier.go). */
function general(mesh: Mesh, namespace: string): PeerAuthentication | undefined {
  let oldest: PeerAuthentication | undefined;
  for (const policy of mesh.list(PEER_AUTHENTICATION, namespace)) {
    if (policy.matchLabels !== undefined) continue;
    if (oldest === undefined || (policy.created !== '' && (oldest.created === '' || policy.created < oldest.created)))
      oldest = policy;
  }
  return oldest;
}

/** The mode of the ports that the policy does not name: its own, its namespace's, the mesh's, PERMISSIVE. */
function modeElsewhere(mesh: Mesh, policy: PeerAuthentication): MtlsMode | 'unknown' {
  if (policy.mode !== 'UNSET') return policy.mode;
  if (!mesh.complete(PEER_AUTHENTICATION)) return 'unknown';
  for (const namespace of [policy.namespace, ...mesh.fact(rootNamespaces)]) {
    const mode = general(mesh, namespace)?.mode ?? 'UNSET';
    if (mode !== 'UNSET') return mode;
  }
  return 'PERMISSIVE';
}

function portOf(workload: Workload, name: string): number | undefined {
  for (const { ports } of [...workload.template.containers, ...workload.template.initContainers]) {
    const found = ports.find(port => port.name === name);
    if (found !== undefined) return found.number;
  }
  return undefined;
}

function declares(workload: Workload, number: number): boolean {
  const { containers, initContainers } = workload.template;
  return [...containers, ...initContainers].some(({ ports }) => ports.some(port => port.number === number));
}

/** The port of the workload behind a Service's port; undefined where a name does not resolve. */
function target({ port, targetPort }: ServicePort, workload: Workload): number | undefined {
  if (targetPort === undefined || targetPort === 0) return port;
  return typeof targetPort === 'number' ? targetPort : portOf(workload, targetPort);
}

/** A Service's port of this number that leads to another port of the workload. */
interface Mistaken {
  readonly service: Service;
  readonly target: number;
}

/**
 * The Service whose port somebody took for the workload's; undefined where the number is a port of a selected workload, may be
 * one, or is nobody's.
 */
function mistaken(number: number, workloads: readonly Workload[], services: readonly Service[]): Mistaken | undefined {
  let found: Mistaken | undefined;
  for (const workload of workloads) {
    if (declares(workload, number)) return undefined;
    for (const service of services) {
      if (!matchesLabels(service.selector, workload.template.labels)) continue;
      for (const port of service.ports) {
        const leads = target(port, workload);
        if (leads === number || (leads === undefined && (port.port === number || workload.metadataOnly)))
          return undefined;
        if (port.port === number && leads !== undefined) found ??= { service, target: leads };
      }
    }
  }
  return found;
}

/** What the unapplied mode comes to: an opening, an outage, or nothing that anybody notices. */
function consequence(
  mode: MtlsMode,
  elsewhere: MtlsMode | 'unknown',
): { readonly effect: string; readonly action: 'deny' | 'warn' } | undefined {
  if (mode === 'UNSET' || mode === elsewhere) return undefined;
  if (mode === 'STRICT') return { effect: 'plaintext is accepted there', action: 'deny' };
  if (elsewhere === 'STRICT') return { effect: 'clients without mTLS are refused there', action: 'deny' };
  return { effect: `it stays ${elsewhere === 'unknown' ? 'as it was' : elsewhere} there`, action: 'warn' };
}

function* onPorts(
  policy: PeerAuthentication,
  { mesh, skipped }: CheckContext<unknown>,
): Iterable<Report<Id> | typeof PAUSE> {
  const { matchLabels, ports } = policy;
  if (matchLabels === undefined || ports.length === 0) return;
  const workloads: Workload[] = [];
  for (const workload of mesh.workloads(matchLabels, policy.namespace)) {
    workloads.push(workload);
    if (workloads.length % 50 === 0) yield PAUSE;
    if (workloads.length >= ENOUGH) break;
  }
  const services: Service[] = [];
  for (const service of mesh.list('Service', policy.namespace)) {
    if (Object.keys(service.selector).length > 0) services.push(service);
    if (services.length % 50 === 49) yield PAUSE;
  }
  const elsewhere = modeElsewhere(mesh, policy);
  if (workloads.length > 0 && services.length === 0 && !mesh.complete('Service')) {
    skipped(`whether the ports of ${policy.namespace}/${policy.name} are those of its workloads`);
  }
  for (const { port, mode } of ports) {
    const outcome = consequence(mode, elsewhere);
    const wrong = outcome === undefined ? undefined : mistaken(port, workloads, services);
    if (outcome === undefined || wrong === undefined) continue;
    yield {
      finding: 'port-is-the-services',
      key: `port ${port}`,
      effect: `port ${port} is the Service's, the workload's is ${wrong.target}: ${mode} never applies, ${outcome.effect}`,
      fix: `write portLevelMtls key "${wrong.target}" instead of "${port}"`,
      evidence: [ref(wrong.service)],
      action: outcome.action,
      // containers that are not known may listen there
      certain: elsewhere !== 'unknown' && workloads.every(({ metadataOnly }) => !metadataOnly),
      path: pointer('spec', 'portLevelMtls', String(port)),
    };
  }
}

export const peerAuthenticationPolicy = definePolicy({
  id: 'peer-authentication',
  title: 'A PeerAuthentication applies where it says',
  subjects: [PEER_AUTHENTICATION],
  reads: [
    PEER_AUTHENTICATION,
    'Service',
    'Deployment.apps',
    'ConfigMap',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
    ...WORKLOAD_KINDS.filter(kind => kind !== 'Deployment.apps'),
  ],
  findings: {
    'port-is-the-services': {
      action: 'deny',
      seen: ['validate', 'files', 'audit'],
      doc: "a portLevelMtls key that is the Service's port and no port of the workload",
    },
    'selector-in-root': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a selector in the root namespace, where it selects nothing',
    },
  },
  options: z.object({}).strict(),
  *check(subject, context) {
    const policy = subject as PeerAuthentication;
    if (policy.matchLabels !== undefined && context.mesh.fact(rootNamespaces).includes(policy.namespace)) {
      yield {
        finding: 'selector-in-root',
        key: 'selector',
        effect: 'a PeerAuthentication with a selector in the root namespace attaches to no workload at all',
        fix: `put it into the namespace of the workloads, or remove the selector to set the whole mesh`,
        evidence: [],
        because: `${policy.namespace} is the root namespace`,
        path: pointer('spec', 'selector'),
      };
      return;
    }
    yield* onPorts(policy, context);
  },
  *affected(change, { before, after }) {
    const { kind, namespace } = change.ref;
    const everywhere =
      touchesControlPlane(change) ||
      (kind === PEER_AUTHENTICATION &&
        [...before.fact(rootNamespaces), ...after.fact(rootNamespaces)].includes(namespace));
    if (!everywhere && kind !== PEER_AUTHENTICATION && kind !== 'Service' && !WORKLOADS.has(kind)) return;
    yield* pausing(after.list(PEER_AUTHENTICATION, everywhere ? undefined : namespace));
  },
});

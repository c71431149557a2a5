// PeerAuthentications: what ztunnel is told of the ports that they name.
import { at, list, record, records, text } from '../../../src/kube/json.ts';
import type { PeerAuthentication } from '../../../src/mesh/kinds/security.ts';
import { ownersOf, rootNamespaces } from '../../../src/mesh/releases.ts';
import { type Comparison, reportsBy, storedAs, together } from './common.ts';
import { isCaptured } from './ztunnel.ts';

/** Ports in a converted policy that are treated in another way than the rest of the workload's. */
function portsIn(policy: unknown): readonly number[] {
  return records(at(policy, 'groups')).flatMap(group =>
    records(at(group, 'rules')).flatMap(rule =>
      records(at(rule, 'matches')).flatMap(match =>
        [...list(match['destinationPorts']), ...list(match['notDestinationPorts'])].map(Number),
      ),
    ),
  );
}

export const peerAuthentication: Comparison = function* (asked) {
  const { mesh, ref, refused, seen } = asked;
  const subject = asked.subject as PeerAuthentication;
  if (refused !== undefined || storedAs(asked) === undefined || ownersOf(mesh, subject).length === 0) return;
  const reports = reportsBy(mesh, 'peer-authentication', subject);
  const key = `${ref.namespace}/converted_peer_authentication_${ref.name}`;
  const sent = seen.policies.get(key);
  if (mesh.fact(rootNamespaces).includes(ref.namespace)) {
    const attached = [...seen.workloads.values()].some(one => list(at(one, 'authorizationPolicies')).includes(key));
    if (subject.matchLabels !== undefined)
      yield ['attaches', String(!reports.some(({ finding }) => finding === 'selector-in-root')), String(attached)];
    return;
  }
  if (sent === undefined || subject.matchLabels === undefined) return;
  const pods = [...seen.workloads.values()].filter(
    one => isCaptured(one) && list(at(one, 'authorizationPolicies')).includes(key),
  );
  // the model looks at all that it selects: pods of others' kind may have the port
  const selected = [...mesh.workloads(subject.matchLabels, ref.namespace)];
  if (pods.length === 0 || pods.length !== selected.length) return;
  const own = selected.flatMap(({ template }) =>
    [...template.containers, ...template.initContainers].flatMap(({ ports }) => ports.map(({ number }) => number)),
  );
  const mapped = pods.flatMap(one =>
    Object.values(record(at(one, 'services')) ?? {}).flatMap(service => records(at(service, 'ports'))),
  );
  const wrong = portsIn(sent).filter(
    port =>
      !own.includes(port) &&
      !mapped.some(one => one['targetPort'] === port) &&
      mapped.some(one => one['servicePort'] === port),
  );
  const claimed = reports
    .filter(one => one.finding === 'port-is-the-services' && (one.action ?? 'deny') === 'deny')
    .map(one => text(one.key.split(' ')[1]) ?? '');
  yield ["ports that are the Service's", together(claimed, 'none'), together(wrong.map(String), 'none')];
};

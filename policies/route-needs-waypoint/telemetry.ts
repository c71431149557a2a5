// What a Telemetry alone gets wrong: a provider that MeshConfig has not, and targets that nothing applies. Every Envoy reads it,
// with or without ambient mode.

import type { Report } from '../../src/engine/policy.ts';
import { at, text } from '../../src/kube/json.ts';
import { type ObjectRef, ref, refKey, spoken } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import type { AttachedConfig, SignalProvider } from '../../src/mesh/kinds/routing.ts';
import { SERVICE_ENTRY } from '../../src/mesh/kinds/services.ts';
import { managedAs } from '../../src/mesh/managed.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { extensionProviders, meshConfigMaps, ownersOf } from '../../src/mesh/releases.ts';
import { consumerNamespace, namersOf, servicesIn, waypointFor, waypointOf } from '../../src/mesh/waypoints.ts';
import type { Id } from './policy.ts';

/** Those that istiod brings itself; what MeshConfig lists is added to them (pkg/config/mesh/mesh.go; tried with istiod 1.31). */
const BUILT_IN = new Set(['prometheus', 'stackdriver', 'envoy']);

const LOST: Readonly<Record<SignalProvider['signal'], { readonly one: string; readonly all: string }>> = {
  accessLogging: { one: 'no access log goes there', all: 'access logs that this Telemetry covers are not written' },
  metrics: { one: 'no metrics go there', all: 'metrics that this Telemetry covers are not kept' },
  tracing: { one: 'no spans go there', all: 'spans that this Telemetry covers are not sent' },
};

/** Providers of one Telemetry that are reported: whoever mends these finds the others. */
const EXAMPLES = 20;

/**
 * Providers that MeshConfig does not define. Where nobody else is asked for the signal it ends, also what the root namespace's
 * Telemetry or defaultProviders give; the log of accessLogFile alone goes on (tried with istiod 1.31: sidecar and waypoint).
 */
export function* unknownProviders(mesh: Mesh, subject: AttachedConfig): Iterable<Report<Id>> {
  if (subject.providers.every(({ name }) => BUILT_IN.has(name))) return;
  const planes = ownersOf(mesh, subject).map(plane => ({ plane, defined: extensionProviders(plane) }));
  const asked = new Map<SignalProvider['signal'], Set<string>>();
  for (const { signal, name } of subject.providers) asked.set(signal, (asked.get(signal) ?? new Set()).add(name));
  // asked once for a signal: of a Telemetry with thousands of providers each was held against all others
  const others = new Map<string, boolean>();
  const anyKnown = (signal: SignalProvider['signal'], index: number): boolean => {
    const key = `${signal} ${index}`;
    const known =
      others.get(key) ??
      [...(asked.get(signal) ?? [])].some(name => BUILT_IN.has(name) || planes[index]?.defined?.has(name) === true);
    others.set(key, known);
    return known;
  };
  const said = new Set<string>();
  for (const { signal, name, path } of subject.providers) {
    const key = `${signal} ${name}`;
    if (BUILT_IN.has(name) || said.has(key)) continue;
    const index = planes.findIndex(({ defined }) => defined?.has(name) === false);
    const lacking = planes[index];
    if (lacking === undefined) continue;
    if (said.size === EXAMPLES) return;
    said.add(key);
    const goesOn =
      (signal === 'accessLogging' && (text(at(lacking.plane.meshConfig, 'accessLogFile')) ?? '') !== '') ||
      anyKnown(signal, index);
    yield {
      finding: 'provider-unknown',
      key,
      about: key,
      effect: `MeshConfig defines no extension provider '${name}': ${LOST[signal][goesOn ? 'one' : 'all']}`,
      fix: `define '${name}' under extensionProviders in MeshConfig, or correct the provider's name`,
      evidence: meshConfigMaps(lacking.plane),
      path: pointer(...path),
    };
  }
}

/**
 * A waypoint's Gateway as the target holds for Services of the waypoint's own namespace only, and for traffic to pods' addresses
 * (tried with istiod 1.31). Silent as long as nobody uses the waypoint.
 */
export function* foreignWaypoint(mesh: Mesh, target: ObjectRef, path: string): Iterable<Report<Id>> {
  const gateway = mesh.get(GATEWAY, target.namespace, target.name);
  if (gateway === undefined || managedAs(mesh, gateway.className) !== 'waypoint') return;
  if (waypointFor(mesh, gateway) !== 'service') return;
  for (const service of servicesIn(mesh, gateway.namespace)) {
    const { waypoint } = waypointOf(mesh, service, 'service');
    if (waypoint !== undefined && refKey(waypoint) === refKey(gateway)) return;
  }
  let user: ObjectRef | undefined;
  for (const namer of namersOf(mesh, ref(gateway))) {
    const routed = namer.kind === 'Namespace' || namer.kind === 'Service' || namer.kind === SERVICE_ENTRY;
    if (!routed || consumerNamespace(namer) === gateway.namespace) continue;
    if (user === undefined || refKey(ref(namer)) < refKey(user)) user = ref(namer);
  }
  if (user === undefined) return;
  yield {
    finding: 'target-ignored',
    key: refKey(target),
    effect: `with ${spoken(target)} as its target it holds for Services of ${gateway.namespace} only, and none uses that waypoint`,
    fix: 'target the Services, in their namespaces, or leave targetRefs out',
    evidence: [ref(gateway), user],
    path,
  };
}

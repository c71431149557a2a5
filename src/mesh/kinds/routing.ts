// Istio's own L7 kinds beside AuthorizationPolicy: what they match, where they attach.
import { at, record, records, text, texts } from '../../kube/json.ts';
import type { GroupKind } from '../../kube/kind.ts';
import { type Meta, metaOf } from './meta.ts';
import { type Attachment, attachmentOf } from './security.ts';

export const VIRTUAL_SERVICE = 'VirtualService.networking.istio.io';
export const REQUEST_AUTHENTICATION = 'RequestAuthentication.security.istio.io';
export const WASM_PLUGIN = 'WasmPlugin.extensions.istio.io';
export const TRAFFIC_EXTENSION = 'TrafficExtension.extensions.istio.io';
export const ENVOY_FILTER = 'EnvoyFilter.networking.istio.io';
export const TELEMETRY = 'Telemetry.telemetry.istio.io';
export const SIDECAR = 'Sidecar.networking.istio.io';

export interface VirtualService extends Meta {
  /** As written: a name without dots is a Service of its own namespace. */
  readonly hosts: readonly string[];
  /** As written; `mesh` where none are. */
  readonly gateways: readonly string[];
  readonly exportTo: readonly string[];
  /** True where a match asks for `sourceLabels` or `sourceNamespace`, which no waypoint can tell. */
  readonly matchesSource: boolean;
  /** Hosts that it routes to, as written. */
  readonly destinations: readonly string[];
}

export function virtualService(kind: GroupKind, namespace: string, object: unknown): VirtualService {
  const spec = at(object, 'spec');
  const gateways = texts(at(spec, 'gateways'));
  const rules = ['http', 'tls', 'tcp'].flatMap(protocol => records(at(spec, protocol)));
  const matches = rules.flatMap(rule => records(rule['match']));
  return {
    ...metaOf(kind, namespace, object),
    hosts: texts(at(spec, 'hosts')),
    gateways: gateways.length === 0 ? ['mesh'] : gateways,
    exportTo: texts(at(spec, 'exportTo')),
    matchesSource: matches.some(
      match =>
        Object.keys(record(match['sourceLabels']) ?? {}).length > 0 || (text(match['sourceNamespace']) ?? '') !== '',
    ),
    destinations: [
      ...new Set(
        rules
          .flatMap(rule => records(rule['route']))
          .flatMap(destination => text(at(destination, 'destination', 'host')) ?? []),
      ),
    ],
  };
}

/** A provider that a Telemetry asks for one of its signals. */
export interface SignalProvider {
  readonly signal: 'accessLogging' | 'metrics' | 'tracing';
  readonly name: string;
  /** Where the name stands, from `spec` on. */
  readonly path: readonly (string | number)[];
}

/** RequestAuthentication, WasmPlugin, TrafficExtension, EnvoyFilter, Telemetry and Sidecar. */
export interface AttachedConfig extends Meta, Attachment {
  /** RequestAuthentication: some rule has `presence: REQUIRED` (1.32), so that a missing token is to be refused. */
  readonly requiresToken: boolean;
  /** EnvoyFilter: the contexts of its patches; ANY where a patch names none. */
  readonly contexts: readonly string[];
  /** Telemetry: the providers that it asks. One by which a signal is switched off (`disabled`, `disableSpanReporting`) is none. */
  readonly providers: readonly SignalProvider[];
}

const NO_PROVIDERS: readonly SignalProvider[] = [];

function signalProviders(spec: unknown): readonly SignalProvider[] {
  const found: SignalProvider[] = [];
  for (const signal of ['accessLogging', 'metrics', 'tracing'] as const) {
    for (const [entry, asked] of records(at(spec, signal)).entries()) {
      if (asked['disabled'] === true || asked['disableSpanReporting'] === true) continue;
      for (const [index, provider] of records(asked['providers']).entries()) {
        const name = text(provider['name']) ?? '';
        if (name !== '') found.push({ signal, name, path: ['spec', signal, entry, 'providers', index, 'name'] });
      }
    }
  }
  return found.length === 0 ? NO_PROVIDERS : found;
}

const SELECTOR_KEY: Readonly<Record<string, 'workloadSelector'>> = {
  [ENVOY_FILTER]: 'workloadSelector',
  [SIDECAR]: 'workloadSelector',
};

export function attachedConfig(kind: GroupKind, namespace: string, object: unknown): AttachedConfig {
  const spec = at(object, 'spec');
  return {
    ...metaOf(kind, namespace, object),
    ...attachmentOf(namespace, spec, SELECTOR_KEY[kind] ?? 'selector'),
    requiresToken: records(at(spec, 'jwtRules')).some(rule => rule['presence'] === 'REQUIRED'),
    contexts: [
      ...new Set(records(at(spec, 'configPatches')).map(patch => text(at(patch, 'match', 'context')) ?? 'ANY')),
    ],
    providers: kind === TELEMETRY ? signalProviders(spec) : NO_PROVIDERS,
  };
}

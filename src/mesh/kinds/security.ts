import { at, emptyRecord, type JsonObject, record, records, text, texts } from '../../kube/json.ts';
import { type GroupKind, groupKind, type ObjectRef } from '../../kube/kind.ts';
import { type StringMap, stringMap } from '../../kube/labels.ts';
import { type Meta, metaOf } from './meta.ts';

export const AUTHORIZATION_POLICY = 'AuthorizationPolicy.security.istio.io';

/** An Istio WorkloadSelector. `matchLabels` is undefined for `selector: {}`, which ambient attaches to nothing (I§12). */
export interface WorkloadSelector {
  readonly matchLabels?: StringMap;
}

/** One entry of `targetRefs` (or the legacy `targetRef`, which counts only without them). */
export interface TargetRef extends ObjectRef {
  /** True where the entry has a `namespace`; validation refuses it and nothing matches it. */
  readonly namespaceWritten: boolean;
}

/** Which workloads or targets a policy is for; shared by every Istio kind that attaches by selector or targetRefs. */
export interface Attachment {
  readonly selector?: WorkloadSelector;
  readonly targets: readonly TargetRef[];
}

export function attachmentOf(
  namespace: string,
  spec: unknown,
  selectorKey: 'selector' | 'workloadSelector' = 'selector',
): Attachment {
  const fields = record(spec);
  const wanted = record(fields?.[selectorKey]);
  const matchLabels = record(selectorKey === 'selector' ? wanted?.['matchLabels'] : wanted?.['labels']);
  const plural = records(fields?.['targetRefs']);
  const single = record(fields?.['targetRef']);
  const references = plural.length > 0 ? plural : single === undefined ? plural : [single];
  const targets = references.map(reference => ({
    kind: groupKind(text(reference['group']) ?? '', text(reference['kind']) ?? ''),
    namespace,
    name: text(reference['name']) ?? '',
    namespaceWritten: (text(reference['namespace']) ?? '') !== '',
  }));
  if (wanted === undefined) return { targets };
  return { selector: matchLabels === undefined ? {} : { matchLabels: stringMap(matchLabels) }, targets };
}

/** Attribute (`paths`, `notPrincipals`, …) to its values, as in a `source` or an `operation`. */
export type Match = Readonly<Record<string, readonly string[]>>;

/** One entry of `when`. */
interface Condition {
  readonly key: string;
  readonly values: readonly string[];
  readonly notValues: readonly string[];
}

export interface AuthorizationRule {
  /** undefined where the rule has no `from`. */
  readonly from?: readonly Match[];
  readonly to?: readonly Match[];
  readonly when?: readonly Condition[];
}

export interface AuthorizationPolicy extends Meta, Attachment {
  readonly action: 'ALLOW' | 'DENY' | 'AUDIT' | 'CUSTOM';
  readonly provider?: string;
  readonly rules: readonly AuthorizationRule[];
}

function match(value: unknown): Match {
  const object = record(value);
  const found = emptyRecord<readonly string[]>();
  if (object !== undefined) {
    for (const key of Object.keys(object)) {
      const values = texts(object[key]);
      if (values.length > 0) found[key] = values;
    }
  }
  return found;
}

const sourceOf = (entry: JsonObject): Match => match(entry['source']);
const operationOf = (entry: JsonObject): Match => match(entry['operation']);
const conditionOf = (entry: JsonObject): Condition => ({
  key: text(entry['key']) ?? '',
  values: texts(entry['values']),
  notValues: texts(entry['notValues']),
});

function rule(value: JsonObject): AuthorizationRule {
  const from = records(value['from']);
  const to = records(value['to']);
  const when = records(value['when']);
  // `from: []` is no clause at all: the rule matches everything (I§12)
  const found: { -readonly [Key in keyof AuthorizationRule]: AuthorizationRule[Key] } = {};
  if (from.length > 0) found.from = from.map(sourceOf);
  if (to.length > 0) found.to = to.map(operationOf);
  if (when.length > 0) found.when = when.map(conditionOf);
  return found;
}

const ACTIONS = ['ALLOW', 'DENY', 'AUDIT', 'CUSTOM'] as const;
// protojson also takes the enum's number (istio.io/api security/v1beta1 AuthorizationPolicy.Action)
const ACTION_NUMBERS = ['ALLOW', 'DENY', 'AUDIT', 'CUSTOM'] as const;

export function authorizationPolicy(kind: GroupKind, namespace: string, object: unknown): AuthorizationPolicy {
  const spec = record(record(object)?.['spec']);
  const action = spec?.['action'];
  const provider = text(record(spec?.['provider'])?.['name']);
  const { selector, targets } = attachmentOf(namespace, spec);
  const found: { -readonly [Key in keyof AuthorizationPolicy]: AuthorizationPolicy[Key] } = Object.assign(
    metaOf(kind, namespace, object),
    { targets, action: actionOf(action), rules: records(spec?.['rules']).map(rule) },
  );
  if (selector !== undefined) found.selector = selector;
  if (provider !== undefined) found.provider = provider;
  return found;
}

function actionOf(written: unknown): AuthorizationPolicy['action'] {
  return (typeof written === 'number' ? ACTION_NUMBERS[written] : ACTIONS.find(known => known === written)) ?? 'ALLOW';
}

export const PEER_AUTHENTICATION = 'PeerAuthentication.security.istio.io';

const MTLS_MODES = ['UNSET', 'DISABLE', 'PERMISSIVE', 'STRICT'] as const;
export type MtlsMode = (typeof MTLS_MODES)[number];

export interface PeerAuthentication extends Meta {
  /** undefined also for `selector: {}`, which selects every workload here (I§13). */
  readonly matchLabels?: StringMap;
  readonly mode: MtlsMode;
  /** Modes by port of the workload; keys that are no numbers are left out. */
  readonly ports: readonly { readonly port: number; readonly mode: MtlsMode }[];
}

function mtlsMode(value: unknown): MtlsMode {
  const mode = at(value, 'mode');
  return (typeof mode === 'number' ? MTLS_MODES[mode] : MTLS_MODES.find(known => known === mode)) ?? 'UNSET';
}

export function peerAuthentication(kind: GroupKind, namespace: string, object: unknown): PeerAuthentication {
  const spec = at(object, 'spec');
  const matchLabels = stringMap(at(spec, 'selector', 'matchLabels'));
  const ports = record(at(spec, 'portLevelMtls')) ?? {};
  return {
    ...metaOf(kind, namespace, object),
    ...(Object.keys(matchLabels).length === 0 ? {} : { matchLabels }),
    mode: mtlsMode(at(spec, 'mtls')),
    ports: Object.keys(ports)
      .filter(port => /^\d{1,5}$/.test(port))
      .map(port => ({ port: Number(port), mode: mtlsMode(ports[port]) })),
  };
}

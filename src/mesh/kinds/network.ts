import { at, list, number, record, records, text, texts } from '../../kube/json.ts';
import type { GroupKind } from '../../kube/kind.ts';
import { type LabelSelector, labelSelector, NO_STRINGS } from '../../kube/labels.ts';
import { type Meta, metaOf } from './meta.ts';

export const NETWORK_POLICY = 'NetworkPolicy.networking.k8s.io';

export interface NetworkPolicyPort {
  /** TCP, UDP or SCTP. */
  readonly protocol: string;
  /** A number, the name of a container port, or undefined for every port of the protocol. */
  readonly port?: number | string;
  /** The last port of a range that begins with a numeric `port`. */
  readonly endPort?: number;
}

export interface IpBlock {
  readonly cidr: string;
  readonly except: readonly string[];
}

/** A peer of a rule: addresses, or pods by the labels of their namespace and their own. */
export interface NetworkPolicyPeer {
  readonly ipBlock?: IpBlock;
  /** Without one, the policy's own namespace. An empty one selects every namespace. */
  readonly namespaceSelector?: LabelSelector;
  /** Without one, every pod of those namespaces. */
  readonly podSelector?: LabelSelector;
}

export interface NetworkPolicyRule {
  /** Empty for everybody (`from` or `to` is absent or empty). */
  readonly peers: readonly NetworkPolicyPeer[];
  /** Empty for every port of every protocol. */
  readonly ports: readonly NetworkPolicyPort[];
}

export interface NetworkPolicy extends Meta {
  /** An empty one selects every pod of the namespace. */
  readonly podSelector: LabelSelector;
  /** The rules of a direction that the policy is about; undefined where `policyTypes` leaves the direction out. */
  readonly ingress?: readonly NetworkPolicyRule[];
  readonly egress?: readonly NetworkPolicyRule[];
}

const EVERY_POD: LabelSelector = Object.freeze({ matchLabels: NO_STRINGS, matchExpressions: Object.freeze([]) });

function peer(value: unknown): NetworkPolicyPeer {
  const ipBlock = record(at(value, 'ipBlock'));
  if (ipBlock !== undefined)
    return { ipBlock: { cidr: text(ipBlock['cidr']) ?? '', except: texts(ipBlock['except']) } };
  const namespaceSelector = labelSelector(at(value, 'namespaceSelector'));
  const podSelector = labelSelector(at(value, 'podSelector'));
  return {
    ...(namespaceSelector === undefined ? {} : { namespaceSelector }),
    ...(podSelector === undefined ? {} : { podSelector }),
  };
}

function rules(value: unknown, peers: 'from' | 'to'): readonly NetworkPolicyRule[] {
  return records(value).map(rule => ({
    peers: records(rule[peers]).map(peer),
    ports: records(rule['ports']).map(item => {
      const port = number(item['port']) ?? text(item['port']);
      const endPort = number(item['endPort']);
      return {
        protocol: text(item['protocol']) ?? 'TCP',
        ...(port === undefined ? {} : { port }),
        ...(endPort === undefined ? {} : { endPort }),
      };
    }),
  }));
}

/** `policyTypes` as the API server fills it in (pkg/apis/networking/v1/defaults.go): Ingress always, Egress where there are egress rules. */
function types(spec: unknown): readonly string[] {
  const written = texts(at(spec, 'policyTypes'));
  if (written.length > 0) return written;
  return list(at(spec, 'egress')).length > 0 ? ['Ingress', 'Egress'] : ['Ingress'];
}

export function networkPolicy(kind: GroupKind, namespace: string, object: unknown): NetworkPolicy {
  const spec = at(object, 'spec');
  const about = types(spec);
  return {
    ...metaOf(kind, namespace, object),
    podSelector: labelSelector(at(spec, 'podSelector')) ?? EVERY_POD,
    ...(about.includes('Ingress') ? { ingress: rules(at(spec, 'ingress'), 'from') } : {}),
    ...(about.includes('Egress') ? { egress: rules(at(spec, 'egress'), 'to') } : {}),
  };
}

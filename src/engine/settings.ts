// What the configuration leaves of a finding: the engine's view of waywarden.yaml.
import type { GroupKind } from '../kube/kind.ts';
import type { LabelSelector } from '../kube/labels.ts';
import type { Action } from './policy.ts';

/** Actions for one policy, or for its findings one by one. */
export interface PolicySettings {
  /** A ceiling for all findings of the policy: `warn` turns denials into warnings, `off` silences it, `deny` changes nothing. */
  readonly action?: Action;
  /** Exactly this action for a finding, milder or stricter than its default. */
  readonly findings?: Readonly<Record<string, Action>>;
  readonly options?: unknown;
}

/** Settings for some namespaces only, which go before the general ones. */
export interface NamespaceOverride {
  readonly names?: readonly string[];
  readonly selector?: LabelSelector;
  readonly policies: Readonly<Record<string, PolicySettings>>;
}

/** A finding that somebody has decided to live with. */
export interface Exemption {
  readonly policy: string;
  /** Every finding of the policy where none is given. */
  readonly finding?: string;
  readonly kind?: GroupKind;
  readonly namespace?: string;
  readonly name?: string;
  readonly owner: string;
  readonly reason: string;
  /** The last day (UTC, YYYY-MM-DD) that it holds. */
  readonly expires: string;
}

export interface Settings {
  /** `audit` never denies: every denial becomes a warning. */
  readonly mode: 'enforce' | 'audit';
  readonly policies: Readonly<Record<string, PolicySettings>>;
  readonly namespaces: readonly NamespaceOverride[];
  readonly exemptions: readonly Exemption[];
  /** Leaves the names of objects in other namespaces than the subject's out of messages. */
  readonly redact: boolean;
  /** What a verdict that could not be reached within the deadline comes to. */
  readonly onTimeout: 'allow' | 'deny';
  /** What a DELETE that takes an enforcement away comes to. */
  readonly onDelete: 'warn' | 'deny';
  /** Namespaces whose objects are never judged: the guard's own and kube-system. */
  readonly unguarded: readonly string[];
}

export const DEFAULT_SETTINGS: Settings = Object.freeze({
  mode: 'enforce',
  policies: Object.freeze({}),
  namespaces: Object.freeze([]),
  exemptions: Object.freeze([]),
  redact: false,
  onTimeout: 'allow',
  onDelete: 'warn',
  unguarded: Object.freeze(['waywarden', 'kube-system', 'kube-node-lease']),
});

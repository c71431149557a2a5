// Honest verdicts under doubt: before a denial what it rests on is read once more, and what cannot be confirmed does not deny.
import { performance } from 'node:perf_hooks';
import type { Finding } from '../engine/difference.ts';
import { warningsOf } from '../engine/message.ts';
import type { Policy } from '../engine/policy.ts';
import type { Settings } from '../engine/settings.ts';
import type { Verdict } from '../engine/verdict.ts';
import { type GroupKind, type ObjectRef, refKey } from '../kube/kind.ts';

/** Where a live cluster can be asked again. Mesh sources that are files have none: they are what they are. */
export interface Evidence {
  /** Kinds, of those asked for, that are not synced or whose watch has been silent for too long. */
  doubtful(kinds: Iterable<GroupKind>): readonly GroupKind[];
  /** Milliseconds since the most silent watch was heard, for logs. */
  age(): number;
  /** Reads objects once more and corrects the Mesh; `timeout` in milliseconds. */
  reread(refs: readonly ObjectRef[], timeout: number): Promise<'same' | 'changed' | 'failed'>;
  /** Reads what is only read on demand (ConfigMaps) and not known yet. */
  prepare(refs: readonly ObjectRef[], timeout: number): Promise<void>;
  /** Reads the defaults of Gateway classes anew: ConfigMaps that are found by a label alone. */
  prepareDefaults(): Promise<void>;
}

/** Objects that are read again for one verdict. */
const AT_MOST = 5;
/** How often a verdict is reached anew because what it rested on had changed. */
const ROUNDS = 3;
/** Milliseconds that one round of reading may take, and that are kept for the answer itself. */
const PATIENCE = 1000;
const RESERVE = 200;

interface Doubted {
  readonly policies: readonly Policy[];
  readonly settings: Settings;
  /** The object that is written: it comes with the request, and is not read again. */
  readonly written: ObjectRef;
  readonly deadline: number | undefined;
}

/** Whether the object alone shows it, so that neither a stale cache nor a silent API server matters. */
function alone(finding: Finding, policies: readonly Policy[]): boolean {
  return policies.find(({ id }) => id === finding.policy)?.findings[finding.finding]?.objectAlone === true;
}

/** The verdict with every denial that rests on the Mesh turned into a warning that says why. */
function softened<V extends Verdict>(verdict: V, doubted: Doubted, why: string): V & { readonly unconfirmed: true } {
  const { policies, settings } = doubted;
  const findings = verdict.findings.map(finding =>
    finding.action === 'deny' && !alone(finding, policies) ? { ...finding, action: 'warn' as const } : finding,
  );
  const denied = findings.some(({ action }) => action === 'deny');
  const notice = `waywarden: this would have been refused, but could not be confirmed (${why})`;
  const notices = [notice, ...verdict.notices];
  return {
    ...verdict,
    verdict: denied ? 'deny' : 'warn',
    findings,
    notices,
    warnings: warningsOf(findings, notices, settings),
    ...(denied ? {} : { message: undefined }),
    unconfirmed: true,
  };
}

/**
 * A verdict that may be believed: `verdict` itself, the one that `again` reaches on what has been read since, or a warning in the
 * place of a denial that could not be confirmed.
 */
export async function confirmed<V extends Verdict>(
  evidence: Evidence,
  verdict: V,
  again: () => Promise<V>,
  doubted: Doubted,
): Promise<V & { readonly unconfirmed?: true }> {
  let current = verdict;
  for (let round = 0; round < ROUNDS; round += 1) {
    const resting = current.findings.filter(finding => finding.action === 'deny' && !alone(finding, doubted.policies));
    if (current.verdict !== 'deny' || resting.length === 0) return current;
    const judging = doubted.policies.filter(({ id }) => resting.some(({ policy }) => policy === id));
    const asked = new Set<GroupKind>(judging.flatMap(({ subjects, reads }) => [...subjects, ...reads]));
    const silent = evidence.doubtful(asked);
    if (silent.length > 0) {
      const more = silent.length > 3 ? ` and ${silent.length - 3} more` : '';
      return softened(current, doubted, `not in sync with the cluster: ${silent.slice(0, 3).join(', ')}${more}`);
    }
    const own = refKey(doubted.written);
    const refs = new Map<string, ObjectRef>();
    for (const { subject, evidence: seen } of resting) {
      for (const { kind, namespace, name } of [...seen, subject]) {
        const ref = { kind, namespace, name };
        // what is only named (the Secret that a policy takes for its CA) decided nothing, and may be nobody's to read
        if (asked.has(kind) && refKey(ref) !== own && refs.size < AT_MOST) refs.set(refKey(ref), ref);
      }
    }
    const left = doubted.deadline === undefined ? PATIENCE : doubted.deadline - performance.now() - RESERVE;
    if (left <= 0) return softened(current, doubted, 'no time was left to read the evidence again');
    const read = refs.size === 0 ? 'same' : await evidence.reread([...refs.values()], Math.min(PATIENCE, left));
    if (read === 'same') return current;
    if (read === 'failed') return softened(current, doubted, 'the API server did not answer in time');
    current = await again();
  }
  return current;
}

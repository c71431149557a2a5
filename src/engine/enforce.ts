// From what a policy found to what becomes of it.
import type { ObjectRef } from '../kube/kind.ts';
import { selects } from '../kube/labels.ts';
import type { Mesh } from '../mesh/mesh.ts';
import { compareRelease, istioReleases } from '../mesh/releases.ts';
import type { Action, FindingSpec, Policy, Report } from './policy.ts';
import type { Exemption, PolicySettings, Settings } from './settings.ts';

const STRENGTH: Readonly<Record<Action, number>> = { off: 0, log: 1, warn: 2, deny: 3 };

/** The milder of two actions. */
export function milder(a: Action, b: Action): Action {
  return STRENGTH[a] <= STRENGTH[b] ? a : b;
}

/** Negative where `a` is milder than `b`, zero where they are equal. */
export function compareActions(a: Action, b: Action): number {
  return STRENGTH[a] - STRENGTH[b];
}

/** What the change is that a finding comes from. */
export interface Circumstances {
  readonly mesh: Mesh;
  /** True for a finding on an object that is not itself written. */
  readonly elsewhere: boolean;
  /** True where a written object is a workload, or one of Istio's own components. */
  readonly workload: boolean;
  readonly component: boolean;
  readonly deletion: boolean;
  /** True where recovery must stay possible: at admission, but not in `check`. */
  readonly admission: boolean;
  /** Milliseconds since 1970. */
  readonly now: number;
}

function configured(settings: PolicySettings | undefined, finding: string, action: Action): Action {
  const exact = settings?.findings?.[finding];
  if (exact !== undefined) return exact;
  return settings?.action === undefined ? action : milder(action, settings.action);
}

function settingsFor(
  settings: Settings,
  policy: string,
  subject: ObjectRef,
  mesh: Mesh,
): readonly (PolicySettings | undefined)[] {
  if (settings.namespaces.length === 0) return [settings.policies[policy]];
  const namespace = subject.kind === 'Namespace' ? subject.name : subject.namespace;
  const labels = mesh.get('Namespace', '', namespace)?.labels;
  const override = settings.namespaces.find(
    ({ names, selector }) =>
      (names === undefined || names.includes(namespace)) &&
      (selector === undefined || (labels !== undefined && selects(selector, labels))),
  );
  return [settings.policies[policy], override?.policies[policy]];
}

/** The exemption that covers a finding, whether still in force or not. */
export function exemptionFor(
  settings: Settings,
  policy: string,
  finding: string,
  subject: ObjectRef,
): Exemption | undefined {
  return settings.exemptions.find(
    exemption =>
      exemption.policy === policy &&
      (exemption.finding === undefined || exemption.finding === finding) &&
      (exemption.kind === undefined || exemption.kind === subject.kind) &&
      (exemption.namespace === undefined || exemption.namespace === subject.namespace) &&
      (exemption.name === undefined || exemption.name === subject.name),
  );
}

/** True on and before the last day of an exemption. */
export function inForce(exemption: Exemption, now: number): boolean {
  return new Date(now).toISOString().slice(0, 10) <= exemption.expires;
}

/** A finding that ended with a release never denies beyond it: what Waywarden knows of later ones is nothing. */
function outlived(spec: FindingSpec, mesh: Mesh): boolean {
  const { until } = spec;
  return (
    until !== undefined &&
    mesh.fact(istioReleases).some(release => release !== undefined && compareRelease(release, until) > 0)
  );
}

/** What a report leads to, before it is known whether it is new (see `difference.ts`). */
export function actionOf(
  policy: Policy,
  report: Report,
  subject: ObjectRef,
  settings: Settings,
  circumstances: Circumstances,
): Action {
  const spec = policy.findings[report.finding];
  if (spec === undefined)
    throw new Error(`policy ${policy.id} reports ${report.finding}, which its table does not have`);
  let action = report.action ?? spec.action;
  for (const layer of settingsFor(settings, policy.id, subject, circumstances.mesh))
    action = configured(layer, report.finding, action);
  if (action !== 'deny') return action;
  if (report.certain === false || outlived(spec, circumstances.mesh)) return 'warn';
  if (circumstances.admission && (circumstances.component || (circumstances.workload && circumstances.elsewhere)))
    return 'warn';
  if (circumstances.deletion && settings.onDelete === 'warn') return 'warn';
  return action;
}

// From a request to a verdict: what the cluster is now, what it would be, and what is new in it.
import { applyPatch, type Operation } from 'fast-json-patch';
import { difference, type Finding, identityOf } from '../engine/difference.ts';
import type { Policy, RequestFacts, Stage } from '../engine/policy.ts';
import type { Settings } from '../engine/settings.ts';
import { ALLOWED, type Verdict, verdictOf } from '../engine/verdict.ts';
import { same } from '../kube/json.ts';
import { refKey } from '../kube/kind.ts';
import { type PatchOperation, resolve } from '../kube/patch.ts';
import type { Change } from '../mesh/mesh.ts';
import { type Base, overlay } from '../mesh/overlay.ts';
import { rootNamespaces } from '../mesh/releases.ts';
import { type AdmissionRequest, earlierVersions, type Subject, subjectOf } from './request.ts';

/** All that a verdict depends on beside the request. */
export interface Guard {
  readonly policies: readonly Policy[];
  readonly settings: Settings;
  readonly mesh: Base;
}

/**
 * Requests that no policy may stand in the way of: subresources (a status write among them), CONNECT, terminating objects, the
 * namespaces that the guard leaves alone, and pods in the root namespace.
 */
function untouchable(guard: Guard, request: AdmissionRequest, subject: Subject): boolean {
  if ((request.subResource ?? '') !== '' || request.operation === 'CONNECT') return true;
  const { namespace, kind } = subject.ref;
  if (guard.settings.unguarded.includes(namespace)) return true;
  if (kind === 'Pod' && guard.mesh.fact(rootNamespaces).includes(namespace)) return true;
  return (
    request.operation === 'UPDATE' && (subject.after?.terminating === true || subject.before?.terminating === true)
  );
}

/** The two Meshes of a request. What is being replaced belongs to the first, even where the source lacks it. */
function change(
  guard: Guard,
  subject: Subject,
): { readonly change: Change; readonly before: Base; readonly after: Base } {
  const { ref, before: old, after } = subject;
  const known = guard.mesh.object(ref);
  const asIs = old === undefined ? known === undefined : known !== undefined && same(known, old);
  return {
    change: { ref, ...(old === undefined ? {} : { before: old }), ...(after === undefined ? {} : { after }) },
    before: asIs ? guard.mesh : overlay(guard.mesh, [{ ref, ...(old === undefined ? {} : { after: old }) }]),
    after: overlay(guard.mesh, [{ ref, ...(after === undefined ? {} : { after }) }]),
  };
}

/**
 * The verdict on one request at one of the two webhooks. `deadline` is in `performance.now()` milliseconds; `now` in
 * milliseconds since 1970.
 */
export async function judge(
  guard: Guard,
  request: AdmissionRequest,
  stage: Extract<Stage, 'mutate' | 'validate'>,
  deadline?: number,
  now: number = Date.now(),
): Promise<Verdict> {
  const subject = subjectOf(request);
  if (subject === undefined || untouchable(guard, request, subject)) return ALLOWED;
  // an UPDATE that changes nothing that any policy reads is never judged
  if (request.operation === 'UPDATE' && subject.before !== undefined && same(subject.before, subject.after))
    return ALLOWED;
  const { change: changed, before, after } = change(guard, subject);
  const facts: RequestFacts = {
    operation: request.operation,
    version: subject.version,
    earlierVersions: request.operation === 'UPDATE' ? earlierVersions(request.oldObject) : [],
  };
  const answer = await difference({
    policies: guard.policies,
    settings: guard.settings,
    before,
    after,
    changes: [changed],
    stage,
    requests: new Map([[refKey(subject.ref), facts]]),
    ...(deadline === undefined ? {} : { deadline }),
    now,
  });
  const verdict = verdictOf(answer, guard.settings);
  return stage === 'mutate'
    ? { ...verdict, patch: applicable(verdict.patch, request.object) }
    : { ...verdict, patch: [] };
}

/** Operations that will apply; a patch that cannot is never sent: the API server answers it with a hard 500. */
function applicable(patch: readonly PatchOperation[], object: unknown): readonly PatchOperation[] {
  const good = patch.every(({ op, path }) => {
    const parent = resolve(object, path.slice(0, path.lastIndexOf('/')));
    return typeof parent === 'object' && parent !== null && (op === 'add' || resolve(object, path) !== undefined);
  });
  return good ? patch : [];
}

/** An object with operations applied to a copy of it. */
export function patched(object: unknown, patch: readonly PatchOperation[]): unknown {
  if (patch.length === 0) return object;
  return applyPatch(structuredClone(object), patch as Operation[], true).newDocument;
}

/** The verdict as the API server would get it: mutate, then validate what came out; the worse of both. */
export async function review(
  guard: Guard,
  request: AdmissionRequest,
  deadline?: number,
  now: number = Date.now(),
): Promise<Verdict> {
  const first = await judge(guard, request, 'mutate', deadline, now);
  if (first.verdict === 'deny') return first;
  const second = await judge(
    guard,
    { ...request, object: patched(request.object, first.patch) },
    'validate',
    deadline,
    now,
  );
  const identity = (finding: Finding) => identityOf(finding.policy, finding.subject, finding);
  const said = new Set(second.findings.map(identity));
  const warnings = [...new Set([...first.warnings, ...second.warnings])];
  return {
    ...second,
    verdict: second.verdict === 'allow' && warnings.length > 0 ? 'warn' : second.verdict,
    warnings,
    patch: second.verdict === 'deny' ? [] : first.patch,
    findings: [...second.findings, ...first.findings.filter(finding => !said.has(identity(finding)))],
    unfinished: first.unfinished || second.unfinished,
  };
}

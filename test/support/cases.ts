// The policies' own cases (docs/CASES.md): read, judged as they stand, and judged in every order of their objects.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { policies } from '../../policies/index.ts';
import { review } from '../../src/admission/judge.ts';
import { type AdmissionRequest, requestFor, reviewSchema, subjectOf } from '../../src/admission/request.ts';
import { configOf } from '../../src/config/config.ts';
import { type Config, DEFAULT_CONFIG } from '../../src/config/default.ts';
import { difference, type Finding, optionsOf } from '../../src/engine/difference.ts';
import { compareActions } from '../../src/engine/enforce.ts';
import { PAUSE, type Policy, type Report, type Stage } from '../../src/engine/policy.ts';
import { type Verdict, verdictOf } from '../../src/engine/verdict.ts';
import { at, type JsonObject, record, records } from '../../src/kube/json.ts';
import { type ObjectRef, refKey, spoken } from '../../src/kube/kind.ts';
import { WORKLOAD_KINDS } from '../../src/mesh/kinds/workloads.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { rootNamespaces } from '../../src/mesh/releases.ts';
import { createFileMesh, manifestsOf, place, readValues } from '../../src/mesh/sources/files.ts';
import type { Store } from '../../src/mesh/store.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
export const POLICIES = join(ROOT, 'policies');

const object = z.record(z.string(), z.unknown());

const caseSchema = z
  .strictObject({
    about: z.string().min(10),
    finding: z.string().optional(),
    nearMissOf: z.union([z.string(), z.array(z.string()).min(1)]).optional(),
    verdict: z.enum(['deny', 'warn', 'allow']),
    operation: z.enum(['CREATE', 'UPDATE', 'DELETE']).optional(),
    stage: z.enum(['files', 'audit']).optional(),
    config: object.optional(),
    include: z.array(z.string()).optional(),
    input: object,
    old: object.optional(),
    state: z.array(object).optional(),
    order: z.literal('fixed').optional(),
  })
  .refine(({ finding, nearMissOf }) => (finding === undefined) !== (nearMissOf === undefined), {
    error: 'a case has either a finding or is a nearMissOf',
  });

/** One case: a situation that must be judged in one way. */
export interface PolicyCase {
  readonly policy: Policy;
  readonly name: string;
  readonly file: string;
  readonly about: string;
  readonly finding?: string;
  readonly nearMissOf: readonly string[];
  readonly verdict: Verdict['verdict'];
  readonly stage?: 'files' | 'audit';
  readonly fixed: boolean;
  readonly config: Config;
  readonly request: AdmissionRequest;
  readonly input: JsonObject;
  /** `include` and `state`. */
  readonly state: readonly JsonObject[];
  /** Those of `state`, which may come in another order. */
  readonly movable: readonly JsonObject[];
}

function objectsIn(file: string): readonly JsonObject[] {
  return records(readValues(file).map(({ value }) => value));
}

function configFor(value: unknown, file: string): Config {
  if (value === undefined) return DEFAULT_CONFIG;
  const outcome = configOf(value, policies);
  if ('config' in outcome) return outcome.config;
  throw new Error(`${file}: config: ${outcome.mistakes.map(({ message }) => message).join('; ')}`);
}

function requestOf(
  input: JsonObject,
  operation: 'CREATE' | 'UPDATE' | 'DELETE' | undefined,
  old: unknown,
  file: string,
) {
  const request =
    input['kind'] === 'AdmissionReview'
      ? reviewSchema.parse(input).request
      : requestFor(input, { ...(operation === undefined ? {} : { operation }), ...(old === undefined ? {} : { old }) });
  if (request === undefined) throw new Error(`${file}: the input is no Kubernetes object`);
  return request;
}

/** A case as its file has it. Throws where the file is no case. */
export function readCase(policy: Policy, name: string): PolicyCase {
  const file = join(POLICIES, policy.id, 'cases', `${name}.yaml`);
  const [document, second] = readValues(file);
  if (second !== undefined) throw new Error(`${place(second.position())}: a case is one document`);
  const parsed = caseSchema.safeParse(document?.value);
  if (!parsed.success) throw new Error(`${file}: ${z.prettifyError(parsed.error)}`);
  const { about, finding, nearMissOf, verdict, operation, stage, config, include, input, old, state, order } =
    parsed.data;
  const findings = [...(finding === undefined ? [] : [finding]), ...[nearMissOf ?? []].flat()];
  for (const id of findings) {
    if (!Object.hasOwn(policy.findings, id)) throw new Error(`${file}: ${policy.id} has no finding ${id}`);
  }
  if (state?.some(one => identify(one) === undefined)) throw new Error(`${file}: an object of the state is none`);
  const included = (include ?? []).flatMap(id => objectsIn(join(POLICIES, 'states', `${id}.yaml`)));
  return {
    policy,
    name,
    file,
    about,
    ...(finding === undefined ? {} : { finding }),
    nearMissOf: [nearMissOf ?? []].flat(),
    verdict,
    ...(stage === undefined ? {} : { stage }),
    fixed: order === 'fixed',
    config: configFor(config, file),
    request: requestOf(input, operation, old, file),
    input,
    state: [...included, ...(state ?? [])],
    movable: state ?? [],
  };
}

/** The names of a policy's cases. */
export function caseNames(policy: string): readonly string[] {
  const folder = join(POLICIES, policy, 'cases');
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter(name => name.endsWith('.yaml'))
    .map(name => name.slice(0, -'.yaml'.length))
    .sort();
}

/** Every case of every policy. */
export function allCases(): readonly PolicyCase[] {
  return policies.flatMap(policy => caseNames(policy.id).map(name => readCase(policy, name)));
}

/** A Mesh of these objects, as `--state` would make it. */
export function meshOf(objects: readonly JsonObject[], config: Config): Store {
  const mesh = createFileMesh(config.declared);
  for (const one of manifestsOf('state', JSON.stringify({ kind: 'List', apiVersion: 'v1', items: objects })).objects) {
    mesh.put(one.projection);
  }
  return mesh;
}

async function offline(one: PolicyCase, stage: Stage): Promise<Verdict> {
  const { request, state, config } = one;
  const subject = subjectOf(request);
  if (subject === undefined) throw new Error(`${one.file}: the request holds no object`);
  const before = meshOf(state, config);
  const after = meshOf(state, config);
  if (subject.before !== undefined) before.put(subject.before);
  if (subject.after === undefined) after.delete(subject.ref);
  else after.put(subject.after);
  const { ref, before: was, after: is } = subject;
  const answer = await difference({
    policies,
    settings: config.settings,
    before: stage === 'audit' ? meshOf([], config) : before,
    after,
    changes: [
      {
        ref,
        ...(was === undefined || stage === 'audit' ? {} : { before: was }),
        ...(is === undefined ? {} : { after: is }),
      },
    ],
    stage,
    request: () => ({ operation: request.operation, version: subject.version, earlierVersions: [] }),
    now: Date.now(),
  });
  return verdictOf(answer, config.settings);
}

/** The verdict on a case's input. */
export function judgeCase(one: PolicyCase): Promise<Verdict> {
  return one.stage === undefined
    ? review({ policies, settings: one.config.settings, mesh: meshOf(one.state, one.config) }, one.request)
    : offline(one, one.stage);
}

function named(findings: readonly Finding[]): string {
  return findings.map(({ policy, finding, action }) => `${policy}/${finding}: ${action}`).join(', ') || 'nothing';
}

const SAID = new Set(['deny', 'warn', 'log']);

/** What is wrong with the verdict on a case; empty where it is right. */
export function faultsOf(one: PolicyCase, verdict: Verdict): readonly string[] {
  const faults: string[] = [];
  const own = verdict.findings.filter(finding => finding.policy === one.policy.id && SAID.has(finding.action));
  if (verdict.verdict !== one.verdict) {
    faults.push(
      `the verdict is ${verdict.verdict}, not ${one.verdict} (${named(verdict.findings)})${verdict.findings.length === 0 ? ` ${verdict.warnings.join(' ')}` : ''}`,
    );
  }
  if (one.finding !== undefined && !own.some(({ finding }) => finding === one.finding)) {
    faults.push(`${one.finding} is not found (${named(verdict.findings)})`);
  }
  for (const id of one.nearMissOf) if (own.some(({ finding }) => finding === id)) faults.push(`${id} is found`);
  for (const warning of verdict.warnings) {
    if ([...warning].length > 256 || /[\u0000-\u001f\u007f]/.test(warning)) faults.push(`no fit warning: ${warning}`);
  }
  return faults;
}

const STAY: ReadonlySet<string> = new Set(['Namespace', 'CustomResourceDefinition.apiextensions.k8s.io']);
const WORKLOADS: ReadonlySet<string> = new Set(WORKLOAD_KINDS);

/** Objects that may come last: not what a mesh stands on, and not what the guard leaves alone. */
function mayComeLast(one: JsonObject, mesh: Mesh, config: Config): boolean {
  const identity = identify(one);
  if (identity === undefined || STAY.has(identity.kind)) return false;
  if (config.settings.unguarded.includes(identity.namespace)) return false;
  if (identity.kind === 'Pod' && mesh.fact(rootNamespaces).includes(identity.namespace)) return false;
  const projected = project(identity.kind, identity.namespace, one) as { readonly component?: string };
  return projected.component !== 'istiod' && at(one, 'metadata', 'deletionTimestamp') === undefined;
}

function reports(policy: Policy, subject: ObjectRef, mesh: Mesh, config: Config): readonly Report[] {
  const found = mesh.object(subject);
  if (found === undefined) return [];
  const context = { mesh, options: optionsOf(policy, config.settings), stage: 'validate' as const, skipped() {} };
  return [...policy.check(found, context)].filter(report => report !== PAUSE);
}

/**
 * What is wrong where another object of the state is the last to come: the finding must appear then, of the same subject, unless
 * it was there already without that object (or one as strong about the same thing); and a near miss must stay one.
 */
export async function orderFaults(one: PolicyCase, verdict: Verdict): Promise<readonly string[]> {
  if (one.fixed || one.stage !== undefined) return [];
  const { policy, config, finding } = one;
  const final = subjectOf(one.request);
  const isInput = (other: JsonObject) => {
    const identity = identify(other);
    return identity !== undefined && final !== undefined && refKey(identity) === refKey(final.ref);
  };
  const input =
    final?.after === undefined
      ? []
      : [one.input['kind'] === 'AdmissionReview' ? record(one.request.object) : one.input];
  const base = one.state.filter(other => !isInput(other));
  const all = [...base, ...input.filter(item => item !== undefined)];
  const whole = meshOf(all, config);
  const direct = verdict.findings.filter(found => found.policy === policy.id && found.finding === finding);
  const subjects = new Map(direct.map(found => [refKey(found.subject), found]));
  const faults: string[] = [];
  for (const last of one.movable) {
    if (isInput(last) || !mayComeLast(last, whole, config)) continue;
    const rest = meshOf(
      all.filter(other => other !== last),
      config,
    );
    const request = requestFor(last, { operation: 'CREATE' });
    if (request === undefined) continue;
    const answer = await review({ policies, settings: config.settings, mesh: rest }, request);
    const own = answer.findings.filter(found => found.policy === policy.id && SAID.has(found.action));
    const name = spoken({ kind: request.kind.kind, namespace: request.namespace ?? '', name: request.name ?? '' });
    for (const id of one.nearMissOf) {
      if (own.some(found => found.finding === id)) faults.push(`with ${name} last, ${id} is found`);
    }
    const isWorkload = WORKLOADS.has(identify(last)?.kind ?? '');
    for (const [key, expected] of subjects) {
      const found = own.find(({ finding: id, subject }) => id === expected.finding && refKey(subject) === key);
      if (found === undefined) {
        const before = reports(policy, expected.subject, rest, config);
        const about = expected.about ?? expected.key;
        const strength = ({ action, finding: id }: Report) => action ?? policy.findings[id]?.action ?? 'warn';
        const known = before.some(
          was =>
            was.finding === expected.finding ||
            ((was.about ?? was.key) === about && compareActions(strength(was), strength(expected)) >= 0),
        );
        if (!known)
          faults.push(
            `with ${name} last, ${expected.finding} of ${spoken(expected.subject)} is not found (${named(answer.findings)})`,
          );
      } else if (!isWorkload && compareActions(found.action, expected.action) < 0) {
        faults.push(`with ${name} last, ${expected.finding} is ${found.action}, not ${expected.action}`);
      }
    }
  }
  return faults;
}

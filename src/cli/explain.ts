// `waywarden explain`: the page of a policy, or the section of one finding.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { policies } from '../../policies/index.ts';
import type { Policy } from '../engine/policy.ts';
import { didYouMean } from '../kube/near.ts';
import { callOf, UsageError } from './arguments.ts';
import { packageRoot } from './root.ts';
import { print } from './terminal.ts';

const HELP = `waywarden explain: what a policy guards against, why, how to repair it, and what it leaves alone

Usage: waywarden explain POLICY
       waywarden explain POLICY/FINDING
       waywarden explain FINDING

Examples:
  waywarden explain l7-needs-waypoint
  waywarden explain l7-needs-waypoint/deny-rule-never-matches
  waywarden policies              all of them
`;

function pageOf(policy: Policy): string {
  return readFileSync(join(packageRoot(), 'policies', policy.id, 'README.md'), 'utf8');
}

/** The section of a finding: from its heading to the next of that rank. */
function sectionOf(page: string, finding: string): string {
  const start = page.search(new RegExp(`^## ${finding}[ \\t]*$`, 'm'));
  if (start < 0) return page;
  const next = page.slice(start + 3).search(/^## /m);
  return `${page.slice(start, next < 0 ? undefined : start + 3 + next).trimEnd()}\n`;
}

/** Policies with a finding of this id. */
function withFinding(finding: string): readonly Policy[] {
  return policies.filter(policy => Object.hasOwn(policy.findings, finding));
}

function explained(id: string): string {
  const [name = '', finding] = id.split('/', 2);
  const policy = policies.find(({ id: known }) => known === name);
  if (policy === undefined) {
    const owners = finding === undefined ? withFinding(name) : [];
    // where several policies have a finding of this name, each section says whose it is
    const of = (owner: Policy) => (owners.length > 1 ? `# ${owner.id}\n\n` : '');
    if (owners.length > 0) return owners.map(owner => of(owner) + sectionOf(pageOf(owner), name)).join('\n');
    const known = policies.flatMap(({ id: policyId, findings }) => [policyId, ...Object.keys(findings)]);
    throw new UsageError(`there is no policy or finding "${name}"${didYouMean(name, known)}; see waywarden policies`);
  }
  if (finding === undefined) return pageOf(policy);
  if (Object.hasOwn(policy.findings, finding)) return sectionOf(pageOf(policy), finding);
  const near = didYouMean(finding, Object.keys(policy.findings));
  throw new UsageError(`the policy ${name} has no finding "${finding}"${near}; see waywarden explain ${name}`);
}

/** Runs the command; resolves with the exit status. */
export async function run(words: readonly string[]): Promise<number> {
  const call = callOf('explain', words, {});
  if (call === undefined) {
    await print(HELP);
    return 0;
  }
  const [id, surplus] = call.positionals;
  if (id === undefined || surplus !== undefined) {
    throw new UsageError('explain takes one policy or finding; see waywarden policies for all of them');
  }
  await print(explained(id));
  return 0;
}

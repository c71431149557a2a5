// `waywarden review`: what the webhook would answer, from files.
import { policies } from '../../policies/index.ts';
import { review } from '../admission/judge.ts';
import { type AdmissionRequest, requestFor, reviewSchema, subjectOf } from '../admission/request.ts';
import { record } from '../kube/json.ts';
import { refKey } from '../kube/kind.ts';
import { InputError, type Manifest, type Position, place, readManifests, readMesh } from '../mesh/sources/files.ts';
import { reviewJson } from '../report/json.ts';
import type { ReviewReport } from '../report/report.ts';
import { reviewText } from '../report/text.ts';
import { callOf, UsageError } from './arguments.ts';
import { configFrom } from './config.ts';
import { paintFor, print, progress } from './terminal.ts';

const HELP = `waywarden review: the webhook's verdict on one object, from files

Usage: waywarden review FILE [--old FILE] [--operation CREATE|UPDATE|DELETE] [--dry-run]
                        [--state PATH]... [--config FILE] [--output text|json]

FILE holds one object, or a whole AdmissionReview as the API server sends it; - is standard input.

  --old FILE          what the object was before: makes it an UPDATE
  --operation OP      CREATE (the default), UPDATE or DELETE; an AdmissionReview has its own
  --dry-run           as kubectl apply --dry-run=server: the verdict is the same
  --state PATH        what the cluster holds: a file, a directory or - ; may be given more than once
  --config FILE       waywarden.yaml
  --output FORMAT     text (the default) or json

Examples:
  kubectl get ns,deploy,ds,cm,svc,gateways,authorizationpolicies -A -o yaml > state.yaml
  waywarden review policy.yaml --state state.yaml

  waywarden review namespace.yaml --old namespace-now.yaml --state state.yaml    what would this change break?
  kubectl get gateway waypoint -n shop -o yaml | waywarden review - --operation DELETE --state state.yaml

Exit status: 0 whatever the verdict, 2 where the input cannot be judged.
`;

const OPTIONS = {
  old: { type: 'string' },
  operation: { type: 'string' },
  'dry-run': { type: 'boolean' },
  state: { type: 'string', multiple: true },
  config: { type: 'string' },
  output: { type: 'string' },
} as const;

function only(file: string): Manifest {
  const { objects, skipped } = readManifests([file]);
  const [first, second] = objects;
  if (first === undefined) {
    const found = skipped === 0 ? 'there is nothing in it' : 'what is in it is no Kubernetes object (apiVersion, kind)';
    throw new InputError(`${file}:1:1: ${found}`);
  }
  if (second !== undefined) {
    throw new InputError(
      `${place(second.position())}: a second object begins here; a set of them is for waywarden check`,
    );
  }
  return first;
}

interface Asked {
  readonly operation?: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly old?: string;
  readonly dryRun: boolean;
}

function requestOf(manifest: Manifest, { operation, old, dryRun }: Asked): AdmissionRequest {
  if (manifest.object['kind'] === 'AdmissionReview') {
    const parsed = reviewSchema.safeParse(manifest.object);
    if (parsed.success) return parsed.data.request;
    const [issue] = parsed.error.issues;
    const field = issue?.path.join('.') ?? '';
    throw new InputError(
      `${place(manifest.position())}: no AdmissionReview of admission.k8s.io/v1: ${field === '' ? '' : `${field}: `}${issue?.message ?? ''}`,
    );
  }
  const before = old === undefined ? undefined : only(old);
  if (before !== undefined && refKey(before.ref) !== refKey(manifest.ref)) {
    throw new InputError(`${place(before.position())}: this is another object than the one under review`);
  }
  const request = requestFor(manifest.object, {
    dryRun,
    ...(operation === undefined ? {} : { operation }),
    ...(before === undefined ? {} : { old: before.object }),
  });
  if (request === undefined) throw new InputError(`${place(manifest.position())}: this is no Kubernetes object`);
  return request;
}

/** Runs the command; resolves with the exit status. */
export async function run(words: readonly string[]): Promise<number> {
  const call = callOf('review', words, OPTIONS);
  if (call === undefined) {
    await print(HELP);
    return 0;
  }
  const [file, surplus] = call.positionals;
  if (file === undefined)
    throw new UsageError('review needs a FILE (or - for standard input); see waywarden review --help');
  if (surplus !== undefined) throw new UsageError(`review takes one FILE; "${surplus}" is one too many`);
  const output = call.choice('output', ['text', 'json'], 'text');
  const operation =
    call.text('operation') === undefined
      ? undefined
      : call.choice('operation', ['CREATE', 'UPDATE', 'DELETE'] as const, 'CREATE');
  const old = call.text('old');
  const said = progress();
  const config = await configFrom(call.text('config'));
  const manifest = only(file);
  const request = requestOf(manifest, {
    dryRun: call.flag('dry-run'),
    ...(operation === undefined ? {} : { operation }),
    ...(old === undefined ? {} : { old }),
  });
  const mesh = readMesh(call.texts('state'), config.declared, state => said(`reading ${state}`));
  const verdict = await review({ policies, settings: config.settings, mesh }, request);
  const subject = subjectOf(request)?.ref;
  const isReview = record(manifest.object['request']) !== undefined && manifest.object['kind'] === 'AdmissionReview';
  const root = isReview ? `/request/${request.operation === 'DELETE' ? 'oldObject' : 'object'}` : '';
  const report: ReviewReport = {
    ...(subject === undefined ? {} : { subject }),
    verdict,
    findings: verdict.findings.map(finding => {
      const own = subject !== undefined && refKey(finding.subject) === refKey(subject);
      const position: Position | undefined = own ? manifest.position(`${root}${finding.path ?? ''}`) : undefined;
      return { finding, ...(position === undefined ? {} : { position }) };
    }),
  };
  await print(
    output === 'json'
      ? reviewJson(report, config.settings)
      : reviewText(report, config.settings, paintFor(process.stdout)),
  );
  return 0;
}

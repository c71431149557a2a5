// `waywarden review`: what the webhook would answer, from files.
import { policies } from '../../policies/index.ts';
import { review } from '../admission/judge.ts';
import { type AdmissionRequest, requestFor, reviewSchema, subjectOf } from '../admission/request.ts';
import { at, record } from '../kube/json.ts';
import { refKey } from '../kube/kind.ts';
import { pointer } from '../kube/patch.ts';
import {
  InputError,
  type Manifest,
  type Position,
  place,
  readManifests,
  readMesh,
  STDIN,
} from '../mesh/sources/files.ts';
import { reviewJson } from '../report/json.ts';
import type { ReviewReport } from '../report/report.ts';
import { reviewText } from '../report/text.ts';
import { callOf, UsageError } from './arguments.ts';
import { configFrom } from './config.ts';
import { paintFor, print, progress } from './terminal.ts';

const HELP = `waywarden review: the webhook's verdict on one object, from files

Usage: waywarden review FILE [--old FILE] [--operation CREATE|UPDATE|DELETE] [--dry-run]
                        [--state PATH]... [--namespace NS] [--config FILE] [--output text|json]

FILE holds one object, or a whole AdmissionReview as the API server sends it; - is standard input.

  --old FILE          what the object was before: makes it an UPDATE
  --operation OP      CREATE (the default), UPDATE or DELETE; an AdmissionReview has its own. What was there before, and is
                      deleted, is without --old the object as the state holds it
  --dry-run           as kubectl apply --dry-run=server: the verdict is the same
  --state PATH        what the cluster holds: a file, a directory or - ; may be given more than once
  --namespace NS      the namespace of an object that names none (default)
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
  namespace: { type: 'string' },
  config: { type: 'string' },
  output: { type: 'string' },
} as const;

function only(file: string, namespace?: string): Manifest {
  const { objects, skipped } = readManifests([file], undefined, namespace);
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
  /** What the object was before. */
  readonly old?: Manifest;
  readonly dryRun: boolean;
}

/** The object in the file of `--old`. */
function before(old: string, manifest: Manifest, namespace?: string): Manifest {
  const found = only(old, namespace);
  if (refKey(found.ref) === refKey(manifest.ref)) return found;
  throw new InputError(`${place(found.position())}: this is another object than the one under review`);
}

function requestOf(manifest: Manifest, { operation, old, dryRun }: Asked): AdmissionRequest {
  if (manifest.object['kind'] === 'AdmissionReview') {
    const parsed = reviewSchema.safeParse(manifest.object);
    if (parsed.success) return parsed.data.request;
    const [issue] = parsed.error.issues;
    const path = issue?.path.filter(part => typeof part !== 'symbol').map(String) ?? [];
    const missing = at(manifest.object, ...path) === undefined;
    throw new InputError(
      `${place(manifest.position(pointer(...path)))}: no AdmissionReview of admission.k8s.io/v1: ${path.join('.')} is ${missing ? 'missing' : 'not what it must be'}`,
    );
  }
  const request = requestFor(manifest.object, {
    dryRun,
    ...(operation === undefined ? {} : { operation }),
    ...(old === undefined ? {} : { old: old.object }),
  });
  if (request === undefined) throw new InputError(`${place(manifest.position())}: this is no Kubernetes object`);
  return { ...request, namespace: manifest.ref.namespace };
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
  const namespace = call.text('namespace');
  const oldFile = call.text('old');
  const state = call.texts('state');
  if ([file, ...(oldFile === undefined ? [] : [oldFile]), ...state].filter(path => path === STDIN).length > 1)
    throw new UsageError('standard input (-) can be read once only');
  const said = progress();
  const config = await configFrom(call.text('config'));
  const manifest = only(file, namespace);
  const given = oldFile === undefined ? undefined : before(oldFile, manifest, namespace);
  // as an API server does, which has the object: what is written to it or deleted from it is what is stored
  let stored: Manifest | undefined;
  const key = refKey(manifest.ref);
  const mesh = readMesh(
    state,
    config.declared,
    path => said(`reading ${path}`),
    one => {
      if (refKey(one.ref) === key && one.ref.name !== '') stored = one;
    },
  );
  const old = given ?? (operation === 'UPDATE' || operation === 'DELETE' ? stored : undefined);
  const request = requestOf(manifest, {
    dryRun: call.flag('dry-run'),
    ...(operation === undefined ? {} : { operation }),
    ...(old === undefined ? {} : { old }),
  });
  const verdict = await review({ policies, settings: config.settings, mesh }, request);
  const subject = subjectOf(request)?.ref;
  // of an object that is deleted its stored copy is judged, and its lines are those of that copy
  const shown = request.operation === 'DELETE' && old !== undefined ? old : manifest;
  const isReview = record(manifest.object['request']) !== undefined && manifest.object['kind'] === 'AdmissionReview';
  const root = isReview ? `/request/${request.operation === 'DELETE' ? 'oldObject' : 'object'}` : '';
  const report: ReviewReport = {
    ...(subject === undefined ? {} : { subject }),
    verdict,
    findings: verdict.findings.map(finding => {
      const own = subject !== undefined && refKey(finding.subject) === refKey(subject);
      const position: Position | undefined = own ? shown.position(`${root}${finding.path ?? ''}`) : undefined;
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

// Labels and annotations of the mesh that do not say what their author thinks.
import * as z from 'zod';
import { type CheckContext, definePolicy, matching, type Report } from '../../src/engine/policy.ts';
import { at, record } from '../../src/kube/json.ts';
import { type GroupKind, ref } from '../../src/kube/kind.ts';
import type { StringMap } from '../../src/kube/labels.ts';
import { pointer } from '../../src/kube/patch.ts';
import { yamlIn } from '../../src/kube/yaml.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { injectionOf, proxyOf } from '../../src/mesh/injection.ts';
import { GATEWAY, GATEWAY_CLASS, type Gateway, type GatewayClass } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { templatePath, WORKLOAD_KINDS, WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { compareRelease, istioReleases } from '../../src/mesh/releases.ts';
import { HALVES, isLabelValue, isMistaken, knowledgeOf, type Row } from './keys.ts';

const AUTHORIZATION_POLICY = 'AuthorizationPolicy.security.istio.io';
const INJECT = 'sidecar.istio.io/inject';

type Id =
  | 'unknown-value'
  | 'misspelled-key'
  | 'annotation-not-label'
  | 'label-not-annotation'
  | 'status-field-set-by-hand'
  | 'no-longer-read'
  | 'half-a-pair';

/** A place of an object where labels and annotations stand, and the kind that reads them there. */
interface Place {
  /** `Pod` for the template of any workload. */
  readonly kind: GroupKind;
  readonly labels: StringMap;
  readonly annotations: StringMap;
  /** The path of the metadata. */
  readonly path: readonly string[];
}

function placesOf(subject: Meta): readonly Place[] {
  const own: Place = {
    kind: subject.kind,
    labels: subject.labels,
    annotations: subject.annotations,
    path: ['metadata'],
  };
  if (subject.kind === 'Pod' || !WORKLOADS.has(subject.kind)) return [own];
  const { template } = subject as Workload;
  const path = [...templatePath(subject.kind), 'metadata'];
  return [own, { kind: 'Pod', labels: template.labels, annotations: template.annotations, path }];
}

/** True where Istio runs Gateways of this class, so that it would be a waypoint of its own that serves nothing. */
function runByIstio(mesh: Mesh, className: string): boolean {
  const found = mesh.get(GATEWAY_CLASS, '', className);
  return found === undefined ? className === 'istio-waypoint' : found.controllerName.startsWith('istio.io/');
}

function strengthOf(subject: Meta, row: Row, mesh: Mesh): 'deny' | 'warn' {
  if (row.key !== 'istio.io/waypoint-for') return 'warn';
  const istios =
    subject.kind === GATEWAY
      ? runByIstio(mesh, (subject as Gateway).className)
      : (subject as GatewayClass).controllerName.startsWith('istio.io/');
  return istios ? 'deny' : 'warn';
}

function legalOf({ bool, values = [] }: Row): string {
  if (bool !== undefined) return 'true or false';
  const shown = values.filter(
    (value, index) => values.findIndex(one => one.toLowerCase() === value.toLowerCase()) === index,
  );
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} or ${shown.at(-1)}`;
}

function* onValue(
  subject: Meta,
  { kind, path }: Place,
  row: Row,
  value: string,
  where: 'labels' | 'annotations',
  { mesh }: CheckContext<unknown>,
): Iterable<Report<Id>> {
  const at = () => pointer(...path, where, row.key);
  if (where === 'labels' && !isLabelValue(value)) {
    yield {
      finding: 'unknown-value',
      key: row.key,
      effect: `${row.key}: "${value}" is no legal label value: the API server refuses the object`,
      fix:
        row.key === 'istio.io/use-waypoint' && /^[^/]+\/[^/]+$/.test(value)
          ? `set istio.io/use-waypoint: ${value.split('/')[1]} and istio.io/use-waypoint-namespace: ${value.split('/')[0]}`
          : 'use at most 63 letters, digits, dots, dashes and underscores',
      evidence: [],
      action: 'deny',
      path: at(),
    };
    return;
  }
  if (!row.kinds.includes(kind) || !isMistaken(row, value)) return;
  yield {
    finding: 'unknown-value',
    key: row.key,
    effect: `${row.key}: "${value}" means nothing to Istio: ${row.ignored ?? 'it is ignored'}`,
    fix: `set ${row.key} to ${legalOf(row)}, or remove it`,
    evidence: [],
    action: strengthOf(subject, row, mesh),
    path: at(),
  };
}

/** Whether every control plane here is of a release that no longer reads a key. Unknown releases are no evidence. */
function outlived(mesh: Mesh, until: string): boolean {
  const releases = mesh.fact(istioReleases);
  return releases.length > 0 && releases.every(release => release !== undefined && compareRelease(release, until) > 0);
}

/** Variables that the proxyMetadata of a ProxyConfig sets and that are no longer read. */
function* onMetadata(place: Place, row: Row, value: string, { mesh }: CheckContext<unknown>): Iterable<Report<Id>> {
  for (const { name, until, instead } of row.metadata ?? []) {
    // YAML is read where the name stands in the text at all
    if (!value.includes(name) || !outlived(mesh, until)) continue;
    const config = yamlIn(value)?.value;
    const metadata = record(at(config, 'proxyMetadata') ?? at(config, 'proxy_metadata'));
    if (metadata === undefined || !Object.hasOwn(metadata, name)) continue;
    yield {
      finding: 'no-longer-read',
      key: `${row.key} ${name}`,
      effect: `${name} in ${row.key} has no effect any more: Istio reads it up to ${until} only`,
      fix: instead,
      evidence: [],
      because: `istiod ${mesh.fact(istioReleases)[0]?.text}`,
      path: pointer(...place.path, 'annotations', row.key),
    };
  }
}

/** Whether releases differ on an annotation: what a change of istiod can make of it. */
function expires(key: string, value: string): boolean {
  const row = knowledgeOf(key).annotation;
  return row?.until !== undefined || row?.metadata?.some(({ name }) => value.includes(name)) === true;
}

function* onAnnotation(
  subject: Meta,
  place: Place,
  row: Row,
  value: string,
  context: CheckContext<unknown>,
): Iterable<Report<Id>> {
  const { mesh, request, stage } = context;
  // made where something is found: most annotations are as they should be
  const path = () => pointer(...place.path, 'annotations', row.key);
  if (row.until !== undefined && outlived(mesh, row.until)) {
    yield {
      finding: 'no-longer-read',
      key: row.key,
      effect: `${row.key} has no effect any more: Istio reads it up to ${row.until} only`,
      fix: row.instead ?? 'remove the annotation',
      evidence: [],
      because: `istiod ${mesh.fact(istioReleases)[0]?.text}`,
      path: path(),
    };
    return;
  }
  if (row.metadata !== undefined && place.kind === 'Pod') yield* onMetadata(place, row, value, context);
  if (row.status !== undefined && place.kind === 'Pod') {
    const workload = subject as Workload;
    // a pod has it from whoever writes it, and so has a dump of one; a template has it only by hand
    const written =
      workload.kind !== 'Pod' || (row.key === 'ambient.istio.io/redirection' && !/^(enabled|pending)$/.test(value));
    const byHand = written || (request?.operation === 'CREATE' && stage === 'validate' && row.status === 'istio-cni');
    const carries = row.key === 'sidecar.istio.io/status' && (proxyOf(workload) !== undefined || workload.metadataOnly);
    if (byHand && !carries) {
      yield {
        finding: 'status-field-set-by-hand',
        key: row.key,
        effect:
          row.status === 'istio-cni'
            ? `${row.key} is a report of istio-cni: it does not opt in or out`
            : `${row.key} makes istio-cni believe in a sidecar: it does not capture the pods`,
        fix: 'remove it; the opt-out is the pod label istio.io/dataplane-mode: none',
        evidence: [],
        path: path(),
      };
    }
  }
}

/** The injection annotation works only where a webhook is asked about the pod, which takes a label (mutatingwebhook.yaml). */
function* onInjectAnnotation(workload: Workload, place: Place, { mesh }: CheckContext<unknown>): Iterable<Report<Id>> {
  if (place.annotations[INJECT] !== 'true' || place.labels[INJECT] !== undefined) return;
  if (workload.kind === 'Pod' && workload.created !== '') return;
  const injection = injectionOf(mesh, workload);
  if (injection.state !== 'none' || !injection.certain) return;
  yield {
    finding: 'annotation-not-label',
    key: INJECT,
    effect: `${INJECT} is an annotation here: no injector webhook sees the pods, they get no sidecar`,
    fix: `set it as a pod label, or label the namespace`,
    evidence: [{ kind: 'Namespace', namespace: '', name: workload.namespace }],
    because: injection.why,
    path: pointer(...place.path, 'annotations', INJECT),
  };
}

function* onPlace(subject: Meta, place: Place, context: CheckContext<unknown>): Iterable<Report<Id>> {
  const { kind, labels, annotations, path } = place;
  let paired = false;
  for (const key in labels) {
    const { label, annotation, likely } = knowledgeOf(key);
    if (label?.needs !== undefined) paired = true;
    if (label !== undefined) yield* onValue(subject, place, label, labels[key] ?? '', 'labels', context);
    else if (annotation !== undefined && annotation.quiet === undefined && annotation.status === undefined) {
      if (!annotation.kinds.includes(kind) || annotations[key] !== undefined) continue;
      yield {
        finding: 'label-not-annotation',
        key,
        effect: `${key} is a label here, and only read as an annotation: it does nothing`,
        fix: `move ${key} from the labels to the annotations`,
        evidence: [],
        path: pointer(...path, 'labels', key),
      };
    } else if (likely !== undefined) yield misspelled(key, likely, pointer(...path, 'labels', key));
  }
  for (const key in annotations) {
    const { label, annotation, likely } = knowledgeOf(key);
    const value = annotations[key] ?? '';
    if (annotation !== undefined) {
      yield* onAnnotation(subject, place, annotation, value, context);
      yield* onValue(subject, place, annotation, value, 'annotations', context);
    } else if (label?.either !== undefined && kind === 'Pod') {
      if (key === INJECT) yield* onInjectAnnotation(subject as Workload, place, context);
    } else if (label !== undefined) {
      if (!label.kinds.includes(kind) || labels[key] !== undefined) continue;
      yield {
        finding: 'annotation-not-label',
        key,
        effect: `${key} is an annotation here, and only read as a label: it does nothing`,
        fix: `move ${key} from the annotations to the labels`,
        evidence: [],
        path: pointer(...path, 'annotations', key),
      };
    } else if (likely !== undefined) yield misspelled(key, likely, pointer(...path, 'annotations', key));
  }
  if (!paired) return;
  for (const [half, other] of HALVES) {
    if (labels[half] === undefined || labels[other] !== undefined) continue;
    if (knowledgeOf(half).label?.kinds.includes(kind) !== true) continue;
    yield {
      finding: 'half-a-pair',
      key: half,
      effect: `${half} does nothing without ${other} on the same object`,
      fix: `add ${other} with the name of the waypoint, or remove it`,
      evidence: [],
      path: pointer(...path, 'labels', half),
    };
  }
}

function misspelled(key: string, likely: string, path: string): Report<Id> {
  return {
    finding: 'misspelled-key',
    key,
    effect: `Istio does not read ${key}; ${likely} is probably meant`,
    fix: `write ${likely}`,
    evidence: [],
    path,
  };
}

/** Subjects of this policy: every kind on which Istio reads a label or annotation. */
const SUBJECTS: readonly GroupKind[] = [
  'Namespace',
  ...WORKLOAD_KINDS,
  'Service',
  'ServiceEntry.networking.istio.io',
  'WorkloadEntry.networking.istio.io',
  GATEWAY,
  GATEWAY_CLASS,
  AUTHORIZATION_POLICY,
];

export const meshLabels = definePolicy({
  id: 'mesh-labels',
  title: 'Labels and annotations of the mesh say what Istio reads',
  subjects: SUBJECTS,
  reads: [
    'Namespace',
    'Deployment.apps',
    'ConfigMap',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
    GATEWAY_CLASS,
  ],
  findings: {
    'unknown-value': {
      action: 'warn',
      seen: ['mutate', 'validate', 'files', 'audit'],
      doc: 'a value that Istio does not know; refused where a waypoint would serve nothing, or it is no label value',
    },
    'misspelled-key': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a key that is nearly one that Istio reads',
      objectAlone: true,
    },
    'annotation-not-label': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'an annotation that is read as a label only',
    },
    'label-not-annotation': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a label that is read as an annotation only',
      objectAlone: true,
    },
    'status-field-set-by-hand': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'an annotation by which Istio reports what it did, written by an author',
    },
    'no-longer-read': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'an annotation, or a variable in one, that the running release no longer reads',
    },
    'half-a-pair': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a label that does nothing without another one beside it',
      objectAlone: true,
    },
  },
  options: z.object({}).strict(),
  *check(subject, context) {
    for (const place of placesOf(subject)) yield* onPlace(subject, place, context);
  },
  *affected(change: Change, { after }) {
    const kind = change.ref.kind;
    if (kind === 'Namespace') {
      yield* matching(after.workloads({}, change.ref.name), one => one.template.annotations[INJECT] === 'true');
    } else if (kind === GATEWAY_CLASS) {
      for (const gateway of after.list(GATEWAY)) {
        if (gateway.className === change.ref.name && gateway.labels['istio.io/waypoint-for'] !== undefined)
          yield ref(gateway);
      }
    } else if (touchesControlPlane(change)) {
      yield* matching(after.workloads(), ({ template: { annotations } }) => {
        if (annotations[INJECT] === 'true') return true;
        for (const key in annotations) if (expires(key, annotations[key] ?? '')) return true;
        return false;
      });
    }
  },
});

// Judges an InferencePool: its shape, its picker, and whether anybody listens to it.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { type ObjectRef, ref } from '../../src/kube/kind.ts';
import type { EndpointPicker, InferencePool } from '../../src/mesh/kinds/inference.ts';
import type { Service } from '../../src/mesh/kinds/services.ts';
import type { FindingId } from './findings.ts';
import { FALSE_FLAG, FLAG, standingOf } from './readers.ts';

type PoolReport = Report<FindingId>;

/** The port that was inferred for a picker until InferencePool v1 (V§1.2). */
const INFERRED = 9002;
const PORT = '/spec/endpointPickerRef/port';

/** What stands in v1 in the place of a field of an earlier shape (V§1.3). */
const INSTEAD: Readonly<Record<string, string>> = {
  'spec.extensionRef': 'write endpointPickerRef: {name, port: {number}} in its place',
  'spec.targetPortNumber': 'write targetPorts: [{number}] in its place',
  'spec.selector': 'put the labels under selector.matchLabels',
  'spec.endpointPickerRef.portNumber': 'write endpointPickerRef.port: {number} in its place',
  'spec.endpointPickerRef.targetPortNumber': "write endpointPickerRef.port: {number} in its place, the Service's port",
  'spec.endpointPickerRef.namespace': "leave it out: the picker is always one of the pool's own namespace",
  'spec.endpointPickerRef.port': 'write port: {number} instead of a bare number',
};

const pointerTo = (path: string) => `/${path.replaceAll('.', '/')}`;

function portsOf(service: Service): string {
  const ports = service.ports.map(({ port, name }) => (name === '' ? `${port}` : `${port} (${name})`));
  return ports.length === 0 ? 'no port' : ports.slice(0, 8).join(', ');
}

const exposes = (service: Service, port: number) =>
  service.ports.some(known => known.port === port && known.protocol === 'TCP');

function portMissing(subject: InferencePool, picker: EndpointPicker, context: CheckContext<unknown>): PoolReport {
  const ref: ObjectRef = { kind: 'Service', namespace: subject.namespace, name: picker.name };
  const service = context.mesh.find('Service', ref.namespace, ref.name);
  const report = {
    finding: 'port-missing',
    key: 'port',
    about: 'picker',
    path: '/spec/endpointPickerRef',
    evidence: [ref],
  } as const;
  if (service === 'absent' || service === 'unknown') {
    return {
      ...report,
      effect: `the endpoint picker has no port: the API server refuses such a pool, and Istio no longer infers ${INFERRED}`,
      fix: `set endpointPickerRef.port.number to the port of Service ${picker.name} that speaks ext_proc`,
      because: service === 'absent' ? 'no such Service here' : 'whether there is such a Service is not known',
    };
  }
  if (!exposes(service, INFERRED)) {
    return {
      ...report,
      effect: `the endpoint picker has no port, and its Service does not expose ${INFERRED}, which used to be inferred`,
      fix: `set endpointPickerRef.port.number to the one of ${portsOf(service)} that speaks ext_proc`,
      because: `it exposes ${portsOf(service)}`,
    };
  }
  const repaired = context.stage === 'mutate';
  return {
    ...report,
    effect: repaired
      ? `the endpoint picker had no port, which v1 requires: port.number ${INFERRED} was added, as used to be inferred`
      : `the endpoint picker has no port: the API server refuses such a pool, and Istio no longer infers ${INFERRED}`,
    fix: `write endpointPickerRef.port: {number: ${INFERRED}} in the manifest`,
    because: `it exposes ${INFERRED}`,
    ...(repaired ? { action: 'warn' as const } : {}),
    patch: [{ op: 'add', path: PORT, value: { number: INFERRED } }],
  };
}

function* withPort(
  subject: InferencePool,
  picker: EndpointPicker,
  context: CheckContext<unknown>,
): Iterable<PoolReport> {
  const standing = standingOf(context.mesh, subject);
  if (standing === undefined) return;
  const ref: ObjectRef = { kind: 'Service', namespace: subject.namespace, name: picker.name };
  const service = context.mesh.find('Service', ref.namespace, ref.name);
  if (service === 'unknown') {
    context.skipped(
      `whether there is a Service ${ref.namespace}/${ref.name} for the endpoint picker of ${subject.name}`,
    );
    return;
  }
  if (service === 'absent') {
    yield {
      finding: 'picker-service-missing',
      key: 'picker',
      path: '/spec/endpointPickerRef/name',
      effect: `there is no Service ${ref.name} to pick endpoints in namespace ${ref.namespace}: routes to the pool do not resolve`,
      fix: `create Service ${ref.name} in ${ref.namespace}, or name the one that is there`,
      evidence: [ref],
      because: standing.because,
    };
    return;
  }
  const { port } = picker;
  if (port === undefined || service.type === 'ExternalName' || exposes(service, port)) return;
  const isModel = subject.targetPorts.includes(port) ? ', the port of the model servers,' : '';
  yield {
    finding: 'port-not-exposed',
    key: 'picker',
    path: '/spec/endpointPickerRef/port/number',
    effect: `Service ${ref.name} does not expose ${port}${isModel}: its endpoint picker cannot be asked there`,
    fix: `set endpointPickerRef.port.number to one of ${portsOf(service)}`,
    evidence: [ref],
    because: `it exposes ${portsOf(service)}`,
  };
}

function* unpicked(subject: InferencePool, picker: EndpointPicker | undefined, context: CheckContext<unknown>) {
  const standing = standingOf(context.mesh, subject);
  if (standing === undefined) return;
  const report: PoolReport = {
    finding: 'picker-missing',
    key: 'picker',
    path: '/spec',
    effect:
      picker === undefined
        ? 'the pool names no endpoint picker, which Istio needs: routes to it do not resolve'
        : `Istio takes only a Service as endpoint picker, not a ${picker.kind}: routes to the pool do not resolve`,
    fix: 'set endpointPickerRef to {name, port: {number}} of the picker Service',
    evidence: [],
    because: standing.because,
  };
  yield report;
}

function* unheard(subject: InferencePool, context: CheckContext<unknown>): Iterable<PoolReport> {
  const standing = standingOf(context.mesh, subject);
  // whose pool it is has to be clear: others need no flag of istiod's
  if (standing === undefined || standing.doubtful) return;
  const { extension, deaf } = standing;
  if (extension !== 'off' && extension !== 'partly') return;
  yield {
    finding: 'extension-off',
    key: 'extension',
    effect:
      deaf !== undefined
        ? `the istiod of Gateway ${deaf.namespace}/${deaf.name} ignores InferencePools: routes there to this one answer 500`
        : standing.falseFlag
          ? `istiod ignores InferencePools: ${FALSE_FLAG} is read by no release`
          : 'istiod ignores InferencePools: routes to this one answer 500',
    fix: `set ${FLAG}=true on ${deaf === undefined ? 'istiod' : 'the istiod of its revision'}`,
    evidence: [...(deaf === undefined ? [] : [ref(deaf)]), ...standing.evidence],
    because: `${standing.because}, where ${FLAG} is false by default`,
  };
}

/** The findings on one pool of inference.networking.k8s.io. */
export function* checkPool(subject: InferencePool, context: CheckContext<unknown>): Iterable<PoolReport> {
  const { picker, removedFields } = subject;
  if (removedFields.length > 0) {
    for (const field of removedFields) {
      yield {
        finding: 'field-removed',
        key: field,
        about: 'picker',
        path: pointerTo(field),
        effect:
          field === 'spec.selector'
            ? 'v1 reads only selector.matchLabels: labels beside it are refused or dropped, and the pool selects no pod'
            : `InferencePool v1 has no ${field}${field.endsWith('.port') ? ' that is a bare number' : ''}: it is refused or dropped without a word`,
        fix: INSTEAD[field] ?? 'write the fields of inference.networking.k8s.io/v1',
        evidence: [],
      };
    }
    // the rest of an old shape says nothing of what the pool is meant to be
    return;
  }
  if (picker?.kind === 'Service') {
    if (picker.port === undefined) yield portMissing(subject, picker, context);
    else if (context.stage !== 'mutate') yield* withPort(subject, picker, context);
  } else if (context.stage !== 'mutate') yield* unpicked(subject, picker, context);
  if (context.stage !== 'mutate') yield* unheard(subject, context);
}

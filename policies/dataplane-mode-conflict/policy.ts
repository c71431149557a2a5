// Namespaces and workloads that ask for both data planes at once.
import * as z from 'zod';
import { type CheckContext, definePolicy, matching, type PAUSE, type Report } from '../../src/engine/policy.ts';
import type { ObjectRef } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import {
  ambient,
  cniSettings,
  DATAPLANE_MODE,
  enrolsByDefault,
  judgedByOwner,
  selectedForAmbient,
} from '../../src/mesh/enrolment.ts';
import { injectionOf, proxyOf } from '../../src/mesh/injection.ts';
import { type Namespace, WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { templatePath, WORKLOAD_KINDS, type Workload, workload } from '../../src/mesh/kinds/workloads.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { cniAgents, deploymentOf } from '../../src/mesh/releases.ts';

type Id = 'both-modes' | 'revision-injects' | 'captured-twice' | 'injection-and-revision' | 'excluded-namespace';

const INJECTION = 'istio-injection';
const REVISION = 'istio.io/rev';
const STATUS = 'sidecar.istio.io/status';
const labelPath = (label: string) => pointer('metadata', 'labels', label);

/** A pod that says nothing itself: what becomes of it is what the namespace asks for. */
const plainPod = (namespace: string): Workload => workload('Pod', namespace, { spec: {} });

function cniEvidence(mesh: Mesh): readonly ObjectRef[] {
  const [agent] = mesh.fact(cniAgents);
  return agent === undefined
    ? []
    : [{ kind: 'ConfigMap', namespace: agent.workload.namespace, name: 'istio-cni-config' }];
}

function excluded(mesh: Mesh, namespace: string, path: string): Report<Id> {
  return {
    finding: 'excluded-namespace',
    key: DATAPLANE_MODE,
    effect: `istio-cni is told to leave namespace ${namespace} alone: its pods are not captured, from 1.30 on none stays so`,
    fix: `remove ${DATAPLANE_MODE}, or take ${namespace} out of excludeNamespaces of istio-cni`,
    evidence: cniEvidence(mesh),
    path,
  };
}

function* onModes(subject: Namespace, mesh: Mesh): Iterable<Report<Id>> {
  const { labels, name } = subject;
  const injection = injectionOf(mesh, plainPod(name));
  if (injection.state !== 'sidecar') return;
  if (labels[INJECTION] !== undefined) {
    yield {
      finding: 'both-modes',
      key: 'modes',
      effect: 'it asks for sidecars and for ambient: sidecars win, and no pod with one is captured',
      fix: `keep one of ${INJECTION} and ${DATAPLANE_MODE}, then restart the pods`,
      evidence: [],
      because: injection.why,
      certain: injection.certain,
      path: labelPath(INJECTION),
    };
    return;
  }
  // without a webhook in sight a revision label proves nothing: in ambient namespaces it is also how istiod's revision is chosen
  if (labels[REVISION] === undefined || !injection.certain) return;
  const [plane] = injection.controlPlanes;
  yield {
    finding: 'revision-injects',
    key: 'modes',
    effect: `${REVISION}: ${labels[REVISION]} matches an injector webhook: pods get sidecars and are not captured`,
    fix: `put ${REVISION} on the waypoint Gateway instead, or add ${INJECTION}: disabled`,
    evidence: plane === undefined ? [] : deploymentOf(plane),
    path: labelPath(REVISION),
  };
}

/** `istio-injection` goes first: the webhooks for revisions ask that it is not there (the chart's mutatingwebhook.yaml). */
function* onRevision({ labels, name }: Namespace, mesh: Mesh): Iterable<Report<Id>> {
  const revision = labels[REVISION];
  const enabled = labels[INJECTION] === 'enabled';
  const inAmbient = labels[DATAPLANE_MODE] === 'ambient';
  // disabled beside a revision is how an ambient namespace keeps the sidecars away
  if (revision === undefined || (!enabled && (labels[INJECTION] !== 'disabled' || inAmbient))) return;
  const injection = injectionOf(mesh, plainPod(name));
  const same = injection.controlPlanes.some(plane => plane.revision === revision || plane.tags.includes(revision));
  if (enabled && (revision === 'default' || same)) return;
  yield {
    finding: 'injection-and-revision',
    key: 'revision',
    effect: enabled
      ? `${INJECTION} wins: pods get the proxy of the default revision, ${REVISION}: ${revision} does nothing`
      : `${INJECTION}: disabled wins: no pod gets a proxy of revision ${revision}`,
    fix: `remove ${INJECTION} to use revision ${revision}, or remove ${REVISION}`,
    evidence: [],
    path: labelPath(REVISION),
  };
}

function* onNamespace(subject: Namespace, { mesh }: CheckContext<unknown>): Iterable<Report<Id>> {
  const { labels, name } = subject;
  if (labels[INJECTION] !== undefined) yield* onRevision(subject, mesh);
  if (labels[DATAPLANE_MODE] !== 'ambient') return;
  if (mesh.fact(cniSettings).excluded.includes(name)) yield excluded(mesh, name, labelPath(DATAPLANE_MODE));
  if (enrolsByDefault(mesh, name) === true) yield* onModes(subject, mesh);
}

/** A proxy that nobody announced: istio-cni looks for the status annotation alone (cni/pkg/util/enablement_selector.go). */
function* onWorkload(subject: Workload, { mesh }: CheckContext<unknown>): Iterable<Report<Id>> {
  const { template, namespace } = subject;
  const path = [...templatePath(subject.kind), 'metadata', 'labels', DATAPLANE_MODE];
  if (template.labels[DATAPLANE_MODE] === 'ambient' && mesh.fact(cniSettings).excluded.includes(namespace)) {
    if (!judgedByOwner(mesh, subject)) yield excluded(mesh, namespace, pointer(...path));
  }
  if (template.annotations[STATUS] !== undefined || template.hostNetwork || proxyOf(subject) === undefined) return;
  if (selectedForAmbient(mesh, namespace, template.labels) !== true || judgedByOwner(mesh, subject)) return;
  const injection = injectionOf(mesh, subject);
  const served = mesh.fact(ambient).state;
  if (injection.state !== 'sidecar' || !injection.standing || served === 'off') return;
  yield {
    finding: 'captured-twice',
    key: 'proxy',
    effect: `a sidecar without the annotation ${STATUS} in ambient: traffic is redirected to both proxies`,
    fix: `set the pod label ${DATAPLANE_MODE}: none`,
    evidence: [{ kind: 'Namespace', namespace: '', name: namespace }],
    certain: served === 'on',
    path: pointer(...path.slice(0, -1)),
  };
}

/** Whether anything can be found on a workload, by what it says itself. */
function concerned({ template }: Workload): boolean {
  return (
    template.labels[DATAPLANE_MODE] === 'ambient' ||
    (template.annotations[STATUS] === undefined && proxyOf({ template }) !== undefined)
  );
}

function workloadsIn(mesh: Mesh, namespace?: string): Iterable<ObjectRef | typeof PAUSE> {
  return matching(mesh.workloads({}, namespace), concerned);
}

function touchesDataPlane(change: Change): boolean {
  const agent = (object: Meta | undefined) => {
    const component = (object as Workload | undefined)?.component;
    return component === 'ztunnel' || component === 'istio-cni';
  };
  return agent(change.before) || agent(change.after);
}

export const dataplaneModeConflict = definePolicy({
  id: 'dataplane-mode-conflict',
  title: 'A namespace or workload asks for one data plane',
  subjects: ['Namespace', ...WORKLOAD_KINDS],
  reads: ['ConfigMap', WEBHOOKS, GATEWAY],
  findings: {
    'both-modes': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a namespace with istio-injection: enabled and in ambient mode',
    },
    'revision-injects': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'an ambient namespace whose revision label an injector webhook matches',
    },
    'captured-twice': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a sidecar that istio-cni cannot know of, on pods that ambient captures',
    },
    'injection-and-revision': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a namespace with both istio-injection and another revision',
    },
    'excluded-namespace': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'ambient mode in a namespace that istio-cni is told to leave alone',
    },
  },
  options: z.object({}).strict(),
  *check(subject, context) {
    if (subject.kind === 'Namespace') yield* onNamespace(subject, context);
    else if (concerned(subject as Workload)) yield* onWorkload(subject as Workload, context);
  },
  *affected(change, { after }) {
    if (change.ref.kind === 'Namespace') {
      yield* workloadsIn(after, change.ref.name);
      return;
    }
    if (!touchesControlPlane(change) && !touchesDataPlane(change)) {
      // a workload that went may have been the owner that was judged for another
      if (change.after === undefined && WORKLOAD_KINDS.some(kind => kind === change.ref.kind))
        yield* workloadsIn(after, change.ref.namespace);
      return;
    }
    yield* matching(
      after.list('Namespace'),
      ({ labels }) => labels[DATAPLANE_MODE] !== undefined || labels[INJECTION] !== undefined,
    );
    yield* workloadsIn(after);
  },
});

import * as z from 'zod';
import { type CheckContext, definePolicy, matching, PAUSE, pausing, type Report } from '../../src/engine/policy.ts';
import { type ObjectRef, ref, refKey } from '../../src/kube/kind.ts';
import { selects } from '../../src/kube/labels.ts';
import { alters } from '../../src/mesh/changes.ts';
import type { ConfigMap } from '../../src/mesh/kinds/cluster.ts';
import { GATEWAY, GATEWAY_CLASS, type Gateway } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import {
  AUTOSCALER,
  DISRUPTION_BUDGET,
  type HorizontalPodAutoscaler,
  type PodDisruptionBudget,
} from '../../src/mesh/kinds/scaling.ts';
import { isOf } from '../../src/mesh/kinds.ts';
import { deploymentName, type ManagedAs, managedAs, waypointPodLabels } from '../../src/mesh/managed.ts';
import type { Change, Mesh } from '../../src/mesh/mesh.ts';
import { controlPlanes, deploymentOf, istiodNamespaces } from '../../src/mesh/releases.ts';
import { type Fault, mergeParameters, parametersOf, type Stopped } from './parameters.ts';
import {
  classDefaults,
  isRunHere,
  isWaypoint,
  letsNobodyGo,
  MANAGED,
  parameterSources,
  scaleOf,
  waypointsDeployedAs,
} from './scale.ts';

const DEFAULTS_LABEL = 'gateway.istio.io/defaults-for-class';
const CONFIG_MAP = 'ConfigMap';
const DEPLOYMENT = 'Deployment.apps';
const SEEN = ['validate', 'files', 'audit'] as const;

type Finding =
  | 'single-replica'
  | 'hpa-minimum-one'
  | 'scaled-to-zero'
  | 'budget-blocks-drain'
  | 'parameters-invalid'
  | 'class-defaults-elsewhere';

type Found = Iterable<Report<Finding> | typeof PAUSE>;

/** What becomes of a Gateway whose ConfigMap has a fault. */
const STOPPED: Readonly<Record<Stopped, string>> = {
  everything: 'istiod deploys nothing, and a running one never changes again',
  service: 'it gets no Service, and one that is there never changes again',
  autoscaler: 'it gets no autoscaler, and one that is there never changes again',
  budget: 'it gets no disruption budget, and one that is there never changes again',
};

/** The same of all Gateways of a class. */
const STOPPED_FOR_ALL: Readonly<Record<Stopped, string>> = {
  everything: 'istiod neither deploys nor changes any Gateway',
  service: 'no Service is made or changed for Gateways',
  autoscaler: 'no autoscaler is made or changed for Gateways',
  budget: 'no disruption budget is made or changed for Gateways',
};

/** A fault as it is for one Gateway: none where it says only what istiod says. */
function faultFor(gateway: Gateway, as: ManagedAs, fault: Fault): readonly Fault[] {
  const { unless } = fault;
  if (unless === undefined) return [fault];
  if (unless.of === 'namespace') return unless.is === gateway.namespace ? [] : [fault];
  if (unless.of === 'gateway') return unless.is === gateway.name ? [] : [fault];
  if (unless.is === deploymentName(gateway, as)) return [];
  // the account may have another name than the rest
  return [
    { ...fault, certain: fault.certain && gateway.annotations['gateway.istio.io/service-account'] === undefined },
  ];
}

/** What is wrong with the ConfigMap of a Gateway, by itself and upon the defaults of the class. */
function faultsOf(mesh: Mesh, gateway: Gateway, configMap: ConfigMap): readonly Fault[] {
  const own = parametersOf(configMap);
  const ofItself = own.faults.flatMap(fault => faultFor(gateway, managedAs(mesh, gateway.className), fault));
  if (own.autoscaler === undefined && own.budget === undefined) return ofItself;
  const merged = parameterSources(mesh, gateway).map(sources => mergeParameters(sources.map(parametersOf)).faults);
  const further = new Map<string, Fault>();
  for (const fault of merged.flat()) {
    // what it says nothing about is the defaults' own mistake
    if ((fault.stops === 'budget' ? own.budget : own.autoscaler) === undefined) continue;
    const always = merged.every(faults => faults.some(({ path }) => path === fault.path));
    further.set(fault.path, { ...fault, certain: fault.certain && always });
  }
  return [...ofItself, ...further.values()];
}

function* checkGateway(gateway: Gateway, { mesh, skipped }: CheckContext<unknown>): Found {
  const as = managedAs(mesh, gateway.className);
  if (as === 'none' || as === 'unknown' || !isRunHere(mesh, gateway)) return;
  if (gateway.parameters !== undefined) {
    const configMap = mesh.get(CONFIG_MAP, gateway.namespace, gateway.parameters);
    for (const fault of configMap === undefined ? [] : faultsOf(mesh, gateway, configMap)) {
      yield {
        finding: 'parameters-invalid',
        key: `${gateway.parameters} ${fault.path}`,
        effect: `${fault.path} of its ConfigMap ${fault.what}: ${STOPPED[fault.stops]}`,
        fix: `in ConfigMap ${gateway.parameters} ${fault.fix}`,
        evidence: [ref(configMap as ConfigMap)],
        because: 'the status stays Accepted',
        certain: fault.certain && mesh.fact(controlPlanes).length > 0,
        path: '/spec/infrastructure/parametersRef',
      };
    }
  }
  if (as !== 'waypoint') return;
  const scale = scaleOf(mesh, gateway);
  if (scale.undecided) {
    skipped(
      `which defaults of class ${gateway.className} waypoint ${gateway.namespace}/${gateway.name} gets: there are several`,
    );
  }
  const evidence = scale.from.map(ref);
  if (scale.budget !== undefined && scale.least !== undefined && letsNobodyGo(scale.budget, scale.least)) {
    yield {
      finding: 'budget-blocks-drain',
      key: 'parameters',
      effect: `its disruption budget lets none of its ${scale.least} pods go: drains of their nodes wait for ever`,
      fix: 'allow one disruption: podDisruptionBudget.spec.maxUnavailable: 1, and at least 2 replicas',
      evidence,
    };
  }
  if (scale.least === undefined || gateway.labels['istio.io/waypoint-for'] === 'none') return;
  const deployment = { kind: DEPLOYMENT, namespace: gateway.namespace, name: deploymentName(gateway, 'waypoint') };
  if (scale.least === 0) {
    // an autoscaler from none is refused by most API servers: said of the parameters
    if (scale.autoscaler === 'parameters' && !scale.zero) return;
    yield {
      finding: 'scaled-to-zero',
      key: 'replicas',
      effect: 'this waypoint runs no pod: what is bound to it here has nobody to serve it',
      fix: 'set replicas to 2, or make sure that a waypoint of another cluster serves what is bound to it',
      evidence: evidence.length > 0 ? evidence : [deployment],
    };
  } else if (scale.least === 1 && scale.autoscaler === 'parameters') {
    yield {
      finding: 'hpa-minimum-one',
      key: 'parameters',
      effect:
        'its autoscaler goes down to one pod: a drain or a crash of it interrupts all that is bound to this waypoint',
      fix: 'set minReplicas and maxReplicas to at least 2 in horizontalPodAutoscaler.spec',
      evidence,
    };
  } else if (scale.least === 1 && scale.autoscaler === undefined) {
    if (!scale.certain) {
      skipped(`whether waypoint ${gateway.namespace}/${gateway.name} has more than one replica`);
      return;
    }
    yield {
      finding: 'single-replica',
      key: 'replicas',
      effect: 'this waypoint runs one pod: a drain or a crash of it interrupts all that is bound to it',
      fix: 'add a HorizontalPodAutoscaler with minReplicas: 2, or set it in infrastructure.parametersRef',
      evidence,
      because: 'istiod deploys one replica unless told otherwise',
    };
  }
}

function* checkAutoscaler(autoscaler: HorizontalPodAutoscaler, { mesh }: CheckContext<unknown>): Found {
  const { target, minReplicas } = autoscaler;
  if (target?.kind !== DEPLOYMENT || minReplicas > 1 || autoscaler.labels[MANAGED] !== undefined) return;
  for (const gateway of waypointsDeployedAs(mesh, autoscaler.namespace, target.name)) {
    const none = minReplicas === 0;
    yield {
      finding: none ? 'scaled-to-zero' : 'hpa-minimum-one',
      key: target.name,
      effect: none
        ? `it may leave waypoint ${gateway.name} without a pod: what is bound to it then has nobody to serve it`
        : `it goes down to one pod: a drain or a crash of it interrupts all that is bound to waypoint ${gateway.name}`,
      fix: 'set minReplicas to at least 2',
      evidence: [ref(gateway)],
      path: '/spec/minReplicas',
    };
  }
}

function* checkBudget(budget: PodDisruptionBudget, { mesh }: CheckContext<unknown>): Found {
  const { selector } = budget;
  if (selector === undefined || budget.labels[MANAGED] !== undefined) return;
  if (budget.minAvailable === undefined && budget.maxUnavailable === undefined) return;
  for (const gateway of mesh.list(GATEWAY, budget.namespace)) {
    if (!isWaypoint(mesh, gateway) || !selects(selector, waypointPodLabels(gateway))) continue;
    const { least, from, certain } = scaleOf(mesh, gateway);
    if (least === undefined || !certain || !letsNobodyGo(budget, least)) continue;
    yield {
      finding: 'budget-blocks-drain',
      key: gateway.name,
      effect: `it lets none of the ${least === 1 ? 'pods (there is one)' : `${least} pods`} of waypoint ${gateway.name} go: drains of their nodes wait for ever`,
      fix: 'allow one disruption (maxUnavailable: 1) and run the waypoint with at least 2 replicas',
      evidence: [ref(gateway), ...from.map(ref)],
      path: '/spec',
    };
  }
}

function* checkDefaults(configMap: ConfigMap, { mesh }: CheckContext<unknown>): Found {
  const className = configMap.labels[DEFAULTS_LABEL];
  if (className === undefined) return;
  const as = managedAs(mesh, className);
  if (as === 'none' || as === 'unknown') return;
  const planes = mesh.fact(controlPlanes);
  const read = mesh.fact(istiodNamespaces);
  if (!read.includes(configMap.namespace)) {
    // without a control plane its namespace is a guess
    if (planes.length === 0) return;
    yield {
      finding: 'class-defaults-elsewhere',
      key: className,
      effect: `istiod reads defaults of a class in its own namespace only: these for ${className} are ignored`,
      fix: `create it in ${read.join(' or ')}, or name it in a Gateway's infrastructure.parametersRef`,
      evidence: planes.flatMap(deploymentOf),
      path: '/metadata/namespace',
    };
    return;
  }
  const candidates = classDefaults(mesh, className, configMap.namespace);
  // istiod takes the oldest and does not look at others
  if (!candidates.some(one => one.name === configMap.name)) return;
  const merged = (one: ConfigMap) => mergeParameters([parametersOf(one)]).faults;
  const mendable = merged(configMap);
  for (const fault of [...parametersOf(configMap).faults, ...mendable]) {
    const isOne = ({ path, what }: Fault) => path === fault.path && what === fault.what;
    const decided = candidates.every(one => parametersOf(one).faults.some(isOne) || merged(one).some(isOne));
    yield {
      finding: 'parameters-invalid',
      key: `${className} ${fault.path}`,
      effect: `${fault.path} ${fault.what}: ${STOPPED_FOR_ALL[fault.stops]} of class ${className}`,
      fix: fault.fix,
      evidence: [],
      because: 'only the log of istiod tells',
      // a Gateway's own ConfigMap may set what is missing, and some Gateway may have that name
      certain: fault.certain && planes.length > 0 && decided && !mendable.includes(fault) && fault.unless === undefined,
      path: '/data',
    };
  }
}

function* subjectsIn(mesh: Mesh, namespace: string): Iterable<ObjectRef> {
  for (const kind of [GATEWAY, AUTOSCALER, DISRUPTION_BUDGET] as const) yield* mesh.list(kind, namespace);
}

function* everySubject(mesh: Mesh): Iterable<ObjectRef | typeof PAUSE> {
  for (const kind of [GATEWAY, AUTOSCALER, DISRUPTION_BUDGET] as const) yield* pausing(mesh.list(kind));
  yield* matching(mesh.list(CONFIG_MAP), ({ labels }) => labels[DEFAULTS_LABEL] !== undefined, 500);
}

function* ofClass(mesh: Mesh, className: string): Iterable<ObjectRef | typeof PAUSE> {
  const namespaces = new Set<string>();
  let count = 0;
  for (const gateway of mesh.list(GATEWAY)) {
    count += 1;
    if (count % 500 === 0) yield PAUSE;
    if (gateway.className === className) namespaces.add(gateway.namespace);
  }
  for (const namespace of namespaces) {
    yield* subjectsIn(mesh, namespace);
    yield PAUSE;
  }
  yield* matching(mesh.list(CONFIG_MAP), ({ labels }) => labels[DEFAULTS_LABEL] === className, 500);
}

function* affected(change: Change, { before, after }: { before: Mesh; after: Mesh }) {
  // whose a Gateway is and where its defaults stand
  if (alters({ before, after }, controlPlanes)) {
    yield* everySubject(after);
    return;
  }
  const { kind, namespace, name } = change.ref;
  if (kind === GATEWAY || kind === AUTOSCALER) yield* subjectsIn(after, namespace);
  else if (kind === DEPLOYMENT) {
    for (const gateway of after.list(GATEWAY, namespace)) {
      if (deploymentName(gateway, managedAs(after, gateway.className)) === name) yield* subjectsIn(after, namespace);
    }
  } else if (kind === GATEWAY_CLASS) yield* ofClass(after, name);
  else if (kind === 'Namespace') {
    const revision = (object: Meta | undefined) => object?.labels['istio.io/rev'];
    const watched = after.fact(controlPlanes).some(plane => plane.discoverySelectors !== undefined);
    if (watched || revision(change.before) !== revision(change.after)) yield* subjectsIn(after, name);
  } else if (kind === CONFIG_MAP) {
    for (const gateway of after.referring(refKey(change.ref), GATEWAY)) {
      yield* subjectsIn(after, gateway.namespace);
    }
    const classes = [change.before, change.after].flatMap(object => object?.labels[DEFAULTS_LABEL] ?? []);
    for (const className of new Set(classes)) yield* ofClass(after, className);
  }
}

export const waypointAvailability = definePolicy({
  id: 'waypoint-availability',
  title: 'Waypoints that stop serving when one pod goes, and parameters that keep istiod from deploying them',
  subjects: [GATEWAY, AUTOSCALER, DISRUPTION_BUDGET, CONFIG_MAP],
  reads: [
    GATEWAY,
    GATEWAY_CLASS,
    AUTOSCALER,
    DISRUPTION_BUDGET,
    CONFIG_MAP,
    DEPLOYMENT,
    'Namespace',
    'MutatingWebhookConfiguration.admissionregistration.k8s.io',
  ],
  findings: {
    'single-replica': {
      action: 'warn',
      seen: SEEN,
      doc: 'a waypoint runs one pod, and nothing scales it',
    },
    'hpa-minimum-one': {
      action: 'warn',
      seen: SEEN,
      doc: 'the autoscaler of a waypoint goes down to one pod',
    },
    'scaled-to-zero': {
      action: 'warn',
      seen: SEEN,
      doc: 'a waypoint runs no pod at all',
    },
    'budget-blocks-drain': {
      action: 'warn',
      seen: SEEN,
      doc: 'a disruption budget lets no pod of a waypoint go, so drains of their nodes never end',
    },
    'parameters-invalid': {
      action: 'deny',
      seen: SEEN,
      doc: 'istiod cannot render the ConfigMap of a Gateway or of a class: nothing is deployed or changed any more',
    },
    'class-defaults-elsewhere': {
      action: 'warn',
      seen: SEEN,
      doc: 'defaults for a class of Gateways stand outside the namespace of istiod, where it does not read them',
    },
  },
  options: z.strictObject({}),
  *check(subject: Meta, context): Found {
    if (isOf(subject, CONFIG_MAP)) yield* checkDefaults(subject, context);
    else if (isOf(subject, GATEWAY)) yield* checkGateway(subject, context);
    else if (isOf(subject, AUTOSCALER)) yield* checkAutoscaler(subject, context);
    else if (isOf(subject, DISRUPTION_BUDGET)) yield* checkBudget(subject, context);
  },
  affected,
});

// Releases and revisions that do not go together: istiod, ztunnel, istio-cni, proxies, Kubernetes.

import * as z from 'zod';
import { definePolicy, matching, type PAUSE } from '../../src/engine/policy.ts';
import type { GroupKind, ObjectRef } from '../../src/kube/kind.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { proxyOf } from '../../src/mesh/injection.ts';
import { WEBHOOKS } from '../../src/mesh/kinds/cluster.ts';
import type { DestinationRule } from '../../src/mesh/kinds/destinationrules.ts';
import { GATEWAY, GATEWAY_CLASS, ISTIO_GATEWAY, type IstioGateway, type Route } from '../../src/mesh/kinds/gateways.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { WORKLOAD_KINDS, WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import { isKind } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { componentKey } from '../../src/mesh/references.ts';
import { kubelets } from '../../src/mesh/releases.ts';
import {
  GATEWAY_NAME,
  hasRuleWithoutBackend,
  isOwnGateway,
  onDestinationRule,
  onGateway,
  onHttpRoute,
  selectsEverything,
} from './behaviour.ts';
import { onInjector } from './injector.ts';
import { newestKubelet, onKubernetes } from './kubernetes.ts';
import { FILTERED_KINDS, onRevision, REVISION, revisions, STRICT_KINDS } from './revision.ts';
import { onDataPlane } from './skew.ts';

const DESTINATION_RULE = 'DestinationRule.networking.istio.io';
const HTTP_ROUTE = 'HTTPRoute.gateway.networking.k8s.io';
const LABELLED: readonly GroupKind[] = ['Namespace', GATEWAY, ...FILTERED_KINDS, ...STRICT_KINDS];

const hasRevision = (one: Workload) => one.template.labels[REVISION] !== undefined;
const isDataPlane = (one: Workload) =>
  (one.component !== undefined && one.component !== 'istiod') || proxyOf(one) !== undefined;

function* labelled(mesh: Mesh): Iterable<ObjectRef | typeof PAUSE> {
  for (const kind of LABELLED) {
    if (isKind(kind)) yield* matching<Meta>(mesh.list(kind), ({ labels }) => labels[REVISION] !== undefined);
  }
}

/** Istio Gateways that select the proxies of a Gateway, by its name or all; of every one where none is given. */
function selecting(mesh: Mesh, name?: string): Iterable<ObjectRef | typeof PAUSE> {
  return matching(mesh.list(ISTIO_GATEWAY), ({ selector }) => {
    if (selectsEverything({ selector })) return true;
    const selected = selector[GATEWAY_NAME];
    return selected !== undefined && (name === undefined || selected === name);
  });
}

function* components(mesh: Mesh, ...names: readonly ('istiod' | 'ztunnel' | 'istio-cni')[]): Iterable<ObjectRef> {
  for (const name of names) yield* mesh.referring(componentKey(name));
}

const isGatewayOfTheirs = (object: Meta | undefined) => object !== undefined && isOwnGateway(object as Workload);
const componentOf = (object: Meta | undefined) => (object as Workload | undefined)?.component;

export const releaseSkew = definePolicy({
  id: 'release-skew',
  title: 'Releases and revisions of the mesh go together',
  subjects: [...WORKLOAD_KINDS, ...LABELLED],
  reads: ['ConfigMap', 'Node', WEBHOOKS, GATEWAY_CLASS],
  findings: {
    'data-plane-ahead': {
      action: 'deny',
      seen: ['validate', 'files', 'audit'],
      doc: 'a ztunnel, istio-cni or proxy of a newer minor release than its istiod',
    },
    'more-than-one-minor': {
      action: 'deny',
      seen: ['validate', 'files', 'audit'],
      doc: 'a ztunnel, istio-cni or proxy more than one minor release behind its istiod',
    },
    'kubernetes-unsupported': {
      action: 'deny',
      seen: ['validate', 'files', 'audit'],
      doc: 'an istiod on a Kubernetes that its release does not run on; a warning where Kubernetes is newer than announced',
    },
    'injector-ahead': {
      action: 'deny',
      seen: ['validate', 'files', 'audit'],
      doc: 'an istiod with the injector templates of a newer release, which it cannot render: every pod is refused',
    },
    order: {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'ztunnel upgraded before istio-cni',
    },
    'gateway-not-merged': {
      action: 'deny',
      since: '1.31',
      seen: ['validate', 'files', 'audit'],
      doc: 'an Istio Gateway that selects the proxies of a managed Gateway of another namespace; a warning where an empty selector has other gateways too',
    },
    'retry-budget-default': {
      action: 'warn',
      since: '1.30',
      seen: ['audit'],
      doc: 'a retryBudget without a percent, whose default has changed',
    },
    'no-backend-status': {
      action: 'warn',
      since: '1.30',
      seen: ['validate', 'files', 'audit'],
      doc: 'an HTTPRoute rule without backends or redirect, which 1.30 answers otherwise than its neighbours',
    },
    'revision-unknown': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'an istio.io/rev that is no revision here; refused on kinds whose rules would silently not hold',
    },
  },
  options: z.object({}).strict(),
  *check(subject, context) {
    yield* onRevision(subject, context);
    if (subject.kind === ISTIO_GATEWAY) yield* onGateway(subject as IstioGateway, context);
    if (subject.kind === DESTINATION_RULE) yield* onDestinationRule(subject as DestinationRule, context);
    if (subject.kind === HTTP_ROUTE) yield* onHttpRoute(subject as Route, context);
    if (!WORKLOADS.has(subject.kind)) return;
    const workload = subject as Workload;
    if (workload.component !== 'istiod') yield* onDataPlane(workload, context);
    else if (workload.kind === 'Deployment.apps') {
      yield* onKubernetes(workload, context);
      yield* onInjector(workload, context);
    }
  },
  *affected(change, { before, after }) {
    const { kind, name, namespace } = change.ref;
    if (WORKLOADS.has(kind) && [change.before, change.after].some(isGatewayOfTheirs)) {
      yield* matching(after.list(ISTIO_GATEWAY), selectsEverything);
    }
    // whose its Gateway is, and by which release it is served
    if (kind === GATEWAY || kind === GATEWAY_CLASS || kind === 'Namespace' || touchesControlPlane(change)) {
      yield* matching(after.list(HTTP_ROUTE), hasRuleWithoutBackend);
    }
    if (kind === 'Node') {
      const [was, is] = [newestKubelet(before.fact(kubelets)), newestKubelet(after.fact(kubelets))];
      if (
        was?.release.text !== is?.release.text ||
        was?.node !== is?.node ||
        before.complete('Node') !== after.complete('Node')
      ) {
        yield* components(after, 'istiod');
      }
    } else if (kind === GATEWAY) {
      yield* selecting(after, name);
    } else if (kind === 'Namespace') {
      yield* selecting(after);
      yield* matching(after.workloads({}, name), one => hasRevision(one) || proxyOf(one) !== undefined);
    } else if (kind === GATEWAY_CLASS) {
      yield* selecting(after);
      yield* matching(after.list(GATEWAY), ({ labels }) => labels[REVISION] !== undefined);
    } else if (touchesControlPlane(change)) {
      yield* components(after, 'istiod', 'ztunnel', 'istio-cni');
      yield* matching(after.workloads(), one => hasRevision(one) || isDataPlane(one));
      yield* selecting(after);
      yield* matching(after.list(DESTINATION_RULE), rule => rule.budgetWithoutPercent);
      if (kind !== 'ConfigMap' || revisions(before) !== revisions(after)) yield* labelled(after);
    } else if (componentOf(change.before) === 'istio-cni' || componentOf(change.after) === 'istio-cni') {
      yield* components(after, 'ztunnel');
      yield* matching(after.workloads(), hasRevision);
    } else if (WORKLOADS.has(kind) && change.after === undefined) {
      // it may have been the owner that was judged for another
      yield* matching(after.workloads({}, namespace), one => hasRevision(one) || isDataPlane(one));
    }
  },
});

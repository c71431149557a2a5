// Settings of istiod, ztunnel and istio-cni that do not do what they say, wherever they are kept.
import * as z from 'zod';
import { definePolicy, matching, PAUSE } from '../../src/engine/policy.ts';
import { type GroupKind, type ObjectRef, ref } from '../../src/kube/kind.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import type { Meta } from '../../src/mesh/kinds/meta.ts';
import { WORKLOADS, type Workload } from '../../src/mesh/kinds/workloads.ts';
import type { Kind } from '../../src/mesh/kinds.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { componentKey } from '../../src/mesh/references.ts';
import { controlPlanes } from '../../src/mesh/releases.ts';
import { onNftables } from './nftables.ts';
import { OPERATOR_KINDS, partsOf } from './places.ts';
import {
  asksForMesh,
  CONFIG_KINDS,
  namesWaypoint,
  onDiscovery,
  onIgnored,
  onIgnoringValues,
  onIstiod,
  ownersMatter,
  reachOf,
  rootsInQuestion,
  SECURITY_KINDS,
  watchedElsewhere,
} from './reach.ts';
import { onEnv, onImages, onMeshConfig, onValues } from './settings.ts';

const OPERATORS: ReadonlySet<GroupKind> = new Set(OPERATOR_KINDS);
const COMPONENTS = ['istiod', 'ztunnel', 'istio-cni'] as const;

/** ConfigMaps of Istio's by their names; every other one is nobody's business here. */
const isIstios = (name: string) => name === 'istio' || name.startsWith('istio-');

function holdsSettings(subject: Meta): boolean {
  if (subject.kind === 'ConfigMap') return isIstios(subject.name);
  if (OPERATORS.has(subject.kind)) return true;
  const { component } = subject as Workload;
  return (
    (subject.kind === 'Deployment.apps' || subject.kind === 'DaemonSet.apps') &&
    component !== undefined &&
    component !== 'gateway'
  );
}

/** True for istiod, ztunnel and istio-cni: whatever of theirs changes may be a setting. */
function isComponent(object: Meta | undefined): boolean {
  const component = (object as Workload | undefined)?.component;
  return component !== undefined && component !== 'gateway';
}

/** Kinds of which an istiod that ignores them is judged by whether anything of them is there. */
const IGNORABLE: ReadonlySet<GroupKind> = new Set([...SECURITY_KINDS, 'Gateway.gateway.networking.k8s.io']);

function* all(mesh: Mesh, kinds: readonly Kind[], namespace?: string): Iterable<ObjectRef | typeof PAUSE> {
  let count = 0;
  for (const kind of kinds) {
    for (const object of mesh.list(kind, namespace)) {
      count += 1;
      if (count % 50 === 0) yield PAUSE;
      yield ref(object);
    }
  }
}

/** Every object whose settings are judged by what is known of the control plane. */
function* settings(mesh: Mesh): Iterable<ObjectRef | typeof PAUSE> {
  for (const component of COMPONENTS) for (const object of mesh.referring(componentKey(component))) yield ref(object);
  yield* all(mesh, OPERATOR_KINDS);
  yield* matching(mesh.list('ConfigMap'), ({ name }) => isIstios(name));
}

/** The istiods, whose `resources-ignored` depends on whether anything is there that they ignore. */
function* ignoringIstiods(mesh: Mesh): Iterable<ObjectRef> {
  for (const { deployment, env } of mesh.fact(controlPlanes)) {
    if (deployment !== undefined && (env['PILOT_IGNORE_RESOURCES'] ?? '') !== '') yield ref(deployment);
  }
}

export const controlPlaneSettings = definePolicy({
  id: 'control-plane-settings',
  title: 'Settings of Istio do what they say',
  subjects: [
    'Deployment.apps',
    'DaemonSet.apps',
    'ConfigMap',
    ...OPERATOR_KINDS,
    'Namespace',
    ...SECURITY_KINDS,
    ...CONFIG_KINDS,
  ],
  reads: ['MutatingWebhookConfiguration.admissionregistration.k8s.io', 'Service', 'Pod'],
  findings: {
    'setting-removed': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a variable, value or provider that the running release no longer reads',
    },
    'setting-unknown': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a variable or key that nothing reads and that is nearly one that something does',
    },
    'resources-ignored': {
      action: 'warn',
      since: '1.29',
      seen: ['validate', 'files', 'audit'],
      doc: 'PILOT_IGNORE_RESOURCES; refused where it hides security objects, Gateways that are waypoints, or what a policy is for',
    },
    'outside-discovery': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a namespace in the mesh, or its root, that discoverySelectors leave out, and what is in it; refused for security kinds',
    },
    'not-a-boolean': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a boolean variable with a value that istiod cannot read',
    },
    'wrong-level': {
      action: 'deny',
      since: '1.28',
      seen: ['validate', 'files', 'audit'],
      doc: 'a value at a level of the chart that does not read it',
    },
    'nftables-half-set': {
      action: 'warn',
      since: '1.27',
      seen: ['validate', 'files', 'audit'],
      doc: 'nftables for one of istiod and istio-cni only; refused for ambient before 1.28',
    },
    'native-sidecars-value': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'ENABLE_NATIVE_SIDECARS with a value that turns it off without saying so',
    },
    'default-overridden': {
      action: 'warn',
      seen: ['audit'],
      doc: 'a value that keeps the behaviour of an older release',
    },
    'image-hub': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'images from a hub that Istio leaves; refused for releases that are not there',
    },
  },
  options: z.object({}).strict(),
  *check(subject, context) {
    const { mesh } = context;
    if (holdsSettings(subject)) {
      for (const part of partsOf(subject, mesh)) {
        yield* onEnv(part, mesh);
        yield* onValues(part, mesh);
        yield* onMeshConfig(part, mesh);
        yield* onImages(part);
        if (OPERATORS.has(subject.kind)) yield* onIgnoringValues(part, mesh);
      }
      yield* onNftables(subject, mesh);
      if (subject.kind === 'Deployment.apps') yield* onIstiod(subject as Workload, context);
      return;
    }
    if (WORKLOADS.has(subject.kind) || subject.kind === 'ConfigMap') return;
    yield* onIgnored(subject, context);
    yield* onDiscovery(subject, context);
  },
  *affected(change, { before, after }) {
    const { kind, name } = change.ref;
    if (kind === 'Namespace') {
      const both = [change.before, change.after].filter(object => object !== undefined);
      if (both.some(object => asksForMesh(object.labels) !== undefined))
        yield* all(after, [...SECURITY_KINDS, ...CONFIG_KINDS], name);
      else if (rootsInQuestion(before, after).has(name) || ownersMatter(before, after))
        yield* all(after, SECURITY_KINDS, name);
      yield* ignoringIstiods(after);
      return;
    }
    if (touchesControlPlane(change) || OPERATORS.has(kind) || isComponent(change.before) || isComponent(change.after)) {
      yield* settings(after);
      if (!touchesControlPlane(change)) return;
      let count = 0;
      for (const one of after.list('Namespace')) {
        count += 1;
        if (count % 50 === 0) yield PAUSE;
        if (!watchedElsewhere(before, after, one)) continue;
        yield ref(one);
        yield* all(after, [...SECURITY_KINDS, ...CONFIG_KINDS], one.name);
      }
      for (const root of rootsInQuestion(before, after)) yield* all(after, SECURITY_KINDS, root);
      if (reachOf(before) !== reachOf(after)) yield* all(after, SECURITY_KINDS);
    }
    // what an istiod ignores is worse where something of it is there
    const uses =
      (change.before !== undefined && namesWaypoint(change.before)) ||
      (change.after !== undefined && namesWaypoint(change.after));
    if (uses || IGNORABLE.has(kind)) yield* ignoringIstiods(after);
  },
});

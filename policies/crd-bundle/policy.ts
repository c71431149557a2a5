// CustomResourceDefinitions that the running Istio cannot work with, or that the API server cannot take.
import * as z from 'zod';
import { type CheckContext, definePolicy, PAUSE, type Report } from '../../src/engine/policy.ts';
import { splitGroupKind } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { CRD, type CustomResourceDefinition } from '../../src/mesh/kinds/cluster.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { type ControlPlane, controlPlanes, deploymentOf, parseRelease } from '../../src/mesh/releases.ts';
import { bundleOf, ignoresNewTlsRoute, olderThan, READINGS, readingOf } from './bundles.ts';

const BUNDLE = 'gateway.networking.k8s.io/bundle-version';

type Id = 'too-old-for-istio' | 'too-new-for-istio' | 'drops-stored-version';

/** The control planes, or one that stands for the release that was declared for files without an istiod. */
function planesOf(mesh: Mesh): readonly Pick<ControlPlane, 'env' | 'release' | 'deployment' | 'revision'>[] {
  const planes = mesh.fact(controlPlanes);
  const declared = mesh.declared.istio;
  if (planes.length > 0 || declared === undefined) return planes;
  const release = parseRelease(declared);
  return [{ env: {}, revision: 'default', ...(release === undefined ? {} : { release }) }];
}

function* onBundle(crd: CustomResourceDefinition, { mesh }: CheckContext<unknown>): Iterable<Report<Id>> {
  const { kind } = splitGroupKind(crd.defines);
  const planes = planesOf(mesh);
  const bundle = bundleOf(crd.bundleVersion);
  const judged = planes.map(plane => ({ plane, reading: readingOf(crd.name, plane) }));

  const starved = judged.filter(({ reading }) => {
    const { minimum } = reading ?? {};
    return minimum !== undefined && (bundle === undefined || olderThan(bundle, minimum));
  });
  const [old] = starved;
  if (old?.reading?.minimum !== undefined) {
    const { plane, reading } = old;
    yield {
      finding: 'too-old-for-istio',
      key: 'bundle',
      about: 'bundle',
      effect:
        bundle === undefined
          ? `it says no bundle version, so Istio ${plane.release?.text} ignores every ${kind} without a status`
          : `Istio ${plane.release?.text} ignores every ${kind}: bundle ${crd.bundleVersion} is older than ${reading.minimum}`,
      fix: `install the Gateway API CRDs of ${reading.minimum} or newer, with their annotations`,
      evidence: deploymentOf(plane),
      certain: starved.length === planes.length,
      path: pointer('metadata', 'annotations', BUNDLE),
    };
  }

  const unread = judged.filter(({ plane, reading }) => {
    if (reading === undefined || reading.minimum !== undefined) return false;
    const served = crd.versions.some(version => version.name === reading.version && version.served);
    const tlsRoute = crd.name.startsWith('tlsroutes.') && bundle !== undefined && !olderThan(bundle, '1.5');
    return !served || (tlsRoute && plane.release !== undefined && ignoresNewTlsRoute(plane.release));
  });
  const [first] = unread;
  if (first?.reading !== undefined) {
    const { plane, reading } = first;
    const waits =
      crd.name.startsWith('tlsroutes.') && plane.release !== undefined && !ignoresNewTlsRoute(plane.release);
    yield {
      finding: 'too-new-for-istio',
      key: 'bundle',
      about: 'bundle',
      effect: waits
        ? `Istio ${plane.release?.text} reads ${kind} ${reading.version} only, and fails at start where nobody serves it`
        : `Istio ${plane.release?.text} reads ${kind} ${reading.version} only: it ignores every ${kind} of this bundle`,
      fix: `keep a bundle that serves ${reading.version} until istiod is at ${successor(crd.name, reading.version)}`,
      evidence: deploymentOf(plane),
      certain: unread.length === planes.length,
      path: pointer('spec', 'versions'),
    };
  }
}

/** The first Istio release that reads the kind in the version after this one. */
function successor(crd: string, version: string): string {
  return READINGS.get(crd)?.find(reading => reading.version !== version)?.from ?? 'a newer release';
}

export const crdBundle = definePolicy({
  id: 'crd-bundle',
  title: 'The CRDs are those that the running Istio reads',
  subjects: [CRD],
  reads: ['Deployment.apps', 'ConfigMap', 'MutatingWebhookConfiguration.admissionregistration.k8s.io'],
  findings: {
    'too-old-for-istio': {
      action: 'deny',
      since: '1.28',
      seen: ['validate', 'files', 'audit'],
      doc: 'a Gateway API CRD of an older bundle than the running Istio asks for, or of none',
    },
    'too-new-for-istio': {
      action: 'deny',
      until: '1.30',
      seen: ['validate', 'files', 'audit'],
      doc: 'a Gateway API CRD that no longer serves the version that the running Istio reads',
    },
    'drops-stored-version': {
      action: 'deny',
      seen: ['mutate', 'files'],
      doc: 'a CRD without a version in which objects are stored: the API server refuses it',
      objectAlone: true,
    },
  },
  options: z.object({}).strict(),
  *check(subject, context) {
    const crd = subject as CustomResourceDefinition;
    const names = new Set(crd.versions.map(({ name }) => name));
    for (const stored of crd.storedVersions) {
      if (names.has(stored)) continue;
      yield {
        finding: 'drops-stored-version',
        key: stored,
        effect: `objects are stored as ${stored}, which it drops: the API server refuses the CRD`,
        fix: `keep ${stored} with served: false until status.storedVersions no longer has it`,
        evidence: [],
        because: `status.storedVersions: ${crd.storedVersions.join(', ')}`,
        path: pointer('spec', 'versions'),
      };
    }
    if (READINGS.has(crd.name)) yield* onBundle(crd, context);
  },
  *affected(change, { after }) {
    if (!touchesControlPlane(change)) return;
    for (const name of READINGS.keys()) {
      const crd = after.get(CRD, '', name);
      if (crd !== undefined) yield crd;
    }
    yield PAUSE;
  },
});

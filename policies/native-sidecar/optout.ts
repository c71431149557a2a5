// Ways to write the opt-out that are not read.
import { pointer } from '../../src/kube/patch.ts';
import { NATIVE_ANNOTATION, nativeByDefault } from '../../src/mesh/injection.ts';
import { type Found, hasProxy, isTwin, MISTAKEN, type Pods } from './facts.ts';

export function* unknownOptOut({ mesh, workload, injection, at, evidence }: Pods): Found {
  const { template } = workload;
  const value = template.annotations[NATIVE_ANNOTATION];
  const common = { finding: 'unknown-opt-out', evidence } as const;
  if (value !== undefined && value !== 'true' && value !== 'false') {
    // without a value the setting decides; with any other the template makes it native and the move of the override does not
    const clashes =
      value !== '' &&
      hasProxy(template.containers) !== undefined &&
      injection.controlPlanes.length > 0 &&
      injection.controlPlanes.every(plane => nativeByDefault(mesh, plane, template.nodeName) === false);
    yield {
      ...common,
      key: NATIVE_ANNOTATION,
      effect: clashes
        ? `${NATIVE_ANNOTATION}: "${value}" makes the proxy native but not the override: its pods are refused`
        : value === ''
          ? `${NATIVE_ANNOTATION} without a value says nothing: the setting of istiod decides`
          : `${NATIVE_ANNOTATION}: "${value}" does not opt out, only "false" does: the proxy is native`,
      fix: `${NATIVE_ANNOTATION}: "true" or "false"`,
      ...(clashes ? { action: 'deny', certain: injection.certain } : {}),
      path: at('metadata', 'annotations', NATIVE_ANNOTATION),
    };
  }
  if (value !== undefined) return;
  const misspelt = Object.keys(template.annotations).find(isTwin);
  if (misspelt !== undefined) {
    yield {
      ...common,
      key: misspelt,
      effect: `no release reads the annotation ${misspelt}: it changes nothing`,
      fix: `${NATIVE_ANNOTATION}: "${template.annotations[misspelt]}"`,
      path: at('metadata', 'annotations', misspelt),
    };
    return;
  }
  const label = Object.keys(template.labels).find(key => MISTAKEN.test(key));
  if (label !== undefined) {
    yield {
      ...common,
      key: `label ${label}`,
      effect: `${label} is a label here, and only an annotation is read`,
      fix: `annotate the pod template: ${NATIVE_ANNOTATION}`,
      path: at('metadata', 'labels', label),
    };
    return;
  }
  if (workload.kind === 'Pod') return;
  const outside = Object.keys(workload.annotations).find(key => MISTAKEN.test(key));
  if (outside === undefined) return;
  yield {
    ...common,
    key: `outside ${outside}`,
    effect: `${outside} stands on the workload, and only the pod template's is read`,
    fix: `annotate the pod template: ${NATIVE_ANNOTATION}`,
    path: pointer('metadata', 'annotations', outside),
  };
}

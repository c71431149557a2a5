// An istiod whose injector cannot render the templates that it was given: those of a newer release's chart.
import type { CheckContext, Report } from '../../src/engine/policy.ts';
import { at, text } from '../../src/kube/json.ts';
import { ref } from '../../src/kube/kind.ts';
import { pointer } from '../../src/kube/patch.ts';
import { type InjectorConfig, injectorConfigMapName, injectorConfigs } from '../../src/mesh/injection.ts';
import { templatePath, type Workload } from '../../src/mesh/kinds/workloads.ts';
import { compareRelease, planeOf } from '../../src/mesh/releases.ts';

/**
 * What a release gave the templates of pods that none before has (`SidecarTemplateData`, pkg/kube/inject/inject.go at 1.30 and 1.31): Go
 * fails where a template asks for a field that is not there. Tried with the injectors and ConfigMaps of both: 1.31 renders 1.30's.
 */
const FIELDS: readonly { readonly field: RegExp; readonly name: string; readonly since: string }[] = [
  { field: /\{\{[^{}]*\.ProxyInitImage\b/, name: '.ProxyInitImage', since: '1.31' },
];

/** The templates that pods get which name none, aliases resolved; each once, or thousands of names with thousands of aliases multiply. */
function everyPods({ defaultTemplates, aliases, templates }: InjectorConfig): readonly string[] {
  const names = new Set<string>();
  for (const name of new Set(defaultTemplates)) {
    for (const one of Object.hasOwn(aliases, name) ? (aliases[name] ?? []) : [name]) names.add(one);
  }
  return [...names].flatMap(name => (Object.hasOwn(templates, name) ? (templates[name] ?? []) : []));
}

/** Whether the init container has an image with a registry of its own: the template asks for the field where it has none. */
function namesInitImage(values: string | undefined): boolean {
  try {
    return text(at(JSON.parse(values ?? '{}'), 'global', 'proxy_init', 'image'))?.includes('/') === true;
  } catch {
    return true;
  }
}

export function* onInjector(
  istiod: Workload,
  { mesh, stage, request }: CheckContext<unknown>,
): Iterable<Report<'injector-ahead'>> {
  const plane = planeOf(mesh, istiod);
  if (plane?.release === undefined) return;
  const { release } = plane;
  const config = mesh.fact(injectorConfigs).get(plane);
  const configMap = mesh.get('ConfigMap', plane.namespace, injectorConfigMapName(plane));
  if (config === undefined || configMap === undefined) return;
  const templates = everyPods(config);
  const ahead = FIELDS.find(
    ({ field, since }) => compareRelease(release, since) < 0 && templates.some(template => field.test(template)),
  );
  if (ahead === undefined || namesInitImage(configMap.data['values'])) return;
  yield {
    finding: 'injector-ahead',
    key: 'injector',
    effect: `istiod ${release.text} cannot render the injector's templates, which are of ${ahead.since}: every pod to inject is refused`,
    fix: `roll ConfigMap ${configMap.name} back with it (helm rollback), or run istiod ${ahead.since}`,
    evidence: [ref(configMap)],
    because: `its templates ask for ${ahead.name}`,
    // a ConfigMap goes before the Deployment in every upgrade
    ...(stage === 'validate' && request === undefined ? ({ action: 'warn' } as const) : {}),
    path: pointer(...templatePath(istiod.kind), 'spec', 'containers'),
  };
}

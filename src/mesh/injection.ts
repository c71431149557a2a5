// Whether a pod gets a proxy from a sidecar injector, from which control plane and template, and whether as a native sidecar.
// Follows istiod (pkg/kube/inject/{inject,webhook}.go, the chart's mutatingwebhook.yaml; read in 1.26 to 1.31).
import { at, record, records, text, texts } from '../kube/json.ts';
import { type LabelSelector, labelSelector, NO_STRINGS, type StringMap, selects } from '../kube/labels.ts';
import { yamlIn } from '../kube/yaml.ts';
import { WEBHOOKS, type Webhook, type WebhookConfiguration } from './kinds/cluster.ts';
import type { Container, Workload } from './kinds/workloads.ts';
import type { Fact, Mesh } from './mesh.ts';
import { atLeast, type ControlPlane, controlPlanes, flag, parseRelease } from './releases.ts';

export const PROXY = 'istio-proxy';
export const NATIVE_ANNOTATION = 'sidecar.istio.io/nativeSidecar';
export const TEMPLATES_ANNOTATION = 'inject.istio.io/templates';
const STATUS = 'sidecar.istio.io/status';
const INJECT = 'sidecar.istio.io/inject';
const INJECTION = 'istio-injection';
const REVISION = 'istio.io/rev';

/** Namespaces whose pods the injector never touches (pkg/kube/inject/initializer.go). */
const IGNORED = new Set(['kube-system', 'kube-public', 'kube-node-lease', 'local-path-storage']);

/**
 * What comes of a pod. `sidecar`: a proxy beside its containers, also one put there by hand. `gateway`: its proxy is the workload.
 * `custom`: another template (proxyless gRPC, the operator's own). `none`: no proxy. `unknown`: the state does not tell.
 */
export type InjectionState = 'sidecar' | 'gateway' | 'custom' | 'none' | 'unknown';

export interface Injection {
  readonly state: InjectionState;
  /** The reason, as a clause: 'its namespace has istio-injection: enabled'. */
  readonly why: string;
  /** Whose proxy it is; empty where nobody knows, and for `none`. */
  readonly controlPlanes: readonly ControlPlane[];
  /** True where the proxy stands in the template or the stored pod already, and no injector is going to add it. */
  readonly standing: boolean;
  /** Templates that the injector will apply, aliases resolved; empty where it is not asked. */
  readonly templates: readonly string[];
  /** False where it rests on the selectors of the default chart, since no injector webhook is in the state. */
  readonly certain: boolean;
}

/** The `config` of an `istio-sidecar-injector` ConfigMap, as far as decisions rest on it. */
export interface InjectorConfig {
  readonly policy: string;
  readonly defaultTemplates: readonly string[];
  readonly aliases: Readonly<Record<string, readonly string[]>>;
  /** Templates by name; the text is a Go template. */
  readonly templates: StringMap;
  readonly always: readonly LabelSelector[];
  readonly never: readonly LabelSelector[];
}

/** One webhook that would be asked about pods, and whose it is. */
interface Injector {
  readonly namespaceSelector?: LabelSelector;
  readonly objectSelector?: LabelSelector;
  readonly controlPlanes: readonly ControlPlane[];
  readonly certain: boolean;
}

function stringLists(value: unknown): Readonly<Record<string, readonly string[]>> {
  const lists = Object.create(null) as Record<string, readonly string[]>;
  for (const [key, list] of Object.entries(record(value) ?? {})) lists[key] = texts(list);
  return lists;
}

/** Selectors without requirements are skipped by the injector: they select nothing here. */
function podSelectors(value: unknown): readonly LabelSelector[] {
  return records(value)
    .flatMap(item => labelSelector(item) ?? [])
    .filter(({ matchLabels, matchExpressions }) => Object.keys(matchLabels).length + matchExpressions.length > 0);
}

/** The injector's configuration as it stands in `data.config`; undefined where it cannot be read. */
export function parseInjectorConfig(source: string | undefined): InjectorConfig | undefined {
  if (source === undefined) return undefined;
  const config = yamlIn(source)?.value;
  if (record(config) === undefined) return undefined;
  const defaults = texts(at(config, 'defaultTemplates'));
  const templates = Object.create(null) as Record<string, string>;
  for (const [name, template] of Object.entries(record(at(config, 'templates')) ?? {})) {
    templates[name] = text(template) ?? '';
  }
  return {
    policy: text(at(config, 'policy')) ?? '',
    defaultTemplates: defaults.length === 0 ? ['sidecar'] : defaults,
    aliases: stringLists(at(config, 'aliases')),
    templates,
    always: podSelectors(at(config, 'alwaysInjectSelector')),
    never: podSelectors(at(config, 'neverInjectSelector')),
  };
}

/** The name of a control plane's injector ConfigMap (istiod-injector-configmap.yaml of the chart). */
export function injectorConfigMapName(controlPlane: Pick<ControlPlane, 'revision'>): string {
  return controlPlane.revision === 'default'
    ? 'istio-sidecar-injector'
    : `istio-sidecar-injector-${controlPlane.revision}`;
}

/** The injector's configuration of each control plane for which it is known. */
export const injectorConfigs: Fact<ReadonlyMap<ControlPlane, InjectorConfig>> = {
  name: 'injectorConfigs',
  compute(mesh) {
    const known = new Map<ControlPlane, InjectorConfig>();
    for (const plane of mesh.fact(controlPlanes)) {
      const data = mesh.get('ConfigMap', plane.namespace, injectorConfigMapName(plane))?.data;
      const config = parseInjectorConfig(data?.['config']);
      if (config !== undefined) known.set(plane, config);
    }
    return known;
  },
};

function isInjector(configuration: WebhookConfiguration, webhook: Webhook): boolean {
  if (!webhook.pods) return false;
  const path = webhook.service?.path ?? webhook.url ?? '';
  return (
    webhook.name.endsWith('sidecar-injector.istio.io') ||
    (/\/inject(?:\/|$)/.test(path) &&
      (configuration.labels['app'] === 'sidecar-injector' || webhook.service?.name.startsWith('istiod') === true))
  );
}

/** The control planes behind a webhook: by its Service, else by its revision label. */
function planesBehind(
  planes: readonly ControlPlane[],
  configuration: WebhookConfiguration,
  { service }: Webhook,
): readonly ControlPlane[] {
  const label = configuration.labels[REVISION];
  const labelled = () => planes.filter(plane => plane.revision === label || plane.tags.includes(label ?? ''));
  if (service === undefined) return labelled();
  const there = planes.filter(plane => plane.namespace === service.namespace);
  const named = there.filter(
    plane => service.name === (plane.revision === 'default' ? 'istiod' : `istiod-${plane.revision}`),
  );
  if (named.length > 0) return named;
  const both = there.filter(plane => plane.revision === label || plane.tags.includes(label ?? ''));
  if (both.length > 0) return both;
  return there.length > 0 ? there : labelled();
}

const expression = (key: string, operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist', ...values: string[]) => ({
  key,
  operator,
  values,
});
const selector = (...matchExpressions: LabelSelector['matchExpressions']): LabelSelector => ({
  matchLabels: {},
  matchExpressions,
});

/** What the chart installs for a control plane (mutatingwebhook.yaml), for states that hold no webhook at all. */
function chartInjectors(plane: ControlPlane): readonly Injector[] {
  const revisions = [plane.revision, ...plane.tags];
  const notRefused = expression(INJECT, 'NotIn', 'false');
  const rest = { controlPlanes: [plane], certain: false };
  const injectors: Injector[] = [
    {
      namespaceSelector: selector(expression(REVISION, 'In', ...revisions), expression(INJECTION, 'DoesNotExist')),
      objectSelector: selector(notRefused),
      ...rest,
    },
    {
      namespaceSelector: selector(expression(REVISION, 'DoesNotExist'), expression(INJECTION, 'DoesNotExist')),
      objectSelector: selector(notRefused, expression(REVISION, 'In', ...revisions)),
      ...rest,
    },
  ];
  if (!revisions.includes('default')) return injectors;
  return [
    ...injectors,
    {
      namespaceSelector: selector(expression(INJECTION, 'In', 'enabled')),
      objectSelector: selector(notRefused),
      ...rest,
    },
    {
      namespaceSelector: selector(expression(INJECTION, 'DoesNotExist'), expression(REVISION, 'DoesNotExist')),
      objectSelector: selector(expression(INJECT, 'In', 'true'), expression(REVISION, 'DoesNotExist')),
      ...rest,
    },
  ];
}

/** Every webhook of an injector in the Mesh; the chart's where there is none and an istiod is. */
const injectors: Fact<readonly Injector[]> = {
  name: 'injectors',
  compute(mesh) {
    const planes = mesh.fact(controlPlanes);
    const found: Injector[] = [];
    for (const configuration of mesh.list(WEBHOOKS)) {
      for (const webhook of configuration.webhooks) {
        if (!isInjector(configuration, webhook)) continue;
        found.push({
          ...(webhook.namespaceSelector === undefined ? {} : { namespaceSelector: webhook.namespaceSelector }),
          ...(webhook.objectSelector === undefined ? {} : { objectSelector: webhook.objectSelector }),
          controlPlanes: planesBehind(planes, configuration, webhook),
          certain: true,
        });
      }
    }
    return found.length > 0 ? found : planes.flatMap(chartInjectors);
  },
};

/** All that injection rests on beside the pod and its namespace, as plain data: equal where nothing changed for anybody. */
export const injectionSettings: Fact<unknown> = {
  name: 'injectionSettings',
  compute(mesh) {
    const named = ({ namespace, revision }: ControlPlane) => `${namespace}/${revision}`;
    return {
      planes: mesh.fact(controlPlanes).map(plane => ({
        name: named(plane),
        tags: plane.tags,
        release: plane.release,
        native: plane.env['ENABLE_NATIVE_SIDECARS'],
      })),
      injectors: mesh.fact(injectors).map(injector => ({
        ...injector,
        controlPlanes: injector.controlPlanes.map(named),
      })),
      configs: [...mesh.fact(injectorConfigs)].map(([plane, config]) => ({ plane: named(plane), config })),
    };
  },
};

/** What the injector decides of a pod that it is asked about; undefined where releases differ. */
function wanted(config: InjectorConfig | undefined, labels: StringMap, annotations: StringMap): boolean | undefined {
  const value = labels[INJECT] ?? annotations[INJECT] ?? '';
  if (value === 'true') return config === undefined || config.policy === 'enabled' || config.policy === 'disabled';
  if (value === 'false') return false;
  const fallback = (): boolean => {
    if (config === undefined) return true;
    const illegal = config.policy !== 'enabled' && config.policy !== 'disabled';
    if (illegal || config.never.some(one => selects(one, labels))) return false;
    return config.policy === 'enabled' || config.always.some(one => selects(one, labels));
  };
  if (value === '') return fallback();
  // today's injector ignores every other value, with a warning in its log; older ones read yes, y and on as true, the rest as false
  const older = /^(?:y|yes|true|on)$/i.test(value);
  return fallback() === older ? older : undefined;
}

function resolved(config: InjectorConfig | undefined, annotations: StringMap): readonly string[] {
  const asked = annotations[TEMPLATES_ANNOTATION];
  const names =
    asked === undefined ? (config?.defaultTemplates ?? ['sidecar']) : asked.split(',').map(name => name.trim());
  return names.flatMap(name => config?.aliases[name] ?? [name]);
}

function stateOf(templates: readonly string[]): InjectionState {
  if (templates.includes('sidecar')) return 'sidecar';
  return templates.includes('gateway') ? 'gateway' : 'custom';
}

/**
 * True for an image of Istio's proxy, in any registry and of any vendor: `proxyv2` almost everywhere, `istio-proxy` with some, or
 * anything under a path that names Istio. The registry's host says nothing.
 */
export function isProxyImage(image: string): boolean {
  const repository = image.split('@')[0] ?? '';
  const parts = repository.split('/');
  const path = parts.length > 1 && /[.:]|^localhost$/.test(parts[0] ?? '') ? parts.slice(1) : parts;
  return /proxyv2|istio/i.test(path.join('/'));
}

function has(containers: readonly Container[], name: string): Container | undefined {
  return containers.find(container => container.name === name);
}

/** The proxy container that a template or pod holds. */
export function proxyOf({
  template,
}: Pick<Workload, 'template'>): { readonly container: Container; readonly init: boolean } | undefined {
  const regular = has(template.containers, PROXY);
  if (regular !== undefined) return { container: regular, init: false };
  const init = has(template.initContainers, PROXY);
  return init === undefined ? undefined : { container: init, init: true };
}

/**
 * True where the proxy is part of the object itself although the status annotation that `istioctl kube-inject` and the injector
 * leave is missing: a proxy with Istio's image and the init container that redirects traffic to it.
 */
function holdsProxy(workload: Workload): boolean {
  const { template } = workload;
  const proxy = proxyOf(workload);
  return (
    proxy !== undefined &&
    isProxyImage(proxy.container.image) &&
    (has(template.initContainers, 'istio-init') ?? has(template.initContainers, 'istio-validation')) !== undefined
  );
}

/** True for the pods of Gateways that Istio runs (waypoints among them): their proxy is the workload. */
function isManagedGateway(workload: Workload): boolean {
  const { labels } = workload.template;
  if (labels['gateway.istio.io/managed'] !== undefined) return true;
  const proxy = workload.component === 'gateway' ? proxyOf(workload) : undefined;
  return proxy !== undefined && isProxyImage(proxy.container.image);
}

/** True for a gateway whose proxy somebody wrote out in full, as charts did before gateway injection. */
function isWrittenGateway(workload: Workload): boolean {
  const proxy = proxyOf(workload);
  return proxy !== undefined && !proxy.init && proxy.container.router && isProxyImage(proxy.container.image);
}

/** What a pod with a proxy was injected as: the annotation that chose its template stays. */
function templateState({ template }: Workload): InjectionState {
  const templates = template.annotations[TEMPLATES_ANNOTATION];
  return templates === undefined ? 'sidecar' : stateOf(templates.split(',').map(name => name.trim()));
}

function standingPlanes(mesh: Mesh, { template }: Workload): readonly ControlPlane[] {
  const planes = mesh.fact(controlPlanes);
  // istiod notes the revision that rendered the pod: on those of waypoints and Gateways it is all they say (files/waypoint.yaml)
  let revision = template.labels[REVISION] ?? template.annotations[REVISION];
  const status = template.annotations[STATUS];
  try {
    if (status !== undefined) revision = text(at(JSON.parse(status) as unknown, 'revision')) ?? revision;
  } catch {
    // whatever stands there, the label is as good
  }
  const named = planes.filter(plane => plane.revision === revision || plane.tags.includes(revision ?? ''));
  return named.length > 0 ? named : planes;
}

const NOTHING = { controlPlanes: [], standing: false, templates: [], certain: true } as const;

function none(why: string): Injection {
  return { ...NOTHING, state: 'none', why };
}

function standing(mesh: Mesh, workload: Workload, state: InjectionState, why: string): Injection {
  return { ...NOTHING, state, why, controlPlanes: standingPlanes(mesh, workload), standing: true };
}

/** What the injectors that are asked about pods of a namespace make of them; undefined where none is asked. */
function asked(
  mesh: Mesh,
  namespace: string,
  { labels, annotations }: { readonly labels: StringMap; readonly annotations: StringMap },
): Injection | undefined {
  const inNamespace = mesh.get('Namespace', '', namespace)?.labels;
  const seeing = mesh
    .fact(injectors)
    .filter(
      ({ namespaceSelector, objectSelector }) =>
        (objectSelector === undefined || selects(objectSelector, labels)) &&
        (inNamespace === undefined || namespaceSelector === undefined || selects(namespaceSelector, inNamespace)),
    );
  if (seeing.length === 0) return undefined;
  if (inNamespace === undefined && seeing.every(({ namespaceSelector }) => namespaceSelector !== undefined)) {
    return { ...NOTHING, state: 'unknown', why: `the labels of namespace ${namespace} are not known` };
  }
  const configs = mesh.fact(injectorConfigs);
  const planes = [...new Set(seeing.flatMap(injector => injector.controlPlanes))];
  const certain = seeing.some(injector => injector.certain);
  const decisions = (planes.length === 0 ? [undefined] : planes).map(plane => ({
    plane,
    config: plane === undefined ? undefined : configs.get(plane),
    wants: wanted(plane === undefined ? undefined : configs.get(plane), labels, annotations),
  }));
  const wanting = decisions.filter(({ wants }) => wants === true);
  const [first] = wanting;
  if (first === undefined) {
    if (decisions.every(({ wants }) => wants === false)) return none('the injector is told to leave its pods alone');
    const value = labels[INJECT] ?? annotations[INJECT];
    return { ...NOTHING, state: 'unknown', why: `releases of Istio differ on ${INJECT}: ${value}` };
  }
  const templates = resolved(first.config, annotations);
  return {
    state: stateOf(templates),
    why: reason(inNamespace ?? {}, labels),
    controlPlanes: wanting.flatMap(({ plane }) => plane ?? []),
    standing: false,
    templates,
    certain,
  };
}

function reason(namespace: StringMap, labels: StringMap): string {
  if (namespace[INJECTION] !== undefined) return `its namespace has ${INJECTION}: ${namespace[INJECTION]}`;
  if (namespace[REVISION] !== undefined) return `its namespace has ${REVISION}: ${namespace[REVISION]}`;
  if (labels[REVISION] !== undefined) return `its pods have ${REVISION}: ${labels[REVISION]}`;
  if (labels[INJECT] !== undefined) return `its pods have ${INJECT}: ${labels[INJECT]}`;
  return 'an injector webhook selects its namespace';
}

/** Whether pods of a namespace that say nothing themselves get a sidecar, whether there are any or not. */
export function injectsByDefault(mesh: Mesh, namespace: string): boolean | 'unknown' {
  if (IGNORED.has(namespace)) return false;
  const state = asked(mesh, namespace, { labels: NO_STRINGS, annotations: NO_STRINGS })?.state;
  return state === 'unknown' ? 'unknown' : state === 'sidecar';
}

/** Whether the pods of a workload get a proxy, from whom, and by which template. The one place that decides it. */
export function injectionOf(mesh: Mesh, workload: Workload): Injection {
  const { template } = workload;
  if (isManagedGateway(workload)) return standing(mesh, workload, 'gateway', 'it is a Gateway that Istio runs');
  // injected already: where an injector is asked again it replaces what it once added
  if (template.annotations[STATUS] !== undefined)
    return standing(mesh, workload, templateState(workload), 'the proxy is part of it');
  // a stored pod is what it is: nothing is injected after its creation
  const stored = workload.kind === 'Pod' && workload.created !== '';
  const holds = holdsProxy(workload);
  if (!stored && !template.hostNetwork && !IGNORED.has(workload.namespace)) {
    const injection = asked(mesh, workload.namespace, workload.template);
    if (injection !== undefined && (injection.state === 'sidecar' || injection.state === 'gateway')) return injection;
    if (injection !== undefined && !holds && !isWrittenGateway(workload)) return injection;
  }
  if (holds) return standing(mesh, workload, templateState(workload), 'the proxy is part of it');
  if (isWrittenGateway(workload)) return standing(mesh, workload, 'gateway', 'its own container is a gateway proxy');
  if (stored) return none('it was created without a proxy');
  if (template.hostNetwork) return none('its pods use the host network');
  if (IGNORED.has(workload.namespace)) return none(`the injector leaves ${workload.namespace} alone`);
  if (template.labels[INJECT] === 'false') return none(`its pods have ${INJECT}: false`);
  return mesh.complete(WEBHOOKS)
    ? none('no injector webhook selects it')
    : { ...NOTHING, state: 'unknown', why: 'the injector webhooks are not known' };
}

/** What `ENABLE_NATIVE_SIDECARS` comes to; undefined where the release that decides it is not known. */
export function nativeMode(controlPlane: ControlPlane): 'true' | 'false' | 'auto' | undefined {
  const value = controlPlane.env['ENABLE_NATIVE_SIDECARS'];
  // both readings of these agree in every release (pilot/pkg/features/pilot.go)
  if (value === 'true' || value === 'false') return value;
  const chosen = atLeast(controlPlane.release, '1.27');
  if (chosen === undefined) return undefined;
  if (!chosen) return flag(controlPlane, 'ENABLE_NATIVE_SIDECARS', false) ? 'true' : 'false';
  return value === undefined || value === 'auto' ? 'auto' : 'false';
}

/** The first Kubernetes release whose kubelets `auto` counts on (native sidecars became stable). */
export const AUTO_KUBELET = '1.33';

/** True where `auto` would count on this kubelet: one whose version istiod cannot read does not count. */
function eligible(kubeletVersion: string): boolean | undefined {
  if (kubeletVersion === '') return undefined;
  return atLeast(parseRelease(kubeletVersion), AUTO_KUBELET) ?? false;
}

/** What the nodes that are known say to `auto`: false where one is too old, undefined where one does not tell. */
const knownNodesEligible: Fact<boolean | undefined> = {
  name: 'knownNodesEligible',
  compute(mesh) {
    let all: boolean | undefined = true;
    for (const node of mesh.list('Node')) {
      const one = eligible(node.kubeletVersion);
      if (one === false) return false;
      if (one === undefined) all = undefined;
    }
    return all;
  },
};

/**
 * What a control plane decides for pods that say nothing themselves: `DetectNativeSidecar` (pkg/kube/inject/webhook.go). With
 * `auto` one node that is too old turns it off for every pod that is not yet assigned to a node.
 */
export function nativeByDefault(mesh: Mesh, controlPlane: ControlPlane, nodeName?: string): boolean | 'unknown' {
  const mode = nativeMode(controlPlane);
  if (mode === undefined) return 'unknown';
  if (mode !== 'auto') return mode === 'true';
  if (nodeName !== undefined) {
    const node = mesh.find('Node', '', nodeName);
    if (node === 'unknown') return 'unknown';
    if (node !== 'absent') return eligible(node.kubeletVersion) ?? 'unknown';
  }
  const all = mesh.fact(knownNodesEligible);
  if (all === false) return false;
  return all === true && mesh.complete('Node') ? true : 'unknown';
}

/**
 * Whether a control plane would inject the proxy of this workload's pods as a native sidecar. The pod's annotation goes before
 * the setting, and every value but "false" means native (injection-template.yaml; tried with istiod 1.31).
 */
export function nativeOf(mesh: Mesh, workload: Workload, controlPlane: ControlPlane): boolean | 'unknown' {
  const asked = workload.template.annotations[NATIVE_ANNOTATION];
  if (asked !== undefined && asked !== '') return asked !== 'false';
  return nativeByDefault(mesh, controlPlane, workload.template.nodeName);
}

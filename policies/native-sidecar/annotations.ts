// Annotations that the injector refuses: the object is stored and its pods never come (pkg/kube/inject/validate.go, 1.26 to 1.31;
// tried with istiod 1.30 and 1.31).
import { isIP } from 'node:net';
import { record } from '../../src/kube/json.ts';
import type { StringMap } from '../../src/kube/labels.ts';
import { yamlIn } from '../../src/kube/yaml.ts';
import { parseBool } from '../../src/mesh/releases.ts';

/** What is wrong with a value, as the end of 'must be …'; undefined where the injector takes it. */
type Wish = (value: string) => string | undefined;

/** Go's strconv.ParseUint with base 10. */
function unsigned(value: string, atMost: number): boolean {
  return /^\d+$/.test(value) && BigInt(value) <= BigInt(atMost);
}

const uint32: Wish = value => (value.length < 64 && unsigned(value, 4294967295) ? undefined : 'a number');
const port: Wish = value => (value.length < 64 && unsigned(value.trim(), 65535) ? undefined : 'a port number');
const ports: Wish = value =>
  value.trim() === '' || value.split(',').every(one => port(one) === undefined)
    ? undefined
    : 'port numbers with commas';
const portsOrAll: Wish = value => (value === '*' ? undefined : ports(value));

/** Go's netip.ParsePrefix: an address without a zone, a slash and the number of bits without leading zeros. */
function isPrefix(value: string): boolean {
  const slash = value.lastIndexOf('/');
  const family = slash < 0 || value.includes('%') ? 0 : isIP(value.slice(0, slash));
  const bits = value.slice(slash + 1);
  return family !== 0 && /^(?:0|[1-9]\d{0,2})$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
}

const ranges: Wish = value =>
  value === '' || value.split(',').every(isPrefix) ? undefined : 'CIDRs with commas and no spaces';
const rangesOrAll: Wish = value => (value === '*' ? undefined : ranges(value));
const interfaces: Wish = value =>
  value === '' || value.split(',').every(one => /^[a-zA-Z][a-zA-Z0-9_.-]{0,14}$/.test(one.trim()))
    ? undefined
    : 'interface names with commas';
const boolean: Wish = value => (parseBool(value) === undefined ? 'true or false' : undefined);
const mode: Wish = value => (['REDIRECT', 'TPROXY', 'NONE'].includes(value) ? undefined : 'REDIRECT, TPROXY or NONE');

/** apimachinery's resource.ParseQuantity. */
/** Longer than any quantity or duration that means something: what is written there is the user's, and a pattern takes its time. */
const LONGEST = 64;

const quantity: Wish = value =>
  value.length <= LONGEST && /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?$/.test(value)
    ? undefined
    : 'a quantity';

/** Go's time.ParseDuration. */
const isDuration = (value: string) =>
  value.length <= LONGEST && /^[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/.test(value);

const TEXTS = ['discoveryAddress', 'statsdUdpAddress', 'customConfigFile', 'meshId', 'serviceCluster', 'configPath'];
const INTEGERS = ['concurrency', 'statusPort', 'proxyAdminPort', 'statNameLength'];
const BOOLEANS = ['holdApplicationUntilProxyStarts', 'statsCompression'];
const DURATIONS = ['drainDuration', 'terminationDrainDuration', 'fileFlushInterval'];
const MAPS = ['proxyMetadata', 'runtimeValues'];
const MESSAGES = ['tracing', 'image', 'readinessProbe', 'gatewayTopology', 'proxyStatsMatcher', 'proxyHeaders'];

/** What one field of ProxyConfig must be; undefined where its JSON is what protobuf reads, or is not known here. */
function field(name: string, value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  if (TEXTS.includes(name)) return typeof value === 'string' ? undefined : `${name} as text`;
  if (INTEGERS.includes(name)) {
    const fine = typeof value === 'number' ? Number.isInteger(value) : /^-?\d+$/.test(String(value));
    return fine && typeof value !== 'boolean' ? undefined : `${name} as a number`;
  }
  if (BOOLEANS.includes(name)) return typeof value === 'boolean' ? undefined : `${name}: true or false, without quotes`;
  if (DURATIONS.includes(name)) {
    return typeof value === 'string' && isDuration(value) ? undefined : `${name} as a duration such as 45s`;
  }
  const object = record(value);
  if (MESSAGES.includes(name)) return object === undefined ? `${name} as a mapping` : undefined;
  if (!MAPS.includes(name)) return undefined;
  if (object === undefined) return `${name} as a mapping`;
  const odd = Object.keys(object).find(key => typeof object[key] !== 'string' && object[key] !== null);
  return odd === undefined ? undefined : `${name}.${odd} as text, in quotes`;
}

const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

// A fleet shares a handful of these texts, and reading YAML costs more than all the rest of a review.
const judged = new Map<string, string | undefined>();
const JUDGED_AT_MOST = 500;

/** ProxyConfig as YAML. Keys that it has not are ignored; what protobuf cannot read is refused. */
const proxyConfig: Wish = value => {
  if (judged.has(value)) return judged.get(value);
  const wish = inProxyConfig(value);
  if (judged.size >= JUDGED_AT_MOST) judged.clear();
  if (value.length < 2048) judged.set(value, wish);
  return wish;
};

function inProxyConfig(value: string): string | undefined {
  const read = yamlIn(value);
  if (read === undefined) return 'valid YAML';
  const config = read.value;
  if (config === null || config === undefined) return undefined;
  const object = record(config);
  if (object === undefined) return 'a mapping of ProxyConfig fields';
  for (const name in object) {
    const wish = field(camel(name), object[name]);
    if (wish !== undefined) return wish;
  }
  return undefined;
}

const WISHES: ReadonlyMap<string, Wish> = new Map([
  ['sidecar.istio.io/interceptionMode', mode],
  ['status.sidecar.istio.io/port', port],
  ['readiness.status.sidecar.istio.io/initialDelaySeconds', uint32],
  ['readiness.status.sidecar.istio.io/periodSeconds', uint32],
  ['readiness.status.sidecar.istio.io/failureThreshold', uint32],
  ['traffic.sidecar.istio.io/includeOutboundIPRanges', rangesOrAll],
  ['traffic.sidecar.istio.io/excludeOutboundIPRanges', ranges],
  ['traffic.sidecar.istio.io/includeInboundPorts', portsOrAll],
  ['traffic.sidecar.istio.io/excludeInboundPorts', ports],
  ['traffic.sidecar.istio.io/excludeOutboundPorts', ports],
  ['prometheus.istio.io/merge-metrics', boolean],
  ['proxy.istio.io/config', proxyConfig],
  ['sidecar.istio.io/proxyCPU', quantity],
  ['sidecar.istio.io/proxyMemory', quantity],
  ['sidecar.istio.io/proxyCPULimit', quantity],
  ['sidecar.istio.io/proxyMemoryLimit', quantity],
]);

/** Since when the injector refuses odd interface names is not known for every release: they are a warning only. */
const INTERFACES = ['traffic.sidecar.istio.io/excludeInterfaces', 'traffic.sidecar.istio.io/kubevirtInterfaces'];

/** An annotation that the injector refuses, and what it must be. */
export interface Refused {
  readonly annotation: string;
  readonly wish: string;
  /** False where older releases may take it. */
  readonly certain: boolean;
}

/** True for annotations whose value the injector looks at, so that most pods cost nothing. */
export const isValidated = (annotation: string): boolean => WISHES.has(annotation) || INTERFACES.includes(annotation);

/** Every annotation of a pod that the injector refuses. */
export function* refusedAnnotations(annotations: StringMap): Generator<Refused> {
  for (const annotation in annotations) {
    const value = annotations[annotation] ?? '';
    const wish = WISHES.get(annotation)?.(value);
    if (wish !== undefined) yield { annotation, wish, certain: true };
    else if (INTERFACES.includes(annotation) && interfaces(value) !== undefined) {
      yield { annotation, wish: 'interface names with commas', certain: false };
    }
  }
}

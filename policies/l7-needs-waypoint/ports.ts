// HTTP rules on ports that are no HTTP. An Envoy's TCP filter chain leaves an ALLOW rule with HTTP attributes out, and blanks them in
// a DENY rule, which then refuses everything (pilot/pkg/security/authz/model; tried with istiod 1.30 and 1.31, I§12).
import type { AuthorizationPolicy, AuthorizationRule, Match } from '../../src/mesh/kinds/security.ts';
import type { Service, ServiceEntry } from '../../src/mesh/kinds/services.ts';

/** A port with which filter chain a waypoint builds for it: HTTP alone, TCP alone, or both where it declares nothing. */
export interface JudgedPort {
  readonly number: number;
  /** As pods know it, where it is a number. */
  readonly target: number;
  readonly name: string;
}

const HTTP = new Set(['http', 'http2', 'grpc', 'http_proxy']);
const TCP = new Set(['tcp', 'https', 'tls', 'mongo', 'redis', 'mysql']);
// ports that are never sniffed (pkg/config/kube/conversion.go): SMTP, DNS, MySQL, MongoDB
const WELL_KNOWN = new Set([25, 53, 3306, 27017]);

/** What a Service's port is declared as (pkg/config/kube/conversion.go ConvertProtocol). */
export function declaredAs(
  port: number,
  name: string,
  protocol: string,
  appProtocol: string | undefined,
): 'http' | 'tcp' | 'nothing' | 'other' {
  if (protocol !== 'TCP') return 'other';
  if (appProtocol === 'kubernetes.io/h2c' || appProtocol === 'kubernetes.io/ws') return 'http';
  if (appProtocol === 'kubernetes.io/wss') return 'tcp';
  const said = (appProtocol ?? name).toLowerCase();
  if (said.startsWith('grpc-web')) return 'http';
  const prefix = said.split('-')[0] ?? '';
  if (HTTP.has(prefix)) return 'http';
  if (TCP.has(prefix)) return 'tcp';
  if (prefix === 'udp') return 'other';
  return WELL_KNOWN.has(port) ? 'tcp' : 'nothing';
}

/** The ports of a target for which a waypoint builds a TCP chain alone. */
export function tcpPorts(target: Service | ServiceEntry): readonly JudgedPort[] {
  if (target.kind === 'Service') {
    return (target as Service).ports
      .filter(port => declaredAs(port.port, port.name, port.protocol, port.appProtocol) === 'tcp')
      .map(port => ({
        number: port.port,
        target: typeof port.targetPort === 'number' ? port.targetPort : port.port,
        name: port.name,
      }));
  }
  return (target as ServiceEntry).ports
    .filter(port => TCP.has(port.protocol.toLowerCase()))
    .map(port => ({ number: port.number, target: port.targetPort ?? port.number, name: port.name }));
}

const OPERATION_HTTP = ['hosts', 'notHosts', 'methods', 'notMethods', 'paths', 'notPaths'];
const SOURCE_HTTP = ['requestPrincipals', 'notRequestPrincipals'];
const SOURCE_TCP = [
  'principals',
  'notPrincipals',
  'namespaces',
  'notNamespaces',
  'serviceAccounts',
  'notServiceAccounts',
  'ipBlocks',
  'notIpBlocks',
  'remoteIpBlocks',
  'notRemoteIpBlocks',
  'trustDomains',
  'notTrustDomains',
];

const has = (match: Match, keys: readonly string[]) => keys.some(key => match[key] !== undefined);

function httpKey(key: string): boolean {
  return key.startsWith('request.');
}

/** The attributes of a rule that only HTTP has, for Envoy: fewer than ztunnel leaves out. */
export function httpAttributes(rule: AuthorizationRule): readonly string[] {
  const found = new Set<string>();
  for (const match of rule.to ?? []) for (const key of OPERATION_HTTP) if (match[key] !== undefined) found.add(key);
  for (const match of rule.from ?? []) for (const key of SOURCE_HTTP) if (match[key] !== undefined) found.add(key);
  for (const { key } of rule.when ?? []) if (httpKey(key)) found.add(key);
  return [...found];
}

const same = (port: JudgedPort, values: readonly string[]) =>
  values.some(value => value === String(port.number) || value === String(port.target));

/** Whether a rule can match traffic to a port, by what it says of ports. */
function reaches(rule: AuthorizationRule, port: JudgedPort): boolean {
  const operation =
    rule.to === undefined ||
    rule.to.some(
      match =>
        (match['ports'] === undefined || same(port, match['ports'])) &&
        (match['notPorts'] === undefined || !same(port, match['notPorts'])),
    );
  return (
    operation &&
    (rule.when ?? []).every(
      ({ key, values, notValues }) =>
        key !== 'destination.port' || ((values.length === 0 || same(port, values)) && !same(port, notValues)),
    )
  );
}

/** True where a policy lets some traffic to a TCP port in. */
export function opens(policy: AuthorizationPolicy, port: JudgedPort): boolean {
  return (
    policy.action === 'ALLOW' && policy.rules.some(rule => httpAttributes(rule).length === 0 && reaches(rule, port))
  );
}

/** True where some rule of an ALLOW policy has HTTP attributes, so that it opens no TCP port. */
export function hasHttp(policy: AuthorizationPolicy): boolean {
  return policy.rules.some(rule => httpAttributes(rule).length > 0);
}

/** True where an alternative names ports itself: what happens on them is what its author wants. */
function choosesPorts(rule: AuthorizationRule, match: Match | undefined): boolean {
  return (
    match?.['ports'] !== undefined ||
    match?.['notPorts'] !== undefined ||
    (rule.when ?? []).some(({ key }) => key === 'destination.port')
  );
}

/**
 * What a DENY rule refuses on a TCP port beyond what is written: everything, what comes from some sources, or nothing. A rule that
 * chooses its ports is what its author wants there.
 */
export function closes(rule: AuthorizationRule): 'all' | 'sources' | 'nothing' {
  if (httpAttributes(rule).length === 0) return 'nothing';
  const operations = rule.to ?? [undefined];
  const fromHttp = (rule.from ?? []).some(source => has(source, SOURCE_HTTP));
  const whenHttp = (rule.when ?? []).some(({ key }) => httpKey(key));
  const broad = operations.some(
    match =>
      !choosesPorts(rule, match) && (fromHttp || whenHttp || (match !== undefined && has(match, OPERATION_HTTP))),
  );
  if (!broad) return 'nothing';
  const anyone = (rule.from ?? [undefined]).some(source => source === undefined || !has(source, SOURCE_TCP));
  const conditions = (rule.when ?? []).some(({ key }) => !httpKey(key));
  return anyone && !conditions ? 'all' : 'sources';
}

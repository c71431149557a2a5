import type { Manifest } from '../../harness/objects.ts';
import { APPS, type Entries, labelled, type Mood, without } from './mood.ts';

const GATEWAY_API = 'gateway.networking.k8s.io';
const ISSUER = 'issuer.example.test';
/** A public key, so that nobody has to fetch one. */
const JWKS = JSON.stringify({
  keys: [{ kty: 'oct', kid: 'oracle', alg: 'HS256', k: 'b3JhY2xlLW9yYWNsZS1vcmFjbGUtb3JhY2xl' }],
});

function source({ random, a, b }: Mood): Entries {
  return random.pick<Entries>([
    { principals: [`cluster.local/ns/${a}/sa/web`] },
    { principals: [`spiffe://cluster.local/ns/${a}/sa/web`] },
    { notPrincipals: [`cluster.local/ns/${b}/sa/api`] },
    { namespaces: [a] },
    { namespaces: [a, `${b}*`] },
    { notNamespaces: [b] },
    { requestPrincipals: ['*'] },
    { namespaces: [a], notRequestPrincipals: ['*'] },
    { notRequestPrincipals: ['*'] },
    { ipBlocks: ['10.0.0.0/8'] },
    { notIpBlocks: ['192.0.2.0/24'] },
    { remoteIpBlocks: ['192.0.2.0/24'] },
    { notRemoteIpBlocks: ['192.0.2.0/24'], namespaces: [b] },
    { serviceAccounts: [`${a}/web`] },
    { notServiceAccounts: [`${a}/web`] },
    { trustDomains: ['cluster.local'] },
    { trustDomains: ['cluster.local'], namespaces: [a] },
    { notTrustDomains: ['td.example.test'], notNamespaces: [b] },
  ]);
}

function operation({ random }: Mood): Entries {
  return random.pick<Entries>([
    { paths: ['/admin*'] },
    { methods: ['GET'], ports: ['8080'] },
    { methods: ['GET', 'HEAD'] },
    { notMethods: ['GET'] },
    { ports: ['5432'] },
    { ports: ['80', '9000'] },
    { notPorts: ['5432'] },
    { notPorts: ['5432'], notMethods: ['POST'] },
    { hosts: ['x.example.test'] },
    { notHosts: ['x.example.test'], ports: ['8080'] },
    { notPaths: ['/healthz'] },
    { paths: ['/a'], ports: ['80'] },
  ]);
}

function condition({ random, a, b }: Mood): Entries {
  return random.pick<Entries>([
    { key: 'source.ip', values: ['10.1.0.0/16'] },
    { key: 'destination.ip', notValues: ['10.1.0.0/16'] },
    { key: 'destination.port', values: ['8080'] },
    { key: 'destination.port', notValues: ['5432'] },
    { key: 'source.namespace', notValues: [b] },
    { key: 'source.principal', values: [`cluster.local/ns/${a}/sa/web`] },
    { key: 'source.serviceAccount', values: [`${a}/web`] },
    { key: 'remote.ip', values: ['192.0.2.7'] },
    { key: 'connection.sni', values: ['x.example.test'] },
    { key: 'request.headers[x-role]', values: ['admin'] },
    { key: 'request.auth.claims[group]', values: ['x'] },
    { key: 'request.auth.principal', notValues: ['x'] },
  ]);
}

function targetRef({ random }: Mood): Entries {
  return random.pick<Entries>([
    { group: '', kind: 'Service', name: random.pick(APPS) },
    { group: '', kind: 'Service', name: 'web' },
    { kind: 'Service', name: 'web' },
    { group: 'networking.istio.io', kind: 'ServiceEntry', name: random.pick(['partner', 'partner', 'twin']) },
    { group: GATEWAY_API, kind: 'Gateway', name: random.pick(['waypoint', 'waypoint', 'shared', 'ingress']) },
    { group: GATEWAY_API, kind: 'GatewayClass', name: random.pick(['istio-waypoint', 'oracle-all']) },
  ]);
}

const several = <T>(mood: Mood, make: (mood: Mood) => T) =>
  Array.from({ length: 1 + mood.random.int(2) }, () => make(mood));

function attachment(mood: Mood, targeted: number): Entries {
  const { random } = mood;
  if (random.chance(targeted)) {
    if (random.chance(0.1)) return { targetRef: targetRef(mood) };
    const refs = several(mood, targetRef);
    return { targetRefs: refs };
  }
  return random.pick<Entries>([
    {},
    { selector: { matchLabels: { app: random.pick(APPS) } } },
    { selector: { matchLabels: { app: random.pick(APPS) } } },
    { selector: {} },
    { selector: { matchLabels: {} } },
    { selector: { matchLabels: { version: 'v1' } } },
    { selector: { matchLabels: { 'gateway.networking.k8s.io/gateway-name': random.pick(['waypoint', 'ingress']) } } },
  ]);
}

export function authorizationPolicy(mood: Mood, at: string, name: string): Manifest {
  const { random, maybe } = mood;
  const action = random.pick(['ALLOW', 'ALLOW', 'DENY', 'DENY', 'DENY', 'AUDIT', 'CUSTOM', undefined]);
  const rules = Array.from({ length: random.int(3) }, () =>
    without({
      from: maybe(
        0.55,
        several(mood, one => ({ source: source(one) })),
      ),
      to: maybe(
        0.6,
        several(mood, one => ({ operation: operation(one) })),
      ),
      when: maybe(0.25, several(mood, condition)),
    }),
  );
  const never = action === 'CUSTOM' || action === 'AUDIT';
  return {
    apiVersion: 'security.istio.io/v1',
    kind: 'AuthorizationPolicy',
    metadata: {
      name,
      namespace: at,
      labels: labelled({ 'istio.io/rev': maybe(0.06, random.pick(['elsewhere', 'default', 'prod'])) }),
      annotations: labelled({ 'istio.io/dry-run': never ? undefined : maybe(0.07, 'true') }),
    },
    spec: without({
      ...attachment(mood, mood.sound ? 0.55 : 0.35),
      action,
      provider: action === 'CUSTOM' ? { name: random.pick(['nobody', 'oracle-authz']) } : undefined,
      // istiod's own validation refuses a DENY and a CUSTOM without rules
      rules: rules.length === 0 && (action === 'DENY' || action === 'CUSTOM') ? [{}] : rules,
    }),
  };
}

export function peerAuthentication({ random, maybe }: Mood, at: string, name: string): Manifest {
  const modes = ['STRICT', 'STRICT', 'PERMISSIVE', 'DISABLE', 'UNSET'];
  const selector = random.chance(0.75);
  return {
    apiVersion: 'security.istio.io/v1',
    kind: 'PeerAuthentication',
    metadata: { name, namespace: at },
    spec: without({
      selector: selector ? { matchLabels: { app: random.pick(APPS) } } : undefined,
      mtls: maybe(0.6, { mode: random.pick(modes) }),
      portLevelMtls:
        selector && random.chance(0.85)
          ? Object.fromEntries(
              random
                .some(['80', '8080', '9090', '9191', '7000', '5432'], 0.35)
                .map(port => [port, { mode: random.pick(modes) }]),
            )
          : undefined,
    }),
  };
}

/** The issuer by which a RequestAuthentication is known again. */
const issuerOf = (at: string, name: string): string => `${name}.${at}.${ISSUER}`;

export function requestAuthentication(mood: Mood, at: string, name: string): Manifest {
  return {
    apiVersion: 'security.istio.io/v1',
    kind: 'RequestAuthentication',
    metadata: { name, namespace: at },
    spec: { ...attachment(mood, 0.7), jwtRules: [{ issuer: issuerOf(at, name), jwks: JWKS }] },
  };
}

/** A policy of the root namespace, which is for the whole mesh. */
export function rootPolicy(mood: Mood, name: string): Manifest {
  const { random } = mood;
  const root = 'istio-system';
  if (random.chance(0.25)) return peerAuthentication(mood, root, name);
  if (random.chance(0.2)) return requestAuthentication(mood, root, name);
  const policy = authorizationPolicy(mood, root, name);
  const className = random.pick(['istio-waypoint', 'istio-waypoint', 'oracle-all']);
  if (!random.chance(0.35)) return policy;
  const { selector: _, targetRef: __, ...spec } = policy['spec'] as Entries;
  return {
    ...policy,
    spec: { ...spec, targetRefs: [{ group: GATEWAY_API, kind: 'GatewayClass', name: className }] },
  };
}

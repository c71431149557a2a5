// The CA that is plugged into istiod: whether istiod will start with it.
import * as z from 'zod';
import { type CheckContext, definePolicy, type Report } from '../../src/engine/policy.ts';
import type { ObjectRef } from '../../src/kube/kind.ts';
import { CRL_FILE, GENERATED, ISTIO_FILES, TLS_FILES } from '../../src/mesh/cacerts.ts';
import { touchesControlPlane } from '../../src/mesh/changes.ts';
import { CACERTS, SECRET, type Secret } from '../../src/mesh/kinds/secrets.ts';
import type { Mesh } from '../../src/mesh/mesh.ts';
import { atLeast, type ControlPlane, controlPlanes, flag, rootNamespaces } from '../../src/mesh/releases.ts';

type Id = 'incomplete' | 'crl-incomplete' | 'crl-in-tls-layout' | 'expires-soon' | 'chain-does-not-verify';

const DAY = 86_400_000;

interface Options {
  readonly days: number;
}

/** The control planes that mount a Secret: it is read in istiod's own namespace. */
function readers(mesh: Mesh, namespace: string): readonly ControlPlane[] {
  return mesh.fact(controlPlanes).filter(plane => plane.namespace === namespace);
}

/** How istiod takes an incomplete set: from 1.27 on it exits, before it made a CA of its own without a word. */
function onIncomplete(planes: readonly ControlPlane[]): string {
  const exits = planes.map(({ release }) => atLeast(release, '1.27'));
  if (exits.length > 0 && exits.every(one => one === false)) return 'istiod silently signs with a CA of its own';
  if (exits.length > 0 && exits.every(one => one === true)) return 'istiod does not start';
  return 'istiod does not start (before 1.27 it silently signs with a CA of its own)';
}

function* onFiles({ files, ca }: Secret, planes: readonly ControlPlane[]): Iterable<Report<Id>> {
  if (ca === undefined) {
    yield {
      finding: 'incomplete',
      key: 'files',
      effect: 'it has none of the files that istiod knows: istiod silently signs with a CA of its own',
      fix: `name its keys ${ISTIO_FILES.join(', ')}`,
      evidence: [],
      path: '/data',
    };
    return;
  }
  const wanted = ca.layout === 'tls' ? TLS_FILES : ISTIO_FILES;
  const others = ca.layout === 'tls' ? ISTIO_FILES.filter(file => files.includes(file)) : [];
  if (ca.missing.length > 0) {
    // tls.key and ca.crt alone are no set at all to istiod
    const unseen = ca.layout === 'tls' && !files.includes('tls.crt');
    yield {
      finding: 'incomplete',
      key: 'files',
      effect: unseen
        ? 'without tls.crt istiod looks at none of its files: it silently signs with a CA of its own'
        : `${ca.missing.join(', ')} ${ca.missing.length > 1 ? 'are' : 'is'} missing: ${onIncomplete(planes)}`,
      fix:
        others.length > 0
          ? `remove tls.crt, which makes istiod ask for ${TLS_FILES.join(', ')}, or add the others`
          : `add ${ca.missing.join(', ')}: all of ${wanted.join(', ')} are needed`,
      evidence: [],
      path: '/data',
    };
  } else if (others.length > 0) {
    yield {
      finding: 'incomplete',
      key: 'files',
      effect: `it holds both layouts: istiod goes by tls.crt and ignores ${others.join(', ')}`,
      fix: 'keep the files of one layout',
      evidence: [],
      action: 'warn',
      path: '/data',
    };
  }
}

function* onCertificates({ ca }: Secret, { days }: Options, now: number): Iterable<Report<Id>> {
  if (ca === undefined || ca.missing.length > 0) return;
  const path = `/data/${ca.layout === 'tls' ? 'tls.crt' : 'ca-cert.pem'}`;
  const over = ca.chain.find(({ notAfter }) => notAfter <= now);
  const early = ca.chain.find(({ notBefore }) => notBefore > now);
  const when =
    over !== undefined
      ? `${over.subject} expired on ${day(over.notAfter)}`
      : early === undefined
        ? undefined
        : `${early.subject} is not valid before ${day(early.notBefore)}`;
  const fault = ca.fault ?? when;
  if (fault !== undefined) {
    yield {
      finding: 'chain-does-not-verify',
      key: 'chain',
      about: 'chain',
      effect: `${fault}: istiod does not start`,
      fix: 'a CA certificate, its key and its chain to the root belong together; try openssl verify',
      evidence: [],
      ...(ca.fault === undefined ? { because: `today is ${day(now)}` } : {}),
      path,
    };
    return;
  }
  const soon = ca.chain.reduce<(typeof ca.chain)[number] | undefined>(
    (first, one) => (first === undefined || one.notAfter < first.notAfter ? one : first),
    undefined,
  );
  if (soon === undefined || soon.notAfter - now > days * DAY) return;
  yield {
    finding: 'expires-soon',
    key: 'expiry',
    about: 'chain',
    effect: `${soon.subject} expires on ${day(soon.notAfter)}: from then on istiod does not start and signs nothing`,
    fix: 'plug in its successor now: workloads need time to take it up',
    evidence: [],
    because: `today is ${day(now)}`,
    path,
  };
}

const day = (time: number) => (Number.isFinite(time) ? new Date(time).toISOString().slice(0, 10) : 'an unknown day');

function* onLists({ files, ca }: Secret, planes: readonly ControlPlane[]): Iterable<Report<Id>> {
  if (ca === undefined || ca.missing.length > 0 || !files.includes(CRL_FILE)) return;
  const path = `/data/${CRL_FILE}`;
  if (ca.layout === 'tls') {
    yield {
      finding: 'crl-in-tls-layout',
      key: CRL_FILE,
      effect: `${CRL_FILE} beside tls.crt is not read: revoked certificates stay good`,
      fix: `use ${ISTIO_FILES.join(', ')} instead`,
      evidence: [],
      path,
    };
    return;
  }
  // read from 1.27 on, and where the flag is not off
  const reading = planes.filter(
    plane => atLeast(plane.release, '1.27') !== false && flag(plane, 'PILOT_ENABLE_CA_CRL', true),
  );
  if (ca.crlFault === undefined || (planes.length > 0 && reading.length === 0)) return;
  yield {
    finding: 'crl-incomplete',
    key: CRL_FILE,
    effect: `${ca.crlFault}: istiod does not start`,
    fix: `put a list of every CA in cert-chain.pem into ${CRL_FILE}, each with cRLSign`,
    evidence: [],
    certain: planes.length === 0 || planes.every(plane => atLeast(plane.release, '1.27') === true),
    path,
  };
}

export const caBundle = definePolicy({
  id: 'ca-bundle',
  title: 'istiod can start with the CA that is plugged in',
  subjects: [SECRET],
  reads: ['Deployment.apps', 'ConfigMap', 'MutatingWebhookConfiguration.admissionregistration.k8s.io'],
  findings: {
    incomplete: {
      action: 'deny',
      seen: ['validate', 'files', 'audit'],
      doc: 'files of the CA are missing: istiod does not start, or signs with a CA of its own',
    },
    'crl-incomplete': {
      action: 'deny',
      since: '1.27',
      seen: ['validate', 'files', 'audit'],
      doc: 'a CA of the chain has no revocation list of its own, or may not sign one',
    },
    'crl-in-tls-layout': {
      action: 'warn',
      since: '1.27',
      seen: ['validate', 'files', 'audit'],
      doc: 'revocation lists in the layout that does not take them',
    },
    'expires-soon': {
      action: 'warn',
      seen: ['validate', 'files', 'audit'],
      doc: 'a certificate from the signing one to the root expires within 30 days (option: days)',
    },
    'chain-does-not-verify': {
      action: 'deny',
      seen: ['validate', 'files', 'audit'],
      doc: 'the certificate does not lead to the root, is no CA, is expired, or the key is another one',
    },
  },
  options: z.object({ days: z.number().int().min(0).default(30) }).strict(),
  *check(subject, { mesh, options }: CheckContext<Options>) {
    const secret = subject as Secret;
    if (secret.name !== CACERTS || secret.files.includes(GENERATED)) return;
    const planes = readers(mesh, secret.namespace);
    if (planes.length === 0 && !mesh.fact(rootNamespaces).includes(secret.namespace)) return;
    yield* onFiles(secret, planes);
    yield* onCertificates(secret, options, Date.now());
    yield* onLists(secret, planes);
  },
  *affected(change, { after }) {
    if (!touchesControlPlane(change)) return;
    for (const { kind, namespace, name } of after.list(SECRET)) {
      if (name === CACERTS) yield { kind, namespace, name } satisfies ObjectRef;
    }
  },
});

// What the Secret holds, and what is to be done with it next. Pure but for the making of keys: every replica comes to the same
// conclusion from the same Secret, and whoever writes first has done it for all.
import { X509Certificate } from 'node:crypto';
import { leafOf, type Pair } from '../tls.ts';
import { issueAuthority, issueLeaf } from './issue.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** All in milliseconds. */
export interface Lifetimes {
  readonly authority: number;
  readonly leaf: number;
  /**
   * How long two CAs are trusted together before leaves change over, and again before the old CA goes: every API server must have
   * seen the bundle, and every replica the new leaf.
   */
  readonly overlap: number;
}

export const LIFETIMES: Lifetimes = Object.freeze({ authority: 5 * 365 * DAY, leaf: 90 * DAY, overlap: HOUR });

export interface Certificates {
  /** The CA that signs. */
  readonly authority: Pair;
  /** A CA that is trusted already and signs nothing yet. */
  readonly next?: Pair;
  /** The certificate of a CA that signs no more and is trusted still. */
  readonly former?: string;
  /** When `next` or `former` came, in milliseconds since 1970. */
  readonly since: number;
  readonly leaf: Pair;
}

/** The certificates to trust, PEM: the `caBundle`. */
export function bundleOf({ authority, next, former }: Certificates): string {
  return [authority.cert, next?.cert, former].filter(cert => cert !== undefined).join('');
}

/** When a certificate is renewed: at two thirds of its life. */
export function renewalOf(cert: string): number {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  return validFromDate.getTime() + ((validToDate.getTime() - validFromDate.getTime()) * 2) / 3;
}

/**
 * `make`: nothing usable is there. `announce`: a new CA is trusted beside the old one. `promote`: it signs from now on, and the leaf
 * is the first that it signs. `retire`: the old one is trusted no more. `renew`: another leaf of the same CA.
 */
export type StepName = 'make' | 'announce' | 'promote' | 'retire' | 'renew';

export interface Step {
  readonly name: StepName;
  /** When it is due, in milliseconds since 1970. */
  readonly at: number;
}

export interface Wanted {
  readonly lifetimes: Lifetimes;
  readonly names: readonly string[];
}

/** Throws where lifetimes leave no time for a rotation. */
export function checkLifetimes({ authority, leaf, overlap }: Lifetimes): void {
  if (!(overlap > 0 && leaf > 0 && leaf <= authority))
    throw new RangeError('certificate lifetimes are positive, and a leaf lives no longer than its CA');
  if (2 * overlap >= authority / 3)
    throw new RangeError('a CA is replaced in the last third of its life: two overlaps have to fit into it');
}

/** The step that is due next. */
export function nextStep(held: Certificates | undefined, { lifetimes, names }: Wanted, now: number): Step {
  if (held === undefined) return { name: 'make', at: now };
  const authority = new X509Certificate(held.authority.cert);
  if (authority.validToDate.getTime() <= now) return { name: 'make', at: now };
  const leaf = leafOf(held.leaf);
  const fits = leaf.verify(authority.publicKey) && names.every(name => leaf.checkHost(name) !== undefined);
  const renew: Step = { name: 'renew', at: fits ? renewalOf(held.leaf.cert) : now };
  const change: Step =
    held.next !== undefined
      ? { name: 'promote', at: held.since + lifetimes.overlap }
      : held.former !== undefined
        ? { name: 'retire', at: held.since + lifetimes.overlap }
        : { name: 'announce', at: renewalOf(held.authority.cert) };
  return renew.at < change.at ? renew : change;
}

/** What the Secret holds after a step. */
export async function taken(
  step: StepName,
  held: Certificates | undefined,
  { lifetimes, names }: Wanted,
  now: number,
): Promise<Certificates> {
  const newAuthority = () => issueAuthority({ now, life: lifetimes.authority });
  const leafFrom = (authority: Pair) => issueLeaf(authority, names, { now, life: lifetimes.leaf });
  if (held === undefined || step === 'make') {
    const authority = await newAuthority();
    // what was served until now stays trusted for a while
    const former = held === undefined ? {} : { former: held.authority.cert };
    return { authority, ...former, since: now, leaf: await leafFrom(authority) };
  }
  const { authority, next, since, leaf, former } = held;
  switch (step) {
    case 'announce':
      return { authority, next: await newAuthority(), since: now, leaf };
    case 'promote':
      return next === undefined
        ? held
        : { authority: next, former: authority.cert, since: now, leaf: await leafFrom(next) };
    case 'retire':
      return { authority, since, leaf };
    case 'renew':
      return {
        authority,
        ...(next === undefined ? {} : { next }),
        ...(former === undefined ? {} : { former }),
        since,
        leaf: await leafFrom(authority),
      };
  }
}

const KEYS = {
  bundle: 'ca.crt',
  cert: 'tls.crt',
  key: 'tls.key',
  authorityCert: 'authority.crt',
  authorityKey: 'authority.key',
  nextCert: 'next.crt',
  nextKey: 'next.key',
  formerCert: 'former.crt',
  since: 'since',
} as const;

/** Every key of the Secret's data that is ours. */
export const SECRET_KEYS: readonly string[] = Object.values(KEYS);

/** As the Secret has it, before base64. `ca.crt`, `tls.crt` and `tls.key` are named as other tools expect them. */
export function toData(held: Certificates): Readonly<Record<string, string>> {
  return {
    [KEYS.bundle]: bundleOf(held),
    [KEYS.cert]: held.leaf.cert,
    [KEYS.key]: held.leaf.key,
    [KEYS.authorityCert]: held.authority.cert,
    [KEYS.authorityKey]: held.authority.key,
    ...(held.next === undefined ? {} : { [KEYS.nextCert]: held.next.cert, [KEYS.nextKey]: held.next.key }),
    ...(held.former === undefined ? {} : { [KEYS.formerCert]: held.former }),
    [KEYS.since]: new Date(held.since).toISOString(),
  };
}

/** Reads that back; undefined where the Secret holds nothing that could be served. What is broken in part is left out. */
export function fromData(data: Readonly<Record<string, string>>): Certificates | undefined {
  const pairOf = (cert: string, key: string): Pair | undefined => {
    const pair = { cert: data[cert] ?? '', key: data[key] ?? '' };
    try {
      leafOf(pair);
      return pair;
    } catch {
      return undefined;
    }
  };
  const authority = pairOf(KEYS.authorityCert, KEYS.authorityKey);
  const leaf = pairOf(KEYS.cert, KEYS.key);
  if (authority === undefined || leaf === undefined) return undefined;
  const next = pairOf(KEYS.nextCert, KEYS.nextKey);
  const since = Date.parse(data[KEYS.since] ?? '');
  return {
    authority,
    leaf,
    since: Number.isNaN(since) ? 0 : since,
    ...(next === undefined ? {} : { next }),
    ...(isCertificate(data[KEYS.formerCert]) ? { former: data[KEYS.formerCert] as string } : {}),
  };
}

function isCertificate(pem: string | undefined): boolean {
  try {
    return pem !== undefined && new X509Certificate(pem).ca;
  } catch {
    return false;
  }
}

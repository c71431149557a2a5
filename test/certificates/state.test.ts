// Which step comes next, and what the Secret holds after it.
import { X509Certificate } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { issueLeaf } from '../../src/admission/certificates/issue.ts';
import { readSecret } from '../../src/admission/certificates/secret.ts';
import {
  bundleOf,
  type Certificates,
  checkLifetimes,
  fromData,
  nextStep,
  type StepName,
  taken,
  toData,
} from '../../src/admission/certificates/state.ts';
import { leafOf } from '../../src/admission/tls.ts';

const HOUR = 3_600_000;
const wanted = { lifetimes: { authority: 240 * HOUR, leaf: 24 * HOUR, overlap: HOUR }, names: ['w.w.svc', 'w.w'] };
const NOW = Date.parse('2026-11-30T12:00:00Z');
const made = () => taken('make', undefined, wanted, NOW);

describe('the next step', () => {
  it('is to make a CA and a leaf where there are none, or the CA has ended', async () => {
    expect(nextStep(undefined, wanted, NOW)).toEqual({ name: 'make', at: NOW });
    const later = NOW + 241 * HOUR;
    expect(nextStep(await made(), wanted, later)).toEqual({ name: 'make', at: later });
  });

  it('is to renew the leaf at two thirds of its life', async () => {
    const step = nextStep(await made(), wanted, NOW);
    expect(step.name).toBe('renew');
    expect(Math.abs(step.at - (NOW + 16 * HOUR))).toBeLessThan(HOUR / 10);
  });

  it('is to renew the leaf at once where it lacks a name or another CA signed it', async () => {
    const held = await made();
    expect(nextStep(held, { ...wanted, names: ['elsewhere.svc'] }, NOW)).toEqual({ name: 'renew', at: NOW });
    const strange: Certificates = { ...held, leaf: (await made()).leaf };
    expect(nextStep(strange, wanted, NOW)).toEqual({ name: 'renew', at: NOW });
  });

  it('goes through a change of CA in the order that no call notices', async () => {
    let held: Certificates | undefined;
    let now = NOW;
    const steps: StepName[] = [];
    const old = await made();
    held = old;
    const trustedBefore: string[] = [];
    while (now < NOW + 300 * HOUR) {
      const step = nextStep(held, wanted, now);
      now = Math.max(now, step.at);
      const before: Certificates = held;
      held = await taken(step.name, held, wanted, now);
      if (step.name !== 'renew') steps.push(step.name);
      // whoever serves the leaf of before or after is trusted by the bundle of before and after
      const issuers = [before.authority.cert, held.authority.cert];
      for (const bundle of [bundleOf(before), bundleOf(held)]) {
        if (step.name === 'promote') for (const issuer of issuers) expect(bundle).toContain(issuer);
        expect(bundle).toContain(before.authority.cert);
      }
      expect(leafOf(held.leaf).verify(new X509Certificate(held.authority.cert).publicKey)).toBe(true);
      expect(leafOf(held.leaf).validToDate.getTime()).toBeGreaterThan(now);
      trustedBefore.push(bundleOf(before));
    }
    expect(steps.slice(0, 3)).toEqual(['announce', 'promote', 'retire']);
    expect(bundleOf(held)).not.toContain(old.authority.cert);
  });

  it('keeps the old CA trusted where a new one had to be made at once', async () => {
    const old = await made();
    const after = await taken('make', old, wanted, NOW + 241 * HOUR);
    expect(bundleOf(after)).toBe(after.authority.cert + old.authority.cert);
  });
});

describe('certificates', () => {
  it('are for the Service’s names, of an own CA, and a leaf never outlives it', async () => {
    const { authority, leaf } = await made();
    const ca = new X509Certificate(authority.cert);
    expect(ca.ca).toBe(true);
    const short = leafOf(await issueLeaf(authority, ['w.w.svc'], { now: NOW + 230 * HOUR, life: 24 * HOUR }));
    expect(short.validToDate).toEqual(ca.validToDate);
    const certificate = leafOf(leaf);
    expect(certificate.ca).toBe(false);
    expect(wanted.names.map(name => certificate.checkHost(name))).toEqual(wanted.names);
    expect(certificate.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
    expect(certificate.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' });
  });
});

describe('the Secret', () => {
  it('gives back what was written, in every phase', async () => {
    const first = await made();
    const announced = await taken('announce', first, wanted, NOW);
    const promoted = await taken('promote', announced, wanted, NOW);
    for (const held of [first, announced, promoted]) expect(fromData(toData(held))).toEqual(held);
  });

  it('is taken for empty where it is, where a key is missing, and where keys do not belong together', async () => {
    const data = toData(await made());
    const other = toData(await made());
    expect(fromData({})).toBeUndefined();
    expect(fromData({ ...data, 'tls.key': '' })).toBeUndefined();
    expect(fromData({ ...data, 'tls.key': other['tls.key'] ?? '' })).toBeUndefined();
    expect(fromData({ ...data, 'authority.crt': 'nonsense' })).toBeUndefined();
    expect(readSecret({ data: { 'tls.crt': 'no base64 ***' } }).certificates).toBeUndefined();
    expect(readSecret(undefined)).toEqual({ rotate: false });
  });

  it('loses a broken next or former CA, and nothing else', async () => {
    const data = toData(await taken('announce', await made(), wanted, NOW));
    expect(fromData({ ...data, 'next.key': 'nonsense', 'former.crt': 'nonsense', since: 'yesterday' })).toEqual({
      authority: { cert: data['authority.crt'], key: data['authority.key'] },
      leaf: { cert: data['tls.crt'], key: data['tls.key'] },
      since: 0,
    });
  });
});

it('refuses lifetimes that leave no time for a change of CA', () => {
  expect(() => checkLifetimes({ authority: 6 * HOUR, leaf: HOUR, overlap: HOUR })).toThrow(RangeError);
  expect(() => checkLifetimes({ authority: HOUR, leaf: 2 * HOUR, overlap: 1 })).toThrow(RangeError);
  expect(() => checkLifetimes({ authority: 7 * HOUR, leaf: HOUR, overlap: HOUR })).not.toThrow();
});

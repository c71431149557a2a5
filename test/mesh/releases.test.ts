import { describe, expect, test } from 'vitest';
import { workload } from '../../src/mesh/kinds/workloads.ts';
import { atLeast, compareRelease, imageRelease, parseBool, parseRelease } from '../../src/mesh/releases.ts';

describe('releases', () => {
  test.each([
    ['1.28.1', 1, 28, 1],
    ['1.29-alpha.0a1b2c', 1, 29, undefined],
    ['1.28.1-distroless', 1, 28, 1],
    ['v1.33.4-eks-99d6cc0', 1, 33, 4],
    ['1.27.3-asm.9', 1, 27, 3],
    ['1.30', 1, 30, undefined],
    ['1.28.1_vendor', 1, 28, 1],
  ])('%s is %i.%i', (tag, major, minor, patch) => {
    expect(parseRelease(tag)).toMatchObject({ major, minor, ...(patch === undefined ? {} : { patch }) });
  });

  test.each(['latest', '', 'main', 'stable-1.28', '1', 'v1', 'sha-1.2.3'])('%j is unknown', tag => {
    expect(parseRelease(tag)).toBeUndefined();
  });

  test.each([
    ['docker.io/istio/pilot:1.28.1', '1.28.1'],
    ['localhost:5000/istio/pilot:1.31.1-distroless', '1.31.1-distroless'],
    ['registry.example.test:5000/pilot', undefined],
    ['istio/ztunnel@sha256:0000', undefined],
    ['istio/ztunnel:1.29.2@sha256:0000', '1.29.2'],
  ])('the release of image %s is %s', (image, text) => {
    expect(imageRelease(image)?.text).toBe(text);
  });

  test('compares by minor, and by patch where one is named', () => {
    const release = parseRelease('1.29.2');
    if (release === undefined) throw new Error('1.29.2 is a release');
    expect(compareRelease(release, '1.28')).toBeGreaterThan(0);
    expect(compareRelease(release, '1.29')).toBe(0);
    expect(compareRelease(release, '1.29.7')).toBeLessThan(0);
    expect(atLeast(parseRelease('1.29-alpha.1'), '1.29')).toBe(true);
    expect(atLeast(parseRelease('1.29-alpha.1'), '1.29.0')).toBe(false);
    expect(atLeast(undefined, '1.29')).toBeUndefined();
  });

  test.each([
    ['istiod', { app: 'istiod' }, { name: 'discovery', image: 'docker.io/istio/pilot:1.31.1' }, 'istiod'],
    [
      'istiod of a vendor',
      { istio: 'pilot' },
      { name: 'manager', image: 'vendor.test/pilot-agentless:1.30' },
      'istiod',
    ],
    ['a dashboard', { app: 'istiod' }, { name: 'web', image: 'registry.example.test/dashboard:2.0' }, undefined],
    ['ztunnel', { app: 'ztunnel' }, { name: 'istio-proxy', image: 'docker.io/istio/ztunnel:1.31.1' }, 'ztunnel'],
    ['a tunnel', { app: 'ztunnel' }, { name: 'vpn', image: 'registry.example.test/vpn:1.0' }, undefined],
    [
      'istio-cni',
      { 'k8s-app': 'istio-cni-node' },
      { name: 'install-cni', image: 'istio/install-cni:1.31.1' },
      'istio-cni',
    ],
    ['an exporter', { 'k8s-app': 'istio-cni-node' }, { name: 'exporter', image: 'exporter:1' }, undefined],
  ])('%s is told by its container too', (_, labels, container, component) => {
    const template = { metadata: { labels }, spec: { containers: [container] } };
    const object = { metadata: { name: 'one', namespace: 'play' }, spec: { template } };
    expect(workload('Deployment.apps', 'play', object).component).toBe(component);
  });

  test('of what is known by its metadata alone the labels tell', () => {
    const pod = { metadata: { name: 'one', namespace: 'istio-system', labels: { app: 'ztunnel' } } };
    expect(workload('Pod', 'istio-system', pod).component).toBe('ztunnel');
  });

  test('booleans are those of ParseBool', () => {
    expect(['1', 't', 'TRUE', 'true'].map(parseBool)).toEqual([true, true, true, true]);
    expect(['0', 'F', 'False'].map(parseBool)).toEqual([false, false, false]);
    expect(['yes', 'on', '', 'tRUE'].map(parseBool)).toEqual([undefined, undefined, undefined, undefined]);
  });
});

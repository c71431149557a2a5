import { describe, expect, test } from 'vitest';
import { inferencePoolEndpointPicker } from '../../policies/inferencepool-endpoint-picker/policy.ts';
import { judge, patched, review } from '../../src/admission/judge.ts';
import { type AdmissionRequest, requestFor } from '../../src/admission/request.ts';
import { DEFAULT_SETTINGS } from '../../src/engine/settings.ts';
import { at } from '../../src/kube/json.ts';
import { identify, project } from '../../src/mesh/kinds.ts';
import { createStore } from '../../src/mesh/store.ts';

function guardWith(objects: readonly unknown[], complete = true) {
  const mesh = createStore({ complete: () => complete });
  for (const object of objects) {
    const id = identify(object);
    if (id === undefined) throw new Error('no object');
    mesh.put(project(id.kind, id.namespace, object));
  }
  return { policies: [inferencePoolEndpointPicker], settings: DEFAULT_SETTINGS, mesh };
}

const istiod = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'istiod', namespace: 'istio-system' },
  spec: {
    template: {
      metadata: { labels: { app: 'istiod' } },
      spec: {
        containers: [
          {
            name: 'discovery',
            image: 'docker.io/istio/pilot:1.31.1',
            env: [{ name: 'ENABLE_GATEWAY_API_INFERENCE_EXTENSION', value: 'true' }],
          },
        ],
      },
    },
  },
};
const service = (...ports: readonly number[]) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'picker', namespace: 'llm' },
  spec: { ports: ports.map(port => ({ name: `p${port}`, port })) },
});
const pool = (endpointPickerRef: unknown) => ({
  apiVersion: 'inference.networking.k8s.io/v1',
  kind: 'InferencePool',
  metadata: { name: 'chat', namespace: 'llm' },
  spec: { targetPorts: [{ number: 8000 }], selector: { matchLabels: { app: 'chat' } }, endpointPickerRef },
});

function request(object: unknown, old?: unknown): AdmissionRequest {
  const made = requestFor(object, old === undefined ? {} : { old });
  if (made === undefined) throw new Error('no object');
  return made;
}

describe('the repair', () => {
  test.each([
    [{ name: 'picker' }],
    [{ name: 'picker', kind: 'Service' }],
    [{ name: 'picker', kind: '' }],
    [{ name: 'picker', port: {} }],
    [{ name: 'picker', port: null }],
  ])('adds the port to %j, and /validate has nothing more to say', async reference => {
    const guard = guardWith([istiod, service(9002, 9090)]);
    const first = await judge(guard, request(pool(reference)), 'mutate');
    expect(first.verdict).toBe('warn');
    expect(first.patch).toEqual([{ op: 'add', path: '/spec/endpointPickerRef/port', value: { number: 9002 } }]);
    const object = patched(pool(reference), first.patch);
    expect(at(object, 'spec', 'endpointPickerRef', 'port', 'number')).toBe(9002);
    expect((await judge(guard, request(object), 'validate')).verdict).toBe('allow');
    expect((await review(guard, request(pool(reference)))).warnings).toHaveLength(1);
  });

  test('guesses nothing where the Service has other ports, and names them', async () => {
    const verdict = await judge(guardWith([istiod, service(9100, 8000)]), request(pool({ name: 'picker' })), 'mutate');
    expect(verdict.verdict).toBe('deny');
    expect(verdict.patch).toEqual([]);
    expect(verdict.message).toContain('9100 (p9100), 8000 (p8000)');
  });

  test('needs no cluster to explain the refusal', async () => {
    const verdict = await judge(guardWith([], false), request(pool({ name: 'picker' })), 'mutate');
    expect(verdict).toMatchObject({ verdict: 'deny', patch: [] });
    expect(verdict.message).toContain('whether there is such a Service is not known');
  });

  test('never touches an object of an earlier shape', async () => {
    const guard = guardWith([istiod, service(9002)]);
    for (const reference of [
      { name: 'picker', portNumber: 9002 },
      { name: 'picker', port: 9002 },
    ]) {
      const verdict = await judge(guard, request(pool(reference)), 'mutate');
      expect(verdict).toMatchObject({ verdict: 'deny', patch: [] });
      expect(verdict.findings.map(({ finding }) => finding)).toEqual(['field-removed']);
    }
  });

  test('comes with an UPDATE of an old object too, which is not refused', async () => {
    const guard = guardWith([istiod, service(9002)]);
    const verdict = await judge(
      guard,
      request(
        { ...pool({ name: 'picker' }), spec: { ...pool({ name: 'picker' }).spec, targetPorts: [{ number: 8001 }] } },
        pool({ name: 'picker' }),
      ),
      'mutate',
    );
    expect(verdict.verdict).toBe('warn');
    expect(verdict.patch).toHaveLength(1);
  });
});

test('the Service comes last, or goes: the pool is what is warned about', async () => {
  const good = pool({ name: 'picker', port: { number: 9002 } });
  const guard = guardWith([istiod, service(9002), good]);
  const gone = await review(guard, {
    ...request(service(9002)),
    operation: 'DELETE',
    object: null,
    oldObject: service(9002),
  });
  expect(gone.findings).toMatchObject([
    { finding: 'picker-service-missing', action: 'warn', subject: { name: 'chat' } },
  ]);
  const moved = await review(guard, request(service(9100), service(9002)));
  expect(moved.findings).toMatchObject([{ finding: 'port-not-exposed', action: 'warn', subject: { name: 'chat' } }]);
});

test('a port of UDP is none for a picker', async () => {
  const udp = { ...service(), spec: { ports: [{ name: 'p', port: 9002, protocol: 'UDP' }] } };
  const verdict = await review(guardWith([istiod, udp]), request(pool({ name: 'picker' })));
  expect(verdict.verdict).toBe('deny');
});

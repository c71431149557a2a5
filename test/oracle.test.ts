import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { at } from '../src/kube/json.ts';
import type { Manifest } from './harness/objects.ts';
import { caseMeshes } from './oracle/cases.ts';
import { canMatch } from './oracle/compare/rbac.ts';
import type { Run } from './oracle/run.ts';
import { settingsOf } from './oracle/settings.ts';
import { shrink } from './oracle/shrink.ts';
import { renamed, type Situation, situation } from './oracle/situation.ts';

const service = (namespace: string, name: string, labels: Record<string, string>): Manifest => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace, labels },
  spec: { ports: [{ name: 'http', port: 80 }] },
});

/** A run that differs where a Service web has a label `bad`. */
function judged(one: Situation): Run {
  const bad = one.objects.find(object => object.metadata.labels?.['bad'] !== undefined);
  const about = `Service ${bad?.metadata.namespace}/${bad?.metadata.name}: waypoint`;
  return {
    situation: one,
    asked: 1,
    answers: [],
    about: new Map(),
    refused: new Map(),
    differences: bad === undefined ? [] : [{ about, model: `${one.prefix}-a/w`, istio: 'none' }],
  };
}

test('a differing mesh shrinks to the object and the label that make it differ', async () => {
  const others = Array.from({ length: 15 }, (_, index) => service('m7-a', `s${index}`, { app: 'x' }));
  const objects = [...others, service('m7-a', 'web', { bad: 'true', app: 'web' })];
  const found = judged({ title: 'seed 7', prefix: 'm7', objects, alone: false });
  let tried = 0;
  const small = await shrink(found, async situations => {
    tried += situations.length;
    return situations.map(judged);
  });
  const { prefix } = small.situation;
  expect(small.situation.objects).toEqual([
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'web', namespace: `${prefix}-a`, labels: { bad: 'true' } },
      spec: {},
    },
  ]);
  expect(tried).toBeLessThan(120);
});

test('a mesh is the same each time, and under another prefix but for its names', () => {
  const once = situation(42, '1.31');
  expect(situation(42, '1.31')).toEqual(once);
  const other = renamed(once, 'x1');
  expect(JSON.stringify(other.objects)).not.toContain('m42-');
  expect(renamed(other, 'm42')).toEqual(once);
});

test('settings go by turns or by name', () => {
  expect(settingsOf(0).name).toBe('plain');
  expect(settingsOf(4, 'layered').name).toBe('layered');
  expect(() => settingsOf(0, 'nothing')).toThrow(/no settings nothing: plain, /);
});

test('an RBAC policy matches a port by its permissions', () => {
  const principals = [{ andIds: { ids: [{ any: true }] } }];
  const policy = (permission: unknown) => ({ permissions: [permission], principals });
  const port = (destinationPort: number) => ({ orRules: { rules: [{ destinationPort }] } });
  expect(canMatch(policy({ any: true }), [5432])).toBe(true);
  expect(canMatch(policy(port(80)), [5432])).toBe(false);
  expect(canMatch(policy(port(80)), [5432, 80])).toBe(true);
  expect(canMatch(policy({ notRule: port(5432) }), [5432])).toBe(false);
  expect(canMatch(policy({ andRules: { rules: [{ any: true }, { notRule: port(80) }] } }), [5432])).toBe(true);
  // the policy that matches nothing, which stands for no rules
  expect(canMatch({ permissions: [{ notRule: { any: true } }], principals: [{ notId: { any: true } }] }, [80])).toBe(
    false,
  );
});

test('a case becomes a mesh in namespaces of its own, without the control plane', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-cases-'));
  mkdirSync(join(folder, 'one'));
  const write = (name: string, text: string) => writeFileSync(join(folder, 'one', name), text);
  write('expect.yaml', 'policy: route-needs-waypoint\nverdict: warn\n');
  write(
    'state.yaml',
    `apiVersion: apps/v1
kind: Deployment
metadata: { name: istiod, namespace: istio-system }
---
apiVersion: v1
kind: Namespace
metadata: { name: orders, labels: { istio.io/use-waypoint-namespace: infra, istio.io/use-waypoint: w } }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: w, namespace: infra }
status: { addresses: [{ value: 10.0.0.1 }] }
`,
  );
  write(
    'input.yaml',
    `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: { name: v, namespace: orders }
spec: { hosts: [api.orders.svc.cluster.local], gateways: [infra/w], exportTo: [infra] }
`,
  );
  const [found] = caseMeshes(folder, '1.31');
  expect(found?.input).toBe('VirtualService c0v131-orders/v');
  const objects = found?.situation.objects ?? [];
  expect(objects.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`)).toEqual([
    'Namespace /c0v131-infra',
    'Namespace /c0v131-orders',
    'Gateway c0v131-infra/w',
    'VirtualService c0v131-orders/v',
  ]);
  expect(objects[1]?.metadata.labels?.['istio.io/use-waypoint-namespace']).toBe('c0v131-infra');
  expect(objects[2]?.['status']).toBeUndefined();
  expect(at(objects[3], 'spec')).toEqual({
    hosts: ['api.c0v131-orders.svc.cluster.local'],
    gateways: ['c0v131-infra/w'],
    exportTo: ['c0v131-infra'],
  });
});

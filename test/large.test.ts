// One change that concerns thousands: answered within its deadline, or it says that it could not look at all.
import { expect, test } from 'vitest';
import { cluster } from '../bench/bodies.ts';
import { policies } from '../policies/index.ts';
import { type Guard, judge } from '../src/admission/judge.ts';
import { requestFor } from '../src/admission/request.ts';
import { DEFAULT_SETTINGS } from '../src/engine/settings.ts';
import { identify, project } from '../src/mesh/kinds.ts';
import { createStore } from '../src/mesh/store.ts';

const POLICIES = 2000;

function guard(rules: object): Guard {
  const store = createStore({ complete: kind => kind !== 'Namespace' });
  const put = (object: object) => {
    const identity = identify(object);
    if (identity === undefined) throw new Error('no object');
    store.put(project(identity.kind, identity.namespace, object));
  };
  for (const object of cluster(10_000)) put(object);
  put({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'big' } });
  for (let index = 0; index < 200; index += 1) {
    const labels = { app: `app-${index}` };
    put({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: `app-${index}`, namespace: 'big' },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'app', image: 'app:1' }] } },
      },
    });
  }
  for (let index = 0; index < POLICIES; index += 1) {
    put({
      apiVersion: 'security.istio.io/v1',
      kind: 'AuthorizationPolicy',
      metadata: { name: `policy-${index}`, namespace: 'big' },
      spec: { selector: { matchLabels: { app: `app-${index % 200}` } }, ...rules },
    });
  }
  return { policies, settings: DEFAULT_SETTINGS, mesh: store };
}

const enrolled = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: 'big', labels: { 'istio.io/dataplane-mode': 'ambient' } },
};
const old = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'big' } };

function joining() {
  const request = requestFor(enrolled, { old });
  if (request === undefined) throw new Error('a Namespace is an object');
  return request;
}

test('a namespace that joins ambient mode with 2,000 policies of which each would enforce nothing', async () => {
  const verdict = await judge(
    guard({ action: 'DENY', rules: [{ to: [{ operation: { paths: ['/admin'] } }] }] }),
    joining(),
    'validate',
    performance.now() + 9500,
  );
  expect(verdict.verdict).toBe('deny');
  expect(verdict.message).toContain('AuthorizationPolicy big/policy-');
});

test('the same with 2,000 that work: all of them are looked at, or it says that they were not', async () => {
  const works = guard({ action: 'ALLOW', rules: [{ from: [{ source: { namespaces: ['shop'] } }] }] });
  const verdict = await judge(works, joining(), 'validate', performance.now() + 9500);
  expect(verdict.verdict === 'allow' || verdict.unfinished).toBe(true);
  const hurried = await judge(works, joining(), 'validate', performance.now() + 1);
  expect(hurried.verdict).toBe('warn');
  expect(hurried.warnings.join()).toContain('more than could be checked in time');
});

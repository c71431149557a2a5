import { expect, test } from 'vitest';
import { createEvents, type EventDraft, eventBody, eventFor } from '../../src/admission/events.ts';
import type { Judged } from '../../src/admission/judge.ts';
import type { AdmissionRequest } from '../../src/admission/request.ts';

const CONTROLLER = 'system:serviceaccount:kube-system:replicaset-controller';
const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-1', uid: 'u1', controller: true };

function request(more: Partial<AdmissionRequest> = {}, name = 'web-1-x'): AdmissionRequest {
  return {
    uid: '1',
    kind: { group: '', version: 'v1', kind: 'Pod' },
    namespace: 'shop',
    name,
    operation: 'CREATE',
    userInfo: { username: CONTROLLER },
    object: { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'shop', ownerReferences: [owner] } },
    oldObject: null,
    dryRun: false,
    ...more,
  };
}

const denied: Judged = {
  verdict: 'deny',
  message: 'no\nreally',
  warnings: [],
  patch: [],
  findings: [],
  notices: [],
  unfinished: false,
};

test('a refused pod of a controller becomes an Event on its owner', () => {
  const draft = eventFor(request(), denied);
  expect(draft).toMatchObject({
    regarding: { apiVersion: 'apps/v1', kind: 'ReplicaSet', namespace: 'shop', name: 'web-1', uid: 'u1' },
    reason: 'WaywardenDenied',
    message: 'refused Pod shop/web-1-x: no really',
  });
  if (draft === undefined) throw new Error('there is one');
  expect(eventBody(draft, 'waywarden-0', new Date(0))).toMatchObject({
    namespace: 'shop',
    body: { type: 'Warning', involvedObject: { name: 'web-1' } },
  });
});

test('a sync of a GitOps tool becomes an Event on the object itself; on one without a namespace it stands in default', () => {
  const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', uid: 'n1' } };
  const draft = eventFor(
    request(
      {
        kind: { group: '', version: 'v1', kind: 'Namespace' },
        namespace: '',
        userInfo: { username: 'system:serviceaccount:argocd:argocd-application-controller' },
        object,
      },
      'shop',
    ),
    denied,
  );
  expect(draft?.regarding).toEqual({ apiVersion: 'v1', kind: 'Namespace', name: 'shop', uid: 'n1' });
  if (draft === undefined) throw new Error('there is one');
  expect(eventBody(draft, 'i', new Date(0)).namespace).toBe('default');
});

test('people see it themselves, dry runs leave no trace, and an allowed object is nothing to speak of', () => {
  expect(eventFor(request({ userInfo: { username: 'jane' } }), denied)).toBeUndefined();
  expect(eventFor(request({ dryRun: true }), denied)).toBeUndefined();
  expect(eventFor(request(), { ...denied, verdict: 'allow' })).toBeUndefined();
});

test('the same thing is said once, and a flood is held back', () => {
  const written: EventDraft[] = [];
  let time = 0;
  const events = createEvents({ write: async draft => void written.push(draft), now: () => time, perSecond: 2 });
  events.note(request(), denied);
  events.note(request({}, 'web-1-y'), denied);
  expect(written).toHaveLength(1);
  time = 600_001;
  events.note(request(), denied);
  expect(written).toHaveLength(2);
  for (let index = 0; index < 50; index += 1) {
    const named = { ...owner, name: `web-${index + 10}` };
    events.note(request({ object: { metadata: { name: 'p', ownerReferences: [named] } } }), denied);
  }
  expect(written).toHaveLength(11); // two, and nine: time had refilled the burst of ten, of which one was used at once
  expect(events.suppressed()).toBe(41);
});

test('a message keeps to what the API server takes', () => {
  const draft = eventFor(request(), { ...denied, message: '🦊'.repeat(5000) });
  expect(Buffer.byteLength(draft?.message ?? '')).toBeLessThanOrEqual(1024);
});

// Verdicts that their author cannot see: kubectl shows nobody the warnings on a controller's pods, nor those on what a GitOps
// tool syncs. They become Events, on the owner where there is one. Never in a dry run, and limited in rate.
import { createHash } from 'node:crypto';
import { clip, oneLine } from '../engine/message.ts';
import { at, records, text } from '../kube/json.ts';
import { splitGroupKind, spoken } from '../kube/kind.ts';
import type { Judged } from './judge.ts';
import { type AdmissionRequest, subjectOf } from './request.ts';

/** What an Event is about (core/v1 ObjectReference). */
export interface InvolvedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid?: string;
}

/** One Event to be written. */
export interface EventDraft {
  readonly regarding: InvolvedObject;
  readonly reason: 'WaywardenDenied' | 'WaywardenWarned';
  /** At most 1,024 bytes, the API server's limit for core/v1 Events. */
  readonly message: string;
  /** Equal for what need not be said twice. */
  readonly key: string;
}

/** Writes an Event; rejects where it could not. */
export type WriteEvent = (draft: EventDraft) => Promise<void>;

export interface EventOptions {
  readonly write: WriteEvent;
  /** Milliseconds in which the same is not said again of the same object. Default 600,000. */
  readonly quiet?: number;
  /** Events a second over all, after a burst of five times as many. Default 5. */
  readonly perSecond?: number;
  readonly now?: () => number;
}

export interface Events {
  /** Notes a verdict; returns at once. */
  note(request: AdmissionRequest, judged: Judged): void;
  /** Events that were not written because there were too many. */
  suppressed(): number;
}

const MESSAGE_AT_MOST = 1000;
const REMEMBERED_AT_MOST = 5000;

/** True for users that are programs: a warning to them is read by nobody. */
function isProgram(username: string): boolean {
  return (
    username.startsWith('system:serviceaccount:') ||
    username.startsWith('system:node:') ||
    username.startsWith('system:kube-')
  );
}

function truncated(message: string): string {
  let short = clip(message, MESSAGE_AT_MOST);
  while (Buffer.byteLength(short) > 1024) short = clip(short, Math.floor([...short].length * 0.9));
  return short;
}

/** The Event that a verdict asks for; undefined where its author sees it himself, or where there is nothing to say. */
export function eventFor(request: AdmissionRequest, judged: Judged): EventDraft | undefined {
  if (judged.verdict === 'allow' || request.dryRun === true) return undefined;
  if (!isProgram(request.userInfo?.username ?? '')) return undefined;
  const subject = subjectOf(request);
  if (subject === undefined) return undefined;
  const object = request.object ?? request.oldObject;
  const { namespace, name, kind } = subject.ref;
  const owner = records(at(object, 'metadata', 'ownerReferences')).find(reference => reference['controller'] === true);
  const { group, kind: kindName } = splitGroupKind(kind);
  const uid = text(at(owner ?? at(object, 'metadata'), 'uid'));
  const regarding: InvolvedObject = {
    apiVersion:
      owner === undefined
        ? group === ''
          ? subject.version
          : `${group}/${subject.version}`
        : (text(owner['apiVersion']) ?? ''),
    kind: owner === undefined ? kindName : (text(owner['kind']) ?? ''),
    ...(namespace === '' ? {} : { namespace }),
    name: owner === undefined ? name : (text(owner['name']) ?? ''),
    ...(uid === undefined ? {} : { uid }),
  };
  const denied = judged.verdict === 'deny';
  const what = denied ? oneLine(judged.message ?? '') : judged.warnings.join(' ');
  const found = judged.findings
    .filter(({ action }) => action === 'deny' || action === 'warn')
    .map(({ policy, finding }) => `${policy}/${finding}`);
  return {
    regarding,
    reason: denied ? 'WaywardenDenied' : 'WaywardenWarned',
    message: truncated(`${denied ? 'refused' : 'warned about'} ${oneLine(spoken(subject.ref))}: ${what}`),
    key: `${regarding.kind}/${namespace}/${regarding.name}/${denied}/${[...new Set(found)].sort().join(',')}`,
  };
}

/** Keeps to the limits, and forgets what was said long ago. */
export function createEvents({ write, quiet = 600_000, perSecond = 5, now = Date.now }: EventOptions): Events {
  const said = new Map<string, number>();
  let tokens = perSecond * 5;
  let filled = now();
  let suppressed = 0;
  return {
    note(request, judged) {
      const draft = eventFor(request, judged);
      if (draft === undefined) return;
      const time = now();
      const last = said.get(draft.key);
      if (last !== undefined && time - last < quiet) return;
      tokens = Math.min(perSecond * 5, tokens + ((time - filled) * perSecond) / 1000);
      filled = time;
      if (tokens < 1) {
        suppressed += 1;
        return;
      }
      tokens -= 1;
      said.delete(draft.key);
      said.set(draft.key, time);
      if (said.size > REMEMBERED_AT_MOST) {
        const oldest = said.keys().next();
        if (oldest.done !== true) said.delete(oldest.value);
      }
      // not written: forget it, so that the next verdict tries again
      write(draft).catch(() => said.delete(draft.key));
    },
    suppressed: () => suppressed,
  };
}

/** The core/v1 Event of a draft, as a JSON body for `POST /api/v1/namespaces/NAMESPACE/events`. */
export function eventBody(
  draft: EventDraft,
  instance: string,
  now: Date,
): { readonly namespace: string; readonly body: unknown } {
  // Events on cluster-scoped objects stand in `default`, as kubectl describe expects them (client-go tools/record)
  const namespace = draft.regarding.namespace ?? 'default';
  const suffix = createHash('sha256').update(`${draft.key}\n${now.getTime()}\n${instance}`).digest('hex').slice(0, 16);
  const time = now.toISOString().replace(/\.\d+Z$/, 'Z');
  return {
    namespace,
    body: {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `waywarden.${suffix}`, namespace },
      involvedObject: draft.regarding,
      reason: draft.reason,
      message: draft.message,
      type: 'Warning',
      source: { component: 'waywarden' },
      reportingComponent: 'waywarden',
      reportingInstance: instance,
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    },
  };
}

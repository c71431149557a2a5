// The emergency exit: both configurations fail open, by one field and one field manager, so that there is a way back.
import { ownEntries } from '../../admission/certificates/registration.ts';
import { text } from '../../kube/json.ts';
import { InputError } from '../../mesh/sources/files.ts';
import { COLLECTIONS, look, type Patient, saidIn } from './symptom.ts';

/**
 * Owns `failurePolicy` of the entries that were unlocked. Applied again without them, the field goes, and the API server fills in
 * its default, which is Fail: nobody who applies the chart server-side meets a conflict then.
 */
const MANAGER = 'waywarden-doctor';

async function apply(patient: Patient, kind: string, collection: string, webhooks: readonly unknown[]): Promise<void> {
  const answer = await patient.client.request({
    method: 'PATCH',
    path: `${collection}/${encodeURIComponent(patient.webhooks)}?fieldManager=${MANAGER}&force=true`,
    contentType: 'application/apply-patch+yaml',
    body: { apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata: { name: patient.webhooks }, webhooks },
  });
  if (answer.status !== 200)
    throw new InputError(`${kind} ${patient.webhooks} could not be changed: ${saidIn(answer)}`);
}

async function entriesOf(patient: Patient, kind: string, collection: string) {
  const { client, webhooks, namespace, service } = patient;
  const looked = await look(client, `${collection}/${encodeURIComponent(webhooks)}`);
  if ('why' in looked) throw new InputError(`${kind} ${webhooks} cannot be read: ${looked.why}`);
  return looked.object === undefined ? [] : ownEntries(looked.object, { namespace, name: service });
}

/** Makes every entry fail open; gives what it did, a line each. */
export async function unlock(patient: Patient): Promise<readonly string[]> {
  const lines: string[] = [];
  let there = 0;
  for (const [kind, collection] of Object.entries(COLLECTIONS)) {
    const entries = await entriesOf(patient, kind, collection);
    there += entries.length;
    const locked = entries.filter(({ failurePolicy }) => failurePolicy === 'Fail');
    if (locked.length === 0) continue;
    // what an apply leaves out it takes back: entries that are unlocked already stay in
    const open = entries.filter(({ name }) => text(name)?.startsWith('closed.') === true);
    const all = [...new Set([...locked, ...open].map(({ name }) => name))];
    await apply(
      patient,
      kind,
      collection,
      all.map(name => ({ name, failurePolicy: 'Ignore' })),
    );
    for (const { name } of locked) lines.push(`${kind} ${patient.webhooks}: ${text(name)} is Ignore now, and was Fail`);
  }
  if (there === 0)
    return [
      `no webhook of the Service ${patient.namespace}/${patient.service} is registered as ${patient.webhooks}: there is nothing to unlock`,
    ];
  return lines.length > 0 ? lines : ['every entry fails open already: nothing was changed'];
}

/** Undoes {@link unlock}. */
export async function lock(patient: Patient): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const [kind, collection] of Object.entries(COLLECTIONS)) {
    const before = await entriesOf(patient, kind, collection);
    if (before.length === 0) continue;
    await apply(patient, kind, collection, []);
    const after = await entriesOf(patient, kind, collection);
    for (const { name, failurePolicy } of after) {
      const was = before.find(entry => entry['name'] === name)?.['failurePolicy'];
      if (was !== failurePolicy)
        lines.push(`${kind} ${patient.webhooks}: ${text(name)} is ${text(failurePolicy)} now, and was ${text(was)}`);
    }
  }
  return lines.length > 0 ? lines : ['nothing was unlocked by waywarden doctor: nothing was changed'];
}

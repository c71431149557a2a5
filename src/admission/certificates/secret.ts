// The Secret that the replicas share. Nobody leads: whoever writes first has won, and the others read what he wrote.
import { at, record, text } from '../../kube/json.ts';
import type { KubeClient } from '../../mesh/sources/cluster/client.ts';
import { refusal } from './follow.ts';
import { type Certificates, fromData, SECRET_KEYS, toData } from './state.ts';

export const FIELD_MANAGER = 'waywarden-certificates';

/** Set on the Secret by somebody who wants another CA now; taken away by the replica that has begun with it. */
export const ROTATE = 'waywarden.dev/rotate-ca';

/** The Secret as it was read. */
export interface Held {
  /** undefined where it holds nothing that could be served. */
  readonly certificates?: Certificates;
  /** Whether somebody asks for another CA. */
  readonly rotate: boolean;
  /** The object, with the resourceVersion that a write must still meet; undefined where there is no Secret. */
  readonly object?: unknown;
}

const decoded = (value: unknown) => Buffer.from(text(value) ?? '', 'base64').toString('utf8');
const encoded = (value: string) => Buffer.from(value, 'utf8').toString('base64');

export function readSecret(object: unknown): Held {
  const data = record(at(object, 'data')) ?? {};
  const certificates = fromData(Object.fromEntries(Object.entries(data).map(([key, value]) => [key, decoded(value)])));
  return {
    ...(certificates === undefined ? {} : { certificates }),
    rotate: at(object, 'metadata', 'annotations', ROTATE) !== undefined,
    ...(object === undefined ? {} : { object }),
  };
}

export interface SecretStore {
  readonly collection: string;
  readonly name: string;
  /** Rejects, in one line, where it cannot be read. */
  read(): Promise<Held>;
  /** Writes over exactly what was read; false where another replica was faster. Rejects where it may not. */
  write(over: Held, certificates: Certificates): Promise<boolean>;
}

export function secretStore(client: KubeClient, namespace: string, name: string): SecretStore {
  const collection = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
  const path = `${collection}/${encodeURIComponent(name)}`;
  return {
    collection,
    name,
    async read() {
      const { status, body } = await client.request({ path });
      if (status === 404) return { rotate: false };
      if (status !== 200) throw new Error(refusal(status, body));
      return readSecret(body);
    },
    async write({ object }, certificates) {
      const ours = Object.fromEntries(
        Object.entries(toData(certificates)).map(([key, value]) => [key, encoded(value)]),
      );
      const answer =
        object === undefined
          ? await client.request({
              method: 'POST',
              path: `${collection}?fieldManager=${FIELD_MANAGER}`,
              body: { apiVersion: 'v1', kind: 'Secret', type: 'Opaque', metadata: { name, namespace }, data: ours },
            })
          : await client.request({
              method: 'PUT',
              path: `${path}?fieldManager=${FIELD_MANAGER}`,
              body: { ...(object as object), metadata: kept(object), data: { ...others(object), ...ours } },
            });
      if (answer.status === 200 || answer.status === 201) return true;
      // 404: it went away between reading and writing
      if (answer.status === 409 || (answer.status === 404 && object !== undefined)) return false;
      if (answer.status === 403 && object === undefined)
        throw new Error(
          `there is no Secret ${namespace}/${name}, and the guard may not make one: apply its manifest again`,
        );
      throw new Error(refusal(answer.status, answer.body));
    },
  };
}

/** The metadata without the wish for another CA, which is granted by the write. */
function kept(object: unknown): unknown {
  const metadata = record(at(object, 'metadata')) ?? {};
  const { [ROTATE]: _granted, ...annotations } = record(metadata['annotations']) ?? {};
  return { ...metadata, annotations };
}

/** Keys that somebody else has put into the Secret stay. */
function others(object: unknown): Readonly<Record<string, unknown>> {
  const data = record(at(object, 'data')) ?? {};
  return Object.fromEntries(Object.entries(data).filter(([key]) => !SECRET_KEYS.includes(key)));
}

import { at, record, text } from '../../kube/json.ts';
import type { GroupKind } from '../../kube/kind.ts';
import { type CaFacts, caFacts } from '../cacerts.ts';
import { type Meta, metaOf } from './meta.ts';

export const SECRET = 'Secret';
/** The name of the Secret with the CA that is plugged into istiod (security/pkg/pki/ca CACertsSecret). */
export const CACERTS = 'cacerts';

/** Of a Secret nothing is kept but its name; of `cacerts` the names of its files and what was found in them, never a key. */
export interface Secret extends Meta {
  readonly files: readonly string[];
  readonly ca?: CaFacts;
}

/** The files of a Secret in text. `stringData` goes before `data`, as the API server merges them. */
function filesOf(object: unknown): Readonly<Record<string, string>> {
  const files = Object.create(null) as Record<string, string>;
  const data = record(at(object, 'data')) ?? {};
  for (const key of Object.keys(data)) {
    const value = text(data[key]);
    if (value !== undefined) files[key] = Buffer.from(value, 'base64').toString('latin1');
  }
  const strings = record(at(object, 'stringData')) ?? {};
  for (const key of Object.keys(strings)) {
    const value = text(strings[key]);
    if (value !== undefined) files[key] = value;
  }
  return files;
}

export function secret(kind: GroupKind, namespace: string, object: unknown): Secret {
  const meta = metaOf(kind, namespace, object);
  if (meta.name !== CACERTS) return { ...meta, files: [] };
  const files = filesOf(object);
  const ca = caFacts(files);
  return { ...meta, files: Object.keys(files).sort(), ...(ca === undefined ? {} : { ca }) };
}

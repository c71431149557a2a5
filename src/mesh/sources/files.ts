// A Mesh from files: manifests, dumps of `kubectl get -o yaml|json`, the output of Helm and Kustomize.
import { isUtf8 } from 'node:buffer';
import { type Dirent, readdirSync, readFileSync, readSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { at, type JsonObject, record, text as textOf } from '../../kube/json.ts';
import type { GroupKind, ObjectRef } from '../../kube/kind.ts';
import { pointerParts } from '../../kube/patch.ts';
import type { Meta } from '../kinds/meta.ts';
import { identify, isNamespaced, project } from '../kinds.ts';
import type { Declared, Mesh } from '../mesh.ts';
import { controlPlanes } from '../releases.ts';
import { createStore, type Store } from '../store.ts';
import { documentsOf, type TextDocument, UnreadableText } from './documents.ts';

/** A place in a file; lines and columns count from 1. */
export interface Position {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** `FILE:LINE:COLUMN`, as editors and CI systems read it. */
export function place({ file, line, column }: Position): string {
  return `${file}:${line}:${column}`;
}

/** Input that cannot be read. The message is one line and begins with the place. */
export class InputError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'InputError';
  }
}

/** One Kubernetes object as it stands in a file. */
export interface Manifest {
  readonly ref: ObjectRef;
  /** The version of its `apiVersion`. */
  readonly version: string;
  /** As written. */
  readonly object: JsonObject;
  readonly projection: Meta;
  /** Where the object begins, or what a JSON pointer in it leads to (its nearest parent where the field is not there). */
  position(pointer?: string): Position;
}

/** What some files hold. */
export interface Manifests {
  readonly objects: readonly Manifest[];
  readonly files: number;
  /** Documents that are no Kubernetes object: values of Helm charts, pipelines, empty mappings. */
  readonly skipped: number;
}

/** The path that stands for standard input. */
export const STDIN = '-';
const READABLE = /\.(?:ya?ml|json)$/i;

function readable(error: unknown, path: string): InputError {
  const code = (error as NodeJS.ErrnoException).code;
  const why: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file or directory',
    EACCES: 'permission to read it is denied',
    EISDIR: 'this is a directory',
    ERR_FS_FILE_TOO_LARGE: 'the file is too large to be read',
    ERR_STRING_TOO_LONG: 'the file is too large to be read',
  };
  return new InputError(`${path}: ${why[code ?? ''] ?? (error instanceof Error ? error.message : String(error))}`);
}

/** The files that a path stands for: itself, or every manifest below a directory in the order of their names. */
function* filesOf(path: string, seen: Set<string>): Generator<string> {
  if (path === STDIN) {
    yield path;
    return;
  }
  let entries: Dirent[];
  try {
    if (!statSync(path).isDirectory()) {
      yield path;
      return;
    }
    const real = realpathSync(path);
    if (seen.has(real)) return;
    seen.add(real);
    entries = readdirSync(path, { withFileTypes: true });
  } catch (error) {
    throw readable(error, path);
  }
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    // hidden ones too: .git, .github, and the `..data` behind the links of a mounted ConfigMap
    if (entry.name.startsWith('.') || entry.name === 'node_modules') continue;
    const inner = join(path, entry.name);
    let directory = entry.isDirectory();
    let regular = entry.isFile();
    if (entry.isSymbolicLink()) {
      const target = statSync(inner, { throwIfNoEntry: false });
      if (target === undefined) continue;
      directory = target.isDirectory();
      regular = target.isFile();
    }
    if (directory) yield* filesOf(inner, seen);
    else if (regular && READABLE.test(entry.name)) yield inner; // a pipe would be waited for without end
  }
}

/** All of standard input. `readFileSync(0)` fails where another process has made it non-blocking and nothing is there yet. */
function standardInput(): Buffer {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const chunks: Buffer[] = [];
  for (;;) {
    const chunk = Buffer.allocUnsafe(65_536);
    try {
      const read = readSync(0, chunk);
      if (read === 0) return Buffer.concat(chunks);
      chunks.push(chunk.subarray(0, read));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EOF') return Buffer.concat(chunks);
      if (code !== 'EAGAIN') throw error;
      Atomics.wait(pause, 0, 0, 10);
    }
  }
}

/** A file's text. `kubectl … > file` in PowerShell writes UTF-16. */
function textIn(path: string): string {
  let bytes: Buffer;
  try {
    bytes = path === STDIN ? standardInput() : readFileSync(path);
    if (bytes[0] === 0xff && bytes[1] === 0xfe) return bytes.toString('utf16le', 2);
    if (isUtf8(bytes))
      return bytes.toString('utf8', bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0);
  } catch (error) {
    throw readable(error, path);
  }
  throw new InputError(`${path}:1:1: this is no UTF-8 text`);
}

type Locate = (offset: number) => Position;

/** From an offset to a position. Where the lines begin is found out when the first position is asked for. */
function locator(file: string, source: string): Locate {
  let starts: number[] | undefined;
  return offset => {
    if (starts === undefined) {
      starts = [0];
      for (let next = source.indexOf('\n'); next >= 0; next = source.indexOf('\n', next + 1)) starts.push(next + 1);
    }
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { file, line: low + 1, column: [...source.slice(starts[low], offset)].length + 1 };
  };
}

/** The documents of a file. Throws {@link InputError}. */
function* parsed(file: string, source: string, locate: Locate): Generator<TextDocument> {
  try {
    yield* documentsOf(source, /\.json$/i.test(file));
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    const hint = /\{\{[-\s]*[.$a-z/]/i.test(source) ? ' (a template? render it first: helm template)' : '';
    // how deep the parser comes is how much stack there is; it says so as a mistake in the text
    const why = error.message === 'Maximum call stack size exceeded' ? 'nested too deeply' : error.message;
    throw new InputError(`${place(locate(error.offset))}: ${why}${hint}`);
  }
}

/** One value of a file, and where it stands. */
export interface Value {
  readonly value: unknown;
  position(pointer?: string): Position;
  /** Whether the text at a JSON pointer stands in quotes, or as a block. */
  quoted(pointer: string): boolean;
}

function displayed(path: string): string {
  return path === STDIN ? '<stdin>' : path;
}

/** A member of a mapping whose value is in quotes or a block, from its key on; or the value itself. */
const QUOTED =
  /^(?:(?:"[^"\n]*"|'[^'\n]*'|[^\s"':][^:\n]*)\s*:\s+(?:[&!]\S+\s+)*["'|>]|"[^"\n]*"\s*:\s*"|["'][^"'\n]*["']\s*(?:[,}\]\n]|$))/;
const LONGEST_KEY = 400;

/** The documents of a file, whatever they are. Throws {@link InputError}. */
export function readValues(path: string): readonly Value[] {
  const file = displayed(path);
  const source = textIn(path);
  const locate = locator(file, source);
  return [...parsed(file, source, locate)].map(document => ({
    value: document.value,
    position: pointer => locate(document.offset(pointerParts(pointer ?? ''))),
    quoted: pointer => QUOTED.test(source.slice(document.offset(pointerParts(pointer))).slice(0, LONGEST_KEY)),
  }));
}

interface Found {
  readonly value: JsonObject;
  readonly document: TextDocument;
  readonly path: readonly string[];
}

/** The elements of a List (`kind: List`, `PodList`, …), in it Lists again; else the object itself. */
function* unlisted(value: unknown, document: TextDocument, path: readonly string[]): Generator<Found | undefined> {
  const object = record(value);
  const kind = textOf(object?.['kind']);
  const apiVersion = textOf(object?.['apiVersion']);
  const items = object?.['items'];
  if (object === undefined) yield undefined;
  else if (kind?.endsWith('List') && Array.isArray(items) && textOf(at(object, 'metadata', 'name')) === undefined) {
    for (const [index, item] of items.entries()) {
      const inner = record(item);
      // elements of typed lists have no kind of their own where the API server wrote them
      const typed =
        inner !== undefined && inner['kind'] === undefined && kind !== 'List' && apiVersion !== undefined
          ? { apiVersion, kind: kind.slice(0, -'List'.length), ...inner }
          : item;
      yield* unlisted(typed, document, [...path, 'items', String(index)]);
    }
  } else yield { value: object, document, path };
}

/** API groups of files for tools, which no API server takes. */
const TOOLS: ReadonlySet<string> = new Set(['kustomize.config.k8s.io', 'kind.x-k8s.io', 'kubeadm.k8s.io', 'skaffold']);

function isForTools(value: JsonObject): boolean {
  const apiVersion = textOf(value['apiVersion']) ?? '';
  return TOOLS.has(apiVersion.split('/')[0] ?? '') || (apiVersion === 'v1' && value['kind'] === 'Config');
}

function* manifestsIn(file: string, source: string, otherwise = 'default'): Generator<Manifest | undefined> {
  const locate = locator(file, source);
  for (const document of parsed(file, source, locate)) {
    for (const found of unlisted(document.value, document, [])) {
      const identity = found === undefined || isForTools(found.value) ? undefined : identify(found.value);
      if (found === undefined || identity === undefined) {
        yield undefined;
        continue;
      }
      const position = (pointer = '') => locate(document.offset([...found.path, ...pointerParts(pointer)]));
      let projection: Meta;
      try {
        const unnamed = isNamespaced(identity.kind, found.value) && !textOf(at(found.value, 'metadata', 'namespace'));
        projection = project(identity.kind, unnamed ? otherwise : identity.namespace, found.value);
      } catch (error) {
        if (error instanceof RangeError) throw new InputError(`${place(position())}: nested too deeply`);
        throw error;
      }
      const { kind, namespace, name } = projection;
      yield { ref: { kind, namespace, name }, version: identity.version, object: found.value, projection, position };
    }
  }
}

/** The Kubernetes objects in a text; `file` is what positions call it. Throws {@link InputError}. */
export function manifestsOf(file: string, source: string): Manifests {
  const all = [...manifestsIn(file, source)];
  const objects = all.filter(manifest => manifest !== undefined);
  return { objects, files: 1, skipped: all.length - objects.length };
}

/**
 * The Kubernetes objects in files, directories (with all that is below them) and standard input (`-`). Throws
 * {@link InputError} at the first that cannot be read. `namespace` is that of objects that name none. `reading` is told of each file before it is read.
 */
export function readManifests(
  paths: readonly string[],
  reading: (file: string) => void = () => {},
  namespace?: string,
): Manifests {
  const objects: Manifest[] = [];
  let files = 0;
  let skipped = 0;
  const seen = new Set<string>();
  for (const path of paths) {
    for (const file of filesOf(path, seen)) {
      files += 1;
      reading(displayed(file));
      for (const manifest of manifestsIn(displayed(file), textIn(file), namespace)) {
        if (manifest === undefined) skipped += 1;
        else objects.push(manifest);
      }
    }
  }
  return { objects, files, skipped };
}

/** Kinds that many a dump leaves out: their absence says something only where some of them are there. */
const OFTEN_LEFT_OUT: ReadonlySet<GroupKind> = new Set([
  'CustomResourceDefinition.apiextensions.k8s.io',
  'GatewayClass.gateway.networking.k8s.io',
  'Node',
]);

/**
 * Whether files know every object of a kind: where they hold an istiod, or the configuration declares one for the state of a
 * cluster. A namespace that nobody described is unknown all the same.
 */
export function knownFromFiles(kind: GroupKind, mesh: Mesh, isState: boolean): boolean {
  if (kind === 'Namespace') return false;
  if (!mesh.fact(controlPlanes).some(plane => plane.seen || isState)) return false;
  if (!OFTEN_LEFT_OUT.has(kind)) return true;
  return mesh.some(kind as 'Node');
}

/** An empty Mesh to be filled from files. `isState`: false where the files are manifests alone, with no state beneath. */
export function createFileMesh(declared: Declared, isState = true): Store {
  return createStore({ declared, complete: (kind, mesh) => knownFromFiles(kind, mesh, isState) });
}

/**
 * The Mesh that files describe. Of two objects of one identity the later holds. `each` is told of every object as it is written: the Mesh
 * keeps projections only. Throws {@link InputError}.
 */
export function readMesh(
  paths: readonly string[],
  declared: Declared,
  reading: (file: string) => void = () => {},
  each: (manifest: Manifest) => void = () => {},
): Store {
  const mesh = createFileMesh(declared, paths.length > 0);
  const seen = new Set<string>();
  for (const path of paths) {
    for (const file of filesOf(path, seen)) {
      reading(displayed(file));
      for (const manifest of manifestsIn(displayed(file), textIn(file))) {
        if (manifest === undefined) continue;
        mesh.put(manifest.projection);
        each(manifest);
      }
    }
  }
  return mesh;
}

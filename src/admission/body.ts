// Reads a body: as text for JSON.parse, never beyond the limit, and not for ever.
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { clock } from './deadline.ts';
import { refusal } from './errors.ts';
import { withoutManagedFields } from './unread.ts';

export interface BodyOptions {
  /** Bytes. An object and its predecessor may have 3 MiB each (facts/admission.md §4.3). */
  readonly limit: number;
  /** Bytes of all bodies together that have not arrived whole. Beyond it the oldest of them is given up. */
  readonly sum: number;
  /** Milliseconds from the headers to the last byte. */
  readonly patience: number;
}

/** What the routes get as `request.body`. */
export interface Body {
  /** Without what nobody reads, where `whole` is there. */
  readonly text: string;
  /** All of it, for who finds that something of it is read after all (see unread.ts). */
  readonly whole?: () => string;
  /** `performance.now()` when the headers were there. */
  readonly arrived: number;
}

/** Bytes of a chunk below which its Buffer is larger than what is in it, and how many of those may wait to be put together. */
const SMALL = 512;
const MANY = 4096;

type Done = (error: Error | null, body?: Body) => void;

interface Upload {
  readonly arrived: number;
  readonly size: () => number;
  fail(error: Error): void;
}

/**
 * Adds the parser of application/json, and refuses every other type. Our own: fastify's copies the bytes once more and refuses
 * objects with a key `__proto__`, which are valid in Kubernetes and plain data to us. JSON.parse makes own properties of them.
 */
export function readBodies(app: FastifyInstance, { limit, sum, patience }: BodyOptions): void {
  // a list with gaps and no Set: a Set that is written to at each request leaves its old tables behind, and V8 keeps alive what
  // stands in them, bodies and all, until it next looks through the whole heap
  const uploads: (Upload | undefined)[] = [];
  let held = 0;
  // Node's own requestTimeout cannot be shorter than headersTimeout (see server.ts), so slow bodies are looked for here
  const sweep = setInterval(
    () => {
      const oldest = clock() - patience;
      for (const upload of uploads)
        if (upload !== undefined && upload.arrived <= oldest) upload.fail(refusal('WW_SLOW'));
    },
    Math.min(1000, patience / 4),
  );
  sweep.unref();
  app.addHook('onClose', async () => clearInterval(sweep));

  /** Who sends in earnest is done within moments: the oldest is he who only holds memory. True where somebody was given up. */
  function giveUpOldest(): boolean {
    let oldest: Upload | undefined;
    for (const upload of uploads)
      if (upload !== undefined && upload.size() > 0 && (oldest === undefined || upload.arrived < oldest.arrived))
        oldest = upload;
    oldest?.fail(refusal('WW_BUSY'));
    return oldest !== undefined;
  }

  function read(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
    const arrived = clock();
    const declared = request.headers['content-length'];
    if (declared !== undefined && Number(declared) > limit) {
      done(refusal('WW_TOO_LARGE'));
      return;
    }
    let chunks: Buffer[] = [];
    let size = 0;
    let small = 0;
    const upload: Upload = { arrived, size: () => size, fail };
    const gap = uploads.indexOf(undefined);
    const place = gap < 0 ? uploads.length : gap;
    uploads[place] = upload;
    function ended(): boolean {
      if (uploads[place] !== upload) return false;
      uploads[place] = undefined;
      held -= size;
      return true;
    }
    function fail(error: Error): void {
      if (!ended()) return;
      payload.off('data', receive);
      payload.pause();
      chunks = [];
      done(error);
    }
    function receive(chunk: Buffer): void {
      size += chunk.length;
      held += chunk.length;
      if (size > limit) {
        fail(refusal('WW_TOO_LARGE'));
        return;
      }
      chunks.push(chunk);
      // one that holds a single byte makes no room
      while (held > sum && giveUpOldest());
      if (uploads[place] !== upload) return;
      small += chunk.length < SMALL ? 1 : 0;
      if (small < MANY) return;
      // a Buffer of one byte takes some hundred
      chunks = [Buffer.concat(chunks)];
      small = 0;
    }
    payload.on('data', receive);
    payload.on('error', () => fail(refusal('WW_BAD_REQUEST')));
    payload.on('end', () => {
      if (!ended()) return;
      const [first] = chunks;
      const bytes = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks, size);
      const shorter = withoutManagedFields(bytes);
      if (shorter === undefined) done(null, { text: bytes.toString('utf8'), arrived });
      else done(null, { text: shorter, whole: () => bytes.toString('utf8'), arrived });
    });
  }

  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', read);
  app.addContentTypeParser('*', (_request: FastifyRequest, _payload: IncomingMessage, done: Done) => {
    done(refusal('WW_CONTENT_TYPE'));
  });
}

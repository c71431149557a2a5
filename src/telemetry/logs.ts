// What the guard tells its operators: one line of JSON a verdict, never a body of an object.
import { type DestinationStream, type Logger, pino } from 'pino';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogOptions {
  readonly level?: LogLevel;
  /** A file descriptor or a path; standard output where nothing is given. */
  readonly destination?: number | string;
}

export interface Logs {
  readonly logger: Logger;
  /** One line of fields that are JSON already (`"a":1,"b":"c"`), for what is logged at every review; pino takes three times as long. */
  line(level: 'info' | 'warn', fields: string, message: 'review'): void;
  /** Writes what is still held back. Safe to call more than once, and at the end of the process. */
  flush(): void;
}

/** Bytes that are gathered before they are written: a write costs about as much as twenty lines. */
const BATCH = 64 * 1024;
/** The most bytes that a character of a text takes in UTF-8. */
const WIDEST = 3;
/** No line waits longer than this (milliseconds). */
const EVERY = 500;
/** What may pile up where nobody reads the log; lines beyond are dropped. */
const AT_MOST = 16 * 1024 * 1024;

/** Names may be 8 MiB long where nobody checks them. */
export function clipped(value: string): string {
  return value.length > 256 ? `${value.slice(0, 255).toWellFormed()}…` : value;
}

/** pino's own stream where it takes bytes (`contentMode`), which its types leave out. */
interface ByteStream {
  write(bytes: Uint8Array): boolean;
  flushSync(): void;
  on(event: 'error', listener: () => void): void;
}

/** Logs in batches; what is still held back is written by `flush`, and when the process exits. */
export function createLogs({ level = 'info', destination = 1 }: LogOptions = {}): Logs {
  const stream = pino.destination({
    dest: destination,
    sync: false,
    minLength: 0,
    maxLength: AT_MOST,
    contentMode: 'buffer',
  }) as unknown as ByteStream;
  // a reader that goes away (`| head`) is no reason to stop guarding
  stream.on('error', () => {});
  // gathered here, as bytes: the stream would add one text to the other and turn all of them into bytes once more
  let batch = Buffer.allocUnsafe(BATCH);
  let size = 0;
  const pass = (): void => {
    if (size === 0) return;
    // what waits for its reader keeps no more than it needs
    if (size < BATCH / 2) stream.write(Buffer.from(batch.subarray(0, size)));
    else {
      stream.write(batch.subarray(0, size));
      batch = Buffer.allocUnsafe(BATCH);
    }
    size = 0;
  };
  setInterval(pass, EVERY).unref();
  const flush = (): void => {
    pass();
    try {
      stream.flushSync();
    } catch {
      // not open yet, or nobody to read it
    }
  };
  process.once('exit', flush);
  const write = (line: string): void => {
    if (size + line.length * WIDEST > BATCH) pass();
    if (line.length * WIDEST > BATCH) stream.write(Buffer.from(line));
    else size += batch.write(line, size);
  };
  return { ...made(level, { write }), flush };
}

/** Logs into a stream of one's own, line by line. */
export function logsInto(stream: DestinationStream, level: LogLevel = 'info'): Logs {
  return { ...made(level, stream), flush: () => {} };
}

function made(level: LogLevel, stream: DestinationStream): Pick<Logs, 'logger' | 'line'> {
  const logger = pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    stream,
  );
  return {
    logger,
    line(severity, fields, message) {
      if (!logger.isLevelEnabled(severity)) return;
      stream.write(`{"level":"${severity}","time":"${isoNow()}",${fields},"msg":"${message}"}\n`);
    },
  };
}

let spokenAt = 0;
let spokenTime = '';

/** The time of day; many lines are of the same millisecond. */
function isoNow(): string {
  const now = Date.now();
  if (now !== spokenAt) {
    spokenAt = now;
    spokenTime = new Date(now).toISOString();
  }
  return spokenTime;
}

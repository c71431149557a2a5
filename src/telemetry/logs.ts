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
  /** Writes what is still held back. Safe to call more than once, and at the end of the process. */
  flush(): void;
}

/** Bytes that are gathered before they are written; a write costs about as much as ten lines. */
const BATCH = 16 * 1024;
/** No line waits longer than this (milliseconds). */
const EVERY = 500;
/** What may pile up where nobody reads the log; lines beyond are dropped. */
const AT_MOST = 16 * 1024 * 1024;

/** Names may be 8 MiB long where nobody checks them. */
export function clipped(value: string): string {
  return value.length > 256 ? `${value.slice(0, 255).toWellFormed()}…` : value;
}

/** Logs in batches: what is still held back is written at exit (pino sees to it) and by `flush`. */
export function createLogs({ level = 'info', destination = 1 }: LogOptions = {}): Logs {
  const stream = pino.destination({
    dest: destination,
    sync: false,
    minLength: BATCH,
    maxWrite: 4 * BATCH,
    maxLength: AT_MOST,
    periodicFlush: EVERY,
  });
  // a reader that goes away (`| head`) is no reason to stop guarding
  stream.on('error', () => {});
  return {
    logger: made(level, stream),
    flush: () => {
      try {
        stream.flushSync();
      } catch {
        // not open yet, or nobody to read it
      }
    },
  };
}

/** Logs into a stream of one's own, line by line. */
export function logsInto(stream: DestinationStream, level: LogLevel = 'info'): Logs {
  return { logger: made(level, stream), flush: () => {} };
}

function made(level: LogLevel, stream: DestinationStream): Logger {
  return pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    stream,
  );
}

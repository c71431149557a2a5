import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Below this many bytes there is nothing worth giving back. */
const WORTH = 64 * 1024 * 1024;

/** Gives the memory back that reading a large state took: V8 would keep it until it is short of some, which a guard never is. */
export function releaseMemory(): void {
  if (process.memoryUsage().heapTotal < WORTH) return;
  // the last match of a regular expression keeps the text that it was found in: a whole file
  /x/.exec('x');
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

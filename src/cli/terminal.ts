// What goes to a terminal: colours only there, and signs of life on standard error for what takes longer than a second.
import { styleText } from 'node:util';

export type Paint = (style: 'red' | 'yellow' | 'green' | 'bold' | 'dim', text: string) => string;

/** Colours where the stream is a terminal and NO_COLOR is not set (no-color.org). */
export function paintFor(stream: { readonly isTTY?: boolean }): Paint {
  const coloured = stream.isTTY === true && (process.env['NO_COLOR'] ?? '') === '' && process.env['TERM'] !== 'dumb';
  return coloured ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}

/**
 * Says on standard error what is going on, once it has taken a second and then once a second. Called as often as one likes: reading
 * files leaves no room for timers.
 */
export function progress(now: () => number = Date.now): (what: string) => void {
  let next = now() + 1000;
  return what => {
    if (now() < next) return;
    next = now() + 1000;
    process.stderr.write(`waywarden: ${what}…\n`);
  };
}

/** Writes all of a text to standard output before it resolves. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, error => (error ? reject(error) : resolve()));
  });
}

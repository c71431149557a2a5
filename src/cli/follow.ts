// Follows a file by looking at it: `stat` goes through every symlink (a mounted ConfigMap swaps one), which watching does not.
import { stat } from 'node:fs/promises';

/** Calls `changed` after each change of a file, one call at a time. Returns what ends it. */
export function followFile(file: string, changed: () => Promise<void>, every = 1000): () => void {
  let ended = false;
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<string> {
    try {
      const { dev, ino, size, mtimeNs } = await stat(file, { bigint: true });
      return `${dev} ${ino} ${size} ${mtimeNs}`;
    } catch {
      // between two versions: the next look tells
      return '';
    }
  }

  function later(seen: string): void {
    if (ended) return;
    timer = setTimeout(async () => {
      const now = await look();
      if (now !== '' && now !== seen && !ended) await changed();
      later(now === '' ? seen : now);
    }, every);
    timer.unref();
  }

  void look().then(later);
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

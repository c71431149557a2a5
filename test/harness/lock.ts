import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

function holder(file: string): number {
  try {
    return Number(readFileSync(file, 'utf8')) || 0;
  } catch {
    return 0;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function take(file: string): boolean {
  try {
    const handle = openSync(file, 'wx');
    writeSync(handle, String(process.pid));
    closeSync(handle);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Runs `work` while no other process on this machine holds the same lock file. A file left by a process that is gone is
 * taken over. Two that take it over in the same instant may both go on: what they build is put in place by a rename, so
 * that costs time and breaks nothing.
 */
export async function withLock<T>(file: string, work: () => Promise<T>, onWait: (pid: number) => void): Promise<T> {
  mkdirSync(dirname(file), { recursive: true });
  let told = false;
  while (!take(file)) {
    const pid = holder(file);
    if (pid && !isAlive(pid)) {
      rmSync(file, { force: true });
      continue;
    }
    if (!told) onWait(pid);
    told = true;
    await sleep(500);
  }
  try {
    return await work();
  } finally {
    rmSync(file, { force: true });
  }
}

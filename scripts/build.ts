// `npm run build`: dist/main.js and its chunks.
import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { bundle, ROOT } from './bundle.ts';

/** Milliseconds for which chunks of an earlier build stay: a process that has just begun with them may still load some. */
const GRACE = 60_000;

// beside the old one first, chunks before what refers to them: nobody who runs it meanwhile finds half of it
const made = `${ROOT}dist.new-${process.pid}`;
await bundle(made);
mkdirSync(`${ROOT}dist/chunks`, { recursive: true });
const chunks = new Set(readdirSync(`${made}/chunks`));
for (const chunk of chunks) renameSync(`${made}/chunks/${chunk}`, `${ROOT}dist/chunks/${chunk}`);
renameSync(`${made}/main.js`, `${ROOT}dist/main.js`);
rmSync(made, { recursive: true });
for (const chunk of readdirSync(`${ROOT}dist/chunks`)) {
  const path = `${ROOT}dist/chunks/${chunk}`;
  const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  if (!chunks.has(chunk) && age > GRACE) rmSync(path, { force: true });
}

// `npm run build`: dist/main.js.
import { existsSync, renameSync, rmSync } from 'node:fs';
import { bundle, ROOT } from './bundle.ts';

// beside the old one first, so that nobody who runs it meanwhile finds half of it
const NEW = `${ROOT}dist.new-${process.pid}`;
const OLD = `${ROOT}dist.old-${process.pid}`;
await bundle(NEW);
if (existsSync(`${ROOT}dist`)) renameSync(`${ROOT}dist`, OLD);
renameSync(NEW, `${ROOT}dist`);
rmSync(OLD, { recursive: true, force: true });

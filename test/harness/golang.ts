import { join } from 'node:path';
import { run, runOrThrow } from './process.ts';

// No cgo: the programs are linked statically and build without a C compiler. No workspace: a go.work in a folder above
// must not change the pinned versions.
const env = { ...process.env, CGO_ENABLED: '0', GOWORK: 'off', GOFLAGS: '-buildvcs=false' };

/** Builds packages of the module in `folder` into `out`; `onPackage` is told how many packages were compiled so far. */
export async function goBuild(
  folder: string,
  packages: string[],
  out: string,
  ldflags: string,
  onPackage: (count: number) => void,
): Promise<void> {
  let count = 0;
  const args = ['build', '-v', '-trimpath', '-ldflags', ldflags, '-o', `${out}/`, ...packages];
  await runOrThrow('go', args, {
    cwd: folder,
    env,
    // -v prints each package's import path when its compilation starts
    onLine: line => {
      if (!line.startsWith('go: ') && !line.includes(' ')) onPackage(++count);
    },
  }).catch(async (error: unknown) => {
    const go = await run('go', ['version']).catch(() => undefined);
    if (!go)
      throw new Error('the test harness builds its binaries with Go 1.26 or newer, and there is no `go` in PATH');
    throw error;
  });
}

const downloads = new Map<string, Promise<string>>();

/** The folder of a module's source, fetched into Go's module cache where it is not there yet. */
export function moduleFolder(path: string, version: string): Promise<string> {
  const key = `${path}@${version}`;
  const known = downloads.get(key);
  if (known) return known;
  // outside of any module, so that only this one is fetched and no go.mod is asked
  const download = runOrThrow('go', ['mod', 'download', '-json', key], { cwd: '/', env }).then(
    output => (JSON.parse(output.stdout) as { Dir: string }).Dir,
  );
  downloads.set(key, download);
  return download;
}

/** The version of a module that a go.mod text requires. */
export function requiredVersion(goMod: string, path: string): string {
  const line = goMod.split('\n').find(each =>
    each
      .trim()
      .replace(/^require /, '')
      .startsWith(`${path} v`),
  );
  const version = line
    ?.trim()
    .replace(/^require /, '')
    .split(' ')[1];
  if (!version) throw new Error(`go.mod does not require ${path}`);
  return version;
}

/** The folder where the modules of this harness stand, one for each set of programs built together. */
export const modules = join(import.meta.dirname, 'go');

import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { goBuild, modules, requiredVersion } from './golang.ts';
import { withLock } from './lock.ts';

/** A set of programs that one Go module builds; its go.mod and go.sum in go/ pin every version. */
interface Recipe {
  /** The name we give the program, and the Go package it is built from (its last element is the name Go gives it). */
  programs: Record<string, string>;
  /** Values of Go variables set by the linker. */
  variables?: (goMod: string) => Record<string, string>;
  /** Further folders of source that are built as packages of the module. */
  sources?: string[];
}

function kubernetesVersion(goMod: string): Record<string, string> {
  const version = requiredVersion(goMod, 'k8s.io/kubernetes');
  const [major = '', minor = ''] = version.slice(1).split('.');
  // without these a kube-apiserver calls itself v0.0.0-master, and kubectl misjudges it
  const variable = 'k8s.io/component-base/version';
  return { [`${variable}.gitVersion`]: version, [`${variable}.gitMajor`]: major, [`${variable}.gitMinor`]: minor };
}

function istioVersion(minor: string): Recipe['variables'] {
  const variable = 'istio.io/istio/pkg/version';
  return () => ({ [`${variable}.buildVersion`]: `${minor}.0`, [`${variable}.buildTag`]: `${minor}.0` });
}

const recipes = {
  etcd: { programs: { etcd: '.' } },
  kubernetes: {
    programs: {
      'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
      'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
      kubectl: 'k8s.io/kubernetes/cmd/kubectl',
    },
    variables: kubernetesVersion,
  },
  'istio-1.31': {
    programs: {
      'istiod-1.31': 'istio.io/istio/pilot/cmd/pilot-discovery',
      'istioctl-1.31': 'istio.io/istio/istioctl/cmd/istioctl',
      xds: './xds',
    },
    variables: istioVersion('1.31'),
    sources: ['xds'],
  },
  'istio-1.30': {
    programs: {
      'istiod-1.30': 'istio.io/istio/pilot/cmd/pilot-discovery',
      'istioctl-1.30': 'istio.io/istio/istioctl/cmd/istioctl',
    },
    variables: istioVersion('1.30'),
  },
  helm: { programs: { helm: 'helm.sh/helm/v4/cmd/helm' } },
} satisfies Record<string, Recipe>;

export type SetName = keyof typeof recipes;
export type IstioMinor = '1.30' | '1.31';
export type Binary =
  | 'etcd'
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kubectl'
  | 'xds'
  | 'helm'
  | `istiod-${IstioMinor}`
  | `istioctl-${IstioMinor}`;

export const setNames = Object.keys(recipes) as SetName[];

/** Where built programs are kept: one folder a set, named by what it was built from, so that new pins build anew. */
export const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'waywarden', 'bin');

const here = import.meta.dirname;

export function setFolder(set: SetName): string {
  const recipe: Recipe = recipes[set];
  const hash = createHash('sha256').update(JSON.stringify(recipe.programs));
  for (const folder of [join(modules, set), ...(recipe.sources ?? []).map(each => join(here, each))]) {
    for (const file of readdirSync(folder).sort()) hash.update(file).update(readFileSync(join(folder, file)));
  }
  return join(cache, `${set}-${hash.digest('hex').slice(0, 12)}`);
}

function setOf(name: Binary): SetName {
  const set = setNames.find(each => name in recipes[each].programs);
  if (!set) throw new Error(`nothing builds ${name}`);
  return set;
}

/** What kubebuilder's setup-envtest unpacked, where the machine has it: etcd, kube-apiserver and kubectl. */
function fromAssets(name: Binary): string | undefined {
  const assets = process.env['KUBEBUILDER_ASSETS'];
  const file = assets && join(assets, name);
  return file && existsSync(file) ? file : undefined;
}

export type Progress = (line: string) => void;
const toStderr: Progress = line => process.stderr.write(`${line}\n`);

async function build(set: SetName, progress: Progress): Promise<void> {
  const recipe: Recipe = recipes[set];
  const target = setFolder(set);
  // What a build that was killed left behind; nobody else builds now.
  for (const name of readdirSync(cache)) {
    if (name.startsWith('building-')) rmSync(join(cache, name), { recursive: true, force: true });
  }
  // Go wants the module's sources in one folder, and this repository's is for reading: build in a copy.
  const work = mkdtempSync(join(cache, `building-${set}-`));
  try {
    const source = join(work, 'source');
    const out = join(work, 'out');
    mkdirSync(out);
    cpSync(join(modules, set), source, { recursive: true });
    for (const each of recipe.sources ?? []) cpSync(join(here, each), join(source, each), { recursive: true });
    const goMod = readFileSync(join(source, 'go.mod'), 'utf8');
    const variables = Object.entries(recipe.variables?.(goMod) ?? {}).map(([name, value]) => `-X ${name}=${value}`);
    const started = performance.now();
    const seconds = () => Math.round((performance.now() - started) / 1000);
    let compiled = 0;
    progress(`${set}: building ${Object.keys(recipe.programs).join(', ')} with Go`);
    const timer = setInterval(() => progress(`${set}: ${compiled} packages compiled, ${seconds()} s`), 15_000);
    try {
      await goBuild(source, Object.values(recipe.programs), out, ['-s -w', ...variables].join(' '), count => {
        compiled = count;
      });
    } finally {
      clearInterval(timer);
    }
    for (const [name, path] of Object.entries(recipe.programs)) {
      const built = path === '.' ? readdirSync(out)[0] : path.split('/').at(-1);
      if (built && built !== name) renameSync(join(out, built), join(out, name));
    }
    rmSync(target, { recursive: true, force: true });
    renameSync(out, target);
    progress(`${set}: done after ${seconds()} s`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function isComplete(set: SetName): boolean {
  const folder = setFolder(set);
  return Object.keys(recipes[set].programs).every(name => existsSync(join(folder, name)));
}

/** Builds a set of programs unless that was done before; only one process on this machine builds at a time. */
export async function ensureSet(set: SetName, progress: Progress = toStderr): Promise<void> {
  if (isComplete(set)) return;
  await withLock(
    join(cache, 'lock'),
    async () => {
      if (!isComplete(set)) await build(set, progress);
    },
    pid => progress(`${set}: waiting for process ${pid}, which is building`),
  );
}

/** The file of a program, from KUBEBUILDER_ASSETS, from the cache, or built now. */
export async function binary(name: Binary): Promise<string> {
  const given = fromAssets(name);
  if (given) return given;
  const set = setOf(name);
  await ensureSet(set);
  return join(setFolder(set), name);
}

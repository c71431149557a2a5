import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cluster } from './cluster.ts';
import { moduleFolder } from './golang.ts';
import { applyObjects, type Manifest, parseManifests } from './objects.ts';
import { until } from './wait.ts';

export type Channel = 'standard' | 'experimental';

// Versions that can be had, where a minor alone is asked for. Name a version in full (v1.2.1) for any other.
const istioApi: Record<string, string> = { '1.30': 'v1.30.8', '1.31': 'v1.31.4' };

function fullVersion(version: string): string {
  return version.startsWith('v') ? version : `v${version}`;
}

function filesIn(folder: string): string[] {
  return (
    readdirSync(folder)
      .filter(file => file.endsWith('.yaml') && file !== 'kustomization.yaml')
      // vap_safeupgrades is an admission policy that forbids to go back to an older bundle, which tests do
      .filter(file => !file.includes('vap_'))
      .sort()
      .map(file => join(folder, file))
  );
}

/** Gateway API's definitions as its releases ship them: `gatewayApiCrds('1.6.1', 'standard')`. */
export async function gatewayApiCrds(version: string, channel: Channel): Promise<string[]> {
  const folder = await moduleFolder('sigs.k8s.io/gateway-api', fullVersion(version));
  return filesIn(join(folder, 'config', 'crd', channel));
}

/** The Inference Extension's definitions. v1.4.0 is the last with the x-k8s.io InferencePool. */
export async function inferenceCrds(version = '1.5.0'): Promise<string[]> {
  const folder = await moduleFolder('sigs.k8s.io/gateway-api-inference-extension', fullVersion(version));
  return filesIn(join(folder, 'config', 'crd', 'bases'));
}

/** Istio's definitions, of a minor (1.31) or of a version of istio.io/api (v1.28.0). */
export async function istioCrds(version: string): Promise<string[]> {
  const folder = await moduleFolder('istio.io/api', istioApi[version] ?? fullVersion(version));
  return [join(folder, 'kubernetes', 'customresourcedefinitions.gen.yaml')];
}

export interface CrdChoice {
  gatewayApi?: string;
  channel?: Channel;
  istio?: string;
  /** The Inference Extension: `true` for 1.5.0, or a version. */
  inference?: boolean | string;
}

export async function crdFiles({ gatewayApi, channel = 'standard', istio, inference }: CrdChoice): Promise<string[]> {
  const groups = await Promise.all([
    gatewayApi ? gatewayApiCrds(gatewayApi, channel) : [],
    inference ? inferenceCrds(inference === true ? undefined : inference) : [],
    istio ? istioCrds(istio) : [],
  ]);
  return groups.flat();
}

interface Definition {
  status?: { conditions?: { type: string; status: string }[] };
}

/** Installs definitions and waits until their kinds are served. */
export async function installCrds({ api }: Cluster, choice: CrdChoice): Promise<Manifest[]> {
  const definitions = (await crdFiles(choice)).flatMap(file => parseManifests(readFileSync(file, 'utf8')));
  await applyObjects(api, definitions);
  for (const { metadata } of definitions) {
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${metadata.name}`;
    await until(`${metadata.name} to be served`, async () => {
      const { status } = await api.call<Definition>('GET', path);
      return status?.conditions?.some(each => each.type === 'Established' && each.status === 'True');
    });
  }
  return definitions;
}

// Istio's own installations, as its istioctl renders them, give no finding; nor do ordinary manifests on top of them.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { DEFAULT_CONFIG } from '../../src/config/default.ts';
import { binary, type IstioMinor } from '../harness/binaries.ts';
import { gatewayApiCrds, KUBELETS } from '../support/bundles.ts';
import { audited, checked, reviewed, type Situation, situationNames, situationsIn } from '../support/ordinary.ts';

const run = promisify(execFile);
const MINORS: readonly IstioMinor[] = ['1.30', '1.31'];
const PROFILES = ['ambient', 'default', 'demo', 'minimal'];

/** A profile as a released istioctl renders it: ours was built without the names of its images. */
async function rendered(minor: IstioMinor, profile: string): Promise<string> {
  const provider = 'meshConfig.extensionProviders';
  const settings = [
    `profile=${profile}`,
    'hub=docker.io/istio',
    `tag=${minor}.1`,
    `${provider}[0].name=ext-authz`,
    `${provider}[0].envoyExtAuthzGrpc.service=authz.istio-system.svc.cluster.local`,
    `${provider}[0].envoyExtAuthzGrpc.port=9000`,
    `${provider}[1].name=otel`,
    `${provider}[1].opentelemetry.service=collector.observability.svc.cluster.local`,
    `${provider}[1].opentelemetry.port=4317`,
  ];
  const { stdout } = await run(
    await binary(`istioctl-${minor}`),
    ['manifest', 'generate', ...settings.flatMap(setting => ['--set', setting])],
    { maxBuffer: 64 << 20 },
  );
  return stdout;
}

/** What a cluster has beside Istio's own objects: its root namespace, the authorizer of its MeshConfig, a node, the classes that istiod makes, the Gateway API. */
function around(minor: IstioMinor): string {
  const classes = { istio: 'gateway-controller', 'istio-waypoint': 'mesh-controller' };
  return [
    'apiVersion: v1\nkind: Namespace\nmetadata: { name: istio-system }',
    'apiVersion: v1\nkind: Service\nmetadata: { name: authz, namespace: istio-system }\nspec: { selector: { app: authz }, ports: [{ name: grpc, port: 9000 }] }',
    `apiVersion: v1\nkind: Node\nmetadata: { name: n, labels: { kubernetes.io/os: linux } }\nstatus: { nodeInfo: { kubeletVersion: ${KUBELETS[minor]} } }`,
    ...Object.entries(classes).map(
      ([name, controller]) =>
        `apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: { name: ${name} }\nspec: { controllerName: istio.io/${controller} }`,
    ),
    gatewayApiCrds(minor),
  ].join('\n---\n');
}

/** The same without Istio's own CRDs, nine tenths of the text, of which every release reads what they serve. */
function withoutCrds(manifests: string): string {
  return manifests
    .split(/^---$/m)
    .filter(document => !/^kind: CustomResourceDefinition$/m.test(document))
    .join('---\n');
}

describe.each(MINORS)('Istio %s', minor => {
  test.each(PROFILES)('the profile %s', async profile => {
    const situation: Situation = {
      name: profile,
      about: `the profile ${profile}`,
      release: `${minor}.1`,
      config: DEFAULT_CONFIG,
      parts: [],
      cluster: around(minor),
      manifests: await rendered(minor, profile),
    };
    expect(await checked(situation)).toEqual([]);
    expect(await reviewed(situation)).toEqual([]);
    expect(await audited(situation)).toEqual([]);
  });

  test('ordinary manifests on the profile that they are for', async () => {
    const clusters = {
      ambient: `${around(minor)}\n---\n${withoutCrds(await rendered(minor, 'ambient'))}`,
      default: `${around(minor)}\n---\n${withoutCrds(await rendered(minor, 'default'))}`,
    };
    const said: string[] = [];
    let tried = 0;
    for (const name of situationNames()) {
      for (const one of situationsIn(name)) {
        if (!one.release.startsWith(`${minor}.`) || !one.parts.includes('istiod')) continue;
        tried += 1;
        const cluster = clusters[one.parts.includes('ztunnel') ? 'ambient' : 'default'];
        said.push(...(await checked({ ...one, cluster })).map(line => `${name}: ${line}`));
      }
    }
    expect(said).toEqual([]);
    expect(tried).toBeGreaterThan(30);
  });
});

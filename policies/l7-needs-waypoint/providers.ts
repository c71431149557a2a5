// CUSTOM asks an extension provider of MeshConfig. One that is not defined there makes every Envoy refuse everything
// (pilot/pkg/security/authz/builder; tried with istiod 1.30 and 1.31).
import type { ObjectRef } from '../../src/kube/kind.ts';
import type { AuthorizationPolicy } from '../../src/mesh/kinds/security.ts';
import { type ControlPlane, extensionProviders } from '../../src/mesh/releases.ts';
import type { Found } from './findings.ts';
import type { Owners } from './owners.ts';

function configMapOf(plane: ControlPlane): readonly ObjectRef[] {
  if (!plane.seen) return [];
  const name = plane.revision === 'default' ? 'istio' : `istio-${plane.revision}`;
  return [{ kind: 'ConfigMap', namespace: plane.namespace, name }];
}

/** The finding that a CUSTOM policy's provider is not defined; undefined where it is, or where MeshConfig is not known. */
export function unknownProvider(
  policy: AuthorizationPolicy,
  owners: Owners,
  enforcers: readonly ObjectRef[],
  certain: boolean,
): Found | undefined {
  if (policy.action !== 'CUSTOM') return undefined;
  const provider = policy.provider ?? '';
  const lacking = owners.all.filter(plane => extensionProviders(plane)?.has(provider) === false);
  const [first] = lacking;
  if (first === undefined) return undefined;
  // a second ConfigMap may add to MeshConfig, which is not read here
  const shared = lacking.some(plane => (plane.env['SHARED_MESH_CONFIG'] ?? '') !== '');
  return {
    finding: 'provider-unknown',
    key: provider,
    about: 'provider',
    effect: `MeshConfig defines no extension provider '${provider}': every request is refused`,
    fix: `define '${provider}' under extensionProviders in MeshConfig, or correct provider.name`,
    evidence: [...configMapOf(first), ...enforcers],
    certain: certain && !shared && lacking.length === owners.all.length,
    path: '/spec/provider/name',
  };
}

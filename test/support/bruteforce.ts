// What `affected` is held against: evaluating everything.
import type { Policy } from '../../src/engine/policy.ts';
import { identify, isKind, project } from '../../src/mesh/kinds.ts';

/** The projection of a manifest that is surely an object. */
export function projected(manifest: Readonly<Record<string, unknown>>) {
  const identity = identify(manifest);
  if (identity === undefined) throw new Error(`no object: ${JSON.stringify(manifest)}`);
  return project(identity.kind, identity.namespace, manifest);
}

/** The same policy, but every subject there is counts as affected. */
export function bruteForce(policy: Policy): Policy {
  return {
    ...policy,
    check: (subject, context) => policy.check(subject, context),
    *affected(_change, { after }) {
      for (const kind of policy.subjects) if (isKind(kind)) yield* after.list(kind);
    },
  };
}

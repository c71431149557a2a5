// Which kinds the enabled policies read: what is listed and watched, and what the guard must be allowed to read.
import { FILE_KINDS, isKind, type Kind } from '../mesh/kinds.ts';
import type { Policy } from './policy.ts';
import type { Settings } from './settings.ts';

/** Policies that the settings leave anything of. */
export function enabledPolicies(policies: readonly Policy[], settings: Settings): readonly Policy[] {
  const overridden = new Set(settings.namespaces.flatMap(({ policies: some }) => Object.keys(some)));
  return policies.filter(({ id }) => {
    const own = settings.policies[id];
    const silent = own?.action === 'off' && Object.values(own.findings ?? {}).every(action => action === 'off');
    return !silent || overridden.has(id);
  });
}

/** The kinds that policies judge or read, in a fixed order. Kinds that Waywarden does not know are judged by the request alone. */
export function kindsRead(policies: readonly Policy[]): readonly Kind[] {
  const kinds = new Set(policies.flatMap(({ subjects, reads }) => [...subjects, ...reads]));
  // always: which namespaces there are, and which kinds the API server serves
  kinds.add('Namespace');
  kinds.add('CustomResourceDefinition.apiextensions.k8s.io');
  return [...kinds]
    .filter(isKind)
    .filter(kind => !FILE_KINDS.has(kind))
    .sort();
}

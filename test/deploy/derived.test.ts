// What stands in the chart follows from the policies, and the manifests follow from the chart.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { policies } from '../../policies/index.ts';
import {
  clusterRules,
  DEPLOY,
  derivedFiles,
  entryRules,
  helmBinary,
  MANIFESTS,
  manifest,
} from '../../scripts/rules.ts';
import { failsClosed, resourceOf } from '../../src/engine/asked.ts';
import { definePolicy, type Policy } from '../../src/engine/policy.ts';
import { splitGroupKind } from '../../src/kube/kind.ts';
import { FILE_KINDS, isKind } from '../../src/mesh/kinds.ts';

const helm = helmBinary();
const RERUN = 'run node scripts/rules.ts';

describe('derived files', () => {
  it.each(Object.entries(derivedFiles()))('%s is what the policies ask for', (name, content) => {
    expect(readFileSync(join(DEPLOY, 'chart', 'files', name), 'utf8'), RERUN).toBe(content);
  });

  it.skipIf(helm === undefined).each(MANIFESTS)('%s.yaml is what the chart renders (skipped without helm)', name => {
    expect(readFileSync(join(DEPLOY, `${name}.yaml`), 'utf8'), RERUN).toBe(manifest(helm ?? '', name));
  });
});

describe('the guard’s rights', () => {
  const rules = clusterRules(policies);
  const may = (group: string, resource: string) =>
    rules
      .filter(({ apiGroups, resources }) => apiGroups.includes(group) && resources.includes(resource))
      .flatMap(({ verbs }) => verbs)
      .sort();

  it('cover every kind that a policy reads or judges from the Mesh, and no other', () => {
    const read = new Set(
      policies
        .flatMap(({ subjects, reads }) => [...subjects, ...reads])
        .filter(kind => isKind(kind) && kind !== 'Secret' && !FILE_KINDS.has(kind)),
    );
    read.add('Namespace').add('CustomResourceDefinition.apiextensions.k8s.io');
    const named = rules.flatMap(({ apiGroups, resources }) => resources.map(resource => `${resource}.${apiGroups[0]}`));
    const wanted = [...read].map(kind => `${resourceOf(kind)}.${splitGroupKind(kind).group}`);
    expect(named.sort()).toEqual(wanted.sort());
  });

  it('end at reading: ConfigMaps are not watched, Secrets not read at all', () => {
    expect(new Set(rules.flatMap(({ verbs }) => verbs))).toEqual(new Set(['get', 'list', 'watch']));
    expect(may('', 'configmaps')).toEqual(['get', 'list']);
    expect(may('', 'namespaces')).toEqual(['get', 'list', 'watch']);
    expect(may('', 'secrets')).toEqual([]);
    expect(JSON.stringify(rules)).not.toContain('"*"');
  });
});

describe('the webhooks’ rules', () => {
  const { validate, mutate } = entryRules(policies);
  const covers = (rules: typeof validate.open, kind: string, operation: string) =>
    rules.some(
      ({ apiGroups, resources, operations }) =>
        apiGroups.includes(splitGroupKind(kind).group) &&
        (resources.includes(resourceOf(kind)) || resources.includes('*')) &&
        operations.includes(operation),
    );
  const kinds = [...new Set(policies.flatMap(({ subjects, reads }) => [...subjects, ...reads]))];
  const asked = kinds.filter(
    kind => kind !== 'Secret' && !FILE_KINDS.has(kind) && !kind.endsWith('.admissionregistration.k8s.io'),
  );

  it('ask about every subject, and everything that can break one, exactly once', () => {
    for (const kind of asked) {
      for (const operation of ['CREATE', 'UPDATE']) {
        const asking = [validate.closed, validate.open, validate.deletions].filter(rules =>
          covers(rules, kind, operation),
        );
        expect([kind, operation, asking.length]).toEqual([kind, operation, 1]);
      }
    }
  });

  it('fail closed for security.istio.io, InferencePool and BackendTLSPolicy, and for nothing else', () => {
    const closed = [...validate.closed, ...mutate.closed].flatMap(({ apiGroups, resources }) =>
      resources.map(resource => `${resource}.${apiGroups[0]}`),
    );
    expect(new Set(closed.filter(name => !name.endsWith('.security.istio.io')))).toEqual(
      new Set([
        'backendtlspolicies.gateway.networking.k8s.io',
        'inferencepools.inference.networking.k8s.io',
        'inferencepools.inference.networking.x-k8s.io',
      ]),
    );
    expect(closed).toContain('authorizationpolicies.security.istio.io');
    for (const kind of asked)
      expect([kind, covers(validate.closed, kind, 'CREATE')]).toEqual([kind, failsClosed(kind)]);
  });

  it('ask about deletions in an entry of their own', () => {
    for (const { operations } of [...validate.closed, ...validate.open, ...mutate.closed, ...mutate.open])
      expect(operations).toEqual(['CREATE', 'UPDATE']);
    for (const { operations } of validate.deletions) expect(operations).toEqual(['DELETE']);
    expect(covers(validate.deletions, 'Gateway.gateway.networking.k8s.io', 'DELETE')).toBe(true);
    expect(covers(validate.deletions, 'Pod', 'DELETE')).toBe(false);
  });

  it('never ask about subresources, Secrets, or what the API server asks nobody about', () => {
    const all = [...validate.closed, ...validate.open, ...validate.deletions, ...mutate.closed, ...mutate.open];
    expect(all.flatMap(({ resources }) => resources).filter(name => name.includes('/'))).toEqual([]);
    expect(all.flatMap(({ resources }) => resources)).not.toContain('secrets');
    expect(all.flatMap(({ apiGroups }) => apiGroups)).not.toContain('admissionregistration.k8s.io');
    for (const { apiVersions } of all) expect(apiVersions).toEqual(['*']);
  });

  it('ask /mutate only about subjects of policies that find something there', () => {
    const seenAtMutate = new Set(
      policies
        .filter(({ findings }) => Object.values(findings).some(({ seen }) => seen.includes('mutate')))
        .flatMap(({ subjects }) => subjects),
    );
    for (const kind of asked) {
      const covered = covers([...mutate.closed, ...mutate.open], kind, 'CREATE');
      expect([kind, covered]).toEqual([kind, seenAtMutate.has(kind)]);
    }
  });

  it('follow from the policies alone: a policy brings its rights and rules with it', () => {
    const sidecars: Policy = definePolicy({
      id: 'sidecars',
      title: 'Sidecars',
      subjects: ['Telemetry.telemetry.istio.io', 'ProxyConfig.networking.istio.io', 'Thing.gone.example.com', 'Secret'],
      reads: ['ServiceEntry.networking.istio.io', 'ConfigMap'],
      findings: { late: { action: 'warn', seen: ['mutate'], doc: 'late' } },
      options: z.unknown(),
      *check() {},
      *affected() {},
    });
    const rules = entryRules([sidecars]);
    const flat = (list: typeof rules.mutate.open) =>
      list.map(({ apiGroups, resources }) => [apiGroups[0], ...resources]);
    expect(flat(rules.validate.open)).toEqual([
      ['', 'configmaps'],
      ['gone.example.com', '*'],
      ['networking.istio.io', 'proxyconfigs', 'serviceentries'],
      ['telemetry.istio.io', 'telemetries'],
    ]);
    expect(flat(rules.mutate.open)).toEqual([
      ['gone.example.com', '*'],
      ['networking.istio.io', 'proxyconfigs'],
      ['telemetry.istio.io', 'telemetries'],
    ]);
    expect(clusterRules([sidecars])).toEqual([
      { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'watch'] },
      {
        apiGroups: ['apiextensions.k8s.io'],
        resources: ['customresourcedefinitions'],
        verbs: ['get', 'list', 'watch'],
      },
      { apiGroups: ['networking.istio.io'], resources: ['serviceentries'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: ['telemetry.istio.io'], resources: ['telemetries'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list'] },
    ]);
  });
});

// What the chart renders, with which values.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { policies } from '../../policies/index.ts';
import { DEPLOY, helmBinary, helmTemplate, MANIFESTS } from '../../scripts/rules.ts';
import { run as serve } from '../../src/cli/serve.ts';
import { configSchema } from '../../src/config/schema.ts';
import { at, type JsonObject, record, records, text, texts } from '../../src/kube/json.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

const helm = helmBinary() ?? '';
const objectsOf = (yaml: string): readonly JsonObject[] =>
  parseAllDocuments(yaml).flatMap(document => {
    const object = record(document.toJS());
    return object === undefined ? [] : [object];
  });
const render = (...args: string[]) => objectsOf(helmTemplate(helm, ...args.flatMap(value => ['--set', value])));
const ready = (name: string) => objectsOf(readFileSync(join(DEPLOY, `${name}.yaml`), 'utf8'));
const one = (objects: readonly JsonObject[], kind: string) => objects.find(object => object['kind'] === kind);
const entriesOf = (objects: readonly JsonObject[]) =>
  objects
    .filter(({ kind }) => text(kind)?.endsWith('WebhookConfiguration'))
    .flatMap(({ webhooks }) => records(webhooks));
const BREAK_GLASS = 'break-glass.validate.waywarden.dev';
const podOf = (objects: readonly JsonObject[]) => at(one(objects, 'Deployment'), 'spec', 'template');

describe('the ready manifests', () => {
  it.each(MANIFESTS)('%s: entries as DESIGN has them', name => {
    const entries = entriesOf(ready(name));
    expect(entries.map(entry => [entry['name'], entry['failurePolicy'], 'rules' in entry])).toEqual([
      ['closed.validate.waywarden.dev', name === 'audit' ? 'Ignore' : 'Fail', false],
      ['open.validate.waywarden.dev', 'Ignore', true],
      ['deletions.validate.waywarden.dev', 'Ignore', true],
      ['cacerts.validate.waywarden.dev', 'Ignore', false],
      ['break-glass.validate.waywarden.dev', 'Ignore', false],
      ['closed.mutate.waywarden.dev', name === 'audit' ? 'Ignore' : 'Fail', false],
      ['open.mutate.waywarden.dev', 'Ignore', true],
    ]);
    for (const entry of entries) {
      expect(entry).toMatchObject({
        matchPolicy: 'Equivalent',
        sideEffects: 'NoneOnDryRun',
        timeoutSeconds: entry['name'] === BREAK_GLASS ? 1 : 5,
      });
      expect(at(entry, 'clientConfig', 'caBundle')).toBeUndefined();
      expect(records(at(entry, 'namespaceSelector', 'matchExpressions'))).toEqual([
        {
          key: 'kubernetes.io/metadata.name',
          operator: 'NotIn',
          values: ['waywarden', 'kube-system', 'kube-node-lease'],
        },
      ]);
      const conditions = records(entry['matchConditions']);
      expect(conditions.map(condition => condition['name']).slice(0, 2)).toEqual([
        'not-terminating',
        'not-a-pod-of-istio',
      ]);
      // metadata and request only: an expression that fails refuses the request
      for (const condition of conditions) expect(condition['expression']).not.toMatch(/\.(spec|status)\b/);
    }
  });

  it.each(MANIFESTS)('%s: the rules of closed entries stand in the annotation, for the guard to move', name => {
    for (const configuration of ready(name).filter(({ kind }) => text(kind)?.endsWith('WebhookConfiguration'))) {
      const promised = record(
        parse(text(at(configuration, 'metadata', 'annotations', 'waywarden.dev/rules-once-ready')) ?? ''),
      );
      const closed = records(configuration['webhooks']).flatMap(({ name: entry }) =>
        text(entry)?.startsWith('closed.') ? [entry] : [],
      );
      expect(Object.keys(promised ?? {})).toEqual(closed);
      expect(records(promised?.[String(closed[0])]).flatMap(({ resources }) => resources)).toContain('inferencepools');
    }
  });

  it.each(MANIFESTS)(
    '%s: the webhook configurations stand first, so that deleting the file takes them away first',
    name => {
      expect(
        ready(name)
          .map(({ kind }) => kind)
          .slice(0, 3),
      ).toEqual(['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration', 'Namespace']);
    },
  );

  it.each(MANIFESTS)('%s: the guard stands outside of the mesh, in a restricted namespace', name => {
    const objects = ready(name);
    expect(at(one(objects, 'Namespace'), 'metadata', 'labels')).toMatchObject({
      'istio-injection': 'disabled',
      'istio.io/dataplane-mode': 'none',
      'pod-security.kubernetes.io/enforce': 'restricted',
    });
    expect(at(podOf(objects), 'metadata', 'labels')).toMatchObject({
      'sidecar.istio.io/inject': 'false',
      'istio.io/dataplane-mode': 'none',
    });
  });

  it.each(MANIFESTS)('%s: replicas that survive a node, a zone and a drain', name => {
    const objects = ready(name);
    expect(Number(at(one(objects, 'Deployment'), 'spec', 'replicas'))).toBeGreaterThanOrEqual(2);
    expect(at(one(objects, 'Deployment'), 'spec', 'strategy', 'rollingUpdate')).toEqual({
      maxSurge: 1,
      maxUnavailable: 0,
    });
    expect(at(one(objects, 'PodDisruptionBudget'), 'spec', 'maxUnavailable')).toBe(1);
    const spec = at(podOf(objects), 'spec');
    expect(at(spec, 'affinity', 'podAntiAffinity')).toBeDefined();
    expect(records(at(spec, 'topologySpreadConstraints')).map(each => each['topologyKey'])).toEqual([
      'topology.kubernetes.io/zone',
      'kubernetes.io/hostname',
    ]);
    const [container] = records(at(spec, 'containers'));
    expect(container).toMatchObject({
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
      resources: { requests: { cpu: expect.any(String), memory: expect.any(String) } },
    });
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) expect(container).toHaveProperty(probe);
    expect(at(spec, 'securityContext')).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
  });

  it.each(MANIFESTS)('%s: writes its own two configurations and reads its own Secret, by name', name => {
    const objects = ready(name);
    const rules = objects
      .filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role')
      .flatMap(object => records(object['rules']));
    const writing = rules.filter(({ verbs }) => JSON.stringify(verbs).match(/create|update|patch|delete|\*/));
    expect(writing).toEqual([
      {
        apiGroups: ['admissionregistration.k8s.io'],
        resources: ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'],
        resourceNames: ['waywarden'],
        verbs: ['get', 'watch', 'patch'],
      },
      { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
      ...(name === 'cert-manager'
        ? []
        : [
            {
              apiGroups: [''],
              resources: ['secrets'],
              resourceNames: ['waywarden-certificates'],
              verbs: ['get', 'watch', 'update'],
            },
          ]),
    ]);
  });

  it.each(MANIFESTS)('%s: a NetworkPolicy that names no source', name => {
    expect(at(one(ready(name), 'NetworkPolicy'), 'spec', 'ingress')).toEqual([
      { ports: [{ port: 'https' }, { port: 'health' }] },
    ]);
  });

  it.each(MANIFESTS)('%s: a waywarden.yaml that the guard accepts', name => {
    const written = parse(text(at(one(ready(name), 'ConfigMap'), 'data', 'waywarden.yaml')) ?? '');
    expect(configSchema(policies).parse(written)).toEqual({
      mode: name === 'audit' ? 'audit' : 'enforce',
      unguarded: ['waywarden'],
    });
  });

  it('cert-manager: a Certificate for the Service’s names, and its CA asked for on both configurations', () => {
    const objects = ready('cert-manager');
    expect(at(one(objects, 'Certificate'), 'spec', 'dnsNames')).toEqual([
      'waywarden.waywarden.svc',
      'waywarden.waywarden.svc.cluster.local',
    ]);
    expect(one(objects, 'Secret')).toBeUndefined();
    for (const kind of ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'])
      expect(at(one(objects, kind), 'metadata', 'annotations', 'cert-manager.io/inject-ca-from')).toBe(
        'waywarden/waywarden',
      );
  });

  it('the Secret has no data, so that nobody who applies it again empties it', () => {
    expect(one(ready('enforce'), 'Secret')).not.toHaveProperty('data');
  });
});

it('the dashboard shows series that the guard has', async () => {
  const dashboard: unknown = JSON.parse(readFileSync(join(DEPLOY, 'dashboards', 'waywarden.json'), 'utf8'));
  const asked = records(at(dashboard, 'panels')).flatMap(({ targets }) =>
    records(targets).flatMap(({ expr }) => text(expr) ?? []),
  );
  const named = new Set(asked.flatMap(expr => expr.match(/\b(waywarden|process)_\w+/g) ?? []));
  expect(named.size).toBeGreaterThan(8);
  const series = await createMetrics().text();
  for (const name of named) expect(series).toContain(`# TYPE ${name.replace(/_bucket$/, '')} `);
});

describe.skipIf(helm === '')('the chart (skipped without helm)', () => {
  it('starts the guard with options that it has', async () => {
    for (const values of [[], ['certificates.source=cert-manager'], ['events.enabled=false']]) {
      const args = texts(records(at(podOf(render(...values)), 'spec', 'containers'))[0]?.['args']);
      expect(args[0]).toBe('serve');
      // with --help the options are read and nothing is started
      const printed = vi.spyOn(process.stdout, 'write').mockImplementation((...said: unknown[]) => {
        const done = said.at(-1) as () => void;
        done();
        return true;
      });
      const status = await serve([...args.slice(1), '--help']).finally(() => printed.mockRestore());
      expect(status).toBe(0);
    }
  });

  it('has the same entries whatever the values, since a dropped one could not be applied', () => {
    const names = (objects: readonly JsonObject[]) => entriesOf(objects).map(({ name }) => name);
    const usual = names(render());
    for (const values of [
      ['mode=audit'],
      ['admission.failClosed=false'],
      ['admission.reviewCacerts=true'],
      ['admission.breakGlassGroups={mesh-emergency}'],
      ['events.enabled=false'],
      ['certificates.source=cert-manager'],
    ])
      expect(names(render(...values))).toEqual(usual);
  });

  it('asks about cacerts only where the installer wants it', () => {
    const entry = entriesOf(render('admission.reviewCacerts=true')).find(
      ({ name }) => name === 'cacerts.validate.waywarden.dev',
    );
    expect(records(entry?.['rules'])).toMatchObject([{ resources: ['secrets'], operations: ['CREATE', 'UPDATE'] }]);
    expect(records(entry?.['matchConditions']).at(-1)?.['expression']).toBe(
      "has(request.name) && request.name == 'cacerts'",
    );
  });

  describe('with break-glass groups', () => {
    const GROUPS = 'admission.breakGlassGroups={mesh-emergency,oidc:on call}';
    const MEMBER =
      "has(request.userInfo) && has(request.userInfo.groups) && request.userInfo.groups.exists(group, group in ['mesh-emergency','oidc:on call'])";
    const conditionsOf = (entry: JsonObject) =>
      records(entry['matchConditions']).map(({ name, expression }) => [name, text(expression)?.replace(/\s+/g, ' ')]);
    const counting = (objects: readonly JsonObject[]) =>
      entriesOf(objects).find(({ name }) => name === BREAK_GLASS) ?? {};

    it('members are asked about by one entry, everybody else by the others', () => {
      for (const entry of entriesOf(render(GROUPS, 'admission.reviewCacerts=true'))) {
        const own = entry['name'] === BREAK_GLASS;
        expect(conditionsOf(entry).slice(0, 3)).toEqual([
          expect.arrayContaining(['not-terminating']),
          expect.arrayContaining(['not-a-pod-of-istio']),
          own ? ['break-glass', MEMBER] : ['not-break-glass', `!( ${MEMBER} )`],
        ]);
      }
    });

    it.each([[[]], [['mode=audit']], [['admission.timeoutSeconds=30']], [['admission.failClosed=true']]])(
      'it refuses nobody and makes nobody wait, with %j',
      values => {
        expect(counting(render(GROUPS, ...values))).toMatchObject({
          failurePolicy: 'Ignore',
          timeoutSeconds: 1,
          clientConfig: { service: { path: '/break-glass' } },
        });
      },
    );

    it('it asks about all that the others ask about, and about nothing else', () => {
      const asked = (entries: readonly JsonObject[]) =>
        entries
          .flatMap(({ rules }) => records(rules))
          .map(rule => JSON.stringify(rule))
          .sort();
      for (const values of [[GROUPS], [GROUPS, 'admission.reviewCacerts=true']]) {
        const objects = render(...values);
        const validating = one(objects, 'ValidatingWebhookConfiguration');
        const promised = parse(text(at(validating, 'metadata', 'annotations', 'waywarden.dev/rules-once-ready')) ?? '');
        const judging = records(validating?.['webhooks']).filter(({ name }) => name !== BREAK_GLASS);
        expect(asked([counting(objects)])).toEqual(
          asked([...judging, { rules: at(promised, 'closed.validate.waywarden.dev') }]),
        );
      }
    });

    it('of Secrets it asks about cacerts alone, and only where the installer wants it', () => {
      const named = (...values: string[]) => conditionsOf(counting(render(GROUPS, ...values))).slice(3);
      expect(named()).toEqual([]);
      expect(named('admission.reviewCacerts=true')).toEqual([
        [
          'the-ca-of-the-mesh',
          "request.resource.resource != 'secrets' || request.resource.group != '' || (has(request.name) && request.name == 'cacerts')",
        ],
      ]);
    });

    it('the guard is told their names, in a waywarden.yaml that it accepts, and without a restart', () => {
      const [without, objects] = [render(), render(GROUPS)];
      const written = parse(text(at(one(objects, 'ConfigMap'), 'data', 'waywarden.yaml')) ?? '');
      expect(configSchema(policies).parse(written)).toMatchObject({
        mode: 'enforce',
        breakGlassGroups: ['mesh-emergency', 'oidc:on call'],
      });
      expect(podOf(objects)).toEqual(podOf(without));
    });
  });

  it('says None where no Events are written, and asks for no right to write them', () => {
    const objects = render('events.enabled=false');
    expect(new Set(entriesOf(objects).map(({ sideEffects }) => sideEffects))).toEqual(new Set(['None']));
    expect(JSON.stringify(one(objects, 'ClusterRole'))).not.toContain('"events"');
  });

  it('pins an image by digest before its tag', () => {
    const digest = `sha256:${'0'.repeat(64)}`;
    const image = (...values: string[]) =>
      text(records(at(podOf(render(...values)), 'spec', 'containers'))[0]?.['image']);
    expect(image('image.registry=mirror.example.com', 'image.tag=v1')).toBe(
      'mirror.example.com/waywarden/waywarden:v1',
    );
    expect(image(`image.digest=${digest}`, 'image.tag=v1')).toBe(`ghcr.io/waywarden/waywarden@${digest}`);
  });

  it('takes certificates of one’s own, with the CA that signed them', () => {
    const ca = '-----BEGIN CERTIFICATE-----x';
    const objects = render(
      'certificates.source=files',
      'certificates.existingSecret=mine',
      `certificates.caBundle=${ca}`,
    );
    for (const entry of entriesOf(objects))
      expect(Buffer.from(text(at(entry, 'clientConfig', 'caBundle')) ?? '', 'base64').toString()).toBe(ca);
    expect(records(at(podOf(objects), 'spec', 'volumes'))[1]).toMatchObject({ secret: { secretName: 'mine' } });
  });

  it.each([
    ['mode=strict', /mode/],
    ['mod=audit', /mod/],
    ['replicas=0', /replicas/],
    ['image.digest=latest', /digest/],
    ['admission.timeoutSeconds=60', /timeoutSeconds/],
    ['certificates.source=files', /existingSecret|caBundle/],
    ["admission.breakGlassGroups[0]=it's", /breakGlassGroups/],
    ['config.mode=audit', /config/],
    ['config.breakGlassGroups={admins}', /config/],
  ])('refuses %s', (value, message) => {
    expect(() => render(value)).toThrow(message);
  });

  it('alerts on series that the guard has', async () => {
    const rule = one(render('prometheusRule.enabled=true', 'serviceMonitor.enabled=true'), 'PrometheusRule');
    const alerts = records(at(records(at(rule, 'spec', 'groups'))[0], 'rules'));
    expect(alerts.map(({ alert }) => alert)).toEqual([
      'WaywardenCertificateExpires',
      'WaywardenNotReady',
      'WaywardenDenialsUnconfirmed',
      'WaywardenBreakGlassUsed',
    ]);
    const series = await createMetrics().text();
    for (const name of JSON.stringify(alerts.map(({ expr }) => expr)).match(/\bwaywarden_\w+/g) ?? [])
      expect(series).toContain(name);
  });
});

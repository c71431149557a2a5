// The replicas themselves, their rights, and the namespace that they live in.

import { resourceOf } from '../../engine/asked.ts';
import { kindsRead } from '../../engine/kinds.ts';
import type { Policy } from '../../engine/policy.ts';
import { at, number, records, text } from '../../kube/json.ts';
import { splitGroupKind } from '../../kube/kind.ts';
import { look, type Patient, type Symptom } from './symptom.ts';

/** How many replicas are ready, and whether the Service leads to them. */
export async function replicas({ client, namespace, service }: Patient): Promise<readonly Symptom[]> {
  const about = 'replicas';
  const looked = await look(client, `/apis/apps/v1/namespaces/${namespace}/deployments/${service}`);
  if ('why' in looked) return [{ level: 'unknown', about, found: looked.why }];
  const { object } = looked;
  if (object === undefined) {
    const found = `there is no Deployment ${namespace}/${service}`;
    return [
      { level: 'fail', about, found, repair: 'helm install waywarden deploy/chart, or give --namespace and --service' },
    ];
  }
  const wanted = number(at(object, 'spec', 'replicas')) ?? 1;
  const ready = number(at(object, 'status', 'readyReplicas')) ?? 0;
  const why = `kubectl -n ${namespace} describe pods -l app.kubernetes.io/name=waywarden, and their logs`;
  if (ready === 0)
    return [
      {
        level: 'fail',
        about,
        found: `0 of ${wanted} are ready: kinds that fail closed cannot be written`,
        repair: `${why}; waywarden doctor --unlock lets everything pass meanwhile`,
      },
    ];
  const symptoms: Symptom[] = [];
  if (ready < wanted) symptoms.push({ level: 'warn', about, found: `${ready} of ${wanted} are ready`, repair: why });
  if (wanted < 2)
    symptoms.push({
      level: 'warn',
      about,
      found: 'there is one replica: while it restarts, kinds that fail closed cannot be written',
      repair: 'set replicas to 2 or more',
    });
  const slices = await look(
    client,
    `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D${service}`,
  );
  const endpoints =
    'object' in slices ? records(at(slices.object, 'items')).flatMap(slice => records(slice['endpoints'])) : [];
  if ('object' in slices && !endpoints.some(endpoint => at(endpoint, 'conditions', 'ready') !== false)) {
    const found = `the Service ${namespace}/${service} leads to no ready replica`;
    symptoms.push({
      level: 'warn',
      about,
      found,
      repair: `compare its selector with the labels of the pods: kubectl -n ${namespace} get service,pods --show-labels`,
    });
  }
  if (symptoms.length > 0) return symptoms;
  return [{ level: 'ok', about, found: `${ready} of ${wanted} are ready, and the Service leads to them` }];
}

/** Whether the mesh gets hold of the guard's own pods. */
export async function ownNamespace({ client, namespace }: Patient): Promise<readonly Symptom[]> {
  const about = `namespace ${namespace}`;
  const [own, pods] = await Promise.all([
    look(client, `/api/v1/namespaces/${namespace}`),
    look(client, `/api/v1/namespaces/${namespace}/pods?labelSelector=app.kubernetes.io%2Fname%3Dwaywarden`),
  ]);
  if ('why' in own) return [{ level: 'unknown', about, found: own.why }];
  if (own.object === undefined)
    return [
      {
        level: 'fail',
        about,
        found: 'is not there',
        repair: 'helm install waywarden deploy/chart, or give --namespace',
      },
    ];
  const inMesh =
    'object' in pods
      ? records(at(pods.object, 'items')).filter(
          pod =>
            at(pod, 'metadata', 'annotations', 'ambient.istio.io/redirection') === 'enabled' ||
            [...records(at(pod, 'spec', 'containers')), ...records(at(pod, 'spec', 'initContainers'))].some(
              ({ name }) => name === 'istio-proxy',
            ),
        )
      : [];
  if (inMesh.length > 0) {
    const found = `${inMesh.length} replicas are part of the mesh that they guard: they cannot start while it does not work`;
    return [
      {
        level: 'warn',
        about,
        found,
        repair: `kubectl label namespace ${namespace} istio-injection=disabled istio.io/dataplane-mode=none --overwrite, and restart the Deployment`,
      },
    ];
  }
  return [{ level: 'ok', about, found: 'its replicas are not part of the mesh' }];
}

interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
}

/** The rights that the guard needs, asked of the API server. `events`: whether it writes Events. */
export async function rights(
  patient: Patient,
  policies: readonly Policy[],
  ownSecret: boolean,
): Promise<readonly Symptom[]> {
  const about = 'rights of the ServiceAccount';
  const { client, namespace, service, webhooks, secret } = patient;
  const looked = await look(client, `/apis/apps/v1/namespaces/${namespace}/deployments/${service}`);
  const account =
    ('object' in looked ? text(at(looked.object, 'spec', 'template', 'spec', 'serviceAccountName')) : undefined) ??
    service;
  const wanted: Right[] = [];
  for (const kind of kindsRead(policies)) {
    const { group } = splitGroupKind(kind);
    if (kind === 'ConfigMap') wanted.push({ verb: 'get', group, resource: 'configmaps' });
    else if (kind !== ('Secret' as string))
      for (const verb of ['list', 'watch', 'get']) wanted.push({ verb, group, resource: resourceOf(kind) });
  }
  for (const resource of ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'])
    for (const verb of ['get', 'watch', 'patch'])
      wanted.push({ verb, group: 'admissionregistration.k8s.io', resource, name: webhooks });
  if (ownSecret)
    for (const verb of ['get', 'watch', 'update'])
      wanted.push({ verb, group: '', resource: 'secrets', namespace, name: secret });
  const missing: string[] = [];
  let refused: string | undefined;
  for (let from = 0; from < wanted.length; from += 16) {
    await Promise.all(
      wanted.slice(from, from + 16).map(async right => {
        const answer = await look(client, {
          method: 'POST',
          path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
          body: {
            apiVersion: 'authorization.k8s.io/v1',
            kind: 'SubjectAccessReview',
            spec: {
              user: `system:serviceaccount:${namespace}:${account}`,
              groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
              resourceAttributes: right,
            },
          },
        });
        if ('why' in answer) refused = answer.why;
        else if (at(answer.object, 'status', 'allowed') !== true)
          missing.push(`${right.verb} ${right.resource}${right.group === '' ? '' : `.${right.group}`}`);
      }),
    );
  }
  if (refused !== undefined)
    return [{ level: 'unknown', about, found: refused, repair: 'ask somebody who may create subjectaccessreviews' }];
  if (missing.length === 0) return [{ level: 'ok', about, found: `${account} has all ${wanted.length} that it needs` }];
  const shown = missing.sort().slice(0, 6).join(', ');
  return [
    {
      level: 'fail',
      about,
      found: `${account} may not ${shown}${missing.length > 6 ? ` and ${missing.length - 6} more` : ''}: what it cannot read it cannot judge`,
      repair: 'helm upgrade waywarden, or kubectl apply -f deploy/enforce.yaml: the ClusterRole comes with them',
    },
  ];
}

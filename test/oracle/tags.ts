// A revision tag as `istioctl tag set` makes it: the injector's webhooks once more, for namespaces and pods that name the tag.
import { record, records } from '../../src/kube/json.ts';
import type { Cluster } from '../harness/cluster.ts';
import { applyObjects, type Manifest } from '../harness/objects.ts';

const PATH = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations';

/** The same selector, for the tag in place of the revision. */
function forTag(selector: unknown, tag: string): unknown {
  return {
    ...record(selector),
    matchExpressions: records(record(selector)?.['matchExpressions']).map(one =>
      one['key'] === 'istio.io/rev' && one['operator'] === 'In' ? { ...one, values: [tag] } : one,
    ),
  };
}

/** Makes a tag of the default control plane; its configuration goes away by its name. */
export async function revisionTag(cluster: Cluster, tag: string): Promise<Manifest> {
  const injector = await cluster.api.call<Manifest>('GET', `${PATH}/istio-sidecar-injector`);
  const made: Manifest = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: {
      name: `istio-revision-tag-${tag}`,
      labels: { ...injector.metadata.labels, 'istio.io/rev': 'default', 'istio.io/tag': tag },
    },
    webhooks: records(injector['webhooks'])
      .filter(({ name }) => String(name).startsWith('rev.'))
      .map(webhook => ({
        ...webhook,
        namespaceSelector: forTag(webhook['namespaceSelector'], tag),
        objectSelector: forTag(webhook['objectSelector'], tag),
      })),
  };
  await applyObjects(cluster.api, [made]);
  return made;
}

const PRUNED = 'the API server prunes the field before it asks a webhook, and says so itself';
const NOT_SERVED = 'the state has no definition that serves the input: the API server refuses it unasked';

/** Cases that a real API server cannot hold, or in which a cluster says more than the files of the case, each with the reason. */
export const NOT_HELD: Readonly<Record<string, string>> = {
  'backend-tls-policy/shape-of-v1alpha2': NOT_SERVED,
  'crd-bundle/stored-version-dropped': 'the API server itself keeps stored versions from being dropped',
  'inferencepool-endpoint-picker/no-picker': 'the definition requires endpointPickerRef',
  'inferencepool-endpoint-picker/no-picker-for-another-gateway': 'the definition requires endpointPickerRef',
  'inferencepool-endpoint-picker/old-fields-under-v1': PRUNED,
  'inferencepool-endpoint-picker/port-number': PRUNED,
  'inferencepool-endpoint-picker/pruned-port-number': 'nobody can write managedFields that name a pruned field',
  'native-sidecar/apparmor-of-the-proxy': 'the API server refuses the annotation: the container comes later',
  'stale-api-version/alpha-policy-on-standard-crds': NOT_SERVED,
  'stale-api-version/new-policy-on-old-crds': NOT_SERVED,
};

// `waywarden doctor`: what is wrong with an installation, seen from outside, and what to do about it.
import { policies } from '../../policies/index.ts';
import { configOf } from '../config/config.ts';
import { type Config, DEFAULT_CONFIG } from '../config/default.ts';
import { enabledPolicies } from '../engine/kinds.ts';
import { at, records, text } from '../kube/json.ts';
import { yamlIn } from '../kube/yaml.ts';
import { connect } from '../mesh/sources/cluster/client.ts';
import { InputError } from '../mesh/sources/files.ts';
import { callOf, UsageError } from './arguments.ts';
import { CLUSTER_HELP, INSTALLATION_OPTIONS, installationOf } from './cluster.ts';
import { versions } from './doctor/mesh.ts';
import { probe } from './doctor/probe.ts';
import { look, type Patient, type Symptom } from './doctor/symptom.ts';
import { lock, unlock } from './doctor/unlock.ts';
import { breakGlass, certificates, configurations, failure, rules } from './doctor/webhooks.ts';
import { ownNamespace, replicas, rights } from './doctor/workload.ts';
import { paintFor, print } from './terminal.ts';

const HELP = `waywarden doctor: what is wrong with this installation, from outside

Usage: waywarden doctor [--output text|json]
       waywarden doctor --unlock | --lock

Asks the API server, and makes one dry-run request, which leaves no trace. Exit status 1 where something does not work.
  --unlock             both webhook configurations fail open from now on: nobody is refused while no replica answers
  --lock               undoes --unlock
  --output FORMAT      text or json

${CLUSTER_HELP}

Examples:
  waywarden doctor
  waywarden doctor --unlock                            the guard stands in the way, and no replica comes up
`;

const OPTIONS = {
  ...INSTALLATION_OPTIONS,
  unlock: { type: 'boolean' },
  lock: { type: 'boolean' },
  output: { type: 'string' },
} as const;

/** The configuration of the replicas, from their ConfigMap; the default where it cannot be read. */
async function configIn({
  client,
  namespace,
  service,
}: Patient): Promise<{ readonly config: Config; readonly symptoms: readonly Symptom[] }> {
  const about = `ConfigMap ${namespace}/${service}`;
  const looked = await look(client, `/api/v1/namespaces/${namespace}/configmaps/${service}`);
  const source = 'object' in looked ? text(at(looked.object, 'data', 'waywarden.yaml')) : undefined;
  if (source === undefined) return { config: DEFAULT_CONFIG, symptoms: [] };
  const outcome = configOf(yamlIn(source)?.value, policies);
  if ('config' in outcome) return { config: outcome.config, symptoms: [] };
  const [mistake] = outcome.mistakes;
  const found = `replicas keep their old configuration, or do not start: ${mistake?.message ?? ''}`;
  return {
    config: DEFAULT_CONFIG,
    symptoms: [{ level: 'fail', about, found, repair: 'correct it, in the values under config' }],
  };
}

/** The certificate that replicas serve, from the Secret of their own or the one that is mounted. */
async function servedBy(patient: Patient): Promise<{ readonly leaf?: string; readonly own: boolean }> {
  const { client, namespace, service } = patient;
  const deployment = await look(client, `/apis/apps/v1/namespaces/${namespace}/deployments/${service}`);
  const volumes = 'object' in deployment ? records(at(deployment.object, 'spec', 'template', 'spec', 'volumes')) : [];
  const mounted = text(
    at(
      volumes.find(({ name }) => name === 'tls'),
      'secret',
      'secretName',
    ),
  );
  const looked = await look(client, `/api/v1/namespaces/${namespace}/secrets/${mounted ?? patient.secret}`);
  const data = 'object' in looked ? text(at(looked.object, 'data', 'tls.crt')) : undefined;
  const own = mounted === undefined;
  return data === undefined ? { own } : { leaf: Buffer.from(data, 'base64').toString(), own };
}

/** Everything that can be asked, most important first. */
export async function examine(patient: Patient): Promise<readonly Symptom[]> {
  const { config, symptoms: misconfigured } = await configIn(patient);
  const enabled = enabledPolicies(policies, config.settings);
  const probed = await probe(patient);
  const registered = await configurations(patient);
  const served = await servedBy(patient);
  const { found } = registered;
  return [
    ...probed.symptoms,
    ...misconfigured,
    ...registered.symptoms,
    ...(found === undefined
      ? []
      : [
          ...certificates(found, served.leaf, patient, probed.now),
          ...rules(found, enabled),
          ...breakGlass(found, enabled),
          ...failure(found, config.settings, patient),
        ]),
    ...(await replicas(patient)),
    ...(await ownNamespace(patient)),
    ...(await rights(patient, enabled, served.own)),
    ...(await versions(patient, config.declared)),
  ];
}

const SIGNS = {
  ok: ['green', 'ok     '],
  warn: ['yellow', 'warning'],
  fail: ['red', 'FAIL   '],
  unknown: ['dim', 'unknown'],
} as const;

function report(symptoms: readonly Symptom[]): string {
  const paint = paintFor(process.stdout);
  const lines = symptoms.flatMap(({ level, about, found, repair }) => {
    const [style, sign] = SIGNS[level];
    const head = `${paint(style, sign)}  ${about}: ${found}`;
    return level === 'ok' || repair === undefined ? [head] : [head, `         ${paint('dim', 'do:')} ${repair}`];
  });
  const count = (level: Symptom['level']) => symptoms.filter(symptom => symptom.level === level).length;
  const summary = `${count('fail')} failures, ${count('warn')} warnings, ${count('unknown')} unknown, ${count('ok')} fine`;
  return `${lines.join('\n')}\n\n${summary}\n`;
}

/** Why there is no cluster to ask, in one line and in no library's words. */
function unreachable(error: unknown, { kubeconfig, context }: ReturnType<typeof installationOf>): string {
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  const file = kubeconfig ?? process.env['KUBECONFIG'];
  const named = `the kubeconfig${file === undefined || file === '' ? '' : ` ${file}`}`;
  const { code, name } = error as NodeJS.ErrnoException;
  if (line.startsWith('HTTP protocol is not allowed'))
    return 'no kubeconfig names a cluster with https: give --kubeconfig FILE, or set KUBECONFIG';
  if (code === 'ENOENT') return `there is no kubeconfig${file === undefined ? '' : ` ${file}`}`;
  if (code === 'EACCES' || code === 'EISDIR') return `${named} cannot be read`;
  if (name === 'YAMLException' || name === 'YAMLParseError')
    return `${named} is no valid YAML: ${line.replace(/:$/, '')}`;
  if (context !== undefined && line.startsWith('no cluster is configured'))
    return `${named} has no context "${context}" with a cluster`;
  return line;
}

async function patientOf(installation: ReturnType<typeof installationOf>): Promise<Patient> {
  try {
    const client = await connect(installation);
    const { status } = await client.request({ path: '/version' });
    if (status === 401) throw new Error('it does not accept this login');
    return { ...installation, client };
  } catch (error) {
    throw new InputError(`the cluster cannot be reached: ${unreachable(error, installation)}`);
  }
}

/** Runs the command; resolves with the exit status. */
export async function run(words: readonly string[]): Promise<number> {
  const call = callOf('doctor', words, OPTIONS);
  if (call === undefined) {
    await print(HELP);
    return 0;
  }
  if (call.positionals.length > 0) throw new UsageError(`doctor takes options only, not "${call.positionals[0]}"`);
  if (call.flag('unlock') && call.flag('lock'))
    throw new UsageError('--unlock and --lock are opposites: give one of both');
  const output = call.choice('output', ['text', 'json'] as const, 'text');
  const patient = await patientOf(installationOf(call));
  if (call.flag('unlock')) {
    const lines = await unlock(patient);
    await print(
      `${lines.join('\n')}\n\nWhile no replica answers, everything passes unjudged. Whoever applies the chart again locks it again.\nTo return: waywarden doctor, until it finds no failure, and then waywarden doctor --lock\n`,
    );
    return 0;
  }
  if (call.flag('lock')) {
    await print(`${(await lock(patient)).join('\n')}\n`);
    return 0;
  }
  const symptoms = await examine(patient);
  await print(output === 'json' ? `${JSON.stringify({ symptoms }, null, 2)}\n` : report(symptoms));
  return symptoms.some(({ level }) => level === 'fail') ? 1 : 0;
}

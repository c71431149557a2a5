import { writeFileSync } from 'node:fs';

export interface Login {
  server: string;
  /** The file with the authority that signed the API server's certificate. */
  authority: string;
  token: string;
}

export function writeKubeconfig(file: string, { server, authority, token }: Login): void {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'harness', cluster: { server, 'certificate-authority': authority } }],
    users: [{ name: 'harness', user: { token } }],
    contexts: [{ name: 'harness', context: { cluster: 'harness', user: 'harness' } }],
    'current-context': 'harness',
  };
  writeFileSync(file, JSON.stringify(config, null, 2), { mode: 0o600 }); // JSON is YAML
}

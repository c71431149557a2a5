// What kubectl prints, read as a person reads it.

export interface Said {
  readonly verdict: 'deny' | 'warn' | 'allow' | 'refused by the API server';
  readonly text: string;
}

const DENIED = /admission webhook "[a-z]+\.(validate|mutate)\.waywarden\.dev" denied the request/;
/** A finding's warning ends with its id; what the guard says of itself begins with its name. */
const WARNED = /^Warning: (waywarden: .*|.*\[[a-z0-9-]+\/[a-z0-9.-]+\])$/m;

/** What kubectl printed, as a verdict. */
export function saidBy(code: number, stderr: string): Said {
  if (DENIED.test(stderr)) return { verdict: 'deny', text: stderr };
  // what exists already was let through by every webhook
  if (code !== 0 && !stderr.includes('(AlreadyExists)')) return { verdict: 'refused by the API server', text: stderr };
  return { verdict: WARNED.test(stderr) ? 'warn' : 'allow', text: stderr };
}

#!/usr/bin/env node
// The command line: which command, and nothing else. Every command is loaded only when it is asked for, so that `check` never
// waits for the web server. Written so that an old Node can read it, and say that it is too old.

const WANTED = 22;

const COMMANDS = {
  serve: { summary: 'guard a mesh: the admission webhook', load: () => import('./cli/serve.ts') },
  review: { summary: "the webhook's verdict on one object, from files", load: () => import('./cli/review.ts') },
  check: { summary: 'judge a set of manifests together, in CI', load: () => import('./cli/check.ts') },
  policies: { summary: 'every policy and its findings', load: () => import('./cli/policies.ts') },
  doctor: { summary: 'what is wrong with an installation, and --unlock', load: () => import('./cli/doctor.ts') },
  explain: { summary: 'the page of a policy or finding', load: () => import('./cli/explain.ts') },
};

function help() {
  const rows = Object.keys(COMMANDS).map(
    name => `  ${name.padEnd(10)}${COMMANDS[name as keyof typeof COMMANDS].summary}`,
  );
  return `waywarden: the guard in front of an Istio mesh

Usage: waywarden COMMAND [OPTIONS]

Commands:
${rows.join('\n')}

Examples:
  waywarden serve --example                    try it: a webhook on an example mesh, no cluster needed
  waywarden check deploy/ --istio 1.31         what would Istio really do with these manifests?
  waywarden review policy.yaml --state dump/   one object, against the dump of a cluster
  waywarden explain l7-needs-waypoint          why, and how to fix it

Each command explains itself: waywarden COMMAND --help
`;
}

function failed(error: unknown) {
  // mistakes of the user are said in one line; everything else is a defect of ours, whose trace is for those who ask for it
  const known = error instanceof Error && (error.name === 'InputError' || error.name === 'UsageError');
  const message = error instanceof Error ? error.message : String(error);
  const trace = error instanceof Error && process.env['WAYWARDEN_TRACE'] ? `\n${error.stack}` : '';
  const defect = `a defect of waywarden, not of yours: ${message.split('\n')[0]} (WAYWARDEN_TRACE=1 shows where)${trace}`;
  process.stderr.write(`waywarden: ${known ? message : defect}\n`);
  process.exitCode = known ? 2 : 70;
}

async function main(words: string[]) {
  let [name, ...rest] = words;
  if (name === 'help' && rest.length > 0) [name, rest] = [rest[0], ['--help']];
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    process.stdout.write(help());
    process.exitCode = name === undefined ? 2 : 0;
  } else if (name === '--version' || name === '-V' || name === '-v') {
    const { version } = await import('./cli/version.ts');
    process.stdout.write(`${version()}\n`);
  } else if (Object.hasOwn(COMMANDS, name)) {
    const command = await COMMANDS[name as keyof typeof COMMANDS].load();
    process.exitCode = await command.run(rest);
  } else {
    const { didYouMean } = await import('./kube/near.ts');
    process.stderr.write(
      `waywarden: there is no command "${name}"${didYouMean(name, Object.keys(COMMANDS))}; see waywarden --help\n`,
    );
    process.exitCode = 2;
  }
}

// `waywarden policies | head` closes the pipe before everything is written
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : 70);
});

if (Number(process.versions.node.split('.')[0]) < WANTED) {
  process.stderr.write(
    `waywarden needs Node.js ${WANTED} or newer, and this is ${process.versions.node} (in a clone: npx waywarden)\n`,
  );
  process.exitCode = 2;
} else {
  main(process.argv.slice(2)).catch(failed);
}

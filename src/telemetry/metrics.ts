// Figures for Prometheus. No label takes a value that users can make up.
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type Finding, takenOf } from '../engine/difference.ts';

/** What a review adds to the figures. */
export interface ReviewFigures {
  readonly stage: 'mutate' | 'validate';
  readonly operation: string;
  /** A kind that some policy knows, or `other`. */
  readonly kind: string;
  readonly verdict: string;
  readonly dryRun: boolean;
  readonly milliseconds: number;
  readonly findings: readonly Pick<Finding, 'policy' | 'finding' | 'action' | 'audited'>[];
  readonly timedOut: boolean;
  /** True where a denial could not be confirmed and became a warning. */
  readonly unconfirmed: boolean;
  /** Policies that failed with an internal error. */
  readonly failed: readonly string[];
}

/** One kind of the Mesh, as its source sees it. */
export interface MeshFigures {
  readonly kind: string;
  readonly synced: boolean;
  /** Milliseconds since its watch was heard last. */
  readonly age: number;
  readonly objects: number;
  readonly bytes: number;
}

export interface Metrics {
  /** Where the figures of the Mesh come from when somebody asks. */
  mesh(figures: () => readonly MeshFigures[]): void;
  readonly contentType: string;
  /** The exposition, for `/metrics`. */
  text(): Promise<string>;
  reviewed(review: ReviewFigures): void;
  /** A write by a member of a break-glass group, which nobody judged; `kind` is one that some policy knows, or `other`. */
  passedUnjudged(operation: string, kind: string): void;
  /** A request that was no review, by its code in `admission/errors.ts`. */
  refused(code: string): void;
  /** The certificate that is served from now on. */
  certificate(expires: Date): void;
  /** Whether a certificate or a configuration that was found could be used. */
  reloaded(what: 'certificate' | 'configuration', result: 'ok' | 'failed'): void;
}

/** Counts that are added up in a Map and handed to prom-client when somebody asks: its own `inc` hashes the labels each time. */
function tally<Label extends string>(registry: Registry, name: string, help: string, labelNames: readonly Label[]) {
  const pending = new Map<string, { readonly labels: Readonly<Record<Label, string>>; count: number }>();
  new Counter({
    name,
    help,
    labelNames: [...labelNames],
    registers: [registry],
    collect() {
      for (const entry of pending.values()) {
        if (entry.count > 0) this.inc(entry.labels as Record<Label, string>, entry.count);
        entry.count = 0;
      }
    },
  });
  return (key: string, labels: () => Readonly<Record<Label, string>>): void => {
    const known = pending.get(key);
    if (known !== undefined) known.count += 1;
    else pending.set(key, { labels: labels(), count: 1 });
  };
}

/** What the process itself costs. prom-client's own set wakes up a hundred times a second for the lag of the event loop. */
function processFigures(registry: Registry): void {
  const registers = [registry];
  let counted = 0;
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'User and system CPU time, in seconds',
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      const seconds = (user + system) / 1e6;
      this.inc(seconds - counted);
      counted = seconds;
    },
  });
  new Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory',
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
  new Gauge({
    name: 'nodejs_heap_size_used_bytes',
    help: 'JavaScript heap in use',
    registers,
    collect() {
      this.set(process.memoryUsage().heapUsed);
    },
  });
  new Gauge({
    name: 'process_start_time_seconds',
    help: 'When the process started, in seconds since 1970',
    registers,
  }).set(Math.round(Date.now() / 1000 - process.uptime()));
}

/** The Mesh by kind: there are as many kinds as the policies read. */
function meshGauges(registry: Registry, figures: () => readonly MeshFigures[]): void {
  const gauge = (name: string, help: string, value: (one: MeshFigures) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['kind'],
      registers: [registry],
      collect() {
        this.reset();
        for (const one of figures()) this.inc({ kind: one.kind }, value(one));
      },
    });
  gauge('waywarden_mesh_objects', 'Objects of the Mesh by kind', ({ objects }) => objects);
  gauge('waywarden_mesh_bytes', 'Bytes received for a kind since it was listed', ({ bytes }) => bytes);
  gauge('waywarden_mesh_synced', '1 where a kind is in sync with the cluster', ({ synced }) => (synced ? 1 : 0));
  gauge('waywarden_mesh_age_seconds', 'Seconds since the watch of a kind was heard last', ({ age }) =>
    Number.isFinite(age) ? age / 1000 : 0,
  );
}

/** A registry of its own for each server. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const reviews = tally(registry, 'waywarden_reviews_total', 'Reviews answered; the only count that dry runs are in', [
    'stage',
    'operation',
    'kind',
    'verdict',
    'dry_run',
  ]);
  const findings = tally(registry, 'waywarden_findings_total', 'Findings in reviews that were no dry runs', [
    'policy',
    'finding',
    'action',
  ]);
  const timedOut = tally(registry, 'waywarden_timed_out_total', 'Reviews that the deadline ended', ['stage']);
  const unconfirmed = tally(registry, 'waywarden_unconfirmed_total', 'Denials that became warnings, unconfirmed', [
    'stage',
  ]);
  const failures = tally(registry, 'waywarden_failed_checks_total', 'Checks that an internal error ended', ['policy']);
  const breakGlass = tally(
    registry,
    'waywarden_break_glass_total',
    'Writes by members of a break-glass group, which nobody judged; no dry runs',
    ['operation', 'kind'],
  );
  const refused = tally(registry, 'waywarden_refused_requests_total', 'Requests that were no review', ['code']);
  const reloads = tally(registry, 'waywarden_reloads_total', 'Certificates and configurations found anew', [
    'what',
    'result',
  ]);
  const duration = new Histogram({
    name: 'waywarden_review_duration_seconds',
    help: 'From the arrival of a review to its answer',
    labelNames: ['stage'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 10],
    registers,
  });
  const durations = { mutate: duration.labels('mutate'), validate: duration.labels('validate') };
  let expires: Date | undefined;
  new Gauge({
    name: 'waywarden_certificate_expiry_seconds',
    help: 'Seconds until the serving certificate expires',
    registers,
    collect() {
      if (expires !== undefined) this.set(Math.round((expires.getTime() - Date.now()) / 1000));
    },
  });
  processFigures(registry);
  let meshFigures: () => readonly MeshFigures[] = () => [];
  meshGauges(registry, () => meshFigures());

  return {
    mesh(figures) {
      meshFigures = figures;
    },
    contentType: registry.contentType,
    text: () => registry.metrics(),
    reviewed(review) {
      const { stage, operation, kind, verdict, dryRun } = review;
      reviews(`${stage} ${operation} ${kind} ${verdict} ${dryRun}`, () => ({
        stage,
        operation,
        kind,
        verdict,
        dry_run: String(dryRun),
      }));
      for (const policy of review.failed) failures(policy, () => ({ policy }));
      if (dryRun) return;
      durations[stage].observe(review.milliseconds / 1000);
      if (review.timedOut) timedOut(stage, () => ({ stage }));
      if (review.unconfirmed) unconfirmed(stage, () => ({ stage }));
      for (const one of review.findings) {
        const { policy, finding } = one;
        const action = takenOf(one);
        findings(`${policy} ${finding} ${action}`, () => ({ policy, finding, action }));
      }
    },
    passedUnjudged: (operation, kind) => breakGlass(`${operation} ${kind}`, () => ({ operation, kind })),
    refused: code => refused(code, () => ({ code })),
    certificate(date) {
      expires = date;
    },
    reloaded: (what, result) => reloads(`${what} ${result}`, () => ({ what, result })),
  };
}

// What there is to report, whatever the format. A new format is a file beside this one.
import type { Finding } from '../engine/difference.ts';
import type { Verdict } from '../engine/verdict.ts';
import type { ObjectRef } from '../kube/kind.ts';
import type { Position } from '../mesh/sources/files.ts';

/** A finding, and where what it is about stands in a file. */
export interface Located {
  readonly finding: Finding;
  /** undefined where its subject is in no file. */
  readonly position?: Position;
}

/** What `check` has found. */
export interface CheckReport {
  /** In the order of files and lines. */
  readonly findings: readonly Located[];
  /** What else has to be said: checks that were skipped, exemptions that have expired. */
  readonly notices: readonly string[];
  /** How many objects were judged, of how many files. */
  readonly objects: number;
  readonly files: number;
  /** Documents that are no Kubernetes object. */
  readonly skipped: number;
}

/** What `review` has found. */
export interface ReviewReport {
  /** undefined for a request without an object. */
  readonly subject?: ObjectRef;
  readonly verdict: Verdict;
  /** The findings of the verdict. */
  readonly findings: readonly Located[];
}

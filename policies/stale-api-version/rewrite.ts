// Turns an object into one of the version that takes the place of its own.
import jsonPatch, { type Operation } from 'fast-json-patch';
import { at, record, text } from '../../src/kube/json.ts';
import { groupKind, splitApiVersion, splitGroupKind } from '../../src/kube/kind.ts';
import { type PatchOperation, pointer, pointerParts, resolve } from '../../src/kube/patch.ts';
import { entryOf, type RewriteStep, successorOf } from './table.ts';

/** How an object becomes current. */
export interface Rewrite {
  /** In the order to apply them. */
  readonly operations: readonly PatchOperation[];
  /** What a person has to look at. */
  readonly notes: readonly string[];
}

/** Collects operations, each tried on a copy at once, so that the next one sees what it left. */
function scribe(object: unknown) {
  const copy = structuredClone(object);
  const operations: PatchOperation[] = [];
  const apply = (...steps: readonly PatchOperation[]) => {
    for (const step of steps) {
      jsonPatch.applyPatch(copy, [structuredClone(step) as Operation]);
      operations.push(step);
    }
  };
  /** Adds a value with the objects above it that are not there yet. */
  const put = (path: string, value: unknown) => {
    const parts = pointerParts(path);
    for (let depth = 1; depth < parts.length; depth += 1) {
      const parent = pointer(...parts.slice(0, depth));
      if (record(resolve(copy, parent)) === undefined) apply({ op: 'add', path: parent, value: {} });
    }
    apply({ op: 'add', path, value });
  };
  return { copy, operations, apply, put };
}

function perform(step: RewriteStep, { copy, apply, put }: ReturnType<typeof scribe>, notes: string[]): void {
  switch (step.op) {
    case 'nest': {
      const value = record(resolve(copy, step.path));
      // a label may well be called like the field: then its value is text
      if (value === undefined || record(value[step.under]) !== undefined) return;
      apply({ op: 'replace', path: step.path, value: { [step.under]: value } });
      return;
    }
    case 'list': {
      const value = resolve(copy, step.from);
      if (value === undefined || resolve(copy, step.to) !== undefined) return;
      apply({ op: 'remove', path: step.from });
      put(step.to, [step.as === undefined ? value : { [step.as]: value }]);
      return;
    }
    case 'move': {
      const value = resolve(copy, step.from);
      if (value === undefined || resolve(copy, step.to) !== undefined) return;
      if (step.scalar === true && record(value) !== undefined) return;
      apply({ op: 'remove', path: step.from });
      put(step.to, value);
      if (step.note !== undefined) notes.push(step.note);
      return;
    }
    case 'default': {
      const parent = pointer(...pointerParts(step.path).slice(0, -2));
      const other = resolve(copy, step.unlessOther.path);
      if (record(resolve(copy, parent)) === undefined || resolve(copy, step.path) !== undefined) return;
      if (other !== undefined && !step.unlessOther.than.includes(String(other))) return;
      put(step.path, step.value);
      notes.push(`${step.path} is ${step.value}, which used to be inferred: see that the Service has it`);
      return;
    }
    case 'drop': {
      if (resolve(copy, step.path) === undefined) return;
      apply({ op: 'remove', path: step.path });
      if (step.note !== undefined) notes.push(step.note);
    }
  }
}

/**
 * The operations that turn an object into one of what takes the place of its version; undefined where it is current, or where a
 * person has to write it anew (another kind of other fields, a policy whose target is in another namespace).
 */
export function rewriteOf(object: unknown): Rewrite | undefined {
  const { group, version } = splitApiVersion(text(at(object, 'apiVersion')) ?? '');
  const entry = entryOf(groupKind(group, text(at(object, 'kind')) ?? ''));
  if (entry === undefined) return undefined;
  const successor = successorOf(entry, version);
  // a v1 pool may still have the fields of a version before v1 was out
  if (successor === undefined && entry.rewrite === undefined) return undefined;
  if (successor !== undefined && splitGroupKind(successor.kind).kind !== splitGroupKind(entry.kind).kind)
    return undefined;
  const namespace = text(at(object, 'spec', 'targetRef', 'namespace'));
  if (namespace !== undefined && namespace !== (text(at(object, 'metadata', 'namespace')) ?? namespace))
    return undefined;
  const pen = scribe(object);
  const notes: string[] = [];
  if (successor !== undefined) pen.apply({ op: 'replace', path: '/apiVersion', value: successor.apiVersion });
  for (const step of entry.rewrite ?? []) perform(step, pen, notes);
  const hint = entry.rewrite === undefined ? entry.hint : undefined;
  if (hint !== undefined) notes.push(hint);
  return pen.operations.length === 0 ? undefined : { operations: pen.operations, notes };
}

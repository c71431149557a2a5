import { DEFAULT_SETTINGS, type Settings } from '../engine/settings.ts';
import type { Declared } from '../mesh/mesh.ts';
import { NOTHING_DECLARED } from '../mesh/store.ts';

/** The configuration: what becomes of findings, and what the cluster does not show. */
export interface Config {
  readonly settings: Settings;
  readonly declared: Declared;
  /** Groups that the webhook configuration lets pass unjudged. */
  readonly breakGlassGroups: readonly string[];
}

/** The configuration without a waywarden.yaml. */
export const DEFAULT_CONFIG: Config = Object.freeze({
  settings: DEFAULT_SETTINGS,
  declared: NOTHING_DECLARED,
  breakGlassGroups: [],
});

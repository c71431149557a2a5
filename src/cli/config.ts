import { policies } from '../../policies/index.ts';
import { type Config, DEFAULT_CONFIG } from '../config/default.ts';

/** The configuration in a file, for the policies that there are; the default without one. */
export async function configFrom(file: string | undefined): Promise<Config> {
  if (file === undefined) return DEFAULT_CONFIG;
  const { loadConfig } = await import('../config/config.ts');
  return loadConfig(file, policies);
}

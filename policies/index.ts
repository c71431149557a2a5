// Every policy. To add one: a folder, and a line here.
import type { Policy } from '../src/engine/policy.ts';
import { meshLabels } from './mesh-labels/policy.ts';
import { peerAuthenticationPolicy } from './peer-authentication/policy.ts';

export const policies: readonly Policy[] = [meshLabels, peerAuthenticationPolicy];

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { catalogued, ERRORS, errorLine, refusal } from '../../src/admission/errors.ts';

test('the page has every code with its status, and no other', () => {
  const page = readFileSync(new URL('../../docs/ERRORS.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+) \|/gm)].map(([, code, status]) => [code, Number(status)]);
  expect(rows).toEqual(Object.entries(ERRORS).map(([code, { status }]) => [code, status]));
});

test('whatever is thrown becomes an error of the catalogue, and says nothing of what it was', () => {
  const thrown: readonly unknown[] = [
    new Error('secret'),
    'secret',
    undefined,
    null,
    { code: 'secret' },
    { statusCode: 302 },
  ];
  for (const error of thrown) {
    expect(errorLine(catalogued(error))).toBe('WW_INTERNAL: an internal error: see the log\n');
  }
  expect(catalogued({ code: 'FST_ERR_CTP_BODY_TOO_LARGE', statusCode: 413 }).code).toBe('WW_TOO_LARGE');
  expect(catalogued({ code: 'FST_ERR_VALIDATION', statusCode: 400, message: 'secret' }).code).toBe('WW_BAD_REQUEST');
  const own = refusal('WW_SLOW');
  expect(catalogued(own)).toBe(own);
});

// Every answer that is not a review: its code, its HTTP status and what the sender is told, in one line of plain text.

interface ErrorSpec {
  readonly status: number;
  readonly text: string;
}

export const ERRORS = {
  WW_CONTENT_TYPE: { status: 400, text: 'send an AdmissionReview with content-type application/json' },
  WW_NOT_JSON: { status: 400, text: 'the body is not JSON' },
  WW_NOT_A_REVIEW: { status: 400, text: 'the body is no AdmissionReview of admission.k8s.io/v1 with a request' },
  WW_BAD_REQUEST: { status: 400, text: 'this is no HTTP/1.1 request' },
  WW_NOT_FOUND: { status: 404, text: 'there is nothing here: reviews go to /validate and /mutate' },
  WW_METHOD: { status: 405, text: 'reviews come by POST' },
  WW_SLOW: { status: 408, text: 'the request took too long to arrive' },
  WW_TOO_LARGE: { status: 413, text: 'the review is larger than 8 MiB' },
  WW_HEADERS: { status: 431, text: 'the headers are too large' },
  WW_BUSY: { status: 503, text: 'too many large reviews at once: send it again' },
  WW_INTERNAL: { status: 500, text: 'an internal error: see the log' },
} as const satisfies Readonly<Record<string, ErrorSpec>>;

export type ErrorCode = keyof typeof ERRORS;

/** An Error that carries its code; fastify reads `statusCode`. */
export interface RefusedRequest extends Error {
  readonly code: ErrorCode;
  readonly statusCode: number;
}

/** The error for a code; `detail` says more about this one and never quotes what was sent. */
export function refusal(code: ErrorCode, detail?: string): RefusedRequest {
  const { status, text } = ERRORS[code];
  return Object.assign(new Error(detail === undefined ? text : `${text}: ${detail}`), { code, statusCode: status });
}

/** The catalogue's error for anything that was thrown while a request was read; fastify's own errors are translated. */
export function catalogued(error: unknown): RefusedRequest {
  const { code, statusCode } = (typeof error === 'object' && error !== null ? error : {}) as Record<string, unknown>;
  if (typeof code === 'string' && Object.hasOwn(ERRORS, code)) return error as RefusedRequest;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return refusal('WW_TOO_LARGE');
  if (typeof code === 'string' && code.startsWith('FST_ERR_CTP_')) return refusal('WW_CONTENT_TYPE');
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) return refusal('WW_BAD_REQUEST');
  return refusal('WW_INTERNAL');
}

/** The body of the answer. */
export function errorLine({ code, message }: RefusedRequest): string {
  return `${code}: ${message}\n`;
}

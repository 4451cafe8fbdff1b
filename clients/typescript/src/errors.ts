import type { components } from './schema.js'

/** The stable names of errors, and `unknown` for an answer that is not of the service, such as that of a proxy. */
export type ErrorCode = components['schemas']['ErrorCode'] | 'unknown'

/** An error that the service, or a proxy in front of it, answered. */
export class MediastackError extends Error {
  override readonly name = 'MediastackError'

  constructor(
    /** The stable name of the error, for programs. */
    readonly code: ErrorCode,
    /** The HTTP status code. */
    readonly status: number,
    /** What the client can change; empty if the service said nothing. */
    readonly detail: string,
    /** The id of the request in the log of the service; empty if the answer has none. */
    readonly requestId: string,
    /** Seconds to wait before the next attempt, if the answer says so. */
    readonly retryAfter: number | undefined,
    /** Whether the connection of an earlier attempt failed, which the service may have carried out. */
    readonly repeated = false,
  ) {
    super(`${status} ${code}${detail && ': ' + detail}`)
  }
}

/** A connection that failed: the service was not reached, or its answer did not arrive. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'

  constructor(cause: unknown) {
    super('the connection to the service failed', { cause })
  }
}

/**
 * An upload that is complete, but whose document is too long for a header. The draft is stored. An upload
 * signature cannot read it: a client with an API key or an access token can, with `mediaId`.
 */
export class MissingDocumentError extends Error {
  override readonly name = 'MissingDocumentError'

  constructor(readonly mediaId: string) {
    super(`the draft ${mediaId} is stored, but its document is too long for the answer to an upload`)
  }
}

/** An upload with `seal` whose upload signature was not created with `seal`. The draft is stored: seal it on your server, with `mediaId`. */
export class NotSealedError extends Error {
  override readonly name = 'NotSealedError'

  constructor(readonly mediaId: string) {
    super(`the draft ${mediaId} is stored, but the upload signature does not seal: create it with seal, or seal the draft on your server`)
  }
}

/** An upload from a URL that failed. Nothing of it is stored. */
export class UploadFromUrlError extends Error {
  override readonly name = 'UploadFromUrlError'

  constructor(
    /** The id of the upload in the service. */
    readonly jobId: string,
    /** The stable name of the reason, for programs, such as `unreachable`. `status_404` is the status of the other server. */
    readonly code: string,
    /** The reason in words. */
    readonly detail: string,
  ) {
    super(`the upload ${jobId} from a URL failed: ${code}: ${detail}`)
  }
}

/**
 * Events after a cursor have expired, or may be missing since the database of the service was restored. Read a new cursor with
 * `after: 'now'`, list the media again, then follow from the cursor. `cause` is the MediastackError.
 */
export class EventsGoneError extends Error {
  override readonly name = 'EventsGoneError'

  constructor(
    /** The answer of the service. */
    override readonly cause: MediastackError,
  ) {
    super(cause.detail || cause.message, { cause })
  }
}

const codeOfStatus: Record<number, ErrorCode> = {
  400: 'invalid_request', 401: 'unauthorized', 403: 'forbidden', 404: 'not_found', 409: 'conflict', 410: 'gone', 412: 'precondition_failed', 413: 'payload_too_large',
  416: 'range_not_satisfiable', 423: 'locked', 429: 'too_many_requests', 500: 'internal_error', 503: 'unavailable',
}

/** Returns the error of an answer. An answer without a body, as that to HEAD, has the code of its status. */
export function errorOf(status: number, header: (name: string) => string | null | undefined, body: string, repeated = false): MediastackError {
  let document: { code?: ErrorCode; detail?: string } = {}
  try {
    document = body === '' ? { code: codeOfStatus[status] ?? 'unknown' } : (JSON.parse(body) ?? {})
  } catch {
    // The page of a proxy.
  }
  const { code, detail } = document
  return new MediastackError(
    typeof code === 'string' ? code : 'unknown',
    status,
    typeof detail === 'string' ? detail : '',
    header('x-request-id') ?? '',
    retryAfterOf(header('retry-after')),
    repeated,
  )
}

/** Returns the seconds of a Retry-After header, which is a number of seconds or a date. */
function retryAfterOf(value: string | null | undefined): number | undefined {
  if (!value) return undefined
  if (/^\d+$/.test(value)) return Number(value)
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - Date.now()) / 1000))
}

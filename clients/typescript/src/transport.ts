import { ConnectionError, errorOf, MediastackError } from './errors.js'
import type { Exchange } from './form.js'

/** A value, or a function that returns it for each request, for one that expires. */
export type Renewable = string | (() => string | Promise<string>)

/** The credential of a client: exactly one. */
export type Credential =
  /** The API key of an app. It does not belong in a browser. */
  | { apiKey: string }
  /** An access token of a login. */
  | { accessToken: Renewable }
  /** An upload signature, which permits uploads only. */
  | { uploadSignature: Renewable }

export interface RetryOptions {
  /** Attempts of a request, the first one included. 1 disables retries. Default 5. */
  attempts?: number
  /** Attempts of a resumable upload without progress in between. Default 12. */
  uploadAttempts?: number
  /** The longest wait between two attempts, in milliseconds. A longer Retry-After ends the request. Default 30,000. */
  maxDelay?: number
  /** Waits; tests replace it. */
  wait?: (milliseconds: number, signal?: AbortSignal) => Promise<void>
}

export interface TransportOptions {
  baseUrl: string
  credential: Credential
  /** The word in the header names of the service (`SERVICE_BRAND`). Default `service`. */
  brand?: string | undefined
  retry?: RetryOptions | undefined
  /** Replaces the global fetch. Resumable uploads do not use it, and it reports no progress of forms but their end. */
  fetch?: typeof globalThis.fetch | undefined
}

/** A request that can be sent again: its body is no stream. */
export interface Sendable {
  url: string
  init: RequestInit
  /** Whether the body of the answer is left to the caller. */
  streamed?: boolean
  /** Whether it is sent without the credential. */
  anonymous?: boolean
  /** Sends it instead of fetch. */
  exchange?: Exchange | undefined
}

/** Sends requests with their credential, and again after errors that pass. */
export class Transport {
  readonly baseUrl: string
  readonly brand: string
  readonly retry: Required<RetryOptions>
  /** Whether the fetch is that of the caller, which sends every request but resumable uploads. */
  readonly ownFetch: boolean
  private readonly credential: Credential
  private readonly fetch: typeof globalThis.fetch

  constructor(options: TransportOptions) {
    if (!options.baseUrl) throw new TypeError('baseUrl is missing')
    this.baseUrl = options.baseUrl.replace(/\/+$/, '')
    this.brand = options.brand ?? 'service'
    // Programs in JavaScript leave it out, or pass a variable that is not set.
    if (typeof options.credential !== 'object' || options.credential === null) throw new TypeError('credential is missing: pass { apiKey }, { accessToken } or { uploadSignature }')
    this.credential = options.credential
    this.ownFetch = options.fetch !== undefined
    this.fetch = options.fetch ?? ((...request) => globalThis.fetch(...request))
    this.retry = {
      attempts: options.retry?.attempts ?? 5,
      uploadAttempts: options.retry?.uploadAttempts ?? 12,
      maxDelay: options.retry?.maxDelay ?? 30_000,
      wait: options.retry?.wait ?? wait,
    }
    for (const name of ['attempts', 'uploadAttempts', 'maxDelay'] as const) {
      if (!Number.isInteger(this.retry[name]) || this.retry[name] < (name === 'maxDelay' ? 0 : 1)) {
        throw new RangeError(`retry.${name} is ${this.retry[name]}, not a whole number of at least ${name === 'maxDelay' ? 0 : 1}`)
      }
    }
    if (!/^https?:\/\//.test(this.baseUrl)) throw new TypeError(`baseUrl is not an http or https URL: ${this.baseUrl}`)
    if (Object.keys(this.credential).length !== 1) throw new TypeError('credential has not exactly one of apiKey, accessToken and uploadSignature')
    for (const [name, value] of Object.entries(this.credential)) {
      if (!value) throw new TypeError(`credential.${name} is missing`)
    }
  }

  /** Whether the credential permits uploads only. */
  get uploadsOnly(): boolean {
    return 'uploadSignature' in this.credential
  }

  /** Returns the header with the credential. */
  async authorization(): Promise<[name: string, value: string]> {
    if ('apiKey' in this.credential) return [`x-${this.brand}-apikey`, this.credential.apiKey]
    if ('accessToken' in this.credential) return ['authorization', `Bearer ${await valueOf(this.credential.accessToken)}`]
    return [`x-${this.brand}-signature`, await valueOf(this.credential.uploadSignature)]
  }

  /** Sends a request and returns its answer, or throws a MediastackError, a ConnectionError or the signal's reason. */
  async send({ url, init, streamed = false, anonymous = false, exchange }: Sendable): Promise<Response> {
    const signal = init.signal ?? undefined
    // The draft of a form whose answer was lost may be stored, and an upload from a URL may have begun: they are not sent twice.
    const idempotent = !['/media/create', '/media/create/url'].some((path) => url === this.baseUrl + path)
    let repeated = false
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted()
      const headers = new Headers(init.headers)
      if (!anonymous) headers.set(...(await this.authorization()))
      let failed: MediastackError | ConnectionError
      try {
        // A redirect would take the credential elsewhere; the routes of the service have none.
        const response = await (exchange ?? this.fetch)(url, { ...init, headers, credentials: 'omit', redirect: anonymous ? 'follow' : 'error' })
        if (response.ok && streamed) return response
        const body = await response.text()
        if (response.ok && isDocument(body, response.headers)) return new Response(body || null, { status: response.status, headers: response.headers })
        failed = errorOf(response.status, (name) => response.headers.get(name), body, repeated)
      } catch (error) {
        signal?.throwIfAborted()
        failed = new ConnectionError(error)
        repeated = true
        if (!idempotent) throw failed
      }
      const delay = this.delayAfter(failed, attempt, this.retry.attempts)
      if (delay === undefined) throw failed
      await this.retry.wait(delay, signal)
    }
  }

  /** Returns how long to wait before a request is sent again, in milliseconds; undefined if it is not. */
  delayAfter(error: MediastackError | ConnectionError, attempt: number, attempts: number): number | undefined {
    if (attempt >= attempts) return undefined
    const backoff = this.backoff(attempt)
    if (error instanceof ConnectionError) return backoff
    if (error.status !== 429 && error.status !== 503) return undefined
    const delay = error.retryAfter === undefined ? backoff : error.retryAfter * 1000
    return delay <= this.retry.maxDelay ? delay : undefined
  }

  /**
   * Returns how long to wait before a request whose attempts have all failed begins again, in milliseconds: while the service
   * is away, or a proxy in front of it finds none, or a limit is reached. undefined after another error.
   */
  delayOfAbsence(error: unknown, failures: number): number | undefined {
    if (error instanceof ConnectionError) return this.backoff(failures)
    if (!(error instanceof MediastackError) || ![429, 502, 503, 504].includes(error.status)) return undefined
    return error.retryAfter === undefined ? this.backoff(failures) : error.retryAfter * 1000
  }

  /** Returns a random time that is longer the more attempts have failed. */
  private backoff(attempt: number): number {
    return Math.min(250 * 2 ** (attempt - 1), 8_000, this.retry.maxDelay) * (0.5 + Math.random() / 2)
  }
}

/**
 * Whether the body of an answer is what the service writes. The page of a proxy, such as that of a network which wants a login,
 * is not. A document that is cut off is as if the connection had failed.
 */
function isDocument(body: string, headers: Headers): boolean {
  if (body === '') return true
  if (!/\bjson\b/.test(headers.get('content-type') ?? '')) return false
  JSON.parse(body)
  return true
}

async function valueOf(value: Renewable): Promise<string> {
  return typeof value === 'function' ? value() : value
}

function wait(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
    }
    const aborted = () => {
      end()
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      end()
      resolve()
    }, milliseconds)
    if (signal?.aborted) aborted()
    else signal?.addEventListener('abort', aborted)
  })
}

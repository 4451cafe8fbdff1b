import { type DetailedError, type HttpResponse, Upload, type UploadOptions as TusOptions } from 'tus-js-client'
import { ConnectionError, errorOf, type MediastackError, MissingDocumentError } from './errors.js'
import { StreamSource } from './source.js'
import type { Transport } from './transport.js'

export interface Resumable {
  file: Blob | StreamSource
  metadata: Record<string, string>
  /** Bytes of one request; undefined for the whole file in browsers and 16 MiB elsewhere. */
  chunkSize?: number | undefined
  uploadUrl?: string | undefined
  onUploadUrl?: ((url: string) => void) | undefined
  onProgress?: ((sent: number, total: number) => void) | undefined
  signal?: AbortSignal | undefined
}

/** What a completed upload answered: the id of the draft, and its document if it was not too long for a header. */
export interface Completed {
  mediaId: string
  document: string | undefined
}

// Outside of browsers tus-js-client sends buffers, so a file is read in pieces.
const inBrowser = typeof document !== 'undefined' || typeof (globalThis as { importScripts?: unknown }).importScripts === 'function'
const pieceSize = 16 << 20

/** Uploads a file with TUS. After a broken connection it continues from the offset that the service has. */
export function uploadResumable(transport: Transport, upload: Resumable): Promise<Completed> {
  const { file, signal } = upload
  const stream = file instanceof StreamSource ? file : undefined
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    let delay = 0 // before the next request
    let known = false // whether the caller was told of the upload
    const end = (reason?: unknown) => {
      signal?.removeEventListener('abort', aborted)
      stream?.close(reason)
    }
    // Without the URL nothing can continue the upload, which would hold its bytes under the cap until it expires.
    const removeUpload = () => void tus.abort().then(() => {
      if (tus.url && !upload.onUploadUrl) return cancelUpload(transport, tus.url)
    }).catch(() => {})
    const aborted = () => {
      end(signal?.reason)
      removeUpload()
      reject(signal?.reason)
    }
    const options: TusOptions = {
      endpoint: `${transport.baseUrl}/media/create/resumable`,
      uploadUrl: upload.uploadUrl ?? null,
      metadata: upload.metadata,
      chunkSize: upload.chunkSize ?? (inBrowser && !stream ? Number.POSITIVE_INFINITY : pieceSize),
      ...(stream ? readerOf(stream, upload.uploadUrl !== undefined) : inBrowser ? {} : { fileReader: { openFile: async (_: unknown, chunkSize: number) => source(file as Blob, chunkSize) } }),
      storeFingerprintForResuming: false,
      // The waits are in onBeforeRequest, because only there they can follow Retry-After.
      retryDelays: new Array<number>(transport.retry.uploadAttempts - 1).fill(0),
      onShouldRetry(error, attempt) {
        if (stream?.failure !== undefined) return false
        const next = transport.delayAfter(temporary(error), attempt + 1, transport.retry.uploadAttempts)
        delay = next ?? 0
        return next !== undefined
      },
      async onBeforeRequest(request) {
        const before = delay
        delay = 0
        if (before > 0) await transport.retry.wait(before, signal)
        request.setHeader(...(await transport.authorization()))
      },
      onUploadUrlAvailable() {
        // tus-js-client would begin a new upload if the offset of this one cannot be read.
        tus.options.endpoint = null
        if (!known && tus.url) upload.onUploadUrl?.(tus.url)
        known = true
      },
      onProgress: (sent, total) => upload.onProgress?.(sent, total ?? Number.POSITIVE_INFINITY),
      onError(error) {
        end(error)
        if (stream?.failure !== undefined) {
          if (!upload.uploadUrl) removeUpload()
          reject(stream.failure)
          return
        }
        reject('originalRequest' in error ? errorFrom(error) : error)
      },
      onSuccess({ lastResponse }) {
        end()
        const mediaId = lastResponse.getHeader(`x-${transport.brand}-media-id`) ?? tus.url?.split('/').pop() ?? ''
        resolve({ mediaId, document: lastResponse.getHeader(`x-${transport.brand}-media`) ?? undefined })
      },
    }
    if (upload.uploadUrl) options.endpoint = null
    const tus = new Upload(stream ? new Blob() : (file as Blob), options)
    signal?.addEventListener('abort', aborted)
    tus.start()
  })
}

/** Removes an upload that is not complete, with the bytes that it reserves. It is no error if there is none. */
export async function cancelUpload(transport: Transport, url: string): Promise<void> {
  try {
    await transport.send({ url, init: { method: 'DELETE', headers: { 'tus-resumable': '1.0.0' } } })
  } catch (error) {
    if ((error as MediastackError).status !== 404) throw error
  }
}

/** Returns the draft of a completed upload from its document. */
export function draftOf<Item>(completed: Completed): Item {
  if (completed.document === undefined) throw new MissingDocumentError(completed.mediaId)
  return JSON.parse(completed.document) as Item
}

function errorFrom(error: DetailedError): MediastackError | ConnectionError {
  const response: HttpResponse | null = error.originalResponse
  if (!response) return new ConnectionError(error.causingError ?? error)
  const { status, header } = { status: response.getStatus(), header: (name: string) => response.getHeader(name) }
  return errorOf(status, header, response.getBody() ?? '')
}

/**
 * Returns the error as one that passes, if the upload can continue after it: a lock that another request holds,
 * an offset that went back, a chunk that was discarded, and every failure of a server.
 */
function temporary(error: Error | DetailedError): MediastackError | ConnectionError {
  if (!('originalRequest' in error)) return errorOf(400, () => null, '')
  const found = errorFrom(error)
  if (found instanceof ConnectionError) return found
  if ([409, 423, 460].includes(found.status) || found.status >= 500) return errorOf(503, (name) => (name === 'retry-after' && found.retryAfter !== undefined ? String(found.retryAfter) : null), '')
  return found
}

/** Returns the options with which a stream is read. The length of one that continues an upload is the one that the service has. */
function readerOf(stream: StreamSource, continues: boolean): TusOptions {
  const reader = {
    size: stream.size ?? null,
    slice: (start: number, to: number) => stream.slice(start, to),
    close() {},
  }
  return { uploadLengthDeferred: stream.size === undefined, ...(stream.size === undefined || continues ? {} : { uploadSize: stream.size }), fileReader: { openFile: async () => reader } as unknown as NonNullable<TusOptions['fileReader']> }
}

/** Reads a file in pieces, each of which is in memory while it is sent. */
function source(file: Blob, chunkSize: number) {
  return {
    size: file.size,
    async slice(start: number, end: number) {
      const to = Math.min(end, start + chunkSize, file.size)
      const bytes = new Uint8Array(await file.slice(start, to).arrayBuffer())
      return { value: Object.assign(bytes, { size: bytes.byteLength }), done: to >= file.size }
    },
    close() {},
  }
}


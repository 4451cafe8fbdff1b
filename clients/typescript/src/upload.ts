import type { AnyPairs, Metadata } from './item.js'
import type { components } from './schema.js'

/** Options of an upload. Others are a TypeError. */
export interface UploadOptions<Pairs extends Metadata<Pairs> = AnyPairs> {
  signal?: AbortSignal
  /** Default: the name of the File or of the path, or `file`. */
  fileName?: string
  /** Default private. */
  access?: components['schemas']['Access']
  caption?: string
  group?: string
  /** Up to 24 pairs of the application. */
  metadata?: Pairs
  /** Seals the draft. An upload signature seals if it was created with `seal`. */
  seal?: boolean
  /** Bytes of a stream, if they are known: they are reserved before they arrive, and checked. */
  size?: number
  /** The number of bytes from which an upload is resumable. 0: always. Default 8 MiB. */
  resumableFrom?: number
  /** Bytes of one request of a resumable upload. Default: the whole file in browsers, 16 MiB elsewhere and of a stream, which has so much in memory. */
  chunkSize?: number
  /** Continues the resumable upload at this URL, which an earlier call reported to onUploadUrl. */
  uploadUrl?: string
  /** Called once with the URL of a resumable upload. With it an upload that is aborted is kept, to be continued. */
  onUploadUrl?: (url: string) => void
  /** Called with the bytes that were sent. They become fewer when a part is sent again. The total of a stream is Infinity until its end if `size` is not given. */
  onProgress?: (sent: number, total: number) => void
}

/** Options of an upload from a URL. Others are a TypeError. */
export interface UploadFromUrlOptions<Pairs extends Metadata<Pairs> = AnyPairs> {
  signal?: AbortSignal
  /** Default: the last part of the path of the URL. */
  fileName?: string
  /** Default private. */
  access?: components['schemas']['Access']
  caption?: string
  group?: string
  /** Up to 24 pairs of the application. */
  metadata?: Pairs
  /** Seals the draft when the file is complete. */
  seal?: boolean
}

/** Options of the wait for an upload from a URL. */
export interface WaitOptions {
  signal?: AbortSignal
  /** Called with the id of the upload, with which waitForUploadFromUrl waits for it. */
  onStart?: (jobId: string) => void
  /** Called with the bytes that the service has received, and how many there are if the other server has said so. */
  onProgress?: (received: number, total: number | undefined) => void
}

const known: Record<keyof UploadOptions, true> = {
  signal: true, fileName: true, access: true, caption: true, group: true, metadata: true, seal: true,
  size: true, resumableFrom: true, chunkSize: true, uploadUrl: true, onUploadUrl: true, onProgress: true,
}

const knownFromUrl: Record<keyof UploadFromUrlOptions, true> = { signal: true, fileName: true, access: true, caption: true, group: true, metadata: true, seal: true }

/** Rejects options that an upload does not have, so that a misspelled one is not lost. */
export function checkOptions(options: object): void {
  check(options, known)
}

/** Rejects options that an upload from a URL does not have. */
export function checkUrlOptions(options: object): void {
  check(options, knownFromUrl)
}

function check(options: object, names: object): void {
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(names, name)) throw new TypeError(`unknown upload option ${name}: the options are ${Object.keys(names).join(', ')}`)
  }
}

/** Returns the fields of the upload, as a form and the metadata of TUS have them. */
export function fieldsOf({ access, caption, group, metadata }: Omit<UploadOptions, 'metadata'> & { metadata?: object }): Record<string, string> {
  return { ...(access && { access }), ...(caption && { caption }), ...(group && { group }), ...(metadata && { metadata: JSON.stringify(metadata) }) }
}

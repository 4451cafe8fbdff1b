import type { MediastackClient } from './client.js'
import { ConnectionError, MediastackError, MissingDocumentError, NotSealedError } from './errors.js'
import type { AnyPairs, MediaItem, Metadata } from './item.js'
import type { UploadOptions } from './upload.js'

/** What a queue needs of a client. */
export type Uploader<Pairs extends Metadata<Pairs> = AnyPairs> = Pick<MediastackClient<Pairs>, 'upload' | 'cancelUpload'>

/** Options of a queue of uploads, and of each upload in it. */
export interface QueueOptions<Pairs extends Metadata<Pairs> = AnyPairs> extends Pick<UploadOptions<Pairs>, 'access' | 'caption' | 'group' | 'metadata' | 'seal' | 'resumableFrom' | 'chunkSize'> {
  /** The client, or a function that returns one for each file, such as that of a signature which your server has created for it. */
  client: Uploader<Pairs> | ((file: File, options: { signal: AbortSignal }) => Uploader<Pairs> | Promise<Uploader<Pairs>>)
  /** How many files are sent at once. Default 3. */
  parallel?: number
  /** Called when a file is stored, with its draft or item. */
  onUploaded?: (item: MediaItem<Pairs>, file: File) => void
  /** Called when an upload has failed. */
  onFailed?: (error: Error, file: File) => void
}

/** `waiting`: for others that are sent. `done` and `failed` are final, but a failed one can be tried again. */
export type UploadState = 'waiting' | 'sending' | 'paused' | 'done' | 'failed'

/** An upload of a queue. It does not change: a queue has another object after each change. */
export interface QueuedUpload<Pairs extends Metadata<Pairs> = AnyPairs> {
  readonly id: string
  readonly file: File
  readonly state: UploadState
  /** Bytes that were sent, of `file.size`. */
  readonly sent: number
  /** Whether `pause` stops it: it waits, or is a resumable upload that the service has. A form is sent to its end. */
  readonly pausable: boolean
  /** Whether `retry` sends it again: it has failed, and nothing of it is stored. */
  readonly retryable: boolean
  /** Once it is done. */
  readonly item?: MediaItem<Pairs>
  /** Once it has failed. */
  readonly error?: Error
}

const defaultParallel = 3

interface Entry<Pairs extends Metadata<Pairs>> {
  upload: QueuedUpload<Pairs>
  /** Ends the attempt that runs. */
  attempt?: AbortController | undefined
  /** The client and the resumable upload that the next attempt continues. */
  client?: Uploader<Pairs> | undefined
  url?: string | undefined
}

/** Uploads files one after the other, some at once, and says how far each is. It is made for user interfaces. */
export class UploadQueue<Pairs extends Metadata<Pairs> = AnyPairs> {
  /** Those of attempts that begin from now on. */
  options: QueueOptions<Pairs>
  private entries: Entry<Pairs>[] = []
  private shown: readonly QueuedUpload<Pairs>[] = []
  private readonly listeners = new Set<() => void>()
  private last = 0

  constructor(options: QueueOptions<Pairs>) {
    this.options = options
  }

  /** The uploads, in the order in which they were added. The same array until something changes. */
  readonly uploads = (): readonly QueuedUpload<Pairs>[] => this.shown

  /** Calls a function after each change, until the function that is returned is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  /** Adds files, which are sent as soon as it is their turn. */
  readonly add = (files: Iterable<File>): void => {
    for (const file of files) this.entries.push({ upload: { id: String(++this.last), file, state: 'waiting', sent: 0, pausable: true, retryable: false } })
    this.changed()
    this.proceed()
  }

  /** Stops an upload, which `resume` continues from what the service has. */
  readonly pause = (id: string): void => {
    const entry = this.find(id)
    if (!entry?.upload.pausable) return
    this.stop(entry)
    this.show(entry, { state: 'paused', pausable: false })
    this.proceed()
  }

  /** Continues an upload that was paused. */
  readonly resume = (id: string): void => this.again(id, 'paused')

  /** Sends an upload again that has failed: from what the service has, if it has failed because of the connection. */
  readonly retry = (id: string): void => this.again(id, 'failed')

  /** Ends an upload and forgets it. What the service has of it is removed, unless it is done. */
  readonly remove = (id: string): void => {
    const entry = this.find(id)
    if (!entry) return
    this.entries = this.entries.filter((one) => one !== entry)
    this.discard(entry)
    this.changed()
    this.proceed()
  }

  /** Forgets the uploads that are done. */
  readonly clear = (): void => {
    this.entries = this.entries.filter(({ upload }) => upload.state !== 'done')
    this.changed()
  }

  /** Ends all uploads, as remove does. */
  readonly close = (): void => {
    const ended = this.entries
    this.entries = []
    for (const entry of ended) this.discard(entry)
    if (ended.length > 0) this.changed()
  }

  private again(id: string, state: UploadState): void {
    const entry = this.find(id)
    if (entry?.upload.state !== state || state === 'failed' && !entry.upload.retryable) return
    const { error: _, ...upload } = entry.upload
    entry.upload = upload
    this.show(entry, { state: 'waiting', pausable: true, retryable: false })
    this.proceed()
  }

  /** Begins as many uploads as may run. */
  private proceed(): void {
    for (const entry of this.entries) {
      if (this.entries.filter(({ attempt }) => attempt).length >= (this.options.parallel ?? defaultParallel)) return
      if (entry.upload.state === 'waiting') void this.send(entry)
    }
  }

  private async send(entry: Entry<Pairs>): Promise<void> {
    const attempt = entry.attempt = new AbortController()
    const { client, parallel: _, onUploaded, onFailed, ...options } = this.options
    const { file } = entry.upload
    const current = () => entry.attempt === attempt
    this.show(entry, { state: 'sending', pausable: entry.url !== undefined })
    let item: MediaItem<Pairs>
    try {
      entry.client ??= typeof client === 'function' ? await client(file, { signal: attempt.signal }) : client
      attempt.signal.throwIfAborted()
      item = await entry.client.upload(file, {
        ...options, signal: attempt.signal, ...(entry.url !== undefined && { uploadUrl: entry.url }),
        onUploadUrl: (url) => {
          entry.url = url
          if (current()) this.show(entry, { pausable: true })
          else if (!this.entries.includes(entry)) this.discard(entry)
        },
        onProgress: (sent) => {
          if (current()) this.show(entry, { sent })
        },
      })
    } catch (error) {
      if (!current()) return // it was paused or removed
      entry.attempt = undefined
      const failure = error instanceof Error ? error : new Error(String(error))
      if (!continues(failure)) entry.client = entry.url = undefined
      const stored = failure instanceof NotSealedError || failure instanceof MissingDocumentError
      this.show(entry, { state: 'failed', error: failure, pausable: false, retryable: !stored, ...(!entry.url && { sent: 0 }) })
      this.proceed()
      onFailed?.(failure, file)
      return
    }
    if (!current()) return
    entry.attempt = entry.url = undefined
    this.show(entry, { state: 'done', item, sent: file.size, pausable: false })
    this.proceed()
    onUploaded?.(item, file)
  }

  private stop(entry: Entry<Pairs>): void {
    const { attempt } = entry
    entry.attempt = undefined
    attempt?.abort()
  }

  /** Ends an upload, and what the service has of it. */
  private discard(entry: Entry<Pairs>): void {
    this.stop(entry)
    const { client, url } = entry
    entry.url = undefined
    // It expires by itself if that fails.
    if (url !== undefined) void client?.cancelUpload(url).catch(() => {})
  }

  private find(id: string): Entry<Pairs> | undefined {
    return this.entries.find(({ upload }) => upload.id === id)
  }

  private show(entry: Entry<Pairs>, change: Partial<QueuedUpload<Pairs>>): void {
    entry.upload = { ...entry.upload, ...change }
    this.changed()
  }

  private changed(): void {
    this.shown = this.entries.map(({ upload }) => upload)
    for (const listener of [...this.listeners]) listener()
  }
}

/** Whether the upload can be continued after an error: the service may not have answered, or not now. */
function continues(error: Error): boolean {
  return error instanceof ConnectionError || error instanceof MediastackError && (error.status >= 500 || [409, 423, 429].includes(error.status))
}

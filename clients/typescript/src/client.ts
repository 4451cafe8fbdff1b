import createClient, { type Client } from 'openapi-fetch'
import { dataOf, exchangeOf, type Form } from './form.js'
import { EventsGoneError, MediastackError, NotSealedError, UploadFromUrlError } from './errors.js'
import type { AnyPairs, BatchResult, DeletedItem, Field, MediaItem, MediaPatch, Metadata, Selected } from './item.js'
import { fieldsQuery, type Filter, type GroupOptions, type ListOptions, type Page, pageOf, queryOf, type Selection } from './list.js'
import { cancelUpload, draftOf, uploadResumable } from './resumable.js'
import type { components, paths } from './schema.js'
import { Transport, type TransportOptions } from './transport.js'
import { openSource, StreamSource, type UploadFile } from './source.js'
import { checkOptions, checkUrlOptions, fieldsOf, type UploadFromUrlOptions, type UploadOptions, type WaitOptions } from './upload.js'

type Schemas = components['schemas']
export type Access = Schemas['Access']
export type Settings = Schemas['Settings']
export type SettingsChange = Schemas['SettingsChange']
export type Totals = Schemas['Totals']
export type Count = Schemas['Count']
export type SignatureRequest = Schemas['SignatureRequest']
export type Signature = Schemas['Signature']
/** The answer to a delete. `expiresAt` is until when the item can be restored at least; absent if it cannot. */
export type Deleted = Schemas['Deleted']
export type GroupCount = Schemas['GroupCount']
export type MetadataKeys = Schemas['MetadataKeys']
/** A resumable upload that is not complete. `size` is absent until the client that sends it has declared it. */
export type RunningUpload = Schemas['RunningUpload']
/** The state of an upload from a URL. `done` and `failed` are final. */
export type UrlUpload = Schemas['URLUpload']
export type BatchOperation = Schemas['BatchRequest']['operation']

/** One change, as the journal has it. */
export type JournalEvent = Schemas['Event']
/** What has happened, such as `media.sealed`. */
export type EventType = Schemas['EventType']
/** A page of events. `next` is `after` of the next page: store it when the events are handled. */
export type EventPage = Schemas['EventPage']

export interface EventOptions extends CallOptions {
  /** `next` of the page before, or `now` for only what comes from now on. Without it, the oldest event that can be read is the first. */
  after?: string
  /** Only these types. */
  types?: readonly EventType[]
  /** How many events a page has at most, 100 by default and at most 1000. */
  limit?: number
  /** Seconds that the service waits for an event if there is none, at most 60. */
  wait?: number
}

/** The ETag of an item names its version, which a change can require. */
export interface VersionedItem<Pairs extends Metadata<Pairs> = AnyPairs> {
  item: MediaItem<Pairs>
  etag: string
}

export interface UpdateOptions extends CallOptions {
  /** Changes the item only if it has this ETag. Otherwise the error is `precondition_failed`. */
  ifMatch?: string
}

export interface DeleteOptions extends CallOptions {
  /** Deletes the item so that it cannot be restored, also if it was deleted already. It needs an API key. */
  permanent?: boolean
}

export interface BatchOptions<Pairs extends Metadata<Pairs> = AnyPairs> extends CallOptions {
  /** Of all items of an update. */
  patch?: MediaPatch<Pairs>
  /** The patch of each item of an update by its id, instead of `patch`. */
  patches?: Record<string, MediaPatch<Pairs>>
}

/** Options of every method. */
export interface CallOptions {
  signal?: AbortSignal
}

export interface FileOptions extends CallOptions {
  /** Bytes to read, as in a Range header: `bytes=0-1023`. */
  range?: string
}

const defaultResumableFrom = 8 << 20
const iterationLimit = 100
const groupIterationLimit = 1000
const defaultEventWait = 30 // seconds
// The waits between two looks at an upload from a URL, in milliseconds. The service records the progress every 5 s.
const minLook = 250
const maxLook = 5_000

/**
 * A client of one app of a media storage service, or of uploads with a signature. `Pairs` names the keys of the metadata of the
 * app's items, `new MediastackClient<{ album?: string }>(...)`: a type for the compiler, which the service does not check.
 */
export class MediastackClient<Pairs extends Metadata<Pairs> = AnyPairs> {
  /** Every route of the OpenAPI document, with its types. A filter by metadata is in the bodies of POST. It retries and throws as the methods of this class do. */
  readonly api: Client<paths>
  private readonly transport: Transport

  constructor(options: TransportOptions) {
    this.transport = new Transport(options)
    this.api = createClient<paths>({
      baseUrl: this.transport.baseUrl,
      fetch: async (request) => {
        const body = request.body === null ? {} : { body: await request.arrayBuffer() }
        return this.transport.send({ url: request.url, init: { method: request.method, headers: request.headers, signal: request.signal, ...body } })
      },
    })
  }

  /**
   * Returns a client for the uploads that a signature permits, from the answer to createSignature: a server can pass
   * that to a page as it is.
   */
  static ofSignature<Pairs extends Metadata<Pairs> = AnyPairs>(created: Pick<Signature, 'signature' | 'resumableUrl'>, options: Omit<TransportOptions, 'baseUrl' | 'credential'> = {}): MediastackClient<Pairs> {
    const baseUrl = created.resumableUrl.replace(/\/media\/create\/resumable\/?$/, '')
    return new MediastackClient<Pairs>({ ...options, baseUrl, credential: { uploadSignature: created.signature } })
  }

  /**
   * Uploads a file and returns its draft, or with `seal` the sealed item. Files from `resumableFrom` on are sent with
   * TUS and continue after a broken connection; smaller ones are sent as a form. In Node, `{ path }` is a file on disk,
   * which is not read into memory. Of a stream, so much is in memory as a request has. Anything else is a TypeError.
   */
  async upload(file: UploadFile, options: UploadOptions<Pairs> = {}): Promise<MediaItem<Pairs>> {
    checkOptions(options)
    if (options.uploadUrl !== undefined) this.checkUploadUrl(options.uploadUrl)
    const { content, name } = await openSource(file, options.size, options.signal)
    const fileName = options.fileName ?? name ?? 'file'
    const fields = fieldsOf(options)
    const small = await smallFile(content, options)
    const draft = await (small ? this.sendForm({ file: small, fileName, fields }, options) : this.sendResumable(content, fileName, fields, options))
    if (!options.seal || !draft.temp) return draft
    if (this.transport.uploadsOnly) throw new NotSealedError(draft.mediaId)
    return this.seal(draft.mediaId, options)
  }

  /**
   * Uploads a file that the service downloads from a URL, and waits until it is complete. Returns its draft, or with
   * `seal` the sealed item. A failed download is an UploadFromUrlError. An abort ends the wait only: the upload goes on,
   * and `waitForUploadFromUrl` waits again. Installations without uploads from a URL answer `forbidden`.
   */
  async uploadFromUrl(url: string, { onProgress, onStart, ...options }: UploadFromUrlOptions<Pairs> & WaitOptions = {}): Promise<MediaItem<Pairs>> {
    const { jobId } = await this.startUploadFromUrl(url, options)
    onStart?.(jobId)
    return this.waitForUploadFromUrl(jobId, { ...given(options.signal), ...(onProgress && { onProgress }) })
  }

  /** Begins an upload from a URL and returns its state, without waiting. It is not repeated if its answer is lost. */
  async startUploadFromUrl(url: string, options: UploadFromUrlOptions<Pairs> = {}): Promise<UrlUpload> {
    checkUrlOptions(options)
    const { signal, ...fields } = options
    return document(await this.api.POST('/media/create/url', { body: plain({ url, seal: false, ...fields }), ...given(signal) }))
  }

  /** Reads the state of an upload from a URL. The service keeps it for 24 hours after the end by default. */
  async uploadFromUrlState(jobId: string, { signal }: CallOptions = {}): Promise<UrlUpload> {
    return document(await this.api.GET('/media/create/url/{jobId}', { params: { path: { jobId } }, ...given(signal) }))
  }

  /** Waits until an upload from a URL is complete, and returns its draft or item. */
  async waitForUploadFromUrl(jobId: string, { onProgress, signal }: Omit<WaitOptions, 'onStart'> = {}): Promise<MediaItem<Pairs>> {
    for (let delay = minLook; ; delay = Math.min(2 * delay, maxLook)) {
      const { state, bytes, total, mediaId, error } = await this.uploadFromUrlState(jobId, given(signal))
      onProgress?.(bytes, total)
      if (error) throw new UploadFromUrlError(jobId, error.code, error.detail)
      if (state === 'done' && mediaId !== undefined) return this.get(mediaId, given(signal))
      await this.transport.retry.wait(delay, signal)
    }
  }

  /** Seals a draft, so that it is listed, counted and kept. Sealing again returns the item unchanged. */
  async seal(mediaId: string, { signal }: CallOptions = {}): Promise<MediaItem<Pairs>> {
    return selected(await this.api.POST('/media/seal/{mediaId}', { params: { path: { mediaId } }, ...given(signal) }))
  }

  /** Reads a sealed item or a draft, or the members of it that `fields` names. */
  async get<Names extends Field = '*'>(mediaId: string, { signal, fields }: Selection<Names> & CallOptions = {}): Promise<Selected<Names, Pairs>> {
    return selected<Selected<Names, Pairs>>(await this.api.GET('/media/get/{mediaId}', { params: { path: { mediaId }, query: fieldsQuery(fields) }, ...given(signal) }))
  }

  /** Reads a sealed item or a draft, with its ETag for `ifMatch`. */
  async getVersioned(mediaId: string, { signal }: CallOptions = {}): Promise<VersionedItem<Pairs>> {
    const answer = await this.api.GET('/media/get/{mediaId}', { params: { path: { mediaId } }, ...given(signal) })
    return { item: selected<MediaItem<Pairs>>(answer), etag: answer.response.headers.get('etag') ?? '' }
  }

  /**
   * Changes an item or a draft, all members of the patch or none, and returns it. If the answer of an attempt with
   * `ifMatch` is lost, the next attempt can be answered `precondition_failed` although the first one has succeeded:
   * the error then has `repeated`.
   */
  async update(mediaId: string, patch: MediaPatch<Pairs>, { ifMatch, signal }: UpdateOptions = {}): Promise<MediaItem<Pairs>> {
    const header = ifMatch === undefined ? {} : { 'If-Match': ifMatch }
    return selected(await this.api.PATCH('/media/{mediaId}', { params: { path: { mediaId }, header }, body: plain(patch), ...given(signal) }))
  }

  /**
   * Seals, deletes, restores or updates up to 100 items. The result of each has the status and the error of the same
   * request for this item alone, and `expiresAt` if it was deleted and can be restored. If the connection fails and
   * the batch is repeated, items that the first attempt has deleted are answered 404.
   */
  async batch(operation: BatchOperation, ids: string[], { signal, ...patches }: BatchOptions<Pairs> = {}): Promise<BatchResult<Pairs>[]> {
    return selected<{ results: BatchResult<Pairs>[] }>(await this.api.POST('/media/batch', { body: plain({ operation, ids, ...patches }), ...given(signal) })).results
  }

  /** Lists one page of sealed items, or of drafts. `limit` is 10 by default and at most 100. */
  async list<Names extends Field = '*'>({ signal, ...query }: ListOptions<Pairs> & Selection<Names> & CallOptions = {}): Promise<Page<Selected<Names, Pairs>>> {
    const answer = await this.api.GET('/media/get', { params: { query: queryOf(query) }, ...given(signal) })
    return pageOf(selected<Selected<Names, Pairs>[]>(answer), answer.response.headers)
  }

  /**
   * Iterates over all items of a list, newest first without `sort`. It reads by cursor: every item that exists during
   * the whole iteration is returned, once, whatever is uploaded and deleted meanwhile. `limit`, the items of one
   * request, is 100 by default.
   */
  async *items<Names extends Field = '*'>({ page: first, ...options }: ListOptions<Pairs> & Selection<Names> & CallOptions = {}): AsyncGenerator<Selected<Names, Pairs>, void, undefined> {
    let at: ListOptions<Pairs> = first === undefined ? {} : { page: first }
    for (;;) {
      const { items, next } = await this.list<Names>({ limit: iterationLimit, ...options, ...at })
      yield* items
      if (next === undefined) return
      at = { after: next }
    }
  }

  /** Lists one page of the groups of the sealed items, in the order of their names. With `access`, only its items are counted. `limit` is 100 by default and at most 1000. */
  async listGroups({ signal, ...query }: GroupOptions & CallOptions = {}): Promise<Page<GroupCount>> {
    const answer = await this.api.GET('/media/groups', { params: { query }, ...given(signal) })
    return pageOf(document(answer), answer.response.headers)
  }

  /** Iterates over all of them. */
  async *groups({ after: first, ...options }: GroupOptions & CallOptions = {}): AsyncGenerator<GroupCount, void, undefined> {
    for (let after = first; ; ) {
      const { items, next } = await this.listGroups({ limit: groupIterationLimit, ...options, ...(after !== undefined && { after }) })
      yield* items
      if (next === undefined) return
      after = next
    }
  }

  /** Reads the keys that the metadata of the newest sealed items has, those of most items first. */
  async metadataKeys({ signal }: CallOptions = {}): Promise<MetadataKeys> {
    return document(await this.api.GET('/media/metadata/keys', given(signal)))
  }

  /** Counts the sealed items that match. With filters other than `access` and `group` there may be more, which `atLeast` says. */
  async count({ signal, ...filter }: Filter<Pairs> & CallOptions = {}): Promise<Count> {
    return document(await this.api.GET('/media/get/count', { params: { query: queryOf(filter) }, ...given(signal) }))
  }

  /** Reads the bytes of the account's sealed items, or of those in the app that match, and the account's cap. */
  async totals({ signal, ...filter }: Filter<Pairs> & CallOptions = {}): Promise<Totals> {
    return document(await this.api.GET('/media/get/size', { params: { query: queryOf(filter) }, ...given(signal) }))
  }

  /**
   * Deletes an item or a draft. `expiresAt` of the answer is until when `restore` can bring it back; it is absent if the
   * delete is permanent: that of a draft, and each one without undo in the account. It is also absent if the answer of
   * the first attempt was lost.
   */
  async delete(mediaId: string, { permanent, signal }: DeleteOptions = {}): Promise<Deleted> {
    try {
      return document(await this.api.DELETE('/media/delete/{mediaId}', { params: { path: { mediaId }, query: permanent ? { permanent } : {} }, ...given(signal) }))
    } catch (error) {
      // The attempt whose answer was lost has deleted it.
      if (error instanceof MediastackError && error.status === 404 && error.repeated) return { deleted: true, mediaId }
      throw error
    }
  }

  /** Restores a deleted item with its id and its addresses. An item that is not deleted is returned unchanged. */
  async restore(mediaId: string, { signal }: CallOptions = {}): Promise<MediaItem<Pairs>> {
    return selected(await this.api.POST('/media/restore/{mediaId}', { params: { path: { mediaId } }, ...given(signal) }))
  }

  /** Lists one page of the deleted items that can be restored, the latest delete first. `limit` is 10 by default and at most 100. */
  async listDeleted({ signal, ...query }: { page?: number; limit?: number } & CallOptions = {}): Promise<Page<DeletedItem>> {
    const answer = await this.api.GET('/media/deleted', { params: { query }, ...given(signal) })
    return pageOf(document(answer), answer.response.headers)
  }

  /**
   * Iterates over the deleted items that can be restored, the latest delete first. They can be restored and deleted
   * permanently while they are read. One can be missed if another client does so meanwhile.
   */
  async *deletedItems({ limit = iterationLimit, signal }: { limit?: number } & CallOptions = {}): AsyncGenerator<DeletedItem, void, undefined> {
    const seen = new Set<string>()
    for (let page = 1, before = 0; ; ) {
      const { items, total = 0 } = await this.listDeleted({ page, limit, ...given(signal) })
      const gone = before - total
      before = total
      if (gone > 0 && page > 1) { // others have moved up by as many, maybe to pages before this one
        page = Math.max(1, page - Math.ceil(gone / limit))
        continue
      }
      const unseen = items.filter(({ mediaId }) => !seen.has(mediaId))
      for (const item of unseen) seen.add(item.mediaId)
      yield* unseen
      // Those that the caller has restored make others move up to this page.
      if (unseen.length > 0) continue
      if (items.length < limit) return
      page++
    }
  }

  /**
   * Creates a signature with which a browser uploads: for one hour by default, and within the restrictions that are
   * given, with the URLs for it. With any but `group`, every request of a resumable upload needs the same signature, which continues it
   * after its expiry.
   */
  async createSignature({ signal, ...body }: SignatureRequest & CallOptions = {}): Promise<Signature> {
    return document(await this.api.POST('/media/signature/create', { body, ...given(signal) }))
  }

  /** Reads the effective settings of the account. */
  async settings({ signal }: CallOptions = {}): Promise<Settings> {
    return document(await this.api.GET('/settings/media/get', given(signal)))
  }

  /** Changes settings: those that are given, all or none. */
  async updateSettings(change: SettingsChange, { signal }: CallOptions = {}): Promise<Settings> {
    return document(await this.api.POST('/settings/media/create', { body: change, ...given(signal) }))
  }

  /** Opens the `file`, `original` or `thumbnail` of an item. Its body is a stream. No credential is sent. */
  async openFile(url: string, { range, signal }: FileOptions = {}): Promise<Response> {
    return this.transport.send({ url, init: { headers: range ? { range } : {}, ...given(signal) }, streamed: true, anonymous: true })
  }

  /**
   * Lists one page of the resumable uploads that are neither complete nor expired, the newest first. Each holds room
   * under the cap. `limit` is 10 by default and at most 100. A client with an upload capability lists its own.
   */
  async listUploads({ signal, ...query }: { after?: string; limit?: number } & CallOptions = {}): Promise<Page<RunningUpload>> {
    const answer = await this.api.GET('/media/uploads', { params: { query }, ...given(signal) })
    return pageOf(document(answer), answer.response.headers)
  }

  /** Iterates over all of them. They can be ended while they are read. */
  async *uploads({ limit = iterationLimit, signal }: { limit?: number } & CallOptions = {}): AsyncGenerator<RunningUpload, void, undefined> {
    for (let after: string | undefined; ; ) {
      const { items, next } = await this.listUploads({ limit, ...(after !== undefined && { after }), ...given(signal) })
      yield* items
      if (next === undefined) return
      after = next
    }
  }

  /** Reads one page of the events of the app, in their order, and does not wait by default. An EventsGoneError says that events are missing after the cursor. */
  async listEvents({ signal, types, ...query }: EventOptions = {}): Promise<EventPage> {
    try {
      return document(await this.api.GET('/events', { params: { query: { ...query, ...(types?.length && { types: types.join(',') }) } }, ...given(signal) }))
    } catch (error) {
      if (error instanceof MediastackError && error.status === 410) throw new EventsGoneError(error)
      throw error
    }
  }

  /**
   * Iterates over the pages of events and waits for the next ones, 30 seconds at a time by default. It ends with the signal,
   * or with the first error that does not pass: an EventsGoneError if events are missing. While the service is away, or
   * answers 429 or 503, it tries again without end. A page can have no events: its `next` is newer, and a cursor that is not
   * stored for as long as the journal keeps events expires.
   *
   * Store `next` of a page when its events are handled, and begin with it after a restart: each event is handled at least once.
   */
  async *events({ after: first, wait = defaultEventWait, ...options }: EventOptions = {}): AsyncGenerator<EventPage, never, undefined> {
    let after = first
    for (let failures = 0; ; ) {
      let page: EventPage
      try {
        // The cursor of now is answered at once: the caller can store it.
        page = await this.listEvents({ ...options, wait: after === 'now' ? 0 : wait, ...(after !== undefined && { after }) })
      } catch (error) {
        options.signal?.throwIfAborted()
        const delay = this.transport.delayOfAbsence(error, ++failures)
        if (delay === undefined) throw error
        await this.transport.retry.wait(delay, options.signal)
        continue
      }
      failures = 0
      yield page
      after = page.next
    }
  }

  /** Ends a resumable upload that is not complete, by its `uploadId`. Its room is free at once. It is no error if there is none. */
  async endUpload(uploadId: string, { signal }: CallOptions = {}): Promise<void> {
    try {
      await this.api.DELETE('/media/uploads/{uploadId}', { params: { path: { uploadId } }, ...given(signal) })
    } catch (error) {
      if (!(error instanceof MediastackError && error.status === 404)) throw error
    }
  }

  /** Removes a resumable upload that is not complete, by the URL that onUploadUrl was given. */
  async cancelUpload(uploadUrl: string): Promise<void> {
    this.checkUploadUrl(uploadUrl)
    await cancelUpload(this.transport, uploadUrl)
  }

  private async sendForm(form: Form, { signal, onProgress }: UploadOptions<Pairs>): Promise<MediaItem<Pairs>> {
    const { size } = form.file
    let last = 0
    const report = (sent: number) => {
      if (sent !== last) onProgress?.(sent, size)
      last = sent
    }
    const exchange = onProgress && !this.transport.ownFetch ? exchangeOf(form, report) : undefined
    const response = await this.transport.send({ url: `${this.transport.baseUrl}/media/create`, init: { method: 'POST', ...(!exchange && { body: dataOf(form) }), ...given(signal) }, exchange })
    if (size === 0) onProgress?.(0, 0)
    else report(size)
    return (await response.json()) as MediaItem<Pairs>
  }

  private async sendResumable(file: Blob | StreamSource, fileName: string, fields: Record<string, string>, options: UploadOptions<Pairs>): Promise<MediaItem<Pairs>> {
    const { chunkSize, uploadUrl, onUploadUrl, onProgress, signal } = options
    const metadata = { filename: fileName, ...('type' in file && file.type && { filetype: file.type }), ...fields }
    const completed = await uploadResumable(this.transport, { file, metadata, chunkSize, uploadUrl, onUploadUrl, onProgress, signal })
    if (completed.document === undefined && !this.transport.uploadsOnly) return this.get(completed.mediaId, options)
    return draftOf<MediaItem<Pairs>>(completed)
  }

  /** Checks that a URL is of this service, which alone may be sent the credential. */
  private checkUploadUrl(url: string): void {
    if (!url.startsWith(`${this.transport.baseUrl}/media/create/resumable/`)) throw new TypeError(`not an upload of this service: ${url}`)
  }
}

/** Returns a file that is sent as a form; undefined for one that is sent with TUS. */
async function smallFile(content: Blob | StreamSource, { uploadUrl, resumableFrom = defaultResumableFrom, signal }: Pick<UploadOptions, 'uploadUrl' | 'resumableFrom' | 'signal'>): Promise<Blob | undefined> {
  if (uploadUrl !== undefined) return undefined
  if (!(content instanceof StreamSource)) return content.size < resumableFrom ? content : undefined
  try {
    return await content.whole(resumableFrom)
  } catch (error) {
    content.close(signal?.reason ?? error)
    throw error
  }
}

/** Returns the document of an answer. The transport has thrown if there is none. */
function document<T>(answer: { data?: T }): T {
  return answer.data as T
}

/** Returns the document of an answer whose type the OpenAPI document does not have: members that were asked for, keys of metadata. */
function selected<T>(answer: { data?: unknown }): T {
  return answer.data as T
}

/** Returns a body for the types of the OpenAPI document, which do not know the keys of metadata. */
function plain<Body>(body: unknown): Body {
  return body as Body
}

function given(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal ? { signal } : {}
}

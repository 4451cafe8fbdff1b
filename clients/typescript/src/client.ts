import createClient, { type Client } from 'openapi-fetch'
import { MediastackError } from './errors.js'
import { cancelUpload, draftOf, uploadResumable } from './resumable.js'
import type { components, paths } from './schema.js'
import { Transport, type TransportOptions } from './transport.js'

type Schemas = components['schemas']
export type MediaItem = Schemas['MediaItem']
export type Access = Schemas['Access']
export type Settings = Schemas['Settings']
export type SettingsChange = Schemas['SettingsChange']
export type Totals = Schemas['Totals']

/** Selects sealed items. Without a field it does not filter. */
export interface Filter {
  access?: Access
  /** Exactly this group. */
  group?: string
}

/** One page of a list. */
export interface Page {
  items: MediaItem[]
  /** Number of matching items on all pages. */
  total: number
}

export interface CallOptions {
  signal?: AbortSignal
}

export interface UploadOptions extends CallOptions {
  /** Default: the name of the File, or `file`. */
  fileName?: string
  /** Default private. */
  access?: Access
  caption?: string
  group?: string
  /** Seals the draft. An upload signature cannot seal. */
  seal?: boolean
  /** The number of bytes from which an upload is resumable. 0: always. Default 8 MiB. */
  resumableFrom?: number
  /** Bytes of one request of a resumable upload. Default: the whole file in browsers, 16 MiB elsewhere. */
  chunkSize?: number
  /** Continues the resumable upload at this URL, which an earlier call reported to onUploadUrl. */
  uploadUrl?: string
  /** Called once with the URL of a resumable upload. With it an upload that is aborted is kept, to be continued. */
  onUploadUrl?: (url: string) => void
  /** Called with the bytes that were sent. A form reports only its end. */
  onProgress?: (sent: number, total: number) => void
}

export interface FileOptions extends CallOptions {
  /** Bytes to read, as in a Range header: `bytes=0-1023`. */
  range?: string
}

const defaultResumableFrom = 8 << 20
const pageSize = 100

/** A client of one app of a media storage service, or of uploads with a signature. */
export class MediastackClient {
  /** Every route of the OpenAPI document, with its types. It retries and throws as the methods of this class do. */
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
   * Uploads a file and returns its draft, or with `seal` the sealed item. Files from `resumableFrom` on are sent with
   * TUS and continue after a broken connection; smaller ones are sent as a form. In Node, `fs.openAsBlob(path)` opens
   * a file without reading it into memory.
   */
  async upload(file: Blob | ArrayBuffer | Uint8Array<ArrayBuffer>, options: UploadOptions = {}): Promise<MediaItem> {
    if (options.seal && this.transport.uploadsOnly) throw new TypeError('an upload signature cannot seal: seal with the API key, on your server')
    const blob = file instanceof Blob ? file : new Blob([file])
    const fileName = options.fileName ?? ('name' in blob && typeof blob.name === 'string' ? blob.name : 'file')
    const fields: Record<string, string> = {}
    for (const name of ['access', 'caption', 'group'] as const) {
      if (options[name]) fields[name] = options[name]
    }
    const resumable = options.uploadUrl !== undefined || blob.size >= (options.resumableFrom ?? defaultResumableFrom)
    const draft = await (resumable ? this.sendResumable(blob, fileName, fields, options) : this.sendForm(blob, fileName, fields, options))
    return options.seal ? this.seal(draft.mediaId, options) : draft
  }

  /** Seals a draft, so that it is listed, counted and kept. Sealing again returns the item unchanged. */
  async seal(mediaId: string, { signal }: CallOptions = {}): Promise<MediaItem> {
    return document(await this.api.POST('/media/seal/{mediaId}', { params: { path: { mediaId } }, ...given(signal) }))
  }

  /** Reads a sealed item or a draft. */
  async get(mediaId: string, { signal }: CallOptions = {}): Promise<MediaItem> {
    return document(await this.api.GET('/media/get/{mediaId}', { params: { path: { mediaId } }, ...given(signal) }))
  }

  /** Lists one page of sealed items, newest first. `page` starts at 1; `limit` is 10 by default and at most 100. */
  async list({ signal, ...query }: Filter & { page?: number; limit?: number } & CallOptions = {}): Promise<Page> {
    const answer = await this.api.GET('/media/get', { params: { query }, ...given(signal) })
    return { items: document(answer), total: Number(answer.response.headers.get('x-total-count')) }
  }

  /**
   * Iterates over all sealed items, newest first. Items that are sealed meanwhile move others to the next page, where
   * they are not returned twice. Items that are deleted meanwhile move others to the page before, where they are
   * missed: collect the items before you delete them.
   */
  async *items(options: Filter & CallOptions = {}): AsyncGenerator<MediaItem, void, undefined> {
    let before = new Set<string>()
    for (let page = 1; ; page++) {
      const { items, total } = await this.list({ ...options, page, limit: pageSize })
      for (const item of items) {
        if (!before.has(item.mediaId)) yield item
      }
      if (page * pageSize >= total || items.length === 0) return
      before = new Set(items.map((item) => item.mediaId))
    }
  }

  /** Counts the sealed items that match. */
  async count({ signal, ...query }: Filter & CallOptions = {}): Promise<number> {
    return document(await this.api.GET('/media/get/count', { params: { query }, ...given(signal) })).count
  }

  /** Reads the bytes of the account's sealed items, and its cap. */
  async totals({ signal }: CallOptions = {}): Promise<Totals> {
    return document(await this.api.GET('/media/get/size', given(signal)))
  }

  /** Deletes an item or a draft. It cannot be restored. */
  async delete(mediaId: string, { signal }: CallOptions = {}): Promise<void> {
    try {
      await this.api.DELETE('/media/delete/{mediaId}', { params: { path: { mediaId } }, ...given(signal) })
    } catch (error) {
      // The attempt whose answer was lost has deleted it.
      if (!(error instanceof MediastackError && error.status === 404 && error.repeated)) throw error
    }
  }

  /** Creates a signature with which a browser uploads for one hour, into the group if there is one. */
  async createSignature({ signal, ...body }: { group?: string } & CallOptions = {}): Promise<string> {
    return document(await this.api.POST('/media/signature/create', { body, ...given(signal) })).signature
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

  /** Removes a resumable upload that is not complete, by the URL that onUploadUrl was given. */
  async cancelUpload(uploadUrl: string): Promise<void> {
    this.checkUploadUrl(uploadUrl)
    await cancelUpload(this.transport, uploadUrl)
  }

  private async sendForm(file: Blob, fileName: string, fields: Record<string, string>, { signal, onProgress }: UploadOptions): Promise<MediaItem> {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.append(name, value)
    form.append('file', file, fileName)
    const response = await this.transport.send({ url: `${this.transport.baseUrl}/media/create`, init: { method: 'POST', body: form, ...given(signal) } })
    onProgress?.(file.size, file.size)
    return (await response.json()) as MediaItem
  }

  private async sendResumable(file: Blob, fileName: string, fields: Record<string, string>, options: UploadOptions): Promise<MediaItem> {
    const { chunkSize, uploadUrl, onUploadUrl, onProgress, signal } = options
    if (uploadUrl !== undefined) this.checkUploadUrl(uploadUrl)
    const metadata = { filename: fileName, ...(file.type && { filetype: file.type }), ...fields }
    const completed = await uploadResumable(this.transport, { file, metadata, chunkSize, uploadUrl, onUploadUrl, onProgress, signal })
    if (completed.document === undefined && !this.transport.uploadsOnly) return this.get(completed.mediaId, options)
    return draftOf<MediaItem>(completed)
  }

  /** Checks that a URL is of this service, which alone may be sent the credential. */
  private checkUploadUrl(url: string): void {
    if (!url.startsWith(`${this.transport.baseUrl}/media/create/resumable/`)) throw new TypeError(`not an upload of this service: ${url}`)
  }
}

/** Returns the document of an answer. The transport has thrown if there is none. */
function document<T>(answer: { data?: T }): T {
  return answer.data as T
}

function given(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal ? { signal } : {}
}

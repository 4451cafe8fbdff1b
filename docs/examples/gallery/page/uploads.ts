// Uploads go from the page directly to the service, with a signature of the server.
import { MediastackClient, MediastackError, MissingDocumentError, type Signature } from '@mediastack/client'
import { type Actions, announce, buttons, bytes, copyOf, element, request, textOf, within } from './dom.js'
import { exclusively, fingerprint, forget, remember, type Unfinished, unfinished } from './unfinished.js'

/** Called when an item was kept. */
type Kept = () => Promise<void>

// The uploads that are shown, by the fingerprint of their file.
const shown = new Map<string, Upload>()

/** Uploads files. One that was not completed before continues. */
export function add(files: FileList | null | undefined, kept: Kept): void {
  for (const file of files ?? []) {
    const key = fingerprint(file)
    const upload = shown.get(key) ?? new Upload(key, file.name, kept)
    void upload.send(file)
  }
}

/** Shows what an earlier visit has left: uploads that are not complete, and files that were not kept yet. */
export async function showLeft(kept: Kept): Promise<void> {
  for (const left of await unfinished()) new Upload(left.key, left.name, kept).wait(left)
  const { items } = await request<{ items: { mediaId: string; originalFileName: string }[] }>('/drafts')
  for (const { mediaId, originalFileName } of items) new Upload(mediaId, originalFileName, kept).decide(mediaId)
}

/** One file, from its choice to the item. */
class Upload {
  private readonly row = copyOf('upload')
  private file: File | undefined
  private left: Unfinished | undefined
  private signature: Signature | undefined
  private controller = new AbortController()

  constructor(private readonly key: string, private readonly name: string, private readonly kept: Kept) {
    within(this.row, '.name').textContent = name
    within(this.row, 'progress').setAttribute('aria-label', `Progress of ${name}`)
    shown.set(key, this)
    element('uploads').append(this.row)
  }

  /** Waits for the file of an upload that is not complete. */
  wait(left: Unfinished): void {
    this.left = left
    this.progress(left.sent, left.size)
    this.show(`${percent(left.sent, left.size)} % is uploaded; choose the file again to continue`, {
      'Choose file': () => element<HTMLInputElement>('files').showPicker(), Discard: () => this.cancel(),
    })
  }

  /** Sends a file, or the rest of it. */
  async send(file: File): Promise<void> {
    this.file = file
    if (!(await exclusively(this.key, () => this.run(file)))) announce(`${this.name} is being uploaded already.`)
  }

  private async run(file: File): Promise<void> {
    const continued = this.left !== undefined
    this.controller = new AbortController()
    this.show('starts', { Cancel: () => this.cancel() })
    try {
      this.signature ??= this.left?.signature ?? (await request<Signature>('/signature', 'POST'))
      const draft = await MediastackClient.ofSignature(this.signature).upload(file, {
        signal: this.controller.signal,
        ...(this.left && { uploadUrl: this.left.uploadUrl }),
        onUploadUrl: (uploadUrl) => this.begun(uploadUrl, file),
        onProgress: (sent, total) => this.progress(sent, total),
      })
      await this.complete(draft.mediaId)
    } catch (error) {
      if (this.controller.signal.aborted) return
      if (error instanceof MissingDocumentError) return this.complete(error.mediaId)
      const gone = error instanceof MediastackError && [401, 403, 404].includes(error.status)
      if (gone) this.forget()
      // The service does not know the upload of an earlier visit any more.
      if (gone && continued) return this.run(file)
      this.fail(error, () => this.send(file))
    }
  }

  private begun(uploadUrl: string, { size }: File): void {
    this.left = { key: this.key, name: this.name, size, sent: this.left?.sent ?? 0, uploadUrl, signature: this.signature!, at: Date.now() }
    remember(this.left)
    this.show(within(this.row, '.state').textContent!, { Pause: () => this.pause(), Cancel: () => this.cancel() })
  }

  private progress(sent: number, total: number): void {
    within<HTMLProgressElement>(this.row, 'progress').value = total === 0 ? 1 : sent / total
    within(this.row, '.state').textContent = `${percent(sent, total)} % of ${bytes(total)}`
    if (!this.left || percent(sent, total) === percent(this.left.sent, total)) return
    this.left = { ...this.left, sent, at: Date.now() }
    remember(this.left)
  }

  private pause(): void {
    this.controller.abort()
    this.show(`paused at ${percent(this.left!.sent, this.left!.size)} %`, { Resume: () => this.send(this.file!), Cancel: () => this.cancel() })
  }

  private async cancel(): Promise<void> {
    this.controller.abort()
    const { left } = this
    this.remove()
    announce(`${this.name} is cancelled.`)
    if (left) await MediastackClient.ofSignature(left.signature).cancelUpload(left.uploadUrl).catch(() => {}) // it expires in a day
  }

  private async complete(mediaId: string): Promise<void> {
    this.forget()
    if (element<HTMLInputElement>('keep').checked) await this.keep(mediaId)
    else this.decide(mediaId)
  }

  /** Lets the user decide about a file that is complete. */
  decide(mediaId: string): void {
    this.release() // the same file can be uploaded once more
    this.progress(1, 1)
    this.show('uploaded; removed after 24 hours unless you keep it', { Keep: () => this.keep(mediaId), Discard: () => this.discard(mediaId) })
  }

  private async keep(mediaId: string): Promise<void> {
    try {
      await request(`/items/${mediaId}/seal`, 'POST')
    } catch (error) {
      this.fail(error, () => this.keep(mediaId))
      return
    }
    this.remove()
    announce(`${this.name} is kept.`)
    await this.kept()
  }

  private async discard(mediaId: string): Promise<void> {
    try {
      await request(`/items/${mediaId}`, 'DELETE')
      this.remove()
      announce(`${this.name} is discarded.`)
    } catch (error) {
      this.fail(error, () => this.discard(mediaId))
    }
  }

  /** Forgets what would continue the upload: it begins again. */
  private forget(): void {
    forget(this.key)
    this.left = this.signature = undefined
  }

  private remove(): void {
    this.forget()
    this.release()
    this.row.remove()
  }

  /** Lets another row have the file. */
  private release(): void {
    if (shown.get(this.key) === this) shown.delete(this.key)
  }

  private fail(error: unknown, again: () => unknown): void {
    this.show(`failed: ${textOf(error)}`, { 'Try again': again, Cancel: () => this.cancel() })
    this.row.classList.add('failed')
  }

  private show(state: string, actions: Actions): void {
    this.row.classList.remove('failed')
    within(this.row, '.state').textContent = state
    within(this.row, '.actions').replaceChildren(...buttons(this.name, actions))
  }
}

function percent(sent: number, total: number): number {
  return Math.floor(total === 0 ? 100 : (100 * sent) / total)
}

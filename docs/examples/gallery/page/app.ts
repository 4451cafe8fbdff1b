// The page of the gallery. It uploads directly to the service with a signature; everything else it asks of its server.
import { MediastackClient, MediastackError, type MediaItem } from '@mediastack/client'

interface List { items: MediaItem[]; total: number; page: number; pages: number }

const element = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T
const copyOf = (id: string) => element<HTMLTemplateElement>(id).content.firstElementChild!.cloneNode(true) as HTMLElement
const within = <T extends HTMLElement = HTMLElement>(parent: HTMLElement, selector: string) => parent.querySelector<T>(selector)!

let shown: ReturnType<typeof setTimeout> | undefined
/** Shows a message for some seconds, which screen readers read. */
function announce(text: string): void {
  clearTimeout(shown)
  element('status').textContent = text
  shown = setTimeout(() => { element('status').textContent = '' }, 8_000)
}

/** Asks the server of this page. */
async function ask<T>(path: string, method = 'GET'): Promise<T> {
  const response = await fetch('/api' + path, { method })
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.detail)
  return answer
}

// A signature is valid for an hour, so one serves the requests of most of it.
let signature: { value: Promise<{ signature: string }>; until: number } | undefined
async function currentSignature(): Promise<string> {
  if (!signature || signature.until < Date.now()) signature = { value: ask('/signature', 'POST'), until: Date.now() + 45 * 60_000 }
  try {
    return (await signature.value).signature
  } catch (error) {
    signature = undefined
    throw error
  }
}

const { service } = await ask<{ service: string }>('/config')
const client = new MediastackClient({ baseUrl: service, credential: { uploadSignature: currentSignature } })

/** One file, from its choice to the item. */
class Upload {
  private readonly row = copyOf('upload')
  private uploadUrl: string | undefined
  private controller = new AbortController()

  constructor(private readonly file: File) {
    within(this.row, '.name').textContent = file.name
    within(this.row, 'progress').setAttribute('aria-label', `Progress of ${file.name}`)
    element('uploads').append(this.row)
  }

  async run(): Promise<void> {
    this.controller = new AbortController()
    this.show('uploading', { Cancel: () => this.cancel() })
    try {
      const draft = await client.upload(this.file, {
        signal: this.controller.signal,
        ...(this.uploadUrl === undefined ? {} : { uploadUrl: this.uploadUrl }),
        onUploadUrl: (url) => {
          this.uploadUrl = url
          this.show('uploading', { Pause: () => this.pause(), Cancel: () => this.cancel() })
        },
        onProgress: (sent, total) => {
          within<HTMLProgressElement>(this.row, 'progress').value = total === 0 ? 1 : sent / total
          within(this.row, '.state').textContent = `${Math.floor(total === 0 ? 100 : (100 * sent) / total)} % of ${bytes(total)}`
        },
      })
      if (element<HTMLInputElement>('keep').checked) await this.keep(draft)
      else this.show('uploaded; purged after 24 hours unless you keep it', { Keep: () => this.keep(draft), Discard: () => this.discard(draft) })
    } catch (error) {
      if (this.controller.signal.aborted) return
      // An upload that the service does not know any more begins again.
      if (error instanceof MediastackError && error.status === 404) this.uploadUrl = undefined
      this.fail(error, () => this.run())
    }
  }

  private pause(): void {
    this.controller.abort()
    this.show('paused', { Resume: () => this.run(), Cancel: () => this.cancel() })
  }

  private async cancel(): Promise<void> {
    this.controller.abort()
    this.row.remove()
    announce(`${this.file.name} is cancelled.`)
    if (this.uploadUrl) await client.cancelUpload(this.uploadUrl).catch(() => {}) // it expires in a day
  }

  private async keep(draft: MediaItem): Promise<void> {
    try {
      await ask(`/items/${draft.mediaId}/seal`, 'POST')
    } catch (error) {
      this.fail(error, () => this.keep(draft))
      return
    }
    this.row.remove()
    announce(`${this.file.name} is kept.`)
    await show(1)
  }

  private async discard(draft: MediaItem): Promise<void> {
    try {
      await ask(`/items/${draft.mediaId}`, 'DELETE')
      this.row.remove()
      announce(`${this.file.name} is discarded.`)
    } catch (error) {
      this.fail(error, () => this.discard(draft))
    }
  }

  private fail(error: unknown, again: () => void): void {
    this.show(`failed: ${textOf(error)}`, { 'Try again': again, Cancel: () => this.cancel() })
    this.row.classList.add('failed')
  }

  private show(state: string, actions: Record<string, () => void>): void {
    this.row.classList.remove('failed')
    within(this.row, '.state').textContent = state
    within(this.row, '.actions').replaceChildren(...Object.entries(actions).map(([name, act]) => {
      const button = document.createElement('button')
      button.type = 'button'
      button.textContent = name
      button.setAttribute('aria-label', `${name} ${this.file.name}`)
      button.addEventListener('click', act)
      return button
    }))
  }
}

function textOf(error: unknown): string {
  if (error instanceof MediastackError) return error.detail || error.code
  return error instanceof Error ? error.message : String(error)
}

function bytes(size: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const unit = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, size)) / 3))
  return `${(size / 1000 ** unit).toLocaleString(undefined, { maximumFractionDigits: 1 })} ${units[unit]}`
}

function tile(item: MediaItem): HTMLElement {
  const row = copyOf('item')
  const link = within<HTMLAnchorElement>(row, 'a')
  link.href = item.file
  if (item.thumbnail) {
    const image = document.createElement('img')
    Object.assign(image, { src: item.thumbnail, alt: item.caption || item.originalFileName, loading: 'lazy', decoding: 'async' })
    link.append(image)
  } else {
    link.textContent = item.originalFileName.split('.').pop()!.slice(0, 8)
    link.setAttribute('aria-label', item.originalFileName)
  }
  within(row, '.name').textContent = item.originalFileName
  within(row, '.size').textContent = bytes(item.size)
  const button = within<HTMLButtonElement>(row, 'button')
  button.setAttribute('aria-label', `Delete ${item.originalFileName}`)
  button.addEventListener('click', () => void remove(item))
  return row
}

async function remove(item: MediaItem): Promise<void> {
  const dialog = element<HTMLDialogElement>('confirm')
  element('confirm-text').textContent = `Delete ${item.originalFileName}? It cannot be restored.`
  dialog.returnValue = 'no'
  dialog.showModal()
  await new Promise((closed) => dialog.addEventListener('close', closed, { once: true }))
  if (dialog.returnValue !== 'yes') return
  try {
    await ask(`/items/${item.mediaId}`, 'DELETE')
    announce(`${item.originalFileName} is deleted.`)
  } catch (error) {
    announce(`${item.originalFileName} is not deleted: ${textOf(error)}`)
  }
  await show(current)
  element('items-title').focus()
}

let current = 1
async function show(page: number): Promise<void> {
  try {
    const [list, usage] = await Promise.all([ask<List>(`/items?page=${page}`), ask<{ storage: number; maxStorage: number }>('/usage')])
    if (page > list.pages) return await show(list.pages) // the last item of the last page is deleted
    current = page
    element('items').replaceChildren(...list.items.map(tile))
    element('items-title').textContent = list.total === 1 ? '1 item' : `${list.total} items`
    element('empty').hidden = list.total > 0
    element('pager').hidden = list.pages === 1
    element('page').textContent = `Page ${page} of ${list.pages}`
    element<HTMLButtonElement>('newer').disabled = page === 1
    element<HTMLButtonElement>('older').disabled = page === list.pages
    element<HTMLProgressElement>('used').value = usage.storage / usage.maxStorage
    element('used-text').textContent = `${bytes(usage.storage)} of ${bytes(usage.maxStorage)} used`
  } catch (error) {
    announce(`The items cannot be shown: ${textOf(error)}`)
  }
}

function add(files: FileList | null | undefined): void {
  for (const file of files ?? []) void new Upload(file).run()
}

const drop = element('drop')
for (const [event, over] of [['dragover', true], ['dragleave', false], ['drop', false]] as const) {
  drop.addEventListener(event, (at) => {
    at.preventDefault()
    drop.classList.toggle('over', over)
  })
}
drop.addEventListener('drop', (event) => add(event.dataTransfer?.files))
element<HTMLInputElement>('files').addEventListener('change', (event) => {
  const input = event.target as HTMLInputElement
  add(input.files)
  input.value = '' // so that the same file can be chosen again
})
element('newer').addEventListener('click', () => void show(current - 1))
element('older').addEventListener('click', () => void show(current + 1))
await show(1)

// The items in pages, and what was deleted.
import type { Deleted, DeletedItem, MediaItem } from '@mediastack/client'
import { thumbHashToDataURL } from 'thumbhash'
import { announce, ask, buttons, bytes, copyOf, element, request, textOf, within } from './dom.js'

type Item = Pick<MediaItem, 'mediaId' | 'originalFileName' | 'caption' | 'size' | 'file' | 'thumbnail' | 'placeholder'>
interface List { items: Item[]; total: number; pages: number; next?: string }

// The cursor of each page up to the one after the current page. The first page has none.
let cursors: (string | undefined)[] = [undefined]
let current = 0
// Tiles are kept as long as they are shown, so that their pictures do not load again.
let tiles = new Map<string, HTMLElement>()
let asked = 0

/** Shows a page of items, and with it what else may have changed. */
export async function show(page = current): Promise<void> {
  const mine = ++asked
  try {
    const after = cursors[page]
    const [list, usage, deleted] = await Promise.all([
      request<List>(`/items${after === undefined ? '' : `?after=${encodeURIComponent(after)}`}`),
      request<{ storage: number; maxStorage: number }>('/usage'), request<{ items: DeletedItem[] }>('/deleted'),
    ])
    if (mine !== asked) return // a later call shows what is newer
    if (list.items.length === 0 && page > 0) return await show(page - 1) // the last item of the last page is deleted
    current = page
    cursors = [...cursors.slice(0, page + 1), list.next]
    showItems(list)
    showDeleted(deleted.items)
    element<HTMLProgressElement>('used').value = usage.storage / usage.maxStorage
    element('used-text').textContent = `${bytes(usage.storage)} of ${bytes(usage.maxStorage)} used`
  } catch (error) {
    announce(`The items cannot be shown: ${textOf(error)}`)
  }
}

function showItems({ items, total, pages, next }: List): void {
  const before = tiles
  tiles = new Map(items.map((item) => [item.mediaId, before.get(item.mediaId) ?? tile(item)]))
  // The address of a private file expires, so that an old tile has the new one.
  for (const item of items) within<HTMLAnchorElement>(tiles.get(item.mediaId)!, 'a').href = item.file
  element('items').replaceChildren(...tiles.values())
  element('items-title').textContent = total === 1 ? '1 item' : `${total} items`
  element('empty').hidden = total > 0
  element('pager').hidden = pages === 1
  element('page').textContent = `Page ${current + 1} of ${pages}`
  element<HTMLButtonElement>('newer').disabled = current === 0
  element<HTMLButtonElement>('older').disabled = next === undefined
}

function tile(item: Item): HTMLElement {
  const row = copyOf('item')
  row.dataset.id = item.mediaId
  const link = within<HTMLAnchorElement>(row, 'a')
  if (item.thumbnail) {
    link.append(picture(item, link))
  } else {
    link.textContent = extension(item)
    link.setAttribute('aria-label', item.originalFileName)
  }
  within(row, '.name').textContent = within(row, '.name').title = item.originalFileName
  within(row, '.size').textContent = bytes(item.size)
  const button = within<HTMLButtonElement>(row, 'button')
  button.setAttribute('aria-label', `Delete ${item.originalFileName}`)
  button.addEventListener('click', () => void remove(item))
  return row
}

/** Returns the thumbnail of an item. Until it is loaded, the frame shows the placeholder, which is in the document of the item. */
function picture(item: Item, frame: HTMLElement): HTMLImageElement {
  const image = document.createElement('img')
  if (item.placeholder) {
    const hash = Uint8Array.from(atob(item.placeholder), (character) => character.charCodeAt(0))
    frame.style.backgroundImage = `url(${thumbHashToDataURL(hash)})`
  }
  image.addEventListener('load', async () => {
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches
    await image.animate({ opacity: [0, 1] }, { duration: calm ? 0 : 250, easing: 'ease-out' }).finished
    frame.style.backgroundImage = '' // it would shine through a transparent picture
  })
  image.addEventListener('error', () => {
    image.replaceWith(extension(item))
    frame.setAttribute('aria-label', item.originalFileName)
  })
  Object.assign(image, { alt: item.caption || item.originalFileName, loading: 'lazy', decoding: 'async', src: item.thumbnail })
  return image
}

function extension({ originalFileName }: Item): string {
  return originalFileName.split('.').pop()!.slice(0, 8)
}

async function remove({ mediaId, originalFileName: name }: Item): Promise<void> {
  if (!(await ask(`Delete ${name}? It can be restored only if the account has undo.`, 'Delete'))) return
  let focus = element('items-title')
  try {
    const { expiresAt } = await request<Deleted>(`/items/${mediaId}`, 'DELETE')
    const undo = expiresAt === undefined ? {} : { Undo: () => restore(mediaId, name) }
    const message = announce(`${name} is deleted.`, `deletion of ${name}`, undo)
    focus = message.querySelector('button') ?? focus
  } catch (error) {
    announce(`${name} is not deleted: ${textOf(error)}`)
  }
  await show()
  focus.focus()
}

async function restore(mediaId: string, name: string): Promise<void> {
  try {
    await request(`/deleted/${mediaId}/restore`, 'POST')
    announce(`${name} is restored.`)
  } catch (error) {
    announce(`${name} is not restored: ${textOf(error)}`)
  }
  await show()
  const link = tiles.get(mediaId)?.querySelector('a')
  ;(link ?? element('items-title')).focus()
}

function showDeleted(items: DeletedItem[]): void {
  element('deleted').hidden = items.length === 0
  element('deleted-title').textContent = `Recently deleted (${items.length})`
  element('deleted-items').replaceChildren(...items.map(({ mediaId, originalFileName: name, size, expiresAt }) => {
    const row = copyOf('deleted-item')
    const until = new Date(expiresAt).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
    within(row, '.name').textContent = name
    within(row, '.state').textContent = `${bytes(size)}, can be restored until ${until}`
    within(row, '.actions').append(...buttons(name, { Restore: () => restore(mediaId, name), 'Delete for good': () => end(mediaId, name) }))
    return row
  }))
}

async function end(mediaId: string, name: string): Promise<void> {
  if (!(await ask(`Delete ${name} for good? It cannot be restored afterwards.`, 'Delete for good'))) return
  try {
    await request(`/deleted/${mediaId}`, 'DELETE')
    announce(`${name} is deleted for good.`)
  } catch (error) {
    announce(`${name} is not deleted: ${textOf(error)}`)
  }
  await show()
  const title = element('deleted').hidden ? element('items-title') : element('deleted-title')
  title.focus()
}

element('newer').addEventListener('click', () => void show(current - 1))
element('older').addEventListener('click', () => void show(current + 1))

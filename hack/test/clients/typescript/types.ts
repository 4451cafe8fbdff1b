// Is compiled with the client: a line after @ts-expect-error must be a type error.
import { MediastackClient } from './index.js'

export async function types(client: MediastackClient, file: Blob) {
  // @ts-expect-error an upload has no such option
  await client.upload(file, { filename: 'x' })
  // @ts-expect-error a string could be a path or a text
  await client.upload('photo.jpg')
  // @ts-expect-error a file can be missing
  await client.upload(undefined as Blob | undefined)
  await client.upload({ path: 'photo.jpg' }, { size: 5 })
  await client.upload(new Blob().stream())
  await client.upload((async function* () { yield new Uint8Array() })())
  // @ts-expect-error a list has no such filter
  await client.list({ grp: 'x' })
  // @ts-expect-error a file name cannot be removed
  await client.update('id', { fileName: null })
  const { total, next } = await client.list({ type: 'image/*', from: new Date(), meta: { album: 'one' }, sort: '-size' })
  // @ts-expect-error the number is absent where the service does not count
  const number: number = total
  await client.list({ after: next ?? '' })
  const { items } = await client.list({ fields: ['mediaId', 'size'] })
  // @ts-expect-error the member was not selected
  const caption: string | undefined = items[0]?.caption
  // @ts-expect-error a document has no such member
  await client.get('id', { fields: ['name'] })
  // @ts-expect-error an upload from a URL has no such option
  await client.uploadFromUrl('https://example.org/', { resumableFrom: 0 })
  const selected: { file: string } = await client.get('id', { fields: ['file'] })
  const { expiresAt }: { expiresAt?: string } = await client.delete('id', { permanent: true })
  await client.update('id', { caption: null, metadata: { album: null } }, { ifMatch: '"1"' })
  return [number, caption, selected.file, expiresAt]
}

// Is compiled with the client: a line after @ts-expect-error must be a type error.
import { type MediaItem, MediastackClient, type TransportOptions } from './index.js'

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
  // @ts-expect-error the presets are in documents that name them
  const none = (await client.get('id')).presets
  const { items: whole } = await client.list({ fields: ['*', 'presets'] })
  const [hero, name, pairs]: [string | undefined, string | undefined, Record<string, string> | undefined] = [whole[0]?.presets['hero']?.srcset, whole[0]?.originalFileName, whole[0]?.metadata]
  const [pictures]: { mediaId: string; presets: object }[] = (await client.list({ fields: ['mediaId', 'presets'] })).items
  const document: MediaItem = await client.get('id', { fields: ['*'] })
  return [none, hero, name, pairs, pictures, document, number, caption, selected.file, expiresAt]
}

interface Pairs { album: string; place?: string }

export async function namedPairs(options: TransportOptions, file: Blob) {
  const client = new MediastackClient<Pairs>(options)
  const { metadata } = await client.upload(file, { metadata: { album: 'one' } })
  const album: string = metadata.album
  // @ts-expect-error a pair can be missing
  const place: string = metadata.place
  // @ts-expect-error the application has no such key
  await client.upload(file, { metadata: { album: 'one', albun: 'x' } })
  // @ts-expect-error the album is missing
  await client.uploadFromUrl('https://example.org/', { metadata: { place: 'x' } })
  // @ts-expect-error the application has no such key
  await client.list({ meta: { albun: 'x' } })
  // @ts-expect-error the application has no such key
  await client.update('id', { metadata: { albun: 'x' } })
  await client.update('id', { metadata: { place: null } })
  for await (const { metadata } of client.items({ meta: { place: 'x' }, fields: ['metadata'] })) metadata.album.trim()
  // @ts-expect-error a value is a text
  new MediastackClient<{ size: number }>(options)
  return [album, place]
}

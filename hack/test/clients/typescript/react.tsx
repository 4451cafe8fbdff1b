// Is compiled with the client: a line after @ts-expect-error must be a type error.
import { MediastackClient } from './index.js'
import { Dropzone, Picture, useMedia, useUpload } from './react/index.js'

interface Pairs { album?: string }

export function Page({ client, plain }: { client: MediastackClient<Pairs>; plain: MediastackClient }) {
  const uploads = useUpload<Pairs>({ client: async () => client, metadata: { album: 'one' }, onUploaded: (item) => item.metadata.album?.trim() })
  // @ts-expect-error an upload has no such option
  useUpload({ client: plain, filename: 'x' })
  const own = useMedia({ list: async ({ signal }: { signal: AbortSignal }) => ({ items: [{ mediaId: String(signal.aborted), title: 'one' }] }) })
  const titles: string[] = own.items.map(({ title }) => title)
  const withPresets = useMedia(client, { q: 'sea', fields: ['*', 'presets'] })
  const album: string | undefined = withPresets.items[0]?.metadata.album
  const whole = useMedia(plain)
  // @ts-expect-error a list has no such filter
  useMedia(plain, { grp: 'x' })
  return <>
    <Dropzone uploads={uploads} accept="image/*" texts={{ pause: 'Anhalten' }} />
    {/* @ts-expect-error a text for those who do not see it is missing */}
    {withPresets.items.map((item) => <Picture key={item.mediaId} item={item} preset="card" />)}
    {withPresets.items.map((item) => <Picture key={item.mediaId} item={item} preset={['card', 'hero']} alt={album ?? titles.join()} sizes="50vw" />)}
    {/* @ts-expect-error the list was read without presets */}
    {whole.items.map((item) => <Picture key={item.mediaId} item={item} preset="card" alt="" />)}
  </>
}

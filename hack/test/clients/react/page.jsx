// A page with the components and hooks of the React entry.
import { StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { MediastackClient } from '@mediastack/client'
import { Dropzone, Picture, useMedia, useUpload } from '@mediastack/client/react'

window.mount = ({ base, apiKey, group, resumableFrom, parallel, pageSize, presets }) => {
  // The page of an application has a signature of its server instead of the key.
  const server = new MediastackClient({ baseUrl: base, credential: { apiKey } })
  window.signatures = 0
  const newClient = async (file, { signal }) => {
    window.signatures++
    return MediastackClient.ofSignature(await server.createSignature({ count: 1, group, seal: true, signal }), { retry: { uploadAttempts: 2 } })
  }

  function Uploads({ onUploaded }) {
    const uploads = useUpload({ client: newClient, resumableFrom, chunkSize: 1 << 20, parallel, onUploaded, onFailed: (error) => (window.failure = error) })
    window.uploads = uploads
    return <Dropzone uploads={uploads} accept=".bin,text/*,image/*" className="drop" />
  }

  function List({ query }) {
    const media = useMedia(server, query)
    window.media = media
    return (
      <section aria-label="Files">
        <p className="total">{media.loading ? 'loading' : `${media.total ?? '?'} files`}</p>
        {media.error && <p role="alert" className="problem">{media.error.message}</p>}
        <ul>{media.items.map((item) => <li key={item.mediaId}>{item.originalFileName}{presets && <Show item={item} />}</li>)}</ul>
        {media.hasMore && <button type="button" className="more" onClick={media.loadMore}>More</button>}
      </section>
    )
  }

  function Show({ item }) {
    return <>
      <Picture className="card" item={item} preset="card" alt={`picture of ${item.mimeType}`} placeholder="color" fallback={<i>no picture</i>} />
      <Picture className="fluid" item={item} preset={['card', 'hero']} sizes="50vw" alt="" sources={[{ media: '(max-width: 600px)', preset: 'square' }]} />
    </>
  }

  function Page() {
    const [uploads, setUploads] = useState(true)
    const [query, setQuery] = useState({ group, limit: pageSize, fields: ['*', 'presets'], sort: 'time' })
    Object.assign(window, { setUploads, setQuery })
    return <>
      {uploads && <Uploads onUploaded={() => window.media.reload()} />}
      <List query={query} />
    </>
  }

  const root = createRoot(document.getElementById('root'))
  root.render(<StrictMode><Page /></StrictMode>)
  window.unmount = () => root.unmount()
}
window.ready = true

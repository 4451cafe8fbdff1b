// The server of the gallery. It alone has the API key: it makes upload signatures for the page, lists, seals, deletes and restores.
//   URL=http://127.0.0.1:8080 API_KEY=msk_... PORT=3000 node server.mjs
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { MediastackClient, MediastackError } from '@mediastack/client'

const { URL: service, API_KEY: apiKey, PORT: port = '3000', GROUP: group = 'gallery' } = process.env
const stop = (why) => {
  console.error(why)
  process.exit(1)
}
if (!service || !apiKey) stop('Set URL to the base URL of the service, and API_KEY to the key of an app.')
const media = new MediastackClient({ baseUrl: service, credential: { apiKey } })
const pageSize = 12
const deletedShown = 50

// What the page shows of an item.
const fields = ['mediaId', 'originalFileName', 'caption', 'size', 'file', 'thumbnail', 'placeholder']

const page = (name) => readFile(new URL(`page/${name}`, import.meta.url))
const html = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': `default-src 'self'; connect-src 'self' ${service}; img-src 'self' data: ${service}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'` }

const missing = () => new MediastackError('not_found', 404, 'media item not found', '', undefined)

// The items of other groups are not those of this application. A real one checks here that the user may do it.
async function own(mediaId) {
  if ((await media.get(mediaId, { fields: ['group'] })).group !== group) throw missing()
  return mediaId
}

async function ownDeleted(mediaId) {
  for await (const item of media.deletedItems()) if (item.mediaId === mediaId && item.group === group) return mediaId
  throw missing()
}

async function deleted() {
  const items = []
  for await (const item of media.deletedItems()) if (item.group === group && items.push(item) === deletedShown) break
  return { items }
}

const routes = {
  'GET /': async () => [await page('index.html'), html],
  'GET /style.css': async () => [await page('style.css'), { 'content-type': 'text/css; charset=utf-8' }],
  'GET /app.js': async () => [await page('app.js'), { 'content-type': 'text/javascript; charset=utf-8' }],
  'GET /api/usage': () => media.totals(),
  'GET /api/items': async ({ query }) => {
    const { items, total, next } = await media.list({ group, limit: pageSize, fields, ...(query.has('after') && { after: query.get('after') }) })
    return { items, total, next, pages: Math.max(1, Math.ceil(total / pageSize)) }
  },
  'GET /api/drafts': () => media.list({ group, state: 'draft', limit: 100, fields: ['mediaId', 'originalFileName', 'size'] }),
  'GET /api/deleted': deleted,
  // For one upload that begins within 5 minutes. It goes on with it for as long as it takes.
  'POST /api/signature': () => media.createSignature({ group, expiresIn: 300, count: 1 }),
  'POST /api/items/:id/seal': async ({ id }) => media.seal(await own(id)),
  'DELETE /api/items/:id': async ({ id }) => media.delete(await own(id)),
  'POST /api/deleted/:id/restore': async ({ id }) => media.restore(await ownDeleted(id)),
  'DELETE /api/deleted/:id': async ({ id }) => media.delete(await ownDeleted(id), { permanent: true }),
}

function find(method, path) {
  const parts = path.split('/')
  const id = parts[1] === 'api' && ['items', 'deleted'].includes(parts[2]) ? parts[3] : undefined
  if (id) parts[3] = ':id'
  return [routes[`${method} ${parts.join('/')}`], id]
}

// What people on the page read. The details of other errors are for those who run the gallery: they name its key, its limits and its settings.
const texts = { 404: 'it does not exist any more', 429: 'too many requests, try again in a moment' }

const server = createServer(async (request, response) => {
  const json = (status, document) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document))
  try {
    const { pathname, searchParams: query } = new URL(request.url, 'http://localhost')
    const [route, id] = find(request.method, pathname)
    if (!route) return json(404, { detail: 'not found' })
    // Pages of other sites must not act here for the user.
    if (request.method !== 'GET' && !['same-origin', undefined].includes(request.headers['sec-fetch-site'])) return json(403, { detail: 'a request of another site' })
    const answer = await route({ id, query })
    if (!Array.isArray(answer)) return json(200, answer)
    response.writeHead(200, { ...answer[1], 'x-content-type-options': 'nosniff' }).end(answer[0])
  } catch (error) {
    const text = error instanceof MediastackError ? texts[error.status] : undefined
    if (text) return json(error.status, { detail: text })
    console.error(error)
    json(500, { detail: 'the gallery does not work at the moment' })
  }
})
server.on('error', (error) => stop(error.code === 'EADDRINUSE' ? `Port ${port} is in use. Set PORT to another one.` : error.message))
server.listen(Number(port), 'localhost', () => console.log(`http://localhost:${port}`))

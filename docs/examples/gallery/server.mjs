// The server of the gallery. It alone has the API key: it makes upload signatures for the page, lists, seals and deletes.
//   URL=http://127.0.0.1:8080 API_KEY=msk_... PORT=3000 node server.mjs
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { MediastackClient, MediastackError } from '@mediastack/client'

const { URL: service, API_KEY: apiKey, PORT: port = '3000', GROUP: group = 'gallery' } = process.env
const media = new MediastackClient({ baseUrl: service, credential: { apiKey } })
const pageSize = 12

const page = (name) => readFile(new URL(`page/${name}`, import.meta.url))
const html = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': `default-src 'self'; connect-src 'self' ${service}; img-src 'self' data: ${service}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'` }

// The items of other groups are not those of this application. A real one checks here that the user may do it.
async function own(mediaId) {
  const item = await media.get(mediaId)
  if (item.group !== group) throw new MediastackError('not_found', 404, 'media item not found', '', undefined)
  return item
}

const routes = {
  'GET /': async () => [await page('index.html'), html],
  'GET /style.css': async () => [await page('style.css'), { 'content-type': 'text/css; charset=utf-8' }],
  'GET /app.js': async () => [await page('app.js'), { 'content-type': 'text/javascript; charset=utf-8' }],
  'GET /api/config': async () => ({ service }),
  'GET /api/usage': () => media.totals(),
  'GET /api/items': async ({ query }) => {
    const number = Math.max(1, Number.parseInt(query.get('page') ?? '1', 10) || 1)
    const { items, total } = await media.list({ group, page: number, limit: pageSize })
    return { items, total, page: number, pages: Math.max(1, Math.ceil(total / pageSize)) }
  },
  'POST /api/signature': async () => ({ signature: await media.createSignature({ group }) }),
  'POST /api/items/:id/seal': async ({ id }) => media.seal((await own(id)).mediaId),
  'DELETE /api/items/:id': async ({ id }) => {
    await media.delete((await own(id)).mediaId)
    return {}
  },
}

function find(method, path) {
  const parts = path.split('/')
  const id = parts[1] === 'api' && parts[2] === 'items' ? parts[3] : undefined
  if (id) parts[3] = ':id'
  return [routes[`${method} ${parts.join('/')}`], id]
}

createServer(async (request, response) => {
  const { pathname, searchParams: query } = new URL(request.url, 'http://localhost')
  const json = (status, document) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document))
  try {
    const [route, id] = find(request.method, pathname)
    if (!route) return json(404, { detail: 'not found' })
    // Pages of other sites must not act here for the user.
    if (request.method !== 'GET' && !['same-origin', undefined].includes(request.headers['sec-fetch-site'])) return json(403, { detail: 'a request of another site' })
    const answer = await route({ id, query })
    if (!Array.isArray(answer)) return json(200, answer)
    response.writeHead(200, { ...answer[1], 'x-content-type-options': 'nosniff' }).end(answer[0])
  } catch (error) {
    if (error instanceof MediastackError && error.status < 500) return json(error.status, { detail: error.detail })
    console.error(error)
    json(500, { detail: 'the server failed, see its log' })
  }
}).listen(Number(port), 'localhost', () => console.log(`http://localhost:${port}`))

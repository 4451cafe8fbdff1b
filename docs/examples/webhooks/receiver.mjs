// A receiver of webhooks in Node, without packages: WEBHOOK_SECRET=whsec_... PORT=8080 node receiver.mjs
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const key = Buffer.from((process.env.WEBHOOK_SECRET ?? '').replace(/^whsec_/, ''), 'base64')
if (key.length < 24) throw new Error('WEBHOOK_SECRET must be whsec_ and base64') // an empty one verifies forged messages
const maxBody = 64 << 10 // more than a delivery has
const handled = new Set() // a database belongs here: the same event may come again after days

function verify(headers, body) {
  const id = headers['webhook-id'], timestamp = headers['webhook-timestamp']
  if (!id || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false // NaN is not > 300, but signs nothing below
  const want = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
  return String(headers['webhook-signature']).split(' ').some((signature) => {
    const [version, text] = signature.split(',')
    const got = Buffer.from(text ?? '', 'base64')
    return version === 'v1' && got.length === want.length && timingSafeEqual(got, want)
  })
}

const server = createServer((request, response) => {
  const parts = []
  let length = 0
  request.on('data', (part) => {
    if ((length += part.length) > maxBody) return request.destroy()
    parts.push(part)
  })
  request.on('end', () => {
    const body = Buffer.concat(parts) // the bytes as they came: parsed and written again, they differ
    if (!verify(request.headers, body)) return response.writeHead(401).end()
    let event
    try {
      event = JSON.parse(body)
    } catch {
      return response.writeHead(400).end()
    }
    if (typeof event?.data?.id !== 'string') return response.writeHead(400).end() // signed, and no event
    if (!handled.has(event.data.id)) {
      handled.add(event.data.id)
      console.log(event.type, event.data.id) // queue the work here, and do it after the answer
    }
    response.writeHead(204).end()
  })
})
server.listen(process.env.PORT ?? 8080, '127.0.0.1', () => console.log(`listening on ${server.address().port}`))

// Verifies what it receives with the libraries standardwebhooks and svix: 204 if both accept it, else 401. PUT changes the secret.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'

const require = createRequire(process.argv[2])
const { Webhook } = require('standardwebhooks')
const svix = require('svix')
let secret = ''

const server = createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', () => {
    const body = Buffer.concat(parts).toString()
    if (request.method === 'PUT') {
      secret = body
      return response.writeHead(204).end()
    }
    try {
      for (const Library of [Webhook, svix.Webhook]) {
        const payload = new Library(secret).verify(body, request.headers)
        if (!payload.type) throw new Error('the payload has no type')
      }
      response.writeHead(204).end()
    } catch (error) {
      console.log(String(error))
      response.writeHead(401).end()
    }
  })
})
server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`))

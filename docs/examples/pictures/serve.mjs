// Serves a page that is made for each request.
import { createServer } from 'node:http'

export function serve(render) {
  const port = Number(process.env.PORT ?? 3000)
  const server = createServer(async (request, response) => {
    if (request.url !== '/') return response.writeHead(404).end()
    try {
      const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Pictures</title>${await render()}</html>`
      // Addresses of private items expire: nobody keeps the page.
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' }).end(html)
    } catch (error) {
      console.error(error)
      response.writeHead(500).end()
    }
  })
  server.listen(port, 'localhost', () => console.log(`http://localhost:${port}`))
}

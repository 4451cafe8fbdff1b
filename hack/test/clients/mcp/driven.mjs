// A client that the Go test drives by HTTP: it lists the tools, and calls one. So one scenario in Go runs with every client.
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'

// elicitation is the capability to show an address to the user. shown takes what was to be shown; the answer is always that the user has
// agreed, which must not be a yes.
export const elicitation = { elicitation: { form: {}, url: {} } }
const shown = []
export function agree({ params }) {
  shown.push(params)
  return params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: {} }
}

export async function driven(client) {
  const acts = {
    list: async () => (await client.listTools()).tools,
    call: async ({ name, arguments: args }) => {
      shown.length = 0
      const result = await client.callTool({ name, arguments: args })
      return { ...result, shown: [...shown] }
    },
  }
  const server = createServer(async (request, response) => {
    try {
      const body = JSON.parse((await buffer(request)).toString() || '{}')
      response.end(JSON.stringify(await acts[request.url.slice(1)](body)))
    } catch (error) {
      response.statusCode = 500
      response.end(String(error.stack))
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  console.log(`driven at http://127.0.0.1:${server.address().port}\n`)
  await new Promise(() => {}) // the test ends it
}

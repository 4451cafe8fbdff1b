// The second SDK, in either era of the protocol.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { agree, driven, elicitation } from './driven.mjs'
import { connected } from './login.mjs'
import { scenario } from './scenario.mjs'

const options = JSON.parse(process.argv[2])
const make = () => {
  const client = new Client({ name: 'sdk2', version: '1' }, { versionNegotiation: { mode: options.mode }, capabilities: options.driven ? elicitation : {} })
  if (options.driven) client.setRequestHandler('elicitation/create', agree)
  return client
}
const open = (settings) => ({
  client: make(),
  transport: new StreamableHTTPClientTransport(new URL(options.url), settings),
})
// It checks the issuer in the answer, too.
const finish = (transport, response) => transport.finishAuth(response)
const { client } = await connected(options, open, UnauthorizedError, finish)
await (options.driven ? driven : scenario)(client, { ...options, version: () => client.getNegotiatedProtocolVersion() })
await client.close()

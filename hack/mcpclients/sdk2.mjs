// The second SDK, in either era of the protocol.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { story } from './story.mjs'

const options = JSON.parse(process.argv[2])
const client = new Client({ name: 'sdk2', version: '1' }, { versionNegotiation: { mode: options.mode } })
await client.connect(new StreamableHTTPClientTransport(new URL(options.url), { requestInit: { headers: options.headers } }))
await story(client, { ...options, version: () => client.getNegotiatedProtocolVersion() })
await client.close()

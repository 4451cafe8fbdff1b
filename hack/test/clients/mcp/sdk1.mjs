// The first SDK: by HTTP, or through a bridge that speaks stdio.
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { agree, driven, elicitation } from './driven.mjs'
import { connected } from './login.mjs'
import { scenario } from './scenario.mjs'

const options = JSON.parse(process.argv[2])
const make = () => {
  const client = new Client({ name: 'sdk1', version: '1' }, { capabilities: options.driven ? elicitation : {} })
  if (options.driven) client.setRequestHandler(ElicitRequestSchema, agree)
  return client
}
const open = (settings) => ({
  client: make(),
  transport: options.bridge
    ? new StdioClientTransport({ command: process.execPath, args: options.bridge, env: process.env, stderr: 'inherit' })
    : new StreamableHTTPClientTransport(new URL(options.url), settings),
})
const finish = (transport, response) => transport.finishAuth(response.get('code'))
const { client, transport } = await connected(options, open, UnauthorizedError, finish)
await (options.driven ? driven : scenario)(client, { ...options, version: () => transport.protocolVersion })
await client.close()

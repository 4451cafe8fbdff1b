// The first SDK: by HTTP, or through a bridge that speaks stdio.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { story } from './story.mjs'

const options = JSON.parse(process.argv[2])
const transport = options.bridge
  ? new StdioClientTransport({ command: process.execPath, args: options.bridge, env: process.env, stderr: 'inherit' })
  : new StreamableHTTPClientTransport(new URL(options.url), { requestInit: { headers: options.headers } })
const client = new Client({ name: 'sdk1', version: '1' })
await client.connect(transport)
await story(client, { ...options, version: () => transport.protocolVersion })
await client.close()

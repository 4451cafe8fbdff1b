// Runs the scenarios in Node.
import { openAsBlob } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { MediastackClient } from '@mediastack/client'
import { bytes, run } from './scenarios.mjs'

const options = JSON.parse(process.argv[2])
const control = async (path, body) => (await fetch(options.control + path, { method: 'POST', body: JSON.stringify(body ?? {}) })).text()
const seen = async () => JSON.parse(await control('/seen'))
const plan = (fault) => control('/plan', fault)
const reset = () => control('/reset')
const results = await run({ ...options, where: 'in Node', plan, seen, reset })

const began = performance.now()
const problem = await fromDisk().then(() => '', (error) => error.stack)
results.push({ scenario: 'a file on disk is uploaded without reading it whole', problem, took: (performance.now() - began) / 1000 })
for (const result of results) console.log(JSON.stringify(result))

async function fromDisk() {
  await writeFile('photo.bin', bytes(20 << 20, 7))
  const client = new MediastackClient({ baseUrl: options.base, credential: { accessToken: 'none' } })
  const keyed = new MediastackClient({ baseUrl: options.base, credential: { apiKey: options.apiKey } })
  const item = await keyed.upload(await openAsBlob('photo.bin'), { fileName: 'photo.bin', seal: true })
  if (item.size !== 20 << 20 || item.originalFileName !== 'photo.bin') throw new Error(JSON.stringify(item))
  if ((await client.totals().catch((error) => error)).status !== 401) throw new Error('an access token that is none is accepted')
}

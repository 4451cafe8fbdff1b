// Runs the scenarios in Node.
import { createHash } from 'node:crypto'
import { createReadStream, openAsBlob } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { runInNewContext } from 'node:vm'
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
for (const [scenario, act] of Object.entries({ 'paths and streams of Node are uploaded': pathsAndStreams, 'what is no file of Node is rejected before anything is sent': noFiles })) {
  await reset()
  const problem = await act().then(() => '', (error) => error.stack)
  results.push({ scenario, problem, took: 0 })
}
for (const result of results) console.log(JSON.stringify(result))

async function fromDisk() {
  await writeFile('photo.bin', bytes(20 << 20, 7))
  const client = new MediastackClient({ baseUrl: options.base, credential: { accessToken: 'none' } })
  const keyed = new MediastackClient({ baseUrl: options.base, credential: { apiKey: options.apiKey } })
  const item = await keyed.upload(await openAsBlob('photo.bin'), { fileName: 'photo.bin', seal: true })
  if (item.size !== 20 << 20 || item.originalFileName !== 'photo.bin') throw new Error(JSON.stringify(item))
  if ((await client.totals().catch((error) => error)).status !== 401) throw new Error('an access token that is none is accepted')
}

async function stored(item, want, name) {
  const sum = createHash('sha256').update(want).digest('hex')
  if (item.size !== want.byteLength || item.sha256 !== sum || item.originalFileName !== name) throw new Error(`${JSON.stringify(item)}, want ${want.byteLength} bytes ${sum} as ${name}`)
}

async function pathsAndStreams() {
  const client = new MediastackClient({ baseUrl: options.base, credential: { apiKey: options.apiKey } })
  for (const content of [Buffer.from('a text'), Buffer.from(bytes(20 << 20, 3))]) {
    await mkdir('a folder', { recursive: true })
    await writeFile('a folder/größe.bin', content)
    const path = 'a folder/größe.bin'
    for (const file of [{ path }, { path: resolve(path) }, { path: pathToFileURL(path) }]) await stored(await client.upload(file, { seal: true }), content, 'größe.bin')
    await stored(await client.upload({ path }, { fileName: 'other.bin', resumableFrom: 0 }), content, 'other.bin')
    await stored(await client.upload(createReadStream(path)), content, 'größe.bin')
    await stored(await client.upload(createReadStream(path), { size: content.byteLength, resumableFrom: 0 }), content, 'größe.bin')
    await stored(await client.upload(createReadStream(path).pipe(new PassThrough()), { fileName: 'piped.bin' }), content, 'piped.bin')
    await stored(await client.upload(Readable.toWeb(createReadStream(path))), content, 'file')
    await stored(await client.upload((await fetch(`data:application/octet-stream;base64,${content.subarray(0, 1000).toString('base64')}`)).body), content.subarray(0, 1000), 'file')
    await stored(await client.upload(content), content, 'file')
  }
  // A buffer of another realm, as those of test runners. instanceof says no.
  const foreign = runInNewContext('new Uint8Array([97, 98]).buffer')
  await stored(await client.upload(foreign), Buffer.from('ab'), 'file')
}

async function noFiles() {
  const client = new MediastackClient({ baseUrl: options.base, credential: { apiKey: options.apiKey } })
  await writeFile('one.txt', 'one')
  const [consumed, destroyed, flowing] = [createReadStream('one.txt'), createReadStream('one.txt'), Readable.from(['one'])]
  for await (const _ of consumed);
  destroyed.destroy()
  const files = { 'a path': 'one.txt', 'a stream that was read': consumed, 'a stream that is destroyed': destroyed, 'a stream of text': flowing, 'a stream with an encoding': createReadStream('one.txt', 'utf8'), 'a folder': { path: '.' },
    'a device': { path: '/dev/null' }, 'shared memory': new SharedArrayBuffer(5), 'a view of shared memory': new Uint8Array(new SharedArrayBuffer(5)) }
  for (const [what, file] of Object.entries(files)) {
    for (const more of [{}, { resumableFrom: 0 }]) {
      const error = await client.upload(what === 'a stream of text' ? Readable.from(['one']) : file, more).then(() => 'it did not fail', (error) => error)
      if (!(error instanceof TypeError)) throw new Error(`${what}: ${error.stack ?? error}`)
    }
  }
  const missing = await client.upload({ path: 'missing.txt' }).then(() => 'it did not fail', (error) => error)
  if (missing.code !== 'ENOENT') throw new Error(`a missing file: ${missing}`)
  const { requests } = await seen()
  if (requests.length > 0) throw new Error(`it sent ${requests}`)
}

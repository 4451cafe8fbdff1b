// What users do with the client, as named scenarios. They use only what Node and browsers share, and run in both.
import { ConnectionError, EventsGoneError, MediastackClient, MediastackError, UploadFromUrlError } from '@mediastack/client'

const encoder = new TextEncoder()

// bytes returns content that compresses and repeats nowhere near a boundary.
export function bytes(size, seed = 1) {
  const content = new Uint8Array(size)
  for (let i = 0, state = seed; i < size; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    content[i] = state >>> 24
  }
  return content
}

const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
const sha256 = async (content) => hex(await crypto.subtle.digest('SHA-256', content))

function same(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
}

async function failure(promise) {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}

// run runs all scenarios and returns their results.
export async function run(options) {
  const results = []
  for (const [scenario, act] of Object.entries(scenarios(options))) {
    await options.reset()
    const began = performance.now()
    const problem = await act().then(() => '', (error) => `${error.stack ?? error}${error.cause ? ` (${error.cause})` : ''}`)
    results.push({ scenario, problem, took: (performance.now() - began) / 1000 })
  }
  return results
}

function scenarios({ base, limited, remote, remoteFile, photo, apiKey, where, plan, seen, reset }) {
  const waits = []
  // Waits are recorded, and end at once unless the signal says otherwise.
  const wait = async (milliseconds, signal) => {
    waits.push(milliseconds)
    await Promise.resolve()
    signal?.throwIfAborted()
  }
  const retry = { wait, attempts: 3, uploadAttempts: 4 }
  const client = new MediastackClient({ baseUrl: base, credential: { apiKey }, retry })
  const count = (requests, one) => requests.filter((request) => request === one).length
  // Browsers themselves repeat a request whose connection ends without a byte of the answer.
  const lost = where === 'in Node' ? { loseAnswer: true } : { breakAnswer: true }
  const group = (name) => `${name} ${where}`
  const small = (text = 'a text') => new File([encoder.encode(text)], 'Ferien 🏖.txt', { type: 'text/plain' })
  const content = bytes(9 << 20)
  const large = new File([content], 'large.bin')

  // stored checks the file of an item.
  async function stored(item, want) {
    same([item.size, item.sha256], [want.byteLength, await sha256(want)], 'size and checksum')
    same(await sha256(await (await client.openFile(item.file)).arrayBuffer()), await sha256(want), 'the file')
  }

  return {
    'a small file is sent as a form and sealed in one call': async () => {
      const progress = []
      const item = await client.upload(small(), { seal: true, caption: 'Größe', group: group('form'), access: 'public', onProgress: (...at) => progress.push(at) })
      same([item.originalFileName, item.caption, item.group, item.access, item.temp ?? false], ['Ferien 🏖.txt', 'Größe', group('form'), 'public', false], 'the item')
      same(progress, [[6, 6]], 'progress')
      same((await seen()).requests, ['POST /media/create', `POST /media/seal/${item.mediaId}`], 'requests')
      await stored(item, encoder.encode('a text'))
    },
    'the progress of a form moves while it is sent, and its text arrives as without it': async () => {
      const file = new File([bytes(24 << 20)], 'a "name".bin', { type: 'image/x-none' })
      await plan({ method: 'POST', path: '/media/create', count: 1, delay: true })
      const progress = []
      const options = { resumableFrom: 32 << 20, caption: 'two\nlines', metadata: { kind: 'ä"\r\n' } }
      // The service reads nothing before the caller has heard that a part was sent.
      let [heard, ended] = [() => {}, false]
      const releasing = new Promise((resolve) => (heard = resolve)).then(async () => {
        while (!ended) await reset()
      })
      const item = await client.upload(file, { ...options, onProgress: (...at) => progress.push(at) && at[0] < file.size && heard() })
      ended = true
      await releasing
      same([progress.every(([sent, total], i) => total === file.size && (i === 0 || sent > progress[i - 1][0])), progress.at(-1)[0]], [true, file.size], `progress ${progress}`)
      const plain = await client.upload(file, options)
      const facts = ({ originalFileName, mimeType, caption, metadata, sha256 }) => ({ originalFileName, mimeType, caption, metadata, sha256 })
      same(facts(item), facts(plain), 'the draft')
      await plan({ method: 'POST', path: '/media/create', count: 1, status: 503, retryAfter: '1', body: '' })
      const again = []
      await client.upload(small(), { onProgress: (sent) => again.push(sent) })
      same(again.at(-1), 6, 'progress after a retry')
      const empty = []
      same([(await client.upload(new Blob([]), { onProgress: (...at) => empty.push(at) })).size, empty], [0, [[0, 0]]], 'an empty file')
      const stopped = new AbortController()
      await plan({ method: 'POST', path: '/media/create', count: 1, delay: true })
      const error = await failure(client.upload(file, { resumableFrom: 32 << 20, signal: stopped.signal, onProgress: () => stopped.abort(new Error('stopped')) }))
      same(error.message, 'stopped', 'an abort')
      await reset() // the request may not have arrived
      await plan({ method: 'POST', path: '/media/create', count: 1, ...lost })
      same((await failure(client.upload(small(), { onProgress() {} }))) instanceof ConnectionError, true, 'a lost answer')
      const wrong = await failure(new MediastackClient({ baseUrl: base, credential: { apiKey: 'msk_wrong' } }).upload(small(), { onProgress() {} }))
      same([wrong.code, wrong.status, wrong.requestId !== ''], ['unauthorized', 401, true], 'an error')
    },
    'a document has all members and those that are named': async () => {
      const { mediaId } = await client.upload(small(), { seal: true, group: group('whole') })
      const whole = await client.get(mediaId)
      same(await client.get(mediaId, { fields: ['*'] }), whole, 'all members')
      same(await client.get(mediaId, { fields: ['*', 'presets'] }), { ...whole, presets: {} }, 'all members and presets')
      same((await client.list({ group: group('whole'), fields: ['mediaId', 'presets'] })).items, [{ mediaId, presets: {} }], 'a list')
    },
    'a large file is resumed after a broken connection and sealed in one call': async () => {
      await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, cutAfter: 6 << 20 })
      const progress = []
      const item = await client.upload(large, { seal: true, group: group('resumed'), chunkSize: 5 << 20, onProgress: (sent) => progress.push(sent) })
      const { requests, bytes } = await seen()
      same(count(requests, 'POST /media/create/resumable'), 1, 'uploads that were created')
      same(progress.at(-1), content.byteLength, 'progress')
      if (bytes > content.byteLength + (5 << 20)) throw new Error(`${bytes} bytes were sent, more than the file and one chunk`)
      same([item.originalFileName, item.temp ?? false], ['large.bin', false], 'the item')
      await stored(item, content)
    },
    'an upload in one request continues where the connection broke': async () => {
      await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, cutAfter: 6 << 20 })
      await stored(await client.upload(large), content)
      const { requests, bytes } = await seen()
      same(count(requests, 'POST /media/create/resumable'), 1, 'uploads that were created')
      // A browser that repeats the request before the service has saved a byte of it, or noticed its end, is served at once.
      if (where === 'in Node' && !requests.some((request) => request.startsWith('HEAD '))) throw new Error(`no offset was read: ${requests}`)
      if (bytes >= 2 * content.byteLength) throw new Error(`${bytes} bytes were sent: it began again`)
    },
    'an empty file is uploaded, as a form and resumable': async () => {
      for (const resumableFrom of [1, 0]) await stored(await client.upload(new Uint8Array(), { resumableFrom, fileName: 'empty' }), new Uint8Array())
    },
    'an aborted upload is continued by another call': async () => {
      const controller = new AbortController()
      let uploadUrl
      // What was sent may not have arrived: only when the second chunk is sent, the service has acknowledged the first one.
      const error = await failure(client.upload(large, { chunkSize: 5 << 20, signal: controller.signal, onUploadUrl: (url) => (uploadUrl = url),
        onProgress: (sent) => sent > 5 << 20 && controller.abort(new Error('paused')) }))
      same(error.message, 'paused', 'the error')
      await seen()
      const first = []
      const item = await client.upload(large, { uploadUrl, chunkSize: 5 << 20, onProgress: (sent) => first.push(sent) })
      const { requests } = await seen()
      same(count(requests, 'POST /media/create/resumable'), 0, 'uploads that were created')
      if (first[0] < 5 << 20) throw new Error(`it continued at ${first[0]}`)
      await stored(item, content)
    },
    'an aborted upload without a URL is removed from the service': async () => {
      const controller = new AbortController()
      await failure(client.upload(large, { chunkSize: 5 << 20, signal: controller.signal, onProgress: (sent) => sent >= 5 << 20 && controller.abort() }))
      const removal = 'DELETE /media/create/resumable/'
      let removed
      while (removed === undefined) removed = (await seen()).requests.find((request) => request.startsWith(removal))
      // It is repeated while the request that was aborted holds the upload.
      for (let left = 1; left > 0; ) left = (await client.listUploads({ limit: 100 })).items.filter(({ uploadId }) => removal + uploadId === removed).length
    },
    'what is no file is rejected before anything is sent': async () => {
      const locked = small().stream()
      locked.getReader()
      const read = small().stream()
      const reader = read.getReader()
      await reader.read()
      reader.releaseLock()
      const moved = new ArrayBuffer(8)
      structuredClone(moved, { transfer: [moved] })
      const files = {
        'a path': 'photo.jpg', 'a text': '', 'undefined': undefined, 'null': null, 'a number': 5, 'true': true, 'a function': () => {}, 'an object': {}, 'a date': new Date(), 'an array': [1, 2],
        'an array of bytes': [new Uint8Array(2)], 'a promise': Promise.resolve(small()), 'a response': new Response('x'), 'a file list': { 0: small(), length: 1 }, 'a path that is a number': { path: 5 },
        'no path': { path: '' }, 'a stream that is locked': locked, 'a stream that was read': read, 'a buffer that was transferred': moved,
      }
      for (const [what, file] of Object.entries(files)) {
        for (const resumableFrom of [undefined, 0]) {
          const error = await failure(client.upload(file, { seal: true, ...(resumableFrom !== undefined && { resumableFrom }) }))
          if (!(error instanceof TypeError)) throw new Error(`${what}: ${error}`)
        }
      }
      for (const size of [-1, 1.5, Number.NaN, '5', 7]) same((await failure(client.upload(small(), { size }))).name, 'TypeError', `the size ${size}`)
      // Streams of what is no bytes.
      for (const piece of ['text', 5, { value: 1 }, [1]]) {
        for (const resumableFrom of [undefined, 0]) {
          const stream = new ReadableStream({ start(controller) { controller.enqueue(piece); controller.close() } })
          same((await failure(client.upload(stream, resumableFrom === 0 ? { resumableFrom } : {}))).name, 'TypeError', `a stream of ${typeof piece}`)
        }
      }
      // The removal of the scenario before may be repeated once more, after the upload is gone: its first answer waits for the lock.
      same((await seen()).requests.filter((request) => !request.startsWith('DELETE ')), [], 'requests')
    },
    'all kinds of bytes are uploaded as they are': async () => {
      const text = encoder.encode('xx a text xx')
      const view = text.subarray(3, 9)
      const words = new Uint16Array([1, 2, 3])
      for (const [file, want] of [[view, 'a text'], [view.slice().buffer, 'a text'], [new DataView(text.buffer, 3, 6), 'a text'], [new Blob(['a ', 'text']), 'a text']]) {
        await stored(await client.upload(file), encoder.encode(want))
        await stored(await client.upload(file, { resumableFrom: 0, size: 6 }), encoder.encode(want))
      }
      await stored(await client.upload(words), new Uint8Array(words.buffer))
    },
    'a stream is uploaded, small or large, of known and of unknown size': async () => {
      // pieces returns the content in pieces of changing sizes, in memory that is used again.
      const pieces = (of) => {
        let at = 0
        return new ReadableStream({ pull(controller) {
          const end = Math.min(of.byteLength, at + 1 + (at * 7919) % 700_000)
          if (at < end) controller.enqueue(of.slice(at, end))
          at = end
          if (at === of.byteLength) controller.close()
        } })
      }
      const iterable = (of) => (async function* () {
        const memory = new Uint8Array(1 << 20)
        for (let at = 0; at < of.byteLength; at += memory.byteLength) {
          const piece = memory.subarray(0, Math.min(memory.byteLength, of.byteLength - at))
          piece.set(of.subarray(at, at + piece.byteLength))
          yield piece
        }
      })()
      for (const of of [new Uint8Array(), encoder.encode('a text'), content]) {
        for (const make of [pieces, iterable]) {
          for (const options of [{}, { size: of.byteLength }, { resumableFrom: 0 }, { resumableFrom: 0, size: of.byteLength, chunkSize: 3 << 20 }, { resumableFrom: of.byteLength, chunkSize: of.byteLength || 1 }]) {
            await stored(await client.upload(make(of), options), of)
          }
        }
      }
      const progress = []
      await client.upload(iterable(content), { chunkSize: 4 << 20, onProgress: (...at) => progress.push(at) })
      same([progress[0][1] === Infinity, progress.at(-1)], [true, [content.byteLength, content.byteLength]], 'progress')
      await seen()
      const item = await client.upload(iterable(encoder.encode('a text')), { fileName: 'named.txt', group: group('stream'), seal: true })
      same([item.originalFileName, item.group, item.temp ?? false], ['named.txt', group('stream'), false], 'the item')
      same((await seen()).requests, ['POST /media/create', `POST /media/seal/${item.mediaId}`], 'a small stream')
    },
    'a stream continues after a broken connection, and by its URL': async () => {
      const stream = () => new Blob([content]).stream()
      for (const options of [{}, { size: content.byteLength }]) {
        await reset()
        await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 2, cutAfter: 1 << 20 })
        await stored(await client.upload(stream(), { chunkSize: 3 << 20, ...options }), content)
        same(count((await seen()).requests, 'POST /media/create/resumable'), 1, 'uploads that were created')
        await reset()
        const controller = new AbortController()
        let uploadUrl
        const error = await failure(client.upload(stream(), { ...options, chunkSize: 3 << 20, signal: controller.signal, onUploadUrl: (url) => (uploadUrl = url), onProgress: (sent) => sent >= 3 << 20 && controller.abort(new Error('paused')) }))
        same(error.message, 'paused', 'the error')
        await seen()
        await stored(await client.upload(stream(), { ...options, uploadUrl, chunkSize: 3 << 20 }), content)
        const { requests, bytes } = await seen()
        same([count(requests, 'POST /media/create/resumable'), bytes < content.byteLength], [0, true], 'the second call')
      }
    },
    'a stream that fails, ends early or is too long leaves nothing': async () => {
      const of = (n, after) => (async function* () {
        for (let at = 0; at < n; at += 1 << 20) yield content.subarray(at, Math.min(n, at + (1 << 20)))
        if (after) throw after
      })()
      for (const [file, options, text] of [
        [of(9 << 20, new Error('the disk is gone')), {}, 'the disk is gone'], [of(1 << 20, new Error('the disk is gone')), {}, 'the disk is gone'],
        [of(9 << 20), { size: (9 << 20) + 1 }, 'as size says'], [of(9 << 20), { size: 5 << 20 }, 'as size says'], [of(5), { size: 4 }, 'as size says'],
      ]) {
        const error = await failure(client.upload(file, { chunkSize: 2 << 20, ...options }))
        if (!error.message.includes(text)) throw new Error(`the error is ${error}`)
        for (let left = 1; left > 0; ) left = (await client.listUploads({ limit: 100 })).items.filter(({ originalFileName }) => originalFileName === 'file').length
      }
      const stuck = new ReadableStream({})
      const controller = new AbortController()
      const waiting = failure(client.upload(stuck, { signal: controller.signal }))
      controller.abort(new Error('enough'))
      same([(await waiting).message], ['enough'], 'the abort of a stream that does not go on')
    },
    'running uploads are listed and ended': async () => {
      const before = []
      for await (const one of client.uploads()) before.push(one.uploadId)
      const ids = []
      for (let i = 0; i < 3; i++) {
        const controller = new AbortController()
        // The first chunk is acknowledged when bytes of the second one are sent.
        await failure(client.upload(large, { fileName: `running ${i}.bin`, group: group('running'), chunkSize: 1 << 20, signal: controller.signal, onUploadUrl: (url) => ids.unshift(url.split('/').pop()), onProgress: (sent) => sent > 1 << 20 && controller.abort() }))
      }
      const found = []
      for await (const one of client.uploads({ limit: 2 })) if (!before.includes(one.uploadId)) found.push(one)
      same(found.map(({ uploadId, originalFileName, size, group: of }) => [uploadId, originalFileName, size, of]), ids.map((id, i) => [id, `running ${2 - i}.bin`, content.byteLength, group('running')]), 'the uploads')
      same([found[0].offset >= 1 << 20, found[0].uploadUrl, Date.parse(found[0].expiresAt) > Date.now()], [true, `${base}/media/create/resumable/${ids[0]}`, true], 'one of them')
      await stored(await client.upload(large, { uploadUrl: found[0].uploadUrl, chunkSize: 5 << 20 }), content)
      same((await failure(client.endUpload(ids[0]))).code, 'conflict', 'the end of a complete upload')
      for (const id of [ids[1], ids[1], ids[2]]) await client.endUpload(id)
      const left = []
      for await (const one of client.uploads()) left.push(one.uploadId)
      same(left.filter((id) => ids.includes(id)), [], 'the uploads that are left')
    },
    'an upload that is not wanted any more is cancelled by its URL': async () => {
      const controller = new AbortController()
      let url
      await failure(client.upload(large, { chunkSize: 5 << 20, signal: controller.signal, onUploadUrl: (one) => (url = one), onProgress: (sent) => sent >= 5 << 20 && controller.abort() }))
      await client.cancelUpload(url)
      await client.cancelUpload(url)
      const error = await failure(client.upload(large, { uploadUrl: url }))
      same([error.code, error.status], ['not_found', 404], 'the cancelled upload')
      same((await failure(client.cancelUpload('https://example.org/media/create/resumable/1'))).name, 'TypeError', 'an upload elsewhere')
    },
    'all pages are listed, each item once': async () => {
      const ids = []
      for (let i = 0; i < 5; i++) ids.unshift((await client.upload(small(`item ${i}`), { seal: true, group: group('list') })).mediaId)
      const listed = []
      for await (const item of client.items({ group: group('list') })) listed.push(item.mediaId)
      same(listed, ids, 'the items')
      const page = await client.list({ group: group('list'), page: 2, limit: 2 })
      same([page.items.map((item) => item.mediaId), page.total], [ids.slice(2, 4), 5], 'page 2')
      same(await client.count({ group: group('list') }), { count: 5 }, 'the count')
    },
    'items are found by every filter, and sorted': async () => {
      const began = new Date(Date.now() - 60_000)
      const [first, second] = [await client.upload(small('first'), { seal: true, fileName: 'Alpha.txt', group: group('find'), metadata: { album: 'one' } }),
        await client.upload(small('the second'), { seal: true, fileName: 'beta.txt', group: group('find'), metadata: { album: 'two', kind: 'ä&b' }, resumableFrom: 0 })]
      same([first.metadata, second.metadata], [{ album: 'one' }, { album: 'two', kind: 'ä&b' }], 'metadata of a form and of a resumable upload')
      const draft = await client.upload(small('a draft'), { fileName: 'gamma.txt', group: group('find') })
      for (const [filter, want] of [
        [{ type: 'text/*' }, [second, first]], [{ type: 'image/*' }, []], [{ name: 'ALPH' }, [first]], [{ from: began }, [second, first]], [{ to: began.toISOString() }, []],
        [{ meta: { kind: 'ä&b', album: 'two' } }, [second]], [{ type: 'text/*', sort: 'size' }, [first, second]], [{ state: 'draft' }, [draft]],
      ]) {
        const page = await client.list({ ...filter, group: group('find') })
        same([page.items.map((item) => item.mediaId), 'total' in page], [want.map((item) => item.mediaId), false], JSON.stringify(filter))
      }
      same((await client.count({ meta: { album: 'one' }, group: group('find') })).count, 1, 'the count')
      const page = await client.list({ group: group('find'), limit: 1 })
      same([page.total, (await client.list({ group: group('find'), limit: 1, after: page.next })).items[0].mediaId], [2, first.mediaId], 'the page after the cursor')
    },
    'items are found by words, and by when and where they were made': async () => {
      const upload = async (file, options) => (await client.upload(file, { group: group('search'), seal: true, ...options })).mediaId
      const tower = await upload(Uint8Array.from(atob(photo), (c) => c.charCodeAt(0)), { fileName: 'turm.jpg', caption: 'Straße am Fluss', metadata: { album: 'Été' } })
      const text = await upload(small(), { fileName: 'notes.txt', metadata: { kind: 'text' } })
      const day = (n) => new Date(Date.UTC(2024, 4, n))
      for (const [filter, want] of [
        [{ q: 'FLUSS stras ete' }, [tower]], [{ q: '"am fluss"' }, [tower]], [{ q: '"fluss am"' }, []], [{ q: 'notes -text' }, []], [{ has: 'caption' }, [tower]], [{ lacks: 'caption' }, [text]],
        [{ maxBytes: 10 }, [text]], [{ orientation: 'square', minWidth: 8, maxHeight: 8 }, [tower]], [{ capturedFrom: day(6), capturedTo: day(7) }, [tower]], [{ capturedFrom: day(7), capturedTo: day(8) }, []],
        [{ near: { latitude: 48.858, longitude: 2.294, radius: 500 } }, [tower]], [{ near: { latitude: 52.52, longitude: 13.405, radius: 500 } }, []], [{ sort: 'captured' }, [tower, text]], [{ sort: '-captured' }, [text, tower]],
      ]) {
        const found = []
        for await (const item of client.items({ ...filter, group: group('search') })) found.push(item.mediaId)
        same(found, want, JSON.stringify(filter))
      }
      same(await client.count({ q: 'fluss', group: group('search'), near: { latitude: 48.858, longitude: 2.294, radius: 500 } }), { count: 1 }, 'the count')
      same((await client.get(tower)).capturedAt, '2024-05-06T07:08:09+02:00', 'capturedAt')
      const groups = []
      for await (const one of client.groups({ limit: 2 })) groups.push(one)
      same(groups.find((one) => one.group === group('search')), { group: group('search'), count: 2 }, 'the group')
      const keys = (await client.metadataKeys()).keys.map(({ key }) => key)
      same([keys.includes('album'), keys.includes('kind')], [true, true], `the keys ${keys}`)
    },
    'an iteration returns every item once, although others are deleted and uploaded meanwhile': async () => {
      const ids = []
      for (let i = 0; i < 5; i++) ids.unshift((await client.upload(small(`item ${i}`), { seal: true, group: group('moved') })).mediaId)
      const listed = []
      for await (const item of client.items({ group: group('moved'), limit: 2 })) {
        if (listed.push(item.mediaId) !== 2) continue
        await client.delete(ids[0])
        await client.upload(small('later'), { seal: true, group: group('moved') })
      }
      same(listed, ids, 'the items')
    },
    'events are followed over restarts of the service and of the caller': async () => {
      let { next: stored } = await client.listEvents({ after: 'now' })
      const follow = async (mediaId, last) => {
        const types = []
        for await (const { events, next } of client.events({ after: stored, limit: 2 })) {
          types.push(...events.filter((event) => event.mediaId === mediaId).map(({ type }) => type))
          stored = next
          if (types.includes(last)) return types
        }
      }
      const { mediaId } = await client.upload(small(), { seal: true, group: group('events') })
      same(await follow(mediaId, 'media.sealed'), ['media.uploaded', 'media.sealed'], 'the events that the first caller reads')
      await client.update(mediaId, { caption: 'c' })
      const absence = { method: 'GET', path: '/events' }
      await plan({ ...absence, count: 4, status: 503, retryAfter: '7', body: '{"error": "Service Unavailable", "code": "unavailable"}' })
      await plan({ ...absence, count: 2, status: 502, body: '<html>' })
      await plan({ ...absence, count: 4, ...lost })
      waits.length = 0
      same(await follow(mediaId, 'media.updated'), ['media.updated'], 'the events that the next caller reads')
      if (waits.length < 10 || waits[0] !== 7000) throw new Error(`the waits are ${waits}`)
      await client.delete(mediaId)
      const { events, more } = await client.listEvents({ after: stored, types: ['media.deleted', 'media.restored'], wait: 60 })
      same([events.map(({ type, group, actor }) => [type, group, actor.kind]), more], [[['media.deleted', group('events'), 'key']], false], 'the page')
      same((await failure(client.listEvents({ after: 'x' }))).code, 'invalid_request', 'a malformed cursor')
      await plan({ ...absence, count: 1, status: 410, body: '{"error": "Gone", "code": "gone", "detail": "events have expired"}' })
      const gone = await failure(client.events({ after: stored }).next())
      same([gone instanceof EventsGoneError, gone.message, gone.cause.code], [true, 'events have expired', 'gone'], 'a cursor whose events are gone')
      const controller = new AbortController()
      const pages = client.events({ after: 'now', wait: 60, signal: controller.signal })
      await pages.next()
      const waiting = failure(pages.next())
      controller.abort(new Error('enough'))
      same((await waiting).message, 'enough', 'an iteration that is aborted')
    },
    'an item is changed, only in the version that was read, and values are removed': async () => {
      const { mediaId } = await client.upload(small(), { seal: true, caption: 'a caption', metadata: { album: 'one', kind: 'two' } })
      const { item, etag } = await client.getVersioned(mediaId)
      same(item.caption, 'a caption', 'the item that is read')
      const changed = await client.update(mediaId, { caption: null, fileName: 'new.txt', metadata: { album: null } }, { ifMatch: etag })
      same([changed.caption, changed.originalFileName, changed.metadata], ['', 'new.txt', { kind: 'two' }], 'the changed item')
      same((await failure(client.update(mediaId, { caption: 'x' }, { ifMatch: etag }))).code, 'precondition_failed', 'another version')
      same((await client.update(mediaId, { caption: 'x', metadata: null })).metadata, {}, 'without a version')
    },
    'a deleted item is listed and restored, and many at once': async () => {
      const ids = [(await client.upload(small())).mediaId, (await client.upload(small())).mediaId]
      const none = '00000000-0000-4000-8000-000000000000'
      const statuses = async (...call) => (await client.batch(...call)).map(({ status }) => status)
      same(await statuses('seal', [...ids, none]), [200, 200, 404], 'seal')
      same((await client.batch('update', ids, { patches: { [ids[0]]: { caption: 'one' }, [ids[1]]: { caption: 'two' } } })).map(({ item }) => item.caption), ['one', 'two'], 'update')
      same((await client.batch('update', ids, { patch: { caption: null } })).map(({ item }) => item.caption), ['', ''], 'update all')
      same(await statuses('delete', ids), [200, 200], 'delete')
      const deleted = await client.listDeleted({ limit: 100 })
      same([ids.every((id) => deleted.items.some((item) => item.mediaId === id)), deleted.total >= 2], [true, true], 'the deleted items')
      same((await client.restore(ids[0])).mediaId, ids[0], 'restore')
      same(await statuses('restore', [ids[1]]), [200], 'restore many')
      same((await client.get(ids[1])).mediaId, ids[1], 'the restored item')
    },
    'a delete says until when it can be undone, or is permanent': async () => {
      const sealed = async () => (await client.upload(small(), { seal: true })).mediaId
      const [kept, gone, draft] = [await sealed(), await sealed(), (await client.upload(small())).mediaId]
      const { expiresAt, ...deleted } = await client.delete(kept)
      same([deleted, Date.parse(expiresAt) > Date.now()], [{ deleted: true, mediaId: kept }, true], 'a delete that can be undone')
      same(await client.delete(gone, { permanent: true }), { deleted: true, mediaId: gone }, 'a permanent delete')
      same((await failure(client.restore(gone))).code, 'not_found', 'a restore of it')
      same((await client.restore(kept)).mediaId, kept, 'a restore')
      const results = await client.batch('delete', [kept, draft])
      same(results.map(({ status, expiresAt }) => [status, Date.parse(expiresAt) > Date.now()]), [[200, true], [200, false]], 'deletes of an item and a draft')
      same(await client.delete(kept, { permanent: true }), { deleted: true, mediaId: kept }, 'a permanent delete of what was deleted')
      same((await failure(client.restore(kept))).code, 'not_found', 'a restore of it')
    },
    'all deleted items are restored while they are listed': async () => {
      const ids = []
      for (let i = 0; i < 5; i++) ids.push((await client.upload(small(`item ${i}`), { seal: true, group: group('restored') })).mediaId)
      await client.batch('delete', ids)
      const restored = []
      for await (const item of client.deletedItems({ limit: 2 })) {
        if (item.group !== group('restored')) continue
        await client.restore(item.mediaId)
        restored.push(item.mediaId)
      }
      same(restored.sort(), ids.sort(), 'the items')
      same((await client.count({ group: group('restored') })).count, ids.length, 'the list afterwards')
      await client.batch('delete', ids)
      const [found, late] = [[], []]
      for await (const item of client.deletedItems({ limit: 2 })) {
        if (item.group !== group('restored')) continue
        found.push(item.mediaId)
        if (late.push(item.mediaId) === 3) await client.batch('restore', late.splice(0))
      }
      same(found.sort(), ids.sort(), 'the items that are restored three at a time')
    },
    'members of documents are selected, and totals filtered': async () => {
      const { mediaId } = await client.upload(small(), { seal: true, group: group('fields') })
      const options = { group: group('fields'), fields: ['mediaId', 'size'] }
      const [listed] = (await client.list(options)).items
      same(listed, { mediaId, size: 6 }, 'a list')
      for await (const item of client.items(options)) same(item, listed, 'an iteration')
      same(await client.get(mediaId, { fields: ['group'] }), { group: group('fields') }, 'an item')
      same((await client.totals({ group: group('fields') })).storage, 6, 'the totals')
    },
    'a file is uploaded from a URL and sealed in one call': async () => {
      const waiting = new MediastackClient({ baseUrl: base, credential: { apiKey } })
      let jobId
      let received
      const item = await waiting.uploadFromUrl(`${remote}/photo.txt`, {
        seal: true, group: group('remote'), caption: 'fetched', access: 'public', metadata: { album: 'one' },
        onStart: (id) => (jobId = id), onProgress: (bytes) => (received = bytes),
      })
      same([item.originalFileName, item.temp, item.group, item.caption, item.access, item.metadata], ['photo.txt', undefined, group('remote'), 'fetched', 'public', { album: 'one' }], 'the item')
      same(received, remoteFile.length, 'progress')
      await stored(item, encoder.encode(remoteFile))
      same((await waiting.uploadFromUrlState(jobId)).state, 'done', 'the state')
      same((await waiting.waitForUploadFromUrl(jobId)).mediaId, item.mediaId, 'another wait')
      const stopped = new AbortController()
      const error = await failure(waiting.uploadFromUrl(`${remote}/photo.txt`, { fileName: 'named.txt', signal: stopped.signal, onStart: (id) => {
        jobId = id
        stopped.abort(new Error('stopped'))
      } }))
      const draft = await waiting.waitForUploadFromUrl(jobId)
      same([error.message, draft.originalFileName, draft.temp], ['stopped', 'named.txt', true], 'a wait that was ended')
    },
    'an upload from a URL that fails, or is not offered, says why': async () => {
      const waiting = new MediastackClient({ baseUrl: base, credential: { apiKey } })
      const missing = await failure(waiting.uploadFromUrl(`${remote}/missing`))
      same([missing instanceof UploadFromUrlError, missing.code, missing.detail !== '', missing.jobId !== ''], [true, 'status_404', true, true], 'a missing file')
      same((await failure(client.uploadFromUrl('http://localhost/'))).code, 'invalid_request', 'another protocol')
      same((await failure(client.uploadFromUrl(`${remote}/photo.txt`, { filename: 'x' }))).name, 'TypeError', 'an unknown option')
      await seen()
      await plan({ method: 'POST', path: '/media/create/url', count: 1, ...lost })
      same((await failure(client.uploadFromUrl(`${remote}/photo.txt`))) instanceof ConnectionError, true, 'an answer that is lost')
      same((await seen()).requests, ['POST /media/create/url'], 'requests')
      const without = new MediastackClient({ baseUrl: limited, credential: { apiKey } })
      same((await failure(without.uploadFromUrl(`${remote}/photo.txt`))).code, 'forbidden', 'an installation without it')
    },
    'an item is read and deleted': async () => {
      const draft = await client.upload(small())
      same((await client.get(draft.mediaId)).temp, true, 'a draft')
      await client.delete(draft.mediaId)
      const error = await failure(client.get(draft.mediaId))
      same([error instanceof MediastackError, error.code, error.status], [true, 'not_found', 404], 'the deleted item')
    },
    'settings, totals and every other route are reached': async () => {
      const { webpOutputQuality } = await client.settings()
      same((await client.updateSettings({ webpOutputQuality: webpOutputQuality - 1 })).webpOutputQuality, webpOutputQuality - 1, 'the changed setting')
      await client.updateSettings({ webpOutputQuality })
      if ((await client.totals()).maxStorage !== 1 << 30) throw new Error('the cap is another one')
      const { data } = await client.api.POST('/media/get', { body: { page: 1, limit: 1, group: group('list') } })
      same(data.length, 1, 'a list by POST')
      const form = new FormData()
      form.append('file', new File([content.subarray(0, 1000)], 'typed.bin'))
      const created = await client.api.POST('/media/create', { body: form, bodySerializer: (body) => body })
      await stored(created.data, content.subarray(0, 1000))
      same((await client.api.GET('/openapi.json')).data.info.title, 'mediastack media storage', 'the document')
    },
    'a part of a file is read': async () => {
      const item = await client.upload(small('0123456789'))
      const response = await client.openFile(item.file, { range: 'bytes=2-4' })
      same([response.status, await response.text()], [206, '234'], 'the range')
      const error = await failure(client.openFile(item.file, { range: 'bytes=100-' }))
      same([error.code, error.status], ['range_not_satisfiable', 416], 'a range beyond the end')
    },
    'a signature uploads into its group, as a form and resumable': async () => {
      let created = 0
      const signed = new MediastackClient({ baseUrl: base, retry, credential: { uploadSignature: async () => {
        created++
        return (await client.createSignature({ group: group('signed') })).signature
      } } })
      const form = await signed.upload(small(), { group: 'another' })
      const resumed = await signed.upload(large, { chunkSize: 5 << 20 })
      same([form.group, form.temp, resumed.group, resumed.temp], [group('signed'), true, group('signed'), true], 'the drafts')
      same(created, 4, 'signatures: one for each request')
      await stored(resumed, content)
      const unsealed = await failure(signed.upload(small(), { seal: true }))
      same([unsealed.name, (await client.get(unsealed.mediaId)).temp], ['NotSealedError', true], 'sealing with a signature that does not')
      same([(await failure(signed.get(form.mediaId))).code], ['unauthorized'], 'reading with a signature')
    },
    'a capability restricts uploads, seals them, and continues them with one signature': async () => {
      const { signature: uploadSignature, ...created } = await client.createSignature({ expiresIn: 60, count: 2, maxBytes: content.length, types: ['text/*', 'application/*'], group: group('capable'), ref: 'user 12', seal: true })
      same([created.uploadUrl, created.resumableUrl, Date.parse(created.expiresAt) > Date.now()], [`${base}/media/create`, `${base}/media/create/resumable`, true], 'the rest of the answer')
      const capable = MediastackClient.ofSignature({ signature: uploadSignature, ...created }, { retry })
      const resumed = await capable.upload(large, { chunkSize: 5 << 20, seal: true })
      const form = await capable.upload(small())
      same([resumed.temp, resumed.ref, resumed.group, form.temp, form.ref], [undefined, 'user 12', group('capable'), undefined, 'user 12'], 'the items')
      same((await failure(capable.upload(small()))).code, 'invalid_signature', 'a third upload')
    },
    'a document that is too long for a header is read, or its draft is named': async () => {
      const caption = 'ä'.repeat(2000)
      const options = { caption, resumableFrom: 0 }
      same((await client.upload(small(), options)).caption, caption, 'the caption')
      const signed = new MediastackClient({ baseUrl: base, credential: { uploadSignature: (await client.createSignature()).signature } })
      const error = await failure(signed.upload(small(), options))
      same([error.name, (await client.get(error.mediaId)).caption], ['MissingDocumentError', caption], 'the error')
    },
    'a client without a credential says what is missing': async () => {
      for (const options of [{}, { credential: undefined }, { credential: null }, { credential: 'msk_text' }]) {
        const error = await failure((async () => new MediastackClient({ baseUrl: base, ...options }))())
        same([error.name, error.message], ['TypeError', 'credential is missing: pass { apiKey }, { accessToken } or { uploadSignature }'], `the error of ${JSON.stringify(options)}`)
      }
    },
    'each error has its code, status, detail and request id': async () => {
      const none = '00000000-0000-4000-8000-000000000000'
      const other = (credential) => new MediastackClient({ baseUrl: base, credential, retry })
      const cases = [
        [() => client.get(none), 'not_found', 404],
        [() => client.list({ limit: 1000 }), 'invalid_request', 400],
        [() => client.api.GET('/media/get', { params: { query: { grp: 'x' } } }), 'invalid_request', 400],
        [() => other({ apiKey: 'msk_wrong' }).get(none), 'unauthorized', 401],
        [() => other({ accessToken: 'wrong' }).get(none), 'unauthorized', 401],
        [() => other({ uploadSignature: 'wrong' }).upload(small()), 'invalid_signature', 403],
        [() => other({ uploadSignature: 'wrong' }).upload(large), 'invalid_signature', 403],
        [() => client.upload(new Blob([bytes(65 << 20)])), 'payload_too_large', 413],
        [() => client.upload(small(), { access: 'secret' }), 'invalid_request', 400],
        [() => client.upload(large, { access: 'secret' }), 'invalid_request', 400],
      ]
      for (const [call, code, status] of cases) {
        const error = await failure(call())
        same([error.name, error.code, error.status, error.detail !== '', error.requestId !== ''], ['MediastackError', code, status, true, true], error.message)
      }
      await plan({ method: 'GET', path: '/media/get/count', count: 1, status: 502, body: '<h1>Bad Gateway</h1>' })
      const error = await failure(client.count())
      same([error.code, error.status, error.requestId], ['unknown', 502, 'planned'], 'the answer of a proxy')
    },
    '503 with Retry-After is waited for, by forms and resumable uploads too': async () => {
      waits.length = 0
      for (const [method, path] of [['POST', '/media/create'], ['POST', '/media/seal/'], ['PATCH', '/media/create/resumable/']]) {
        await plan({ method, path, count: 2, status: 503, retryAfter: '7', body: '{"error": "Service Unavailable", "code": "unavailable"}' })
      }
      await client.upload(small(), { seal: true })
      same(waits, [7000, 7000, 7000, 7000], 'waits of the form and the seal')
      waits.length = 0
      await client.upload(large)
      same(waits, [7000, 7000], 'waits of the resumable upload')
    },
    'an answer that is not of the service, or is cut off, is an error': async () => {
      await plan({ method: 'GET', path: '/media/get/size', count: 1, status: 200, body: '<h1>Log in to the network</h1>' })
      const page = await failure(client.totals())
      same([page.name, page.code, page.status], ['MediastackError', 'unknown', 200], 'the page of a network')
      await plan({ method: 'POST', path: '/media/create', count: 2, status: 200, body: '<h1>Log in to the network</h1>' })
      for (const more of [{}, { onProgress() {} }]) same((await failure(client.upload(small(), more))).code, 'unknown', 'an upload')
      await plan({ method: 'GET', path: '/media/get/size', count: 2, breakAnswer: true })
      same((await client.totals()).maxStorage, 1 << 30, 'an answer after two that were cut off')
      await plan({ method: 'GET', path: '/media/get/size', count: 9, breakAnswer: true })
      same((await failure(client.totals())) instanceof ConnectionError, true, 'answers that are cut off')
      await reset()
      await plan({ method: 'POST', path: '/media/create', count: 1, status: 307, location: `${limited}/media/create`, body: '' })
      same((await failure(client.upload(small(), { onProgress() {} }))) instanceof Error, true, 'a redirect')
      await plan({ method: 'GET', path: '/media/get/size', count: 9, status: 307, location: `${limited}/media/get/size`, body: '' })
      same((await failure(client.totals())) instanceof ConnectionError, true, 'redirects')
    },
    'names and texts at the limits are stored or rejected with a reason': async () => {
      for (const resumableFrom of [0, 100]) {
        const options = (fileName) => ({ fileName, resumableFrom, group: group('names') })
        const long = await client.upload(small(), options('n'.repeat(10_000) + '.txt')).catch((error) => error)
        same([long.name ?? '', long.detail !== '' || long.originalFileName?.endsWith('.txt')], [long instanceof MediastackError ? 'MediastackError' : '', true], `a name of 10,000 characters: ${long}`)
        const odd = 'a/../b\\"\r\n%22\u202e\u0000é😀.txt'
        const item = await client.upload(small(), options(odd)).catch((error) => error)
        same(item instanceof MediastackError ? item.status : item.size, item instanceof MediastackError ? 400 : 6, `an odd name: ${item}`)
        const empty = await client.upload(new File([], 'empty.bin'), options('empty.bin'))
        same([empty.size, empty.originalFileName], [0, 'empty.bin'], 'an empty file')
        const group10 = await failure(client.upload(small(), { resumableFrom, group: 'g'.repeat(10_000) }))
        same([group10.name, group10.status >= 400 && group10.status < 500, group10.detail !== ''], ['MediastackError', true, true], `a long group: ${group10}`)
      }
    },
    'a request that stays unavailable fails after its attempts': async () => {
      waits.length = 0
      await plan({ method: 'GET', path: '/media/get/size', count: 9, status: 503, retryAfter: '2', body: '{"error": "Service Unavailable", "code": "unavailable"}' })
      const error = await failure(client.totals())
      same([error.code, error.status, error.retryAfter, waits], ['unavailable', 503, 2, [2000, 2000]], 'the error')
      same(count((await seen()).requests, 'GET /media/get/size'), 3, 'requests')
      await reset()
      waits.length = 0
      await plan({ method: 'GET', path: '/media/get/size', count: 1, status: 429, retryAfter: '3600', body: '{"error": "Too Many Requests", "code": "too_many_requests"}' })
      same([(await failure(client.totals())).retryAfter, waits], [3600, []], 'a wait over maxDelay')
      await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 9, status: 503, retryAfter: '1', body: '' })
      same([(await failure(client.upload(large))).code, waits], ['unavailable', [1000, 1000, 1000]], 'a resumable upload')
    },
    'the rate limit of the service is waited for': async () => {
      const unwaiting = new MediastackClient({ baseUrl: limited, credential: { apiKey }, retry: { attempts: 1 } })
      const limitedError = await (async () => {
        for (;;) {
          const error = await unwaiting.count().then(() => undefined, (one) => one)
          if (error) return error
        }
      })()
      same([limitedError.code, limitedError.status], ['too_many_requests', 429], 'the error')
      same([1, 2].includes(limitedError.retryAfter), true, `retryAfter, which the service spreads: ${limitedError.retryAfter}`)
      await new MediastackClient({ baseUrl: limited, credential: { apiKey } }).count()
    },
    'a request whose answer is lost is repeated, but a form is not': async () => {
      const draft = await client.upload(small())
      waits.length = 0
      await plan({ method: 'POST', path: '/media/seal/', count: 2, ...lost })
      same((await client.seal(draft.mediaId)).temp ?? false, false, 'the sealed item')
      same(waits.length, 2, 'waits')
      await plan({ method: 'DELETE', path: '/media/delete/', count: 1, ...lost })
      await client.delete(draft.mediaId)
      await seen()
      await plan({ method: 'POST', path: '/media/create', count: 1, ...lost })
      same((await failure(client.upload(small()))) instanceof ConnectionError, true, 'the form')
      same((await seen()).requests, ['POST /media/create'], 'requests')
      await plan({ method: 'GET', path: '/media/get/size', count: 9, ...lost })
      same((await failure(client.totals())) instanceof ConnectionError, true, 'the error after all attempts')
    },
    'a call is aborted while it runs and while it waits': async () => {
      await plan({ method: 'GET', path: '/media/get/size', count: 1, hold: true })
      const running = new AbortController()
      const call = failure(client.totals({ signal: running.signal }))
      for (let found = []; found.length === 0; ) found = (await seen()).requests
      running.abort(new Error('stopped'))
      same((await call).message, 'stopped', 'while it runs')
      await plan({ method: 'GET', path: '/media/get/size', count: 1, status: 503, retryAfter: '20', body: '' })
      const waiting = new AbortController()
      const other = new MediastackClient({ baseUrl: base, credential: { apiKey } })
      const second = failure(other.totals({ signal: waiting.signal }))
      for (let found = []; found.length === 0; ) found = (await seen()).requests
      waiting.abort(new Error('stopped'))
      same((await second).message, 'stopped', 'while it waits')
    },
    'wrong options are named': async () => {
      const misspelled = await failure(client.upload(small(), { filename: 'x' }))
      same([misspelled.name, misspelled.message.includes('filename'), (await seen()).requests], ['TypeError', true, []], 'an unknown upload option')
      for (const [options, name] of [
        [{ baseUrl: 'media.example.org', credential: { apiKey } }, 'baseUrl'],
        [{ baseUrl: base, credential: {} }, 'credential'],
        [{ baseUrl: base, credential: { apiKey, accessToken: 'one' } }, 'credential'],
        [{ baseUrl: base, credential: { apiKey }, retry: { attempts: 0 } }, 'retry.attempts'],
      ]) {
        const error = await failure((async () => new MediastackClient(options))())
        if (!error.message.includes(name)) throw new Error(`${error.message} does not name ${name}`)
      }
    },
  }
}

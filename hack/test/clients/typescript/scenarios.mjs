// What users do with the client, as named scenarios. They use only what Node and browsers share, and run in both.
import { ConnectionError, MediastackClient, MediastackError } from '@mediastack/client'

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

function scenarios({ base, limited, apiKey, where, plan, seen, reset }) {
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
      if (!requests.some((request) => request.startsWith('HEAD '))) throw new Error(`no offset was read: ${requests}`)
      if (bytes >= 2 * content.byteLength) throw new Error(`${bytes} bytes were sent: it began again`)
    },
    'an empty file is uploaded, as a form and resumable': async () => {
      for (const resumableFrom of [1, 0]) await stored(await client.upload(new Uint8Array(), { resumableFrom, fileName: 'empty' }), new Uint8Array())
    },
    'an aborted upload is continued by another call': async () => {
      const controller = new AbortController()
      let uploadUrl
      const error = await failure(client.upload(large, { chunkSize: 5 << 20, signal: controller.signal, onUploadUrl: (url) => (uploadUrl = url),
        onProgress: (sent) => sent >= 5 << 20 && controller.abort(new Error('paused')) }))
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
      for (let found = []; !found.some((request) => request.startsWith('DELETE /media/create/resumable/')); ) found = found.concat((await seen()).requests)
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
      same(await client.count({ group: group('list') }), 5, 'the count')
    },
    'an iteration reads every page and returns no item twice': async () => {
      // Answers of a list that an upload has moved by one between the pages.
      const item = (n) => ({ mediaId: String(n) })
      const pages = [Array.from({ length: 100 }, (_, n) => item(n)), [item(99), item(100)]]
      const asked = []
      const fetch = async (url) => {
        asked.push(new URL(url).search)
        return new Response(JSON.stringify(pages[asked.length - 1]), { headers: { 'x-total-count': '102' } })
      }
      const listed = []
      for await (const one of new MediastackClient({ baseUrl: base, credential: { apiKey }, fetch }).items()) listed.push(one.mediaId)
      same(listed, Array.from({ length: 101 }, (_, n) => String(n)), 'the items')
      same(asked, ['?page=1&limit=100', '?page=2&limit=100'], 'the pages')
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
        return client.createSignature({ group: group('signed') })
      } } })
      const form = await signed.upload(small(), { group: 'another' })
      const resumed = await signed.upload(large, { chunkSize: 5 << 20 })
      same([form.group, form.temp, resumed.group, resumed.temp], [group('signed'), true, group('signed'), true], 'the drafts')
      same(created, 4, 'signatures: one for each request')
      await stored(resumed, content)
      same((await failure(signed.upload(small(), { seal: true }))).name, 'TypeError', 'sealing with a signature')
      same([(await failure(signed.get(form.mediaId))).code], ['unauthorized'], 'reading with a signature')
    },
    'a document that is too long for a header is read, or its draft is named': async () => {
      const caption = 'ä'.repeat(2000)
      const options = { caption, resumableFrom: 0 }
      same((await client.upload(small(), options)).caption, caption, 'the caption')
      const signed = new MediastackClient({ baseUrl: base, credential: { uploadSignature: await client.createSignature() } })
      const error = await failure(signed.upload(small(), options))
      same([error.name, (await client.get(error.mediaId)).caption], ['MissingDocumentError', caption], 'the error')
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
      same([limitedError.code, limitedError.status, limitedError.retryAfter], ['too_many_requests', 429, 1], 'the error')
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

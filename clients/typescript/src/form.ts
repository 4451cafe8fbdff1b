/** A file as it is sent in a form. */
export interface Form {
  file: Blob
  fileName: string
  fields: Record<string, string>
}

/** Sends a request and returns its answer, as fetch does. */
export type Exchange = (url: string, init: RequestInit & { headers: Headers }) => Promise<Response>

// Bytes of the file between two reports, in Node.
const pieceSize = 64 << 10

/** Returns the form for fetch, which writes its body. */
export function dataOf({ file, fileName, fields }: Form): FormData {
  const data = new FormData()
  for (const [name, value] of Object.entries(fields)) data.append(name, value)
  data.append('file', file, fileName)
  return data
}

/**
 * Returns how a form is sent so that `onSent` is called with the bytes of the file that were sent: by XMLHttpRequest, which
 * alone reports them on pages, or as a stream in Node. undefined elsewhere, such as in service workers: fetch reports nothing.
 */
export function exchangeOf(form: Form, onSent: (bytes: number) => void): Exchange | undefined {
  if (typeof XMLHttpRequest === 'function') return (url, init) => sendAsPage(dataOf(form), form.file.size, url, init, onSent)
  if ((globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node) return (url, init) => sendAsStream(form, url, init, onSent)
  return undefined
}

function sendAsPage(data: FormData, size: number, url: string, { headers, signal }: RequestInit & { headers: Headers }, onSent: (bytes: number) => void): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    const failed = () => reject(new TypeError('the request failed'))
    request.open('POST', url)
    headers.forEach((value, name) => request.setRequestHeader(name, value))
    // The other parts of the form come before the file.
    request.upload.onprogress = ({ loaded, total }) => onSent(Math.max(0, Math.min(loaded - (total - size), size)))
    request.onload = () => {
      // It cannot be told not to follow a redirect, which the service has none of.
      if (request.responseURL !== new URL(url).href) reject(new TypeError('the answer is of a redirect'))
      else resolve(answerOf(request))
    }
    request.onerror = request.ontimeout = failed
    request.onabort = () => reject(signal?.reason ?? new TypeError('the request was aborted'))
    request.onloadend = () => signal?.removeEventListener('abort', abort)
    signal?.addEventListener('abort', abort)
    request.send(data)
  })
}

function answerOf(request: XMLHttpRequest): Response {
  const headers = new Headers()
  for (const line of request.getAllResponseHeaders().split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  return new Response([204, 205, 304].includes(request.status) ? null : request.responseText, { status: request.status, headers })
}

function sendAsStream(form: Form, url: string, init: RequestInit & { headers: Headers }, onSent: (bytes: number) => void): Promise<Response> {
  const boundary = `form-${crypto.randomUUID()}`
  const [head, tail] = [headOf(form, boundary), `\r\n--${boundary}--\r\n`]
  const body = new Blob([head, form.file, tail])
  const before = new Blob([head]).size
  let sent = 0
  // Not the stream of the blob, whose pieces can be whole files.
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const piece = new Uint8Array(await body.slice(sent, sent + pieceSize).arrayBuffer())
      if (piece.byteLength === 0) return controller.close()
      sent += piece.byteLength
      controller.enqueue(piece)
      onSent(Math.max(0, Math.min(sent - before, form.file.size)))
    },
  }, { highWaterMark: 0 }) // nothing is counted before it is asked for
  init.headers.set('content-type', `multipart/form-data; boundary=${boundary}`)
  init.headers.set('content-length', String(body.size))
  return fetch(url, { ...init, body: stream, duplex: 'half' } as RequestInit)
}

/** Returns what is before the file in the body of a form, as FormData would have it. */
function headOf({ file, fileName, fields }: Form, boundary: string): string {
  const quoted = (text: string) => `"${text.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}"`
  const parts = Object.entries(fields).map(([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name=${quoted(name)}\r\n\r\n${value.replace(/\r\n|\r|\n/g, '\r\n')}\r\n`)
  return `${parts.join('')}--${boundary}\r\nContent-Disposition: form-data; name="file"; filename=${quoted(fileName)}\r\nContent-Type: ${file.type || 'application/octet-stream'}\r\n\r\n`
}

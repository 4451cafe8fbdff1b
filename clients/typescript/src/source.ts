/** Bytes that arrive once, in order: a stream of the web, or of Node. */
export type ByteStream = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** What can be uploaded. A string is none of it: it could be a path, or a text. */
export type UploadFile =
  | Blob
  | ArrayBuffer
  | ArrayBufferView<ArrayBuffer>
  | ByteStream
  /** A file on disk, in Node. */
  | { path: string | URL }

/** A file that was opened: a blob, or a stream that is read while it is sent. `name` is its own name. */
export interface Source {
  content: Blob | StreamSource
  name: string | undefined
}

const accepted = 'a Blob, a File, an ArrayBuffer, a typed array, a stream of bytes or, in Node, { path } of a file'

/** Opens what is to be uploaded. What is no file is a TypeError: nothing of it is sent. `size` is that of a stream, if it is known. */
export async function openSource(file: UploadFile, size: number | undefined, signal: AbortSignal | undefined): Promise<Source> {
  if (size !== undefined && !(Number.isSafeInteger(size) && size >= 0)) throw new TypeError(`size is ${String(size)}, not a number of bytes`)
  const stream = streamOf(file, signal)
  if (stream) return { content: new StreamSource(stream, size), name: nameOfStream(file) }
  const opened = await openWhole(file)
  if (size !== undefined && size !== opened.content.size) throw new TypeError(`size is ${size}, but the file has ${opened.content.size} bytes`)
  return opened
}

async function openWhole(file: unknown): Promise<{ content: Blob; name: string | undefined }> {
  if (isBlob(file)) return { content: file, name: 'name' in file && typeof file.name === 'string' ? file.name : undefined }
  if (ArrayBuffer.isView(file) && tagOf(file.buffer) === 'ArrayBuffer') return { content: new Blob([viewOf(file.buffer as ArrayBuffer, file.byteOffset, file.byteLength)]), name: undefined }
  if (tagOf(file) === 'ArrayBuffer') return { content: new Blob([viewOf(file as ArrayBuffer, 0, (file as ArrayBuffer).byteLength)]), name: undefined }
  const path = pathOf(file)
  if (path !== undefined) return openPath(path)
  if (typeof file === 'string') throw new TypeError(`the file is a string, which could be a path or a text: pass { path } for a file on disk, or new Blob([text]) for the text`)
  throw new TypeError(`the file is ${describe(file)}, not ${accepted}`)
}

/** Returns a view of a buffer. It throws for one that was transferred to somewhere else, which a Blob takes for an empty one. */
function viewOf(buffer: ArrayBuffer, offset: number, length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer, offset, length)
}

/** Returns the kind of a built-in object, which can be of another realm, such as that of a test runner or of a frame. */
function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1)
}

function isBlob(file: unknown): file is Blob {
  return file instanceof Blob || ['Blob', 'File'].includes(tagOf(file)) && typeof (file as Blob).slice === 'function' && typeof (file as Blob).arrayBuffer === 'function'
}

function pathOf(file: unknown): string | URL | undefined {
  if (typeof file !== 'object' || file === null || !('path' in file)) return undefined
  const { path } = file
  if (typeof path === 'string' && path !== '' || path instanceof URL) return path
  throw new TypeError('the path of the file is no string and no URL')
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  return typeof value === 'object' ? `of the kind ${(value.constructor as { name?: string } | undefined)?.name ?? 'Object'}` : `a ${typeof value}`
}

interface FileSystem {
  openAsBlob(path: string | URL): Promise<Blob>
  promises: { stat(path: string | URL): Promise<{ isFile(): boolean }> }
}

// In a variable, so that a bundler for browsers does not look for it.
const fileSystem = 'node:fs'

/** Opens a file on disk, without reading it into memory. */
async function openPath(path: string | URL): Promise<{ content: Blob; name: string }> {
  let fs: FileSystem
  try {
    fs = (await import(/* @vite-ignore */ /* webpackIgnore: true */ fileSystem)) as FileSystem
  } catch {
    throw new TypeError('a path can be uploaded in Node only: pass a File')
  }
  if (!(await fs.promises.stat(path)).isFile()) throw new TypeError(`${String(path)} is no regular file: pass a stream of it`)
  return { content: await fs.openAsBlob(path), name: baseName(path) }
}

/** Returns the last part of a path; a backslash is part of a name outside of Windows. */
function baseName(path: string | URL): string {
  const windows = (globalThis as { process?: { platform?: string } }).process?.platform === 'win32'
  if (path instanceof URL) return decodeURIComponent(path.pathname).split('/').pop() || 'file'
  return path.split(windows ? /[\\/]/ : '/').pop() || 'file'
}

interface Reader {
  next(): Promise<{ done?: boolean | undefined; value?: unknown }>
  close(reason: unknown): void
}

/** Returns the reader of a stream; undefined for anything else. A stream that was read before has lost its beginning: TypeError. */
function streamOf(file: unknown, signal: AbortSignal | undefined): Reader | undefined {
  if (typeof file !== 'object' || file === null || isBlob(file) || ArrayBuffer.isView(file)) return undefined
  if ('getReader' in file && typeof file.getReader === 'function') {
    new Response(file as ReadableStream) // throws a TypeError for one that is locked or was read
    const reader = (file as ReadableStream).getReader()
    return { next: () => unlessAborted(reader.read(), signal), close: (reason) => void reader.cancel(reason).catch(() => {}) }
  }
  if (!(Symbol.asyncIterator in file) || typeof file[Symbol.asyncIterator] !== 'function') return undefined
  const { readableDidRead, destroyed, destroy } = file as { readableDidRead?: boolean; destroyed?: boolean; destroy?: (reason?: unknown) => void }
  if (readableDidRead || destroyed) throw new TypeError('the stream was read before, or is destroyed')
  const iterator = (file as AsyncIterable<unknown>)[Symbol.asyncIterator]()
  return {
    next: () => unlessAborted(iterator.next(), signal),
    close() {
      if (typeof destroy === 'function') destroy.call(file)
      else void iterator.return?.().catch(() => {})
    },
  }
}

/** Waits for a read, which may never end, or for the abort. */
async function unlessAborted<T>(read: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return read
  let aborted = () => {}
  const abort = new Promise<never>((_, reject) => {
    aborted = () => reject(signal.reason)
    signal.addEventListener('abort', aborted)
  })
  read.catch(() => {})
  try {
    signal.throwIfAborted()
    return await Promise.race([read, abort])
  } finally {
    signal.removeEventListener('abort', aborted)
  }
}

/** Returns the name of the file that fs.createReadStream reads. */
function nameOfStream(file: unknown): string | undefined {
  const { path } = file as { path?: unknown }
  return typeof path === 'string' && path !== '' ? baseName(path) : undefined
}

/**
 * A stream that is read while it is sent. What was read is kept until the service has it, so that a request can be sent again.
 *
 *     0        from          from + length
 *     |- gone -|-- pieces ---|--- not read ---
 */
export class StreamSource {
  /** Why the stream cannot be sent. */
  failure: unknown
  private from = 0
  private length = 0
  private pieces: Uint8Array<ArrayBuffer>[] = []
  private ended = false

  constructor(private readonly reader: Reader, /** Bytes of the stream; undefined if they are not known. */ readonly size: number | undefined) {}

  /** Reads up to `limit` bytes. Returns them as a Blob if the stream has no more; nothing is lost otherwise. */
  async whole(limit: number): Promise<Blob | undefined> {
    await this.readTo(Math.max(limit, 1)) // the first piece is checked before anything is sent
    return this.ended && this.length < limit ? new Blob(this.pieces) : undefined
  }

  /** Returns bytes from start to end, and whether the stream ends with them. What is before start is not needed any more. */
  async slice(start: number, end: number): Promise<{ value: (Uint8Array & { size: number }) | null; done: boolean }> {
    if (start < this.from) throw this.fail(new Error(`the service asks for the stream from byte ${start} on, but keeps only what it has: the stream is read up to ${this.from}. Upload the file again.`))
    while (!this.ended && this.from + this.length < start) { // what the service has of an earlier call
      await this.readTo(this.from + this.length + 1)
      this.drop(Math.min(start, this.from + this.length))
    }
    await this.readTo(end + 1) // a byte more says whether these are the last ones
    if (this.from + this.length < start) throw this.fail(new TypeError(`the stream has ${this.from + this.length} bytes, but the upload to continue has ${start}: it is another file`))
    this.drop(start)
    const bytes = new Uint8Array(Math.min(this.length, end - start))
    let filled = 0
    for (const piece of this.pieces) {
      const part = piece.subarray(0, bytes.byteLength - filled)
      bytes.set(part, filled)
      filled += part.byteLength
    }
    return { value: filled === 0 ? null : Object.assign(bytes, { size: filled }), done: this.ended && filled === this.length }
  }

  /** Ends the reading. The stream is not needed any more. */
  close(reason?: unknown): void {
    this.reader.close(reason)
  }

  /** Reads until the bytes before `to` are there, or the stream has ended. */
  private async readTo(to: number): Promise<void> {
    try {
      while (!this.ended && this.from + this.length < to) {
        const { done, value } = await this.reader.next()
        if (done) this.ended = true
        else this.add(value)
        const read = this.from + this.length
        if (this.size !== undefined && (read > this.size || this.ended && read < this.size)) {
          throw new TypeError(`the stream has ${this.ended ? read : `at least ${read}`} bytes, not ${this.size} as size says`)
        }
      }
    } catch (error) {
      throw this.fail(error)
    }
  }

  private add(piece: unknown): void {
    if (!ArrayBuffer.isView(piece) && tagOf(piece) !== 'ArrayBuffer') throw new TypeError(`the stream has ${describe(piece)} in it, not bytes`)
    // A copy, because a stream may use the memory of a piece again.
    const bytes = ArrayBuffer.isView(piece) ? new Uint8Array(new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength)) : new Uint8Array((piece as ArrayBuffer).slice(0))
    if (bytes.byteLength > 0) this.pieces.push(bytes)
    this.length += bytes.byteLength
  }

  private drop(before: number): void {
    while (this.pieces[0] && this.from + this.pieces[0].byteLength <= before) {
      const { byteLength } = this.pieces.shift()!
      this.from += byteLength
      this.length -= byteLength
    }
    if (this.pieces[0] && this.from < before) {
      const gone = before - this.from
      this.pieces[0] = this.pieces[0].subarray(gone)
      this.from += gone
      this.length -= gone
    }
  }

  private fail(error: unknown): unknown {
    this.failure ??= error
    return error
  }
}

// Uploads several files at once by TUS, with progress, pause and resume: files that are chosen in the form, or dropped anywhere on the page. Without
// this script the form uploads one file.
'use strict'
{
  const form = document.querySelector('.upload form[data-signature], .upload form[data-resumable]')
  // The page that takes one file has an address for it, and needs no signature.
  const single = form?.dataset.resumable
  const most = 3 // uploads at a time
  const part = 16 << 20 // bytes of a request: what a broken connection can cost
  const longestPause = 30_000 // ms between two attempts

  // A failure that another attempt does not mend by itself has the words that the user reads. One that the user can mend can be resumed then.
  class Failure extends Error {
    constructor(words, mendable = false) {
      super(words)
      this.mendable = mendable
    }
  }

  const base64 = (text) => {
    let bytes = ''
    for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte)
    return btoa(bytes)
  }
  const words = (bytes) => {
    const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
    let unit = 0
    for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024
    return `${unit && bytes < 9.95 ? bytes.toFixed(1).replace(/\.0$/, '') : Math.round(bytes)} ${units[unit]}`
  }
  // size returns a size that the form has; null = it has none.
  const size = (name) => form.dataset[name] ? words(Number(form.dataset[name])) : null
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties)
    made.append(...children)
    return made
  }

  // Signatures permit uploads to the account: one for those that are kept at once, one for the others. They are asked for when they are needed, once
  // for all uploads that begin at a time.
  const signatures = new Map()
  async function ask(draft) {
    if (single) return { url: single, until: Infinity }
    const fields = new URLSearchParams()
    for (const name of ['request', 'csrf', 'account']) fields.set(name, form.dataset[name])
    if (draft) fields.set('draft', '1')
    const response = await fetch(form.dataset.signature, { method: 'POST', body: fields })
    if (response.status === 404) throw new Failure('Your login has ended. Log in again in another tab, and resume.', true)
    if (response.status >= 500 || response.status === 429) throw new Error('not now')
    if (!response.ok) throw new Failure('You may not upload to this account.')
    const made = await response.json()
    return { header: made.header, value: made.signature, url: made.path, until: Date.parse(made.expiresAt) - 60_000 }
  }
  function signature(draft) {
    const known = signatures.get(draft)
    if (known && known.until > Date.now()) return known.answer
    const asked = { until: Infinity, answer: ask(draft) }
    signatures.set(draft, asked)
    asked.answer.then((made) => { asked.until = made.until }, () => { asked.until = 0 })
    return asked.answer
  }

  class Transfer {
    constructor(file, fields, draft) {
      Object.assign(this, { file, fields, draft, state: 'waiting', sent: 0, failures: 0, url: null, signature: null })
      this.key = `upload of ${form.dataset.account} ${draft} ${file.name} ${file.size} ${file.lastModified}`
      this.restore()
      this.bar = element('progress', { max: Math.max(1, file.size), value: 0 })
      this.bar.setAttribute('aria-label', `Progress of ${file.name}`)
      this.status = element('p', { className: 'hint' })
      this.pauseButton = element('button', { type: 'button', onclick: () => this.state === 'paused' || this.state === 'failed' ? this.resume() : this.pause() })
      this.cancelButton = element('button', { type: 'button', textContent: 'Cancel', onclick: () => this.cancel() })
      this.cancelButton.setAttribute('aria-label', `Cancel ${file.name}`)
      this.item = element('li', {}, element('div', {}, element('h3', {}, element('bdi', { textContent: file.name })), this.bar, this.status), this.pauseButton, this.cancelButton)
      this.show()
    }

    // restore finds the upload that an earlier visit of the page has begun. Only the signature that has begun an upload reaches it.
    restore() {
      try {
        const { url, signature } = JSON.parse(localStorage.getItem(this.key)) ?? {}
        if (url && signature) Object.assign(this, { url, signature })
      } catch { /* nothing can be resumed */ }
    }

    show(problem = '', mendable = false) {
      this.bar.value = this.file.size ? this.sent : this.state === 'done' ? 1 : 0
      const progress = `${words(this.sent)} of ${words(this.file.size)}`
      this.status.textContent = { waiting: 'Waits for its turn', running: progress, paused: `Paused at ${progress}`, stalled: `The connection was lost at ${progress}. It goes on by itself.`, failed: problem, done: 'Uploaded', cancelled: 'Cancelled' }[this.state]
      this.item.classList.toggle('failed', this.state === 'failed')
      const over = this.state === 'done' || this.state === 'cancelled'
      const verb = this.state === 'paused' || this.state === 'failed' ? 'Resume' : 'Pause'
      this.pauseButton.hidden = over || this.state === 'failed' && !mendable
      this.cancelButton.hidden = over
      this.pauseButton.textContent = verb
      this.pauseButton.setAttribute('aria-label', `${verb} ${this.file.name}`)
    }

    set(state, problem, mendable) {
      this.state = state
      this.show(problem, mendable)
      next()
    }

    // send sends one request, and resolves with it when its response is there.
    async send(method, url, headers, body = null) {
      this.signature ??= await signature(this.draft)
      const { header, value } = this.signature
      return new Promise((resolve, reject) => {
        const request = this.request = new XMLHttpRequest()
        request.open(method, url)
        request.setRequestHeader('Tus-Resumable', '1.0.0')
        if (header) request.setRequestHeader(header, value)
        for (const [name, text] of Object.entries(headers)) request.setRequestHeader(name, text)
        const from = this.sent
        request.upload.onprogress = (event) => {
          if (body === null || this.state !== 'running') return
          this.sent = from + Math.min(event.loaded, body.size)
          this.show()
        }
        request.onload = () => resolve(request)
        request.onerror = request.onabort = request.ontimeout = () => reject(new Error('no response'))
        request.send(body)
      })
    }

    // check throws what the answer to a request means, unless it was carried out.
    check(request) {
      if (request.status >= 200 && request.status < 300) return
      if (single && request.status === 403) throw new Failure('A file was handed over already, or is on its way. Reload this page.')
      if (single && request.status === 413) throw new Failure('The file is too large. Choose a smaller one.')
      if (single && request.status === 415) throw new Failure('The file is of another type than those that are asked for. Choose another one.')
      if (single && !this.url && (request.status === 404 || request.status === 410)) throw new Failure('This address takes no file anymore. Reload this page.')
      if (request.status === 404 || request.status === 410) { // it has ended: begin anew
        this.forget()
        throw new Error('ended')
      }
      if (request.status === 401 && !single) {
        signatures.delete(this.draft)
        this.signature = null
      }
      if (request.status === 401 && !single || [408, 409, 423, 429].includes(request.status) || request.status >= 500 && request.status !== 507) throw new Error(`${request.status}`)
      let problem = {}
      try {
        problem = JSON.parse(request.responseText)
      } catch { /* not the service's own answer */ }
      if (problem.code === 'storage_cap_exceeded') throw new Failure(single ? 'The file does not fit into the account.' : `The file does not fit${size('room') ? `: the account may store ${size('room')} in all` : ''}. Delete files, also those that are not kept yet, or cancel running uploads, to make room. Then resume.`, !single)
      if (problem.code === 'payload_too_large' && size('largest')) throw new Failure(`The file is too large. A file may have ${size('largest')}.`)
      const text = problem.detail ?? problem.error ?? ''
      throw new Failure(text ? `Rejected: ${text}` : `Rejected with the status ${request.status}`)
    }

    async create() {
      const metadata = Object.entries({ filename: this.file.name, ...this.fields }).filter(([, text]) => text !== '').map(([name, text]) => `${name} ${base64(text)}`)
      this.signature = await signature(this.draft)
      const request = await this.send('POST', this.signature.url, { 'Upload-Length': String(this.file.size), 'Upload-Metadata': metadata.join(',') })
      this.check(request)
      const at = new URL(request.getResponseHeader('Location'), location.href)
      this.url = at.pathname // the service may have another name in the address bar
      this.sent = 0
      try { localStorage.setItem(this.key, JSON.stringify({ url: this.url, signature: this.signature })) } catch { /* it is full: only this page can resume */ }
    }

    async run() {
      this.set('running')
      try {
        if (this.url) {
          const request = await this.send('HEAD', this.url, {})
          this.check(request)
          this.sent = Number(request.getResponseHeader('Upload-Offset'))
        } else {
          await this.create()
        }
        while (this.sent < this.file.size && this.state === 'running') {
          const body = this.file.slice(this.sent, this.sent + part)
          const from = this.sent
          const request = await this.send('PATCH', this.url, { 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(from) }, body)
          this.check(request)
          this.sent = Number(request.getResponseHeader('Upload-Offset'))
          this.failures = 0
        }
        if (this.state !== 'running') return
        this.forget()
        this.set('done')
      } catch (error) {
        if (this.state !== 'running') return // it was paused or cancelled
        if (error instanceof Failure) {
          this.set('failed', error.message, error.mendable)
          return
        }
        this.set('stalled')
        const pause = Math.min(longestPause, 500 * 2 ** this.failures++)
        this.timer = setTimeout(() => this.state === 'stalled' && this.set('waiting'), pause)
      }
    }

    forget() {
      localStorage.removeItem(this.key)
      this.url = this.signature = null
    }

    pause() {
      this.set('paused')
      this.request?.abort()
    }

    resume() {
      this.failures = 0
      this.set('waiting')
    }

    async cancel() {
      const { url, signature } = this
      this.set('cancelled')
      this.request?.abort()
      this.forget()
      this.signature = signature
      if (url) await this.send('DELETE', url, {}).catch(() => { /* it expires */ })
    }
  }

  const transfers = []
  const list = element('ul')
  const summary = element('p', { className: 'hint' })
  const panel = element('section', { className: 'running transfers', hidden: true }, element('h2', { textContent: 'Uploads' }), summary, list)
  panel.setAttribute('aria-label', 'Uploads')
  summary.setAttribute('role', 'status')

  // next starts the uploads whose turn it is, and shows the list of files when all have come.
  function next() {
    const of = (...states) => transfers.filter((one) => states.includes(one.state)).length
    for (const one of transfers) {
      if (of('running') >= most) break
      if (one.state === 'waiting') one.run()
    }
    if (single) form.hidden = of('waiting', 'running', 'paused', 'stalled', 'done') > 0
    summary.textContent = `${of('done')} of ${transfers.length - of('cancelled')} uploaded`
    if (of('waiting', 'running', 'paused', 'stalled') > 0) return
    // Nothing is lost with the page: what cannot go on is sent again anyway.
    if (!transfers.some((one) => one.state === 'failed' && !one.pauseButton.hidden)) removeEventListener('beforeunload', warn)
    if (of('failed') === 0 && of('done') > 0) {
      location.assign(form.dataset.list + (transfers.some((one) => one.draft) ? '&state=draft' : ''))
    } else if (!single && of('done') > shown) {
      shown = of('done')
      renew()
    }
  }
  let shown = 0 // uploads that are in the list of the page

  // renew loads the list of the page again, beside the uploads that have failed. What is selected stays so.
  async function renew() {
    const response = await fetch(location.href).catch(() => null)
    const results = document.getElementById('results')
    if (!results || !response?.ok || response.redirected) return
    const page = new DOMParser().parseFromString(await response.text(), 'text/html')
    const fresh = page.getElementById('results')
    if (!fresh) return
    const chosen = new Set([...results.querySelectorAll('.pick:checked')].map((pick) => pick.value))
    results.replaceChildren(...fresh.childNodes)
    for (const pick of results.querySelectorAll('.pick')) pick.checked = chosen.has(pick.value)
    results.dispatchEvent(new Event('renewed', { bubbles: true }))
    const usage = document.querySelector('.usage')
    const now = page.querySelector('.usage')
    if (usage && now) usage.replaceWith(now)
  }

  const warn = (event) => event.preventDefault()

  async function add(files, draft) {
    if (single) { // one that failed holds the address until it is cancelled
      if (transfers.some((one) => one.state !== 'cancelled' && one.state !== 'failed')) return
      files = files.slice(0, 1)
      await Promise.all(transfers.filter((one) => one.state === 'failed').map((one) => one.cancel()))
    }
    const data = new FormData(form)
    const fields = single ? {} : { caption: data.get('caption'), group: data.get('group'), access: data.get('access') }
    for (const file of files) {
      const transfer = new Transfer(file, fields, draft)
      transfers.push(transfer)
      list.append(transfer.item)
    }
    panel.hidden = false
    if (!single) form.closest('details').open = false
    addEventListener('beforeunload', warn)
    next()
  }

  if (form) {
    ;(document.querySelector('.controls') ?? form).after(panel)
    const field = form.querySelector('input[type="file"]')
    field.multiple = !single
    for (const hint of form.querySelectorAll('[data-many]')) hint.textContent = hint.dataset.many
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      add([...field.files], form.dataset.draft === '1' || event.submitter?.hasAttribute('formaction') === true)
      field.value = ''
    })

    const hasFiles = (event) => event.dataTransfer?.types.includes('Files')
    let inside = 0 // elements under the pointer
    const mark = (by) => document.body.classList.toggle('dropping', (inside = Math.max(0, inside + by)) > 0)
    addEventListener('dragenter', (event) => hasFiles(event) && mark(1))
    addEventListener('dragleave', (event) => hasFiles(event) && mark(-1))
    addEventListener('dragover', (event) => hasFiles(event) && event.preventDefault())
    addEventListener('drop', (event) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      inside = 0
      mark(0)
      const files = [...event.dataTransfer.items].filter((item) => item.kind === 'file' && !item.webkitGetAsEntry?.()?.isDirectory).map((item) => item.getAsFile())
      if (files.length > 0) add(files, form.dataset.draft === '1')
    })
    addEventListener('online', () => {
      for (const one of transfers) if (one.state === 'stalled') one.set('waiting')
    })
  }
}

// What the scripts share: the service, a browser, and its users.
import { createHash } from 'node:crypto'
import { createServer, request } from 'node:http'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import puppeteer from 'puppeteer-core'

export const stepTimeout = 120_000 // ms, for one step of a user. Other tests may run meanwhile.

const verifier = 'a-verifier-of-forty-three-characters-or-more-0'

// Fixture is the service that the Go test started, and one browser.
export class Fixture {
  static async open(options, env = {}) {
    const browser = await puppeteer.launch({
      executablePath: options.browser,
      headless: true,
      acceptInsecureCerts: true,
      env: { ...process.env, ...env },
      args: [
        // Tests run as root in containers; all pages are the test's own.
        '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--no-proxy-server',
        // Every name leads to the test, so nothing is asked of the network.
        `--host-resolver-rules=MAP * ${options.front},EXCLUDE 127.0.0.1,EXCLUDE localhost`,
      ],
    })
    return new Fixture(options, browser)
  }

  constructor(options, browser) {
    Object.assign(this, { options, browser, people: [...options.people], owners: [...options.owners], galleries: [...options.galleries] })
  }

  close() { return this.browser.close() }

  // plain returns the same fixture with the runtime that has no TLS.
  get plain() {
    const other = new Fixture({ ...this.options, base: this.options.plain, api: this.options.plain }, this.browser)
    return Object.assign(other, { people: this.people, owners: this.owners, galleries: this.galleries })
  }

  // register registers an application.
  async register(name, ...redirects) {
    const app = await this.post('/oauth/register', { client_name: name, redirect_uris: redirects })
    return { id: app.client_id, name, redirect: redirects[0] }
  }

  // program registers an application on the user's computer, and records the requests to its callback.
  async program(name, host = '127.0.0.1') {
    const received = []
    const server = createServer((request, response) => {
      if (request.url !== '/favicon.ico') received.push({ method: request.method, url: new URL(request.url, 'http://program/') })
      response.setHeader('Content-Type', 'text/html; charset=utf-8')
      response.end('<!doctype html><html lang="en"><title>back</title><p>You are back.')
    })
    server.listen(0, '127.0.0.1')
    server.unref()
    await once(server, 'listening')
    const app = await this.register(name, `http://${host}:${server.address().port}/callback`)
    return { ...app, received }
  }

  // link returns the authorization URL of an application.
  link(app, more = {}) {
    const query = new URLSearchParams({
      response_type: 'code', client_id: app.id, redirect_uri: app.redirect, state: 's t&te', scope: 'media:read media:write',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256', resource: this.options.base + '/mcp', ...more,
    })
    return `${this.options.base}/oauth/authorize?${query}`
  }

  // redeem exchanges an authorization code for tokens.
  async redeem(app, code) {
    const body = new URLSearchParams({ grant_type: 'authorization_code', code, client_id: app.id, redirect_uri: app.redirect, code_verifier: verifier })
    const response = await fetch(this.options.api + '/oauth/token', { method: 'POST', body })
    expect(response.status === 200, `the code gives ${response.status} ${await response.clone().text()}`)
    return response.json()
  }

  async post(path, document) {
    const response = await fetch(this.options.api + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(document) })
    expect(response.ok, `${path} answers ${response.status}`)
    return response.json()
  }

  // hasRun creates a resumable upload that does not end: some of it has arrived. A length of null is unknown.
  async hasRun(token, name, length, arrived = 0) {
    const response = await fetch(this.options.api + '/media/create/resumable', {
      method: 'POST', body: new Uint8Array(arrived),
      headers: {
        Authorization: `Bearer ${token}`, 'Tus-Resumable': '1.0.0', 'Upload-Metadata': `filename ${Buffer.from(name).toString('base64')}`, 'Content-Type': 'application/offset+octet-stream',
        ...length === null ? { 'Upload-Defer-Length': '1' } : { 'Upload-Length': String(length) },
      },
    })
    expect(response.status === 201, `the upload of ${name} gives ${response.status} ${await response.clone().text()}`)
  }

  // add stores and seals a file with any name.
  async add(token, name, text, fields = {}) {
    const body = new FormData()
    for (const [field, value] of Object.entries(fields)) body.append(field, value)
    body.append('file', new Blob([text]), name)
    const headers = { Authorization: `Bearer ${token}` }
    const created = await fetch(this.options.api + '/media/create', { method: 'POST', headers, body })
    expect(created.status === 201, `${name} gives ${created.status} ${await created.clone().text()}`)
    const { mediaId } = await created.json()
    const sealed = await fetch(`${this.options.api}/media/seal/${mediaId}`, { method: 'POST', headers })
    expect(sealed.ok, `the seal of ${name} gives ${sealed.status}`)
    return mediaId
  }

  // addFile stores and seals a file of this machine.
  async addFile(token, path) { return this.add(token, basename(path), await readFile(path)) }

  // tool calls a tool as an application, and returns its result.
  async tool(token, name, args) {
    const { api, base } = this.options
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })
    const answer = await new Promise((resolve, reject) => {
      const call = request(`${api}/mcp`, { method: 'POST', headers: {
        Host: new URL(base).host, Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'Mcp-Protocol-Version': '2025-11-25',
      } }, async (response) => resolve(Buffer.concat(await response.toArray()).toString()))
      call.on('error', reject)
      call.end(body)
    })
    const { result } = JSON.parse(answer)
    expect(result && !result.isError, `${name} answers ${answer}`)
    return result.structuredContent
  }

  // set changes the settings for images of an account.
  async set(token, settings) {
    const response = await fetch(this.options.api + '/settings/media/create', { method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: JSON.stringify(settings) })
    expect(response.ok, `the settings give ${response.status} ${await response.clone().text()}`)
  }

  async hooks(path, query, method = 'GET') {
    const response = await fetch(`${this.options.hooks}${path}?${new URLSearchParams(query)}`, { method, signal: AbortSignal.timeout(stepTimeout) })
    const text = await response.text()
    expect(response.ok, `${path}: ${text}`)
    return text
  }

  // newUser opens a browser context for a user.
  async newUser(options = {}) {
    const context = await this.browser.createBrowserContext()
    const user = new User(this, context, options)
    await user.tab()
    return user
  }
}

// User is one browser context, used one tab at a time, with the mail of one address.
export class User {
  constructor(fixture, context, { javascript = false, address = fixture.people.shift(), width = 1280, height = 900 }) {
    Object.assign(this, { fixture, context, javascript, address, viewport: { width, height }, problems: [], opened: [], read: 0 })
  }

  // tab opens a new tab and goes on there.
  async tab() {
    this.page = await this.context.newPage()
    await this.watch(this.page)
    return this.page
  }

  async watch(page) {
    page.setDefaultTimeout(stepTimeout)
    await page.setViewport(this.viewport)
    await page.setJavaScriptEnabled(this.javascript)
    // Each tab behaves as the one that has the focus, whatever else is open.
    await (await page.createCDPSession()).send('Emulation.setFocusEmulationEnabled', { enabled: true })
    page.on('console', (message) => {
      if (/Content Security Policy|[Rr]efused to|[Bb]locked|not secure|Mixed Content/.test(message.text())) this.problems.push(`${message.text()} (at ${page.url()})`)
    })
    page.on('pageerror', (error) => this.problems.push(`${error} (at ${page.url()})`))
    page.on('requestfailed', (request) => {
      // A browser that has no such program gives up only now.
      if (!/^https?:/.test(request.url())) this.opened.push(request.url())
    })
    page.on('request', (request) => {
      // What a page of the service loads comes from the service. Chromium draws its field for a date with pictures of its own, in data URLs.
      if (!request.isNavigationRequest() && !request.url().startsWith('data:') && page.url().startsWith(this.fixture.options.base + '/') && !request.url().startsWith(this.fixture.options.base + '/')) {
        this.problems.push(`${page.url()} loads ${request.url()}`)
      }
    })
  }

  close() { return this.context.close() }

  async go(url) {
    return this.page.goto(url.startsWith('/') ? this.fixture.options.base + url : url)
  }

  // press clicks something that leads to another page, and returns the response with that page. The response
  // is not that of waitForNavigation, which returns null if the page opens a program, an attempt to navigate
  // without a response, before its load event.
  async press(selector) {
    await this.waitForAutofocus()
    const { page } = this
    let response
    const keep = (one) => {
      if (one.request().isNavigationRequest() && one.frame() === page.mainFrame()) response = one
    }
    page.on('response', keep)
    try {
      await Promise.all([page.waitForNavigation(), page.click(selector)])
      return response
    } catch (error) {
      throw new Error(`${selector} of ${page.url()} leads nowhere: ${await this.text()}`, { cause: error })
    } finally {
      page.off('response', keep)
    }
  }

  async fill(selector, text) {
    await this.waitForAutofocus()
    await this.page.$eval(selector, (field) => { field.focus(); field.select() })
    await this.page.keyboard.sendCharacter(text)
  }

  async sendAddress(address = this.address) {
    this.read = Number(await this.fixture.hooks('/emails', { address }))
    let response
    await waitFor(async () => {
      await this.fill('#email', address)
      response = await this.press('form[action^="/oauth/login/email"] button.main')
      return response.status() !== 429 // the user's login before this one asked within the pause
    }, 'a code')
    return response
  }

  async sendCode(code) {
    await this.fill('#code', code)
    return this.press('form[action^="/oauth/login/code"] button.main')
  }

  // code waits for the next e-mail and returns its code.
  async code(address = this.address) {
    const codes = (await this.fixture.hooks('/code', { address, before: this.read })).split(' ')
    this.read += codes.length
    return codes.at(-1)
  }

  // logIn goes from an address to the page after the code.
  async logIn(start) {
    await this.go(start)
    await this.sendAddress()
    return this.sendCode(await this.code())
  }

  // upload uploads a file with the form of the files page.
  async upload(name, { caption = '', group = '', access = '', draft = false, plain = false } = {}) {
    await this.open('.upload')
    const field = await this.page.$('#file')
    await field.uploadFile(join(this.fixture.options.files, name))
    if (caption) await this.fill('#caption', caption)
    if (group) await this.fill('#group', group)
    if (access) await this.page.select('#access', access)
    // As the form is sent without the script of uploads.
    if (plain) return Promise.all([this.page.waitForNavigation(), this.page.$eval('.upload form', (form) => form.submit())])
    return this.press(draft ? '.upload button[formaction]' : '.upload button.main')
  }

  // view opens the page of a file of the list, from 1.
  view(n = 1) { return this.press(`.grid .file:nth-child(${n}) h3 a`) }

  // remove deletes a file of the list, or comes to the question whether to.
  async remove(n = 1) {
    await this.view(n)
    return this.press('.side form[action*="/delete"] button, .side a[href*="/delete"]')
  }

  // open opens a part of the page that is folded.
  async open(selector) {
    if (await this.has(`${selector}:not([open])`)) await this.page.click(`${selector} > summary`)
  }

  async logOut() {
    await this.open('.menu')
    return this.press('form[action="/account/connections/logout"] button')
  }

  // request is the id of the login to which the page belongs.
  request() { return this.page.$eval('input[name="request"]', (field) => field.value) }

  // names returns the names of the files on the page, in order.
  names() { return this.page.$$eval('.grid h3', (found) => found.map((one) => one.innerText)) }

  // connect has the user allow an application, and the application fetch its tokens.
  async connect(app, more) {
    await this.logIn(this.fixture.link(app, more))
    if (await this.has('#account-0')) await this.page.click('#account-0')
    await this.press('button[value="allow"]')
    const back = new URL(this.page.url())
    return this.fixture.redeem(app, back.searchParams.get('code'))
  }

  // text is what can be read on the page.
  text(selector = 'body') { return this.page.$eval(selector, (element) => element.innerText.replace(/\s+/g, ' ').trim()) }

  has(selector) { return this.page.$(selector).then((found) => found !== null) }

  async expectText(...words) {
    const text = await this.text()
    for (const word of words) expect(text.includes(word), `the page at ${this.page.url()} does not say ${JSON.stringify(word)}: ${text}`)
  }

  async expectNoText(...words) {
    const text = await this.text()
    for (const word of words) expect(!text.includes(word), `the page at ${this.page.url()} says ${JSON.stringify(word)}: ${text}`)
  }

  // waitForAutofocus waits until the browser has done the page's autofocus. A script that sets the focus
  // earlier than that has the browser complain that autofocus was blocked.
  async waitForAutofocus() {
    await waitFor(async () => !(await this.has('[autofocus]')) || this.has('body :focus'), 'the autofocus of the page')
  }

  // waitForFocus waits until the autofocus field has the focus.
  async waitForFocus() {
    await waitFor(async () => !(await this.has('[autofocus]')) || this.has('[autofocus]:focus'), 'the field to have the focus')
  }

  // path returns the path of the current page.
  path() { return new URL(this.page.url()).pathname }
}

// waitFor waits for a condition.
export async function waitFor(condition, what) {
  for (const end = Date.now() + stepTimeout; !(await condition());) {
    expect(Date.now() < end, `timed out waiting for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

export function expect(fact, otherwise) {
  if (!fact) throw new Error(otherwise)
}

export function same(got, want, what) {
  expect(JSON.stringify(got) === JSON.stringify(want), `${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
}

// report runs scenarios, a few at a time, and prints the result of each as a line of JSON.
export async function report(scenarios, most = 3) {
  const waiting = Object.entries(scenarios)
  await Promise.all(Array.from({ length: most }, async () => {
    for (let next; (next = waiting.shift());) {
      const [scenario, act] = next
      const began = performance.now()
      let problem = ''
      try {
        await act()
      } catch (error) {
        problem = error.stack
      }
      console.log(JSON.stringify({ scenario, problem, took: (performance.now() - began) / 1000 }))
    }
  }))
}

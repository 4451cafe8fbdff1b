// What the scripts share: the service, a browser, and the people who use it.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { once } from 'node:events'
import puppeteer from 'puppeteer-core'

export const patience = 30_000 // ms, for one step of a person

const verifier = 'a-verifier-of-forty-three-characters-or-more-0'

// World is the service as it was started, and one browser.
export class World {
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
    return new World(options, browser)
  }

  constructor(options, browser) {
    Object.assign(this, { options, browser, people: [...options.people], owners: [...options.owners] })
  }

  close() { return this.browser.close() }

  // at gives the same world with the other runtime.
  get plain() {
    const other = new World({ ...this.options, base: this.options.plain, api: this.options.plain }, this.browser)
    return Object.assign(other, { people: this.people, owners: this.owners })
  }

  // register makes an application known. Its redirect URIs are told what they are answered.
  async register(name, ...redirects) {
    const app = await this.post('/oauth/register', { client_name: name, redirect_uris: redirects })
    return { id: app.client_id, name, redirect: redirects[0] }
  }

  // program is an application on the person's computer, which listens.
  async program(name, host = '127.0.0.1') {
    const heard = []
    const server = createServer((request, response) => {
      if (request.url !== '/favicon.ico') heard.push({ method: request.method, url: new URL(request.url, 'http://program/') })
      response.setHeader('Content-Type', 'text/html; charset=utf-8')
      response.end('<!doctype html><html lang="en"><title>back</title><p>You are back.')
    })
    server.listen(0, '127.0.0.1')
    server.unref()
    await once(server, 'listening')
    const app = await this.register(name, `http://${host}:${server.address().port}/callback`)
    return { ...app, heard }
  }

  // link is where an application sends a person.
  link(app, more = {}) {
    const query = new URLSearchParams({
      response_type: 'code', client_id: app.id, redirect_uri: app.redirect, state: 's t&te', scope: 'media:read media:write',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256', resource: this.options.base + '/mcp', ...more,
    })
    return `${this.options.base}/oauth/authorize?${query}`
  }

  // redeem does what an application does with its code.
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

  async backstage(path, query, method = 'GET') {
    const response = await fetch(`${this.options.backstage}${path}?${new URLSearchParams(query)}`, { method, signal: AbortSignal.timeout(patience) })
    const text = await response.text()
    expect(response.ok, `${path}: ${text}`)
    return text
  }

  // come has a person open a browser of their own.
  async come(options = {}) {
    const context = await this.browser.createBrowserContext()
    const person = new Person(this, context, options)
    await person.tab()
    return person
  }
}

// Person uses the browser, one tab at a time, and reads the mail of one address.
export class Person {
  constructor(world, context, { javascript = false, address = world.people.shift(), width = 1280, height = 900 }) {
    Object.assign(this, { world, context, javascript, address, viewport: { width, height }, complaints: [], opened: [], read: 0 })
  }

  // tab opens a new tab and goes on there.
  async tab() {
    this.page = await this.context.newPage()
    await this.watch(this.page)
    return this.page
  }

  async watch(page) {
    page.setDefaultTimeout(patience)
    await page.setViewport(this.viewport)
    await page.setJavaScriptEnabled(this.javascript)
    // Each tab behaves as the one that the person looks at, whatever else is open.
    await (await page.createCDPSession()).send('Emulation.setFocusEmulationEnabled', { enabled: true })
    page.on('console', (message) => {
      if (/Content Security Policy|[Rr]efused to|[Bb]locked|not secure|Mixed Content/.test(message.text())) this.complaints.push(`${message.text()} (at ${page.url()})`)
    })
    page.on('pageerror', (error) => this.complaints.push(`${error} (at ${page.url()})`))
    page.on('requestfailed', (request) => {
      // A browser that has no such program gives up only now.
      if (!/^https?:/.test(request.url())) this.opened.push(request.url())
    })
    page.on('request', (request) => {
      // What a page of the service loads comes from the service.
      if (!request.isNavigationRequest() && page.url().startsWith(this.world.options.base + '/') && !request.url().startsWith(this.world.options.base + '/')) {
        this.complaints.push(`${page.url()} loads ${request.url()}`)
      }
    })
  }

  leave() { return this.context.close() }

  async go(url) {
    return this.page.goto(url.startsWith('/') ? this.world.options.base + url : url)
  }

  // press leaves the page by something that is clicked.
  async press(selector) {
    try {
      const [response] = await Promise.all([this.page.waitForNavigation(), this.page.click(selector)])
      return response
    } catch (error) {
      throw new Error(`${selector} of ${this.page.url()} leads nowhere: ${await this.text()}`, { cause: error })
    }
  }

  async fill(selector, text) {
    await this.page.$eval(selector, (field) => { field.focus(); field.select() })
    await this.page.keyboard.sendCharacter(text)
  }

  async sendAddress(address = this.address) {
    this.read = Number(await this.world.backstage('/letters', { address }))
    let response
    await until(async () => {
      await this.fill('#email', address)
      response = await this.press('form[action^="/oauth/login/email"] button.main')
      return response.status() !== 429 // the person's login before this one asked within the pause
    }, 'a code')
    return response
  }

  async sendCode(code) {
    await this.fill('#code', code)
    return this.press('form[action^="/oauth/login/code"] button.main')
  }

  // code waits for the next letter.
  async code(address = this.address) {
    const codes = (await this.world.backstage('/code', { address, before: this.read })).split(' ')
    this.read += codes.length
    return codes.at(-1)
  }

  // logIn goes from an address to the page after the code.
  async logIn(start) {
    await this.go(start)
    await this.sendAddress()
    return this.sendCode(await this.code())
  }

  // connect has the person allow an application, and the application fetch its tokens.
  async connect(app) {
    await this.logIn(this.world.link(app))
    if (await this.has('#account-0')) await this.page.click('#account-0')
    await this.press('button[value="allow"]')
    const back = new URL(this.page.url())
    return this.world.redeem(app, back.searchParams.get('code'))
  }

  // text is what can be read on the page.
  text(selector = 'body') { return this.page.$eval(selector, (element) => element.innerText.replace(/\s+/g, ' ').trim()) }

  has(selector) { return this.page.$(selector).then((found) => found !== null) }

  async sees(...words) {
    const text = await this.text()
    for (const word of words) expect(text.includes(word), `the page at ${this.page.url()} does not say ${JSON.stringify(word)}: ${text}`)
  }

  async seesNot(...words) {
    const text = await this.text()
    for (const word of words) expect(!text.includes(word), `the page at ${this.page.url()} says ${JSON.stringify(word)}: ${text}`)
  }

  // settled waits until the field that is to have the focus has it, a moment after the page came.
  async settled() {
    await until(async () => !(await this.has('[autofocus]')) || this.has('[autofocus]:focus'), 'the field to have the focus')
  }

  // path is where the browser is.
  path() { return new URL(this.page.url()).pathname }
}

// until waits for a condition.
export async function until(condition, what) {
  for (const end = Date.now() + patience; !(await condition());) {
    expect(Date.now() < end, `in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

export function expect(fact, otherwise) {
  if (!fact) throw new Error(otherwise)
}

export function same(got, want, what) {
  expect(JSON.stringify(got) === JSON.stringify(want), `${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
}

// tell runs stories, a few at a time, and prints how each ended.
export async function tell(stories, most = 3) {
  const waiting = Object.entries(stories)
  await Promise.all(Array.from({ length: most }, async () => {
    for (let next; (next = waiting.shift());) {
      const [story, act] = next
      const began = performance.now()
      let problem = ''
      try {
        await act()
      } catch (error) {
        problem = error.stack
      }
      console.log(JSON.stringify({ story, problem, took: (performance.now() - began) / 1000 }))
    }
  }))
}

// Uses the page with the React entry as a user does, in a browser without a window.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'

const options = JSON.parse(process.argv[2])
const { base, apiKey, scratch } = options
const browser = await puppeteer.launch({ executablePath: options.browser, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
const control = async (path, body) => (await fetch(options.page + path, { method: 'POST', body: JSON.stringify(body ?? {}) })).text()
const plan = (fault) => control('/plan', fault)
const seen = async () => JSON.parse(await control('/seen')).requests
const service = async (method, path, body) => {
  const response = await fetch(base + path, { method, headers: { 'x-service-apikey': apiKey, ...(body && { 'content-type': 'application/json' }) }, ...(body && { body: JSON.stringify(body) }) })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return response.json()
}
const axe = readFileSync(options.axe, 'utf8')

function same(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
}

function file(name, size) {
  const path = join(scratch, name)
  writeFileSync(path, Buffer.alloc(size, name))
  return path
}

let page
const problems = []

// mount opens the page.
async function mount(of) {
  await control('/reset')
  page = await browser.newPage()
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => ['error', 'warn'].includes(message.type()) && !message.text().includes('Failed to load resource') && problems.push(message.text()))
  await page.goto(options.page)
  await page.waitForFunction('window.ready')
  await page.evaluate((of) => window.mount(of), { base, apiKey, resumableFrom: 4 << 20, parallel: 3, pageSize: 100, presets: false, ...of })
  await page.waitForFunction(() => window.media && !window.media.loading)
}

const choose = async (...files) => (await page.waitForSelector('input[type=file]')).uploadFile(...files)
const until = (check, ...args) => page.waitForFunction(check, {}, ...args)
const states = () => page.evaluate(() => window.uploads.uploads.map(({ state }) => state))
const button = (name) => page.waitForSelector(`::-p-aria([name="${name}"][role="button"])`)
const texts = (selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent))

// arrived waits until so many requests that begin so are at the front, where a plan may hold them.
async function arrived(beginning, count = 1) {
  for (let requests = []; requests.length < count; ) requests = requests.concat((await seen()).filter((one) => one.startsWith(beginning)))
}

// accessible runs axe.
async function accessible(what) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  const found = violations.filter(({ id }) => !['page-has-heading-one', 'landmark-one-main', 'region'].includes(id)).map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html)}`)
  same(found, [], what)
}

const scenarios = {
  'files are chosen with the keyboard, uploaded and listed': async () => {
    await mount({ group: 'react keyboard' })
    await accessible('the empty page')
    same(await page.$eval('.drop', (drop) => [drop.getAttribute('role'), document.getElementById(drop.getAttribute('aria-labelledby')).textContent]), ['group', 'Drop files here, or choose them'], 'the name of the group')
    const chooser = page.waitForFileChooser()
    await page.keyboard.press('Tab')
    same(await page.evaluate(() => document.activeElement.textContent), 'Choose files', 'the first control')
    await page.keyboard.press('Enter')
    await (await chooser).accept([file('one.txt', 10), file('two.txt', 20), file('empty.txt', 0)])
    await until(() => window.uploads.uploads.length === 3 && window.uploads.uploads.every(({ state }) => state === 'done'))
    await until(() => window.media.items.length === 3)
    same((await texts('section li')).sort(), ['empty.txt', 'one.txt', 'two.txt'], 'the list')
    same(await page.evaluate(() => [window.signatures, window.uploads.uploads.map(({ item, sent }) => [item.temp ?? false, item.size, sent])]), [3, [[false, 10, 10], [false, 20, 20], [false, 0, 0]]], 'the uploads')
    await accessible('the page with uploads')
    await (await button('Remove one.txt')).press('Enter')
    same([await states(), await page.evaluate(() => document.activeElement.textContent)], [['done', 'done'], 'Choose files'], 'after a removal')
  },
  'an upload is paused and resumed from what the service has, and its progress is announced': async () => {
    await mount({ group: 'react pause' })
    await page.evaluate(() => {
      window.said = []
      new MutationObserver(() => window.said.push(document.querySelector('[role=status]').textContent)).observe(document.querySelector('[role=status]'), { childList: true, characterData: true, subtree: true })
    })
    await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, delay: true })
    await choose(file('large.bin', 6 << 20))
    const pause = await button('Pause large.bin') // the service has begun the upload
    await pause.focus()
    await page.keyboard.press('Enter')
    await until(() => window.uploads.uploads[0].state === 'paused')
    same(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Resume large.bin', 'the control with the focus')
    await accessible('a paused upload')
    await control('/reset')
    await page.keyboard.press('Enter')
    await until(() => window.uploads.uploads[0].state === 'done')
    const requests = await seen()
    same([requests.filter((one) => one === 'POST /media/create/resumable').length, requests.some((one) => one.startsWith('HEAD '))], [0, true], `requests after the pause ${requests}`)
    same(await page.evaluate(() => [window.uploads.uploads[0].item.size, document.activeElement.getAttribute('aria-label')]), [6 << 20, 'Remove large.bin'], 'the end')
    const said = await page.evaluate(() => window.said)
    for (const text of ['Uploading a file: 0 %.', 'large.bin: paused', 'large.bin: uploaded']) same(said.some((one) => one.includes(text)), true, `${text} among ${JSON.stringify(said)}`)
    same(await page.evaluate(() => window.signatures), 1, 'signatures')
  },
  'a failure is shown with its reason, and tried again': async () => {
    await mount({ group: 'react retry' })
    await plan({ method: 'POST', path: '/media/create', count: 1, status: 413, body: '{"error": "Content Too Large", "code": "storage_cap_exceeded", "detail": "the account is full"}' })
    await choose(file('full.txt', 30))
    await until(() => window.uploads.uploads[0]?.state === 'failed')
    same([await texts('.drop li > span'), await page.evaluate(() => window.failure.code)], [['full.txt', 'failed: the account is full'], 'storage_cap_exceeded'], 'the failure')
    await accessible('a failed upload')
    await (await button('Try again full.txt')).click()
    await until(() => window.uploads.uploads[0].state === 'done')
    same(await page.evaluate(() => window.signatures), 2, 'signatures: a new one after an answer')
  },
  'an upload whose connection breaks for good continues when it is tried again': async () => {
    await mount({ group: 'react offline' })
    await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, delay: true })
    await choose(file('offline.bin', 6 << 20))
    await button('Pause offline.bin')
    await arrived('PATCH ')
    await page.setOfflineMode(true)
    await control('/release')
    await until(() => window.uploads.uploads[0].state === 'failed')
    await page.setOfflineMode(false)
    await control('/reset')
    await (await button('Try again offline.bin')).click()
    await until(() => window.uploads.uploads[0].state === 'done')
    same([(await seen()).filter((one) => one === 'POST /media/create/resumable').length, await page.evaluate(() => window.signatures)], [0, 1], 'new uploads and signatures')
  },
  'files are dropped, and those of other types, second files and folders are not taken': async () => {
    await mount({ group: 'react drop' })
    const drop = (names, event) => page.evaluate((names, event) => {
      const transfer = new DataTransfer()
      for (const [name, type] of names) transfer.items.add(new File(['x'], name, { type }))
      document.querySelector('.drop').dispatchEvent(new DragEvent(event, { dataTransfer: transfer, bubbles: true, cancelable: true }))
    }, names, event)
    await drop([['a.txt', 'text/plain']], 'dragenter')
    await until(() => document.querySelector('.drop').dataset.dragging === 'true')
    await drop([['a.txt', 'text/plain'], ['b.zip', 'application/zip'], ['C.BIN', '']], 'drop')
    await until(() => window.uploads.uploads.length === 2 && window.uploads.uploads.every(({ state }) => state === 'done'))
    same([await page.evaluate(() => document.querySelector('.drop').dataset.dragging ?? ''), await texts('.drop [role=alert]')], ['', ['Not taken: b.zip.']], 'after the drop')
    await accessible('files that are not taken')
  },
  'no more than some files are sent at once': async () => {
    await mount({ group: 'react parallel', parallel: 2 })
    await plan({ method: 'POST', path: '/media/create', count: 2, delay: true })
    await choose(...[1, 2, 3, 4].map((n) => file(`p${n}.txt`, n)))
    await until(() => window.uploads.uploads.filter(({ state }) => state === 'sending').length === 2)
    same(await states(), ['sending', 'sending', 'waiting', 'waiting'], 'states')
    await (await button('Pause p4.txt')).click()
    await arrived('POST /media/create', 2)
    await control('/release')
    await until(() => window.uploads.uploads.filter(({ state }) => state === 'done').length === 3)
    same(await states(), ['done', 'done', 'done', 'paused'], 'states at the end')
  },
  'an unmount ends the uploads, and frees their room': async () => {
    await mount({ group: 'react unmount' })
    await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, delay: true })
    await choose(file('gone.bin', 6 << 20))
    await button('Pause gone.bin')
    same((await service('GET', '/media/uploads')).length, 1, 'running uploads before')
    const removed = page.waitForResponse((response) => response.request().method() === 'DELETE')
    await page.evaluate(() => window.setUploads(false))
    await removed
    same(await service('GET', '/media/uploads'), [], 'running uploads')
    await page.evaluate(() => window.unmount())
  },
  'a list is read page by page, and again after a failure and another query': async () => {
    await mount({ group: 'react pages', pageSize: 2 })
    await choose(...[1, 2, 3].map((n) => file(`q${n}.txt`, n)))
    await until(() => window.uploads.uploads.length === 3 && window.uploads.uploads.every(({ state }) => state === 'done'))
    await until(() => !window.media.loading && window.media.total === 3 && window.media.items.length === 2)
    await plan({ method: 'GET', path: '/media/get', count: 1, status: 500, body: '{"error": "Internal Server Error", "code": "internal_error"}' })
    await (await button('More')).click()
    await page.waitForSelector('.problem')
    same((await texts('section li')).length, 2, 'what is shown with a failure')
    await (await button('More')).click()
    await until(() => window.media.items.length === 3 && !window.media.hasMore)
    same((await texts('section li')).sort(), ['q1.txt', 'q2.txt', 'q3.txt'], 'all pages')
    await page.evaluate(() => window.setQuery((query) => ({ ...query, q: 'q2' })))
    await until(() => window.media.items.length === 1 && !window.media.loading)
    same(await texts('section li'), ['q2.txt'], 'another query')
    await page.evaluate(() => window.media.change(() => []))
    same(await texts('section li'), [], 'a change of what is shown')
  },
  'a picture has the addresses of its presets, and an item that is none has a fallback': async () => {
    await service('POST', '/settings/media/create', { presets: [{ name: 'card', width: 40, densities: [1, 2] }, { name: 'hero', width: 120, densities: [1] }, { name: 'square', width: 30, height: 30, fit: 'cover', densities: [1] }] })
    await mount({ group: 'react pictures', presets: true })
    const png = join(scratch, 'picture.png')
    writeFileSync(png, Buffer.from(await page.evaluate(() => {
      const canvas = Object.assign(document.createElement('canvas'), { width: 200, height: 100 })
      const context = canvas.getContext('2d')
      context.fillStyle = '#1e6fb9'
      context.fillRect(0, 0, 200, 100)
      return canvas.toDataURL().split(',')[1]
    }), 'base64'))
    await choose(png, file('text.txt', 5))
    await until(() => window.media.items.length === 2 && !window.media.loading)
    const { card, hero, square } = await page.evaluate(() => window.media.items.find(({ mimeType }) => mimeType.startsWith('image/')).presets)
    const shown = await page.$eval('img.card', (img) => ({ src: img.src, srcset: img.srcset, box: [img.width, img.height], alt: img.alt, loading: img.loading, color: img.style.backgroundColor !== '' }))
    same(shown, { src: card.url, srcset: card.srcset, box: [40, 20], alt: 'picture of image/png', loading: 'lazy', color: true }, 'the picture of one preset')
    const fluid = await page.$eval('img.fluid', (img) => ({ src: img.src, srcset: img.srcset, sizes: img.sizes, box: [img.getAttribute('width'), img.getAttribute('height')] }))
    same(fluid, { src: hero.url, srcset: [...card.densities, ...hero.densities].map(({ url, width }) => `${url} ${width}w`).join(', '), sizes: '50vw', box: ['120', '60'] }, 'the picture of two presets')
    same(await page.$eval('picture source', (source) => [source.media, source.srcset, source.width]), ['(max-width: 600px)', square.srcset, 30], 'the source for narrow screens')
    await until(() => [...document.images].every((image) => image.complete && image.naturalWidth > 0))
    same(await texts('section li i'), ['no picture'], 'the fallback')
    await accessible('pictures')
  },
}

try {
  for (const [scenario, act] of Object.entries(scenarios)) {
    problems.length = 0
    let problem = await act().then(() => '', (error) => error.stack)
    if (problems.length > 0) problem += ` the page has said ${JSON.stringify(problems)}`
    if (problem && page) problem += ` ${await page.evaluate(() => document.body.innerText).catch(() => '')}`
    console.log(JSON.stringify({ scenario, problem }))
    await page?.close()
  }
} finally {
  await browser.close()
}

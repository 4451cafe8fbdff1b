// Uses the sample web application as a user does, and takes a picture of it.
import { createHash, randomFillSync } from 'node:crypto'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import puppeteer from 'puppeteer-core'

const options = JSON.parse(process.argv[2])
const stepTimeout = 240_000 // ms. Other tests may run meanwhile.
const { pictureFonts } = await import(options.fonts)
const axe = await readFile(options.axe, 'utf8')
const browser = await puppeteer.launch({
  executablePath: options.browser,
  headless: true,
  protocolTimeout: 2 * stepTimeout, // so that a step that fails is named, not the protocol
  env: { ...process.env, ...(await pictureFonts(options.scratch)) },
  // Tests run as root in containers; the page is the test's own.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
})
const page = await browser.newPage()
page.setDefaultTimeout(stepTimeout)
const problems = []
page.on('pageerror', (error) => problems.push(error.message))
const messages = []
page.on('console', (message) => {
  messages.push(message.text())
  if (/Content Security Policy/.test(message.text())) problems.push(message.text())
})

const control = async (path, body) => (await fetch(options.control + path, { method: 'POST', body: JSON.stringify(body ?? {}) })).text()
const text = (selector) => page.$eval(selector, (element) => element.textContent.trim())
const until = (condition, ...values) => page.waitForFunction(condition, {}, ...values)
const press = (name) => page.locator(`::-p-aria([name="${name}"][role="button"])`).click()
const expect = (condition, what) => { if (!condition) throw new Error(what) }

// accessible checks the page with axe-core (WCAG 2.2, A and AA) in both color schemes, and that nothing is cut off on a phone.
async function accessible(state) {
  for (const [width, scheme] of [[1280, 'light'], [320, 'dark']]) {
    await page.setViewport({ width, height: 800 })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
    await page.evaluate(axe)
    const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }))
    expect(passes.length >= 5, `${state}: only ${passes.length} rules were looked at`)
    expect(violations.length === 0, `${state}, ${scheme}, ${width}: ${violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)}`)}`)
    const wide = await page.evaluate(() => document.documentElement.scrollWidth)
    expect(wide <= width, `${state} is ${wide} wide on a screen of ${width}`)
  }
  await page.setViewport({ width: 1280, height: 800 })
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }])
}

// pictures draws landscapes and writes them as files.
async function pictures(count) {
  const drawn = await page.evaluate((count) => Array.from({ length: count }, (_, n) => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 800, height: 600 })
    const at = canvas.getContext('2d')
    const hue = (n * 47 + 195) % 360
    const sky = at.createLinearGradient(0, 0, 0, 600)
    sky.addColorStop(0, `hsl(${hue} 70% 62%)`)
    sky.addColorStop(1, `hsl(${(hue + 50) % 360} 85% 86%)`)
    at.fillStyle = sky
    at.fillRect(0, 0, 800, 600)
    at.fillStyle = '#fffbe6'
    at.beginPath()
    at.arc(160 + ((n * 137) % 480), 150 + ((n * 53) % 90), 48, 0, 2 * Math.PI)
    at.fill()
    for (let hill = 0; hill < 3; hill++) {
      at.fillStyle = `hsl(${(hue + 150 + hill * 12) % 360} 32% ${58 - hill * 16}%)`
      at.beginPath()
      at.moveTo(0, 600)
      for (let x = 0; x <= 800; x += 10) at.lineTo(x, 330 + hill * 80 + Math.sin(x / (90 + hill * 40) + n * 2 + hill) * (60 - hill * 10))
      at.lineTo(800, 600)
      at.fill()
    }
    return canvas.toDataURL('image/jpeg', 0.9).split(',')[1]
  }), count)
  const names = ['Morning', 'Lake', 'Ridge', 'Dunes', 'Coast', 'Valley', 'Evening', 'Meadow', 'Pass', 'Harbor', 'Island', 'Glacier', 'Orchard', 'Canyon']
  return Promise.all(drawn.map(async (base64, n) => {
    const path = join(options.scratch, `${names[n % names.length]}.jpg`)
    await writeFile(path, Buffer.from(base64, 'base64'))
    return path
  }))
}

async function choose(...paths) {
  await (await page.$('#files')).uploadFile(...paths)
}

const titleIs = (title) => until((title) => document.getElementById('items-title').textContent === title, title)
const focusIs = (label) => until((label) => (document.activeElement.getAttribute('aria-label') ?? document.activeElement.id) === label, label)
const noUploads = () => until(() => document.querySelectorAll('#uploads li').length === 0)
const plan = (fault) => control('/plan', fault)

// requestsOf waits for a number of requests of a method.
async function requestsOf(method, count) {
  const all = []
  for (const end = Date.now() + stepTimeout; all.filter((one) => one.startsWith(`${method} `)).length < count; await sleep(20)) {
    all.push(...JSON.parse(await control('/seen')).requests)
    expect(Date.now() < end, `fewer than ${count} ${method} of ${all}`)
  }
}

// item returns the id of an item that the page shows, and the address of its file.
const item = (name) => page.$$eval('#items .item', (rows, name) => {
  const row = rows.find((row) => row.querySelector('.name').textContent === name)
  return { id: row.dataset.id, address: row.querySelector('a').href }
}, name)

// writeLarge writes a file that does not repeat, and returns its SHA-256.
async function writeLarge(path, size) {
  const [file, hash, part] = [await open(path, 'w'), createHash('sha256'), Buffer.alloc(8 << 20)]
  for (let left = size; left > 0; left -= part.length) {
    const bytes = randomFillSync(part).subarray(0, left)
    hash.update(bytes)
    await file.write(bytes)
  }
  await file.close()
  return hash.digest('hex')
}

async function sha256Of(address) {
  const hash = createHash('sha256')
  const response = await fetch(address)
  expect(response.status === 200, `${address}: ${response.status}`)
  for await (const bytes of response.body) hash.update(bytes)
  return hash.digest('hex')
}

// look returns the colors of a tile in 8 x 6 cells, as the page shows it.
async function look(id) {
  const shot = await (await page.$(`[data-id="${id}"] a`)).screenshot({ encoding: 'base64' })
  return page.evaluate(async (shot) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(shot), (character) => character.charCodeAt(0))]))
    const at = Object.assign(document.createElement('canvas'), { width: 8, height: 6 }).getContext('2d')
    at.imageSmoothingQuality = 'high'
    at.drawImage(bitmap, 0, 0, 8, 6)
    return [...at.getImageData(0, 0, 8, 6).data]
  }, shot)
}

const distance = (one, other) => one.reduce((sum, value, i) => sum + Math.abs(value - other[i]), 0) / one.length

try {
  await page.goto(options.page)
  await titleIs('0 items')
  await accessible('the empty gallery')

  // Pictures and a text are kept at once, and fill two pages.
  const paths = await pictures(13)
  const notes = join(options.scratch, 'Notes.txt')
  await writeFile(notes, 'Notes of the journey')
  await choose(notes)
  await titleIs('1 item')
  await choose(...paths)
  await titleIs('14 items')
  await until(() => [...document.querySelectorAll('#items img')].length === 12 && [...document.querySelectorAll('#items img')].every((image) => image.naturalWidth > 0))
  expect(await text('#page') === 'Page 1 of 2', await text('#page'))
  await accessible('a full gallery')
  await press('Older')
  await until(() => document.querySelectorAll('#items .item').length === 2)
  expect((await text('#items')).includes('Notes.txt'), 'the first upload is not on the last page')

  // A draft is kept or discarded by the user, also after a reload. A page that is shown does not move when an item is added.
  await page.click('#keep')
  await choose(notes)
  await press('Discard Notes.txt')
  await noUploads()
  await choose(notes)
  await until(() => document.querySelectorAll('[aria-label="Keep Notes.txt"]').length === 1)
  await choose(notes)
  await until(() => document.querySelectorAll('[aria-label="Keep Notes.txt"]').length === 2)
  await press('Discard Notes.txt')
  await until(() => document.querySelectorAll('[aria-label="Keep Notes.txt"]').length === 1)
  await page.reload()
  await titleIs('14 items')
  await press('Older')
  await until(() => document.querySelectorAll('#items .item').length === 2)
  await press('Keep Notes.txt')
  await titleIs('15 items')
  expect((await page.$$('#items .item')).length === 2, 'the page moved')
  await press('Newer')
  await until(() => document.querySelector('#items .item .name').textContent === 'Notes.txt')
  await press('Older')
  await until(() => document.querySelectorAll('#items .item').length === 3)

  // Placeholders are shown until the thumbnails are loaded: three of them are late.
  await control('/reset')
  await plan({ method: 'GET', path: '/media/file/', count: 3, delay: true })
  await page.setCacheEnabled(false)
  await page.reload()
  await titleIs('15 items')
  const late = () => page.$$eval('#items .item', (rows) => rows.filter((row) => row.querySelector('img')?.naturalWidth === 0).map((row) => row.dataset.id))
  await until(() => [...document.querySelectorAll('#items img')].filter((image) => image.naturalWidth > 0 && image.getAnimations().length === 0).length === 8)
  const waiting = await late()
  expect(waiting.length === 3, `${waiting.length} thumbnails are late`)
  const placeholders = await Promise.all(waiting.map(look))

  // A large file survives a broken connection and a reload, and pauses. The second request is held, so that there is time to look.
  const large = join(options.scratch, 'Film.bin')
  const sum = await writeLarge(large, options.largeSize)
  await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, cutAfter: options.largeSize * 0.4 })
  await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, hold: true, cutAfter: 1 << 20 })
  await choose(large)
  await until(() => /^[1-9]\d* %/.test(document.querySelector('#uploads .state')?.textContent))
  await accessible('an upload')
  await requestsOf('PATCH', 2)
  if (options.picture) await picture()
  await page.reload()
  await until(() => /^[1-9]\d % is uploaded/.test(document.querySelector('#uploads .state')?.textContent))
  await accessible('an upload of an earlier visit')

  await titleIs('15 items')
  await until(() => [...document.querySelectorAll('#items img')].every((image) => image.naturalWidth > 0 && image.getAnimations().length === 0))
  for (const [n, id] of waiting.entries()) {
    const loaded = await look(id)
    const [off, blank] = [distance(placeholders[n], loaded), distance(placeholders[n], new Array(loaded.length).fill(255))]
    expect(off > 0 && off < 25 && blank > 2 * off, `the placeholder of tile ${n} is ${off} off its picture, and ${blank} off an empty tile`)
  }
  await page.setCacheEnabled(true)

  await control('/reset')
  await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, hold: true, cutAfter: 1 << 20 })
  await choose(large)
  await requestsOf('PATCH', 1)
  await press('Pause Film.bin')
  await until(() => document.querySelector('#uploads .state').textContent.startsWith('paused at '))
  await control('/reset')
  await press('Resume Film.bin')
  await titleIs('16 items')
  const { requests, bytes } = JSON.parse(await control('/seen'))
  expect(!requests.includes('POST /media/create/resumable') && bytes < options.largeSize * 0.7, `it began again: ${bytes} bytes, ${requests}`)
  const film = await item('Film.bin')
  expect((await sha256Of(film.address)) === sum, 'the file has other bytes')

  // A deletion asks first. It is undone by keyboard: the item has the id and the address that it had.
  await page.focus('[aria-label="Delete Film.bin"]')
  await page.keyboard.press('Enter')
  await until(() => document.getElementById('confirm').open)
  await accessible('the question')
  await page.keyboard.press('Enter') // "Keep it" has the focus
  await until(() => !document.getElementById('confirm').open)
  expect(await text('#items-title') === '16 items', 'it is deleted without a confirmation')
  await page.keyboard.press('Enter')
  await until(() => document.getElementById('confirm').open)
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await titleIs('15 items')
  await focusIs('Undo deletion of Film.bin')
  await accessible('a message with an action')
  const path = (address) => new URL(address).pathname
  expect((await fetch(film.address)).status === 404, 'the deleted file is served')
  await page.keyboard.press('Enter')
  await titleIs('16 items')
  const restored = await item('Film.bin')
  expect(restored.id === film.id && path(restored.address) === path(film.address), `it is ${JSON.stringify(restored)}, and was ${JSON.stringify(film)}`)
  expect(await page.evaluate((id) => document.activeElement.closest('.item')?.dataset.id === id, film.id), 'the focus is lost')
  expect((await sha256Of(restored.address)) === sum, 'the restored file has other bytes')

  // What was deleted is listed, restored from there, and deleted for good.
  await press('Delete Film.bin')
  await press('Delete')
  await titleIs('15 items')
  await press('Dismiss message')
  await page.click('#deleted-title')
  await accessible('the deleted items')
  await press('Restore Film.bin')
  await titleIs('16 items')
  expect(await page.$eval('#deleted', (element) => element.hidden), 'the restored item is among the deleted ones')
  await press('Delete Film.bin')
  await press('Delete')
  await titleIs('15 items')
  await press('Delete for good Film.bin')
  await press('Delete for good')
  await until(() => document.getElementById('deleted').hidden)
  await focusIs('items-title')
  await page.reload()
  await titleIs('15 items')
  expect(await page.$eval('#deleted', (element) => element.hidden), 'an item that was deleted for good can be restored')

  // What remains of an earlier visit is discarded, or begins again if the service does not know it any more.
  const clip = join(options.scratch, 'Clip.bin')
  await writeLarge(clip, 9 << 20)
  for (const known of [true, false]) {
    await control('/reset')
    await plan({ method: 'PATCH', path: '/media/create/resumable/', count: 1, hold: true, cutAfter: 1 << 20 })
    await choose(clip)
    await requestsOf('PATCH', 1)
    await page.reload()
    await until(() => document.querySelector('[aria-label="Discard Clip.bin"]'))
    if (known) {
      await press('Discard Clip.bin')
      await requestsOf('DELETE', 1)
      await page.reload()
      await titleIs('15 items')
      expect((await page.$$('#uploads li')).length === 0, 'it is not discarded')
      continue
    }
    await plan({ method: 'HEAD', path: '/media/create/resumable/', count: 1, status: 404 })
    await choose(clip)
    await titleIs('16 items')
  }

  // An error is shown, and trying again helps.
  await page.click('#keep')
  await plan({ method: 'POST', path: '/media/create', count: 1, status: 400, body: '{"error": "Bad Request", "code": "invalid_request", "detail": "not today"}' })
  await choose(notes)
  await until(() => document.querySelector('.failed .state')?.textContent === 'failed: not today')
  await accessible('a failed upload')
  // What an administrator reads is not for those who use the page.
  await plan({ method: 'POST', path: '/media/create', count: 1, status: 403, body: '{"error": "Forbidden", "code": "forbidden", "detail": "neither SERVICE_CORS_ORIGINS nor an account names the origin"}' })
  await press('Try again Notes.txt')
  await until(() => document.querySelector('.failed .state')?.textContent === 'failed: the gallery cannot store files at the moment')
  await press('Try again Notes.txt')
  await press('Discard Notes.txt')
  await noUploads()
  expect(!(await page.content()).includes('msk_'), 'the page has the API key')

  // Where a delete cannot be undone, the page does not offer it.
  await page.goto(options.final)
  await titleIs('0 items')
  await choose(notes)
  await titleIs('1 item')
  await press('Delete Notes.txt')
  await press('Delete')
  await titleIs('0 items')
  await focusIs('items-title')
  expect((await text('#status')).includes('Notes.txt is deleted.') && (await page.$$('#status button')).length === 0, 'a final delete has an action')

  // The answer to one question is not taken for that to another one, however fast they are asked: an item that was kept was deleted once.
  await choose(notes, clip)
  await titleIs('2 items')
  await page.evaluate(() => {
    for (const selector of ['[aria-label="Delete Clip.bin"]', '#confirm [value="no"]', '[aria-label="Delete Notes.txt"]', '#confirm-yes']) document.querySelector(selector).click()
  })
  await titleIs('1 item')
  await page.reload()
  await titleIs('1 item')
  expect((await item('Clip.bin')).id, 'another item was deleted')

  expect(problems.length === 0, problems.join('\n'))
  console.log('done')
} catch (error) {
  if (options.picture) await page.screenshot({ path: options.picture })
  console.error('the page says', messages, 'and shows', await page.evaluate(() => ({
    title: document.getElementById('items-title')?.textContent, uploads: document.getElementById('uploads')?.innerText, status: document.getElementById('status')?.innerText, focus: document.activeElement.outerHTML.slice(0, 300),
  })).catch(() => 'nothing'))
  throw error
} finally {
  await browser.close()
}

// picture shows the gallery with an upload, wide and on a phone.
async function picture() {
  const shots = []
  await page.evaluate(() => document.getElementById('status').replaceChildren())
  for (const [width, scheme] of [[1000, 'light'], [390, 'dark']]) {
    await page.setViewport({ width, height: 780 })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
    await page.evaluate(() => scrollTo(0, 0))
    shots.push(await page.screenshot({ encoding: 'base64' }))
  }
  const sheet = await browser.newPage()
  await sheet.setViewport({ width: 1490, height: 860 })
  await sheet.setContent(`<!doctype html><style>
    body { margin: 0; padding: 40px; display: flex; gap: 20px; background: #dfe3e8; }
    img { display: block; border-radius: 12px; box-shadow: 0 4px 24px #0003; }
  </style>${shots.map((png) => `<img src="data:image/png;base64,${png}">`).join('')}`)
  await writeFile(options.picture, await sheet.screenshot())
  await sheet.close()
  await page.bringToFront()
  await page.setViewport({ width: 1280, height: 800 })
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }])
}

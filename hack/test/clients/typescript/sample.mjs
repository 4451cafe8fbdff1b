// Uses the sample web application as a user does, and takes a picture of it.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'

const options = JSON.parse(process.argv[2])
const { pictureFonts } = await import(options.fonts)
const axe = await readFile(options.axe, 'utf8')
const browser = await puppeteer.launch({
  executablePath: options.browser,
  headless: true,
  env: { ...process.env, ...(await pictureFonts(options.scratch)) },
  // Tests run as root in containers; the page is the test's own.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
})
const page = await browser.newPage()
page.setDefaultTimeout(30_000)
const problems = []
page.on('pageerror', (error) => problems.push(error.message))
page.on('console', (message) => { if (/Content Security Policy/.test(message.text())) problems.push(message.text()) })

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

  // A draft is kept or discarded by the user.
  await page.click('#keep')
  await choose(notes)
  await press('Discard Notes.txt')
  await until(() => document.querySelectorAll('.upload').length === 0)
  await choose(notes)
  await press('Keep Notes.txt')
  await titleIs('15 items')

  // A large file survives a broken connection, and pauses.
  const large = join(options.scratch, 'Film.bin')
  await writeFile(large, Buffer.alloc(options.largeSize, 7))
  await control('/reset')
  await control('/plan', { method: 'PATCH', path: '/media/create/resumable/', count: 1, cutAfter: options.largeSize / 2 })
  // The second request is held, so that there is time to press a button.
  await control('/plan', { method: 'PATCH', path: '/media/create/resumable/', count: 1, hold: true, cutAfter: 1 << 20 })
  await choose(large)
  await until(() => /^[1-9]\d* %/.test(document.querySelector('.upload .state')?.textContent))
  await accessible('an upload')
  for (let asked = []; asked.filter((one) => one.startsWith('PATCH ')).length < 2; ) asked = asked.concat(JSON.parse(await control('/seen')).requests)
  if (options.picture) await picture()
  await press('Pause Film.bin')
  await control('/release')
  await press('Resume Film.bin')
  await press('Keep Film.bin')
  await titleIs('16 items')
  const seen = JSON.parse(await control('/seen')).requests
  expect(!seen.includes('POST /media/create/resumable'), `it began again: ${seen}`)

  // A deletion asks first.
  await press('Delete Film.bin')
  await until(() => document.getElementById('confirm').open)
  await accessible('the question')
  await press('Keep it')
  await until(() => !document.getElementById('confirm').open)
  expect(await text('#items-title') === '16 items', 'it is deleted without a confirmation')
  await press('Delete Film.bin')
  await press('Delete')
  await titleIs('15 items')
  expect(await page.evaluate(() => document.activeElement.id) === 'items-title', 'the focus is lost')

  // An error is shown, and trying again helps.
  await control('/plan', { method: 'POST', path: '/media/create', count: 1, status: 400, body: '{"error": "Bad Request", "code": "invalid_request", "detail": "not today"}' })
  await choose(notes)
  await until(() => document.querySelector('.upload.failed .state')?.textContent === 'failed: not today')
  await accessible('a failed upload')
  await press('Try again Notes.txt')
  await press('Discard Notes.txt')
  await until(() => document.querySelectorAll('.upload').length === 0)

  expect(!(await page.content()).includes('msk_'), 'the page has the API key')
  expect(problems.length === 0, problems.join('\n'))
  console.log('done')
} catch (error) {
  if (options.picture) await page.screenshot({ path: options.picture })
  throw error
} finally {
  await browser.close()
}

// picture shows the gallery with an upload, wide and on a phone.
async function picture() {
  const shots = []
  await page.evaluate(() => { document.getElementById('status').textContent = '' })
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

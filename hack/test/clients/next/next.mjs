// Uploads pictures with the application of the guide, without and with a reload, and looks at them.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'

const options = JSON.parse(process.argv[2])
const browser = await puppeteer.launch({ executablePath: options.browser, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
function same(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
}
try {
  const page = await browser.newPage()
  const problems = []
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => ['error', 'warn'].includes(message.type()) && !message.location().url?.includes('favicon') && problems.push(message.text()))

  // What the server has rendered, without a script.
  const plain = await (await fetch(options.page)).text()
  for (const text of ['<h1>Holidays</h1>', 'role="group"', 'Choose files']) same(plain.includes(text), true, `${text} in the page of the server`)

  await page.goto(options.page, { waitUntil: 'networkidle0' })
  const picture = async (color) => Buffer.from((await page.evaluate((color) => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 1000, height: 900 })
    const context = canvas.getContext('2d')
    context.fillStyle = color
    context.fillRect(0, 0, 1000, 900)
    return canvas.toDataURL()
  }, color)).split(',')[1], 'base64')
  const [red, blue, text] = ['red.png', 'blue.png', 'notes.txt'].map((name) => join(options.scratch, name))
  writeFileSync(red, await picture('#c02020'))
  writeFileSync(blue, await picture('#2020c0'))
  writeFileSync(text, 'notes')
  await (await page.waitForSelector('input[type=file]')).uploadFile(red, blue, text)
  await page.waitForFunction(() => document.querySelectorAll('li[data-state=done]').length === 2)
  await page.waitForFunction(() => document.querySelectorAll('main > ul img').length === 2)
  same(await page.$$eval('[role=alert]', (all) => all.map((one) => one.textContent).filter((one) => one)), ['Not taken: notes.txt.'], 'alerts')
  await page.waitForFunction(() => [...document.images].every((image) => image.complete && image.naturalWidth === 400 && image.naturalHeight === 300))
  same((await page.$$eval('main > ul img', (all) => all.map(({ alt }) => alt))).sort(), ['blue.png', 'red.png'], 'the pictures')

  await page.reload({ waitUntil: 'networkidle0' })
  same(await page.$$eval('img', (all) => all.map(({ alt }) => alt)).then((all) => [all[0], all.length]), ['The newest picture', 3], 'the pictures after a reload')
  const served = await (await fetch(options.page)).text()
  same((served.match(/<img/g) ?? []).length, 3, 'pictures that the server has rendered')
  same(problems, [], 'what the page has said')
  console.log('done')
} finally {
  await browser.close()
}

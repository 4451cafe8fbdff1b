// Uploads on a page, reloads it in the middle, chooses the same file again, and prints what was requested after that.
import puppeteer from 'puppeteer-core'

const options = JSON.parse(process.argv[2])
const browser = await puppeteer.launch({ executablePath: options.browser, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
try {
  const page = await browser.newPage()
  page.on('console', (message) => console.error('page:', message.text()))
  page.on('pageerror', (error) => console.error('page:', error.message))
  const ready = () => page.waitForFunction('window.start')
  await page.goto(options.page)
  await ready()
  const stored = page.waitForResponse((response) => response.request().method() === 'PATCH' && response.status() === 204, { timeout: 0 })
  await page.evaluate((of) => window.start(of), options)
  const first = await Promise.race([stored, page.evaluate(() => window.ended)])
  if (first.error) throw new Error(`before the reload: ${first.error}`)
  const before = Number(first.headers()['upload-offset'])
  await page.reload()
  await ready()
  const after = []
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (request.method() !== 'OPTIONS' && pathname.startsWith('/media/')) after.push(`${request.method()} ${request.headers()['upload-offset'] ?? ''}`.trim())
  })
  await page.evaluate((of) => window.start(of), options)
  const result = await page.evaluate(() => window.ended)
  const [kept, requests] = [await page.evaluate(() => window.kept()), after.slice()]
  const shown = await page.evaluate((of) => window.rejected(of), options)
  console.log(JSON.stringify({ ...result, before, after: requests, kept, shown }))
} finally {
  await browser.close()
}

// Chooses a file on the page of the guide "Upload from a browser", and prints what the page says then.
import puppeteer from 'puppeteer-core'

const options = JSON.parse(process.argv[2])
const browser = await puppeteer.launch({
  executablePath: options.browser,
  headless: true,
  // Tests run as root in containers; the page is the test's own.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
})
try {
  const page = await browser.newPage()
  page.on('console', (message) => console.error('page:', message.text()))
  page.on('pageerror', (error) => console.error('page:', error.message))
  await page.goto(options.page, { waitUntil: 'networkidle0' })
  await (await page.$('#file')).uploadFile(options.file)
  await page.waitForFunction(() => document.getElementById('state').textContent !== '')
  console.log(await page.$eval('#state', (state) => state.textContent))
} finally {
  await browser.close()
}

// Runs the scenarios on a page, in a browser without a window.
import puppeteer from 'puppeteer-core'

const options = JSON.parse(process.argv[2])
const browser = await puppeteer.launch({
  executablePath: options.browser,
  headless: true,
  protocolTimeout: 0, // all scenarios are one call; the test has a timeout
  // Otherwise Chromium copies the body of each request into an event, as text. That takes more time than to send it.
  networkEnabled: false,
  // Tests run as root in containers; the page is the test's own.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
})
try {
  const page = await browser.newPage()
  page.on('pageerror', (error) => console.error('page:', error.message))
  await page.goto(options.page)
  await page.waitForFunction('window.run')
  for (const result of await page.evaluate((options) => window.run(options), options)) console.log(JSON.stringify(result))
} finally {
  await browser.close()
}

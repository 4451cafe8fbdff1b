// Opens the page in a browser without a window, has it upload, and prints what it was answered.
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
  await page.goto(options.page)
  await page.waitForFunction('window.withTus && window.withUppy')
  console.log(JSON.stringify(await page.evaluate((how, options) => window[how](options), options.how, options)))
} finally {
  await browser.close()
}

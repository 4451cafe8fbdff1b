// Loads a page of many pictures: one client twice, and then others. Prints for each load how many images are broken, and
// how many answers are pictures, substitutes of pictures, and errors.
import puppeteer from 'puppeteer-core'

const { browser: executablePath, page: address, others, timeout } = JSON.parse(process.argv[2])
const browser = await puppeteer.launch({ executablePath, headless: true, protocolTimeout: timeout, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })

// visit loads the page in a browser that has nothing in its cache at first.
async function visit(client, loads) {
  const context = await browser.createBrowserContext()
  const results = []
  for (let i = 0; i < loads; i++) {
    const page = await context.newPage()
    await page.setExtraHTTPHeaders({ 'x-forwarded-for': client })
    const answers = new Map()
    page.on('response', (response) => {
      if (response.url().includes('/media/file/')) {
        answers.set(response.url(), response.headers()['x-picture-substitute'] ? 'substitutes' : response.ok() ? 'pictures' : 'errors')
      }
    })
    page.on('requestfailed', (request) => console.error(client, request.failure()?.errorText, request.url()))
    await page.goto(address, { waitUntil: 'load', timeout })
    const result = { broken: await page.$$eval('img', (all) => all.filter((image) => !image.complete || image.naturalWidth === 0).length), pictures: 0, substitutes: 0, errors: 0 }
    for (const answer of answers.values()) result[answer]++
    results.push(result)
    await page.close()
  }
  await context.close()
  return results
}

try {
  const [first, again] = await visit('2001:db8:1::1', 2)
  // Some at a time: the service closes connections without a request, which a browser on a busy machine opens in advance.
  const all = []
  for (let i = 0; i < others.length; i += 4) {
    all.push(...await Promise.all(others.slice(i, i + 4).map((client) => visit(client, 1))))
  }
  console.log(JSON.stringify({ first, again, others: all.flat() }))
} finally {
  await browser.close()
}

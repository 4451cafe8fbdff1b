// Reads the API reference as developers do, in a browser that reports what the page does wrong.
import { createServer, request as forward } from 'node:http'
import { once } from 'node:events'
import { join } from 'node:path'
import { writeFile } from 'node:fs/promises'
import { pictureFonts } from './fonts.mjs'
import { Fixture, expect, report, same, waitFor } from './fixture.mjs'

const options = JSON.parse(process.argv[2])
const fixture = await Fixture.open(options, await pictureFonts(options.scratch))
const described = await (await fetch(options.api + '/openapi.json')).json()
const operations = Object.entries(described.paths).flatMap(([path, methods]) => Object.keys(methods).filter((name) => /^(get|head|post|put|patch|delete)$/.test(name)).map((method) => `${method.toUpperCase()} ${path}`)).sort()

// open opens the reference below a base URL and waits until it shows operations.
async function open(base) {
  const user = await fixture.newUser({ javascript: true })
  const { page } = user
  user.findings = []
  page.on('console', (message) => user.findings.push(`console: ${message.type()}: ${message.text()}`))
  page.on('pageerror', (error) => user.findings.push(`error: ${error}`))
  page.on('requestfailed', (request) => user.findings.push(`failed: ${request.url()}`))
  page.on('response', (response) => { if (response.status() >= 400) user.findings.push(`${response.status()}: ${response.url()}`) })
  page.on('request', (request) => {
    if (!request.url().startsWith(base + '/') && !request.url().startsWith('data:')) user.findings.push(`request to ${request.url()}`)
  })
  const response = await page.goto(base + '/docs')
  expect(response.status() === 200, `the page is answered ${response.status()}`)
  await page.waitForSelector('.opblock')
  return user
}

const shown = (page) => page.$$eval('.opblock', (blocks) => blocks.map((block) =>
  `${block.querySelector('.opblock-summary-method').textContent} ${block.querySelector('.opblock-summary-path').textContent.replaceAll('\u200b', '')}`).sort())

// checked reads the reference and closes it. The page must have had no problem.
async function checked(base, read) {
  const user = await open(base)
  try {
    await read(user.page)
    same(await user.page.cookies(), [], 'cookies')
    same(user.findings, [], 'problems of the page')
  } finally {
    await user.close()
  }
}

// prefixed is a proxy that serves the service below a path.
async function prefixed(prefix) {
  const server = createServer((incoming, outgoing) => {
    if (!incoming.url.startsWith(prefix + '/')) {
      outgoing.writeHead(404).end()
      return
    }
    const { hostname, port } = new URL(options.plain)
    incoming.pipe(forward({ hostname, port, method: incoming.method, path: incoming.url.slice(prefix.length), headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers)
      answer.pipe(outgoing)
    }))
  })
  server.listen(0, '127.0.0.1')
  server.unref()
  await once(server, 'listening')
  return `http://127.0.0.1:${server.address().port}${prefix}`
}

await report({
  'every operation is shown': () => checked(options.base, async (page) => {
    same(await shown(page), operations, 'operations')
    expect(operations.length >= 15, `the document has ${operations.length} operations`)
  }),
  'the headers of the credentials are named': () => checked(options.base, async (page) => {
    const text = await page.$eval('.information-container', (information) => information.innerText)
    for (const header of [described.components.securitySchemes.apiKey.name, described.components.securitySchemes.uploadSignature.name, 'Authorization: Bearer']) {
      expect(text.includes(header), `the description does not name ${header}: ${text}`)
    }
  }),
  'every operation can be opened': () => checked(options.base, async (page) => {
    // What opens moves what is below: a locator waits until its element stays where it is.
    for (const control of await page.$$('.opblock-summary-control')) await control.asLocator().click()
    await waitFor(async () => (await page.$$('.opblock-body .responses-wrapper')).length === operations.length, 'all operations to be open')
  }),
  'requests cannot be sent': () => checked(options.base, async (page) => {
    await page.click('.opblock-post .opblock-summary-control')
    await page.waitForSelector('.opblock-body .responses-wrapper')
    same(await page.$$eval('.try-out, .execute, .authorize, .authorization__btn', (buttons) => buttons.map((button) => button.className)), [], 'buttons')
  }),
  'the page works behind a path prefix': async () => checked(await prefixed('/storage/media'), async (page) => {
    same(await shown(page), operations, 'operations')
  }),
  'the picture of the product': picture,
})
await fixture.close()

// picture shows the product in use: the consent page of a login beside the API reference.
async function picture() {
  const ana = await fixture.newUser({ address: 'ana.lopez@example.org', javascript: true, width: 560, height: 790 })
  const claude = await fixture.register('Claude', 'https://claude.ai/api/mcp/auth_callback')
  await ana.logIn(fixture.link(claude))
  const consent = await ana.page.screenshot()
  await ana.close()
  const user = await open(options.base)
  await user.page.setViewport({ width: 980, height: 790 })
  await user.page.evaluate(() => document.querySelector('.opblock-tag').scrollIntoView())
  const reference = await user.page.screenshot()
  await user.close()
  const page = await fixture.browser.newPage()
  await page.setViewport({ width: 1640, height: 870 })
  await page.setContent(`<!doctype html><style>
    body { margin: 0; padding: 40px; display: flex; gap: 20px; background: #dfe3e8; }
    img { display: block; border-radius: 12px; box-shadow: 0 4px 24px #0003; }
  </style>${[consent, reference].map((png) => `<img src="data:image/png;base64,${Buffer.from(png).toString('base64')}">`).join('')}`)
  await writeFile(join(options.scratch, 'product.png'), await page.screenshot())
  await page.close()
}

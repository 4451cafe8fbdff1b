// A large library: large files over a connection that breaks, and what a browser on a slow processor shows first of many files.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Fixture, expect, same, waitFor } from './fixture.mjs'

const options = JSON.parse(process.argv[2])
const fixture = await Fixture.open(options)
const throttle = 4 // times slower than this processor
const user = await fixture.newUser({ address: options.owner, javascript: true })

// scenario prints the result of a check as a line of JSON. act returns what is to be noted.
async function scenario(name, act) {
  const began = performance.now()
  const [problem, note] = await act().then((note) => ['', note], (error) => [error.stack, ''])
  console.log(JSON.stringify({ scenario: name, problem, note, took: (performance.now() - began) / 1000 }))
}

await scenario('ten large files are uploaded at once over a connection that breaks', async () => {
  const paths = (await readdir(options.large)).sort().map((name) => join(options.large, name))
  same(paths.length, 10, 'files')
  await user.logIn('/account/files')
  await user.open('.upload')
  let stalls = 0
  await user.page.exposeFunction('noteStall', () => { stalls++ })
  await user.page.evaluate(() => new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) if (/The connection was lost/.test(node.textContent)) globalThis.noteStall()
  }).observe(document.body, { childList: true, subtree: true }))
  await (await user.page.$('#file')).uploadFile(...paths)
  await user.page.click('.upload button.main')
  const sent = () => user.page.$$eval('.transfers progress', (bars) => bars.reduce((sum, bar) => sum + bar.value / bar.max, 0) / bars.length)
  // All files are there once the list has them: then the page has no bars any more.
  for (const share of [0.02, 0.25, 0.5, 0.75, 0.9]) {
    await waitFor(async () => await sent() >= share || (await user.names()).length > 0, `${100 * share} % of the files`)
    const before = stalls
    await fixture.hooks('/cut', {}, 'POST')
    // Nothing stalls if the connections were cut between two requests.
    let looks = 0
    await waitFor(async () => stalls > before || ++looks > 100, 'an upload to notice')
  }
  await waitFor(async () => (await user.names().catch(() => [])).length === 10, 'the list of ten files')
  expect(stalls > 0, 'no upload has noticed that its connection broke')
  for (let n = 1; n <= 10; n++) {
    await user.view(n)
    const facts = Object.fromEntries(await user.page.$$eval('.facts > div', (all) => all.map((one) => [one.querySelector('dt').innerText, one.querySelector('dd').innerText])))
    const hash = createHash('sha256')
    await pipeline(createReadStream(join(options.large, facts.Name)), hash)
    same(facts['SHA-256'], hash.digest('hex'), `the bytes of ${facts.Name}`)
    await user.press('a.back')
  }
  return `${stalls} times an upload lost its connection`
})

await scenario('the first part of ten thousand files', async () => {
  const { access_token: token } = await user.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'), { scope: 'media:read media:write' })
  for (const name of await readdir(join(options.files, 'library'))) await fixture.addFile(token, join(options.files, 'library', name))
  const copied = Number(await fixture.hooks('/copy', { request: options.owner }, 'POST'))
  await user.go('/account/files')
  expect(copied > 10_000 && await user.has('.pager a[rel="next"]'), `${copied} files were copied, and the page has no next one`)
  const session = await user.page.createCDPSession()
  await session.send('Emulation.setCPUThrottlingRate', { rate: throttle })
  await user.page.setViewport({ width: 1280, height: 800 })
  await user.page.evaluateOnNewDocument(() => {
    new PerformanceObserver((list) => { globalThis.largest = list.getEntries().at(-1) }).observe({ type: 'largest-contentful-paint', buffered: true })
  })
  const times = []
  for (let n = 0; n < 5; n++) {
    await user.page.reload({ waitUntil: 'load' })
    await waitFor(() => user.page.evaluate(() => globalThis.largest !== undefined && [...document.images].slice(0, 18).every((image) => image.complete)), 'the pictures')
    times.push(await user.page.evaluate(() => Math.round(globalThis.largest.startTime)))
  }
  const pictures = await user.page.$$eval('.preview img', (all) => all.length)
  expect(pictures >= 18, `${pictures} pictures`)
  return `Largest Contentful Paint of ${copied} files at a processor ${throttle} times slower: ${times.join(', ')} ms`
})
await user.close()
await fixture.close()

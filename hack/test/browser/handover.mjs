// The page on which a person hands over a file that an assistant has requested: in every state, without a script, and with a large file over a
// connection that breaks.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { accessible, tabOrder } from './a11y.mjs'
import { Fixture, expect, same, waitFor } from './fixture.mjs'

const options = JSON.parse(process.argv[2])
const fixture = await Fixture.open(options)
const owner = await fixture.newUser({ address: options.owner, javascript: true })
const { access_token: token } = await owner.connect(await fixture.register('Press <desk>', 'https://claude.ai/api/mcp/auth_callback'), { scope: 'media:read media:write' })
await owner.close()

// scenario prints the result of a check as a line of JSON. act returns what is to be noted.
async function scenario(name, act) {
  const began = performance.now()
  const [problem, note] = await act().then((note) => ['', note], (error) => [error.stack, ''])
  console.log(JSON.stringify({ scenario: name, problem, note, took: (performance.now() - began) / 1000 }))
}

const tool = (name, args) => fixture.tool(token, name, args)

// person opens a page as a user who has nothing but its address.
async function person(page, javascript) {
  const user = await fixture.newUser({ address: 'nobody@example.org', javascript })
  await user.go(page)
  return user
}

async function choose(user, ...paths) { await (await user.page.$('#file')).uploadFile(...paths) }

const picture = join(options.files, 'Desert road.png')

await scenario('a person without a script hands over a file, by keyboard', async () => {
  const of = await tool('request_upload', { caption: 'The cover & the "back"', types: ['image/png'], maxBytes: 1 << 20, seal: true })
  const user = await person(of.page, false)
  await user.expectText('Hand over a file', 'Press <desk> asks for one file', 'The cover & the "back"', 'PNG', '1 MiB', 'Newsroom')
  same((await user.page.cookies()).length, 0, 'cookies')
  await choose(user, join(options.files, 'Price list 2026.pdf'))
  await user.press('.upload button.main')
  await user.expectText('another type')
  await choose(user, picture)
  await user.page.focus('.upload button.main')
  await Promise.all([user.page.waitForNavigation(), user.page.keyboard.press('Enter')])
  await user.expectText('The file has arrived', 'Desert road.png', 'takes no other file')
  const state = await tool('get_upload', { uploadId: of.uploadId })
  same([state.state, state.originalFileName, state.temp], ['uploaded', 'Desert road.png', undefined], 'the state')
  await user.go(of.page)
  await user.expectText('The file has arrived')
  expect(!await user.has('form'), 'the page has a form still')
  await user.close()
})

// The script said what the service said to programs: "the upload signature permits image/*".
await scenario('a file that is not asked for is rejected in plain words, and another one is taken', async () => {
  const of = await tool('request_upload', { types: ['image/*'], maxBytes: 1 << 20 })
  const user = await person(of.page, true)
  const hand = async (path, ...texts) => {
    await choose(user, path)
    await user.page.click('.upload button.main')
    for (const text of texts) await waitFor(async () => (await user.text()).includes(text), text)
    expect(!(await user.text()).includes('signature'), `the page says ${await user.text()}`)
  }
  await hand(options.large, 'The file is too large. Choose a smaller one.')
  await hand(join(options.files, 'Price list 2026.pdf'), 'The file is of another type than those that are asked for.')
  await choose(user, picture)
  await Promise.all([user.page.waitForNavigation(), user.page.click('.upload button.main')])
  await user.expectText('The file has arrived', 'Desert road.png')
  same((await tool('get_upload', { uploadId: of.uploadId })).state, 'uploaded', 'the state')
  await user.close()
})

await scenario('the page is accessible in every state', async () => {
  const of = await tool('request_upload', { caption: 'Rhabarberbarbarabarbarbarenbartbarbierbierbarbärbel'.repeat(3), fileName: 'the-name-of-a-file-that-is-very-long-and-has-no-space-at-all-in-it.png', types: ['image/*', 'application/pdf'] })
  const user = await person(of.page, true)
  await accessible(user)
  same(await tabOrder(user), ['file', 'Hand over'], 'the order of the keyboard')
  const created = await fetch(of.resumableUrl.replace(options.base, options.api), { method: 'POST', headers: { 'Tus-Resumable': '1.0.0', 'Upload-Length': '1000000', 'Content-Type': 'application/offset+octet-stream' }, body: (await readFile(picture)).subarray(0, 1000) })
  same(created.status, 201, 'the status of a new upload')
  await user.go(of.page)
  await user.expectText('A file is on its way', '1000 bytes of 977 KiB')
  await accessible(user)
  await user.press('form[action$="/again"] button')
  await user.expectText('Hand over a file')
  await user.page.evaluate((form) => { HTMLFormElement.prototype.submit.call(document.querySelector(form)) }, '.upload form') // no file, as without the script
  await user.page.waitForNavigation()
  await user.expectText('Choose')
  await accessible(user)
  await choose(user, picture)
  await Promise.all([user.page.waitForNavigation(), user.page.click('.upload button.main')])
  await user.expectText('The file has arrived')
  await accessible(user)
  await user.go('/upload/mup_000' + '0'.repeat(43))
  await user.expectText('No file can be handed over here')
  await accessible(user)
  await user.close()
})

await scenario('a large file goes on after the connection broke, and after a reload', async () => {
  const of = await tool('request_upload', { seal: true })
  const user = await person(of.page, true)
  let stalls = 0
  await user.page.exposeFunction('noteStall', () => { stalls++ })
  const watch = () => user.page.evaluate(() => new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) if (/The connection was lost/.test(node.textContent)) globalThis.noteStall()
  }).observe(document.body, { childList: true, subtree: true }))
  const sent = () => user.page.$eval('.transfers progress', (bar) => bar.value / bar.max).catch(() => 0)
  // A page that is left while it is read says nothing: the next look finds the one after it.
  const arrived = async () => (await user.text().catch(() => '')).includes('The file has arrived')
  const begin = async () => {
    await watch()
    await choose(user, options.large)
    await user.page.click('.upload button.main')
  }
  await begin()
  let reloads = 0
  user.page.on('dialog', (dialog) => dialog.accept())
  for (const share of [0.1, 0.4, 0.7]) {
    await waitFor(async () => await sent() >= share || await arrived(), `${100 * share} % of the file`)
    if (await arrived()) break // a small file is one request
    const before = stalls
    await fixture.hooks('/cut', {}, 'POST')
    let looks = 0
    await waitFor(async () => stalls > before || ++looks > 100 || await arrived(), 'the upload to notice')
    if (share === 0.4 && !await arrived()) {
      await user.page.reload()
      reloads++
      if (!await arrived()) await begin()
    }
  }
  await waitFor(arrived, 'the file to arrive')
  const state = await tool('get_upload', { uploadId: of.uploadId })
  same([state.state, state.originalFileName, state.temp], ['uploaded', basename(options.large), undefined], 'the state')
  const item = await tool('get_media', { mediaId: state.mediaId })
  const file = await fetch(item.file.replace(options.base, options.api))
  const [got, want] = [createHash('sha256'), createHash('sha256')]
  await pipeline(file.body, got)
  await pipeline(createReadStream(options.large), want)
  same(got.digest('hex'), want.digest('hex'), 'the bytes of the file')
  same(await user.page.evaluate(() => Object.keys(localStorage)), [], 'what the browser keeps')
  await user.close()
  return `${state.size} bytes; ${stalls} times the upload lost its connection, ${reloads} reloads`
})

await scenario('a file that is rejected can be replaced by another one', async () => {
  const of = await tool('request_upload', { types: ['image/*'] })
  const user = await person(of.page, true)
  await choose(user, join(options.files, 'Price list 2026.pdf'))
  await user.page.click('.upload button.main')
  await waitFor(async () => (await user.text()).includes('another type'), 'the file to be rejected')
  await choose(user, picture)
  await Promise.all([user.page.waitForNavigation(), user.page.click('.upload button.main')])
  await user.expectText('The file has arrived', 'Desert road.png')
  const late = await person(of.page, true)
  await late.expectText('takes no other file')
  for (const one of [user, late]) {
    same(one.problems, [], 'problems of the page')
    await one.close()
  }
})
await fixture.close()

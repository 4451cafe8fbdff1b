// The page on which an owner decides about changes of an assistant, and the pictures in the documentation of what an assistant has people do.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { accessible } from './a11y.mjs'
import { pictureFonts } from './fonts.mjs'
import { Fixture, expect, same, waitFor } from './fixture.mjs'
import { look } from './states.mjs'

const options = JSON.parse(process.argv[2])
const fixture = await Fixture.open(options, await pictureFonts(options.scratch))
const owner = await fixture.newUser({ address: options.owner, javascript: true })
const { access_token: token } = await owner.connect(await fixture.register('Press desk', 'https://claude.ai/api/mcp/auth_callback'), { scope: 'media:read media:write media:delete' })
await owner.logIn('/account/files') // before an e-mail tells him what waits
const tool = (name, args) => fixture.tool(token, name, args)

// scenario prints the result of a check as a line of JSON.
async function scenario(name, act) {
  const began = performance.now()
  const problem = await act().then(() => '', (error) => error.stack)
  console.log(JSON.stringify({ scenario: name, problem, took: (performance.now() - began) / 1000 }))
}

// take writes a picture for the documentation, in which the times are always the same ones.
async function take(user, name, width, height) {
  await look(user, async () => {
    await user.page.evaluate(() => Promise.all([...document.images].map((image) => image.decode())))
    await user.page.evaluate(() => { [...document.querySelectorAll('time')].forEach((time, n) => { time.textContent = `Nov ${29 + n}, 2026, 10:00 AM` }) })
    await writeFile(join(options.scratch, name), await user.page.screenshot())
  }, { light: { width, height, scheme: 'light', scale: 1 } })
}

const pictures = []
for (const name of ['Glacier.png', 'Vineyard.png', 'Volcano.png']) pictures.push(await fixture.add(token, name, await readFile(join(options.files, 'library', name))))

// On a phone, an owner saw the buttons, and nothing of what he was asked.
await scenario('an owner sees what is wanted and the buttons on the first screen of a phone, and allows it', async () => {
  await tool('delete_media', { mediaId: pictures[0] })
  await tool('delete_media', { mediaId: pictures[1] })
  const { url } = await tool('update_media', { mediaId: pictures[2], access: 'public' })
  await owner.go('/account/files')
  await owner.expectText('Press desk waits for your decision')
  await owner.go(url)
  await owner.expectText('Delete 2 files', 'Make public Volcano.png', 'everyone with the address can see public files')
  await take(owner, 'approval.png', 900, 760)
  await owner.page.setViewport({ width: 360, height: 640 })
  const bottoms = await owner.page.evaluate(() => Object.fromEntries([['what', '.facts > div:first-child'], ['buttons', '.decision button']].map(([name, selector]) => [name, document.querySelector(selector).getBoundingClientRect().bottom])))
  expect(bottoms.what < bottoms.buttons && bottoms.buttons <= 640, `on a phone, the page ends ${JSON.stringify(bottoms)}`)
  await accessible(owner)
  await owner.press('.decision button.main')
  await waitFor(async () => {
    await owner.page.reload()
    if (await owner.page.$('meta[http-equiv=refresh]')) return false // it renews itself while changes are carried out
    return (await owner.text()).includes('You allowed this') && (await owner.text()).split('It can be restored until').length === 3
  }, 'the changes to be carried out')
  await owner.expectText('Delete Glacier.png')
  await accessible(owner)
  await owner.go('/account/files')
  expect(!(await owner.text()).includes('waits for your decision'), 'the files page names what does not wait anymore')
  same(owner.problems, [], 'problems of the page')
})

await scenario('the picture of the page that takes a file', async () => {
  const { page } = await tool('request_upload', { caption: 'The cover of the spring issue', types: ['image/*'], maxBytes: 20 << 20 })
  const user = await fixture.newUser({ address: 'nobody@example.org', javascript: true })
  await user.go(page)
  await user.expectText('Hand over a file')
  await take(user, 'hand-over.png', 640, 760)
  await user.close()
})
await owner.close()
await fixture.close()

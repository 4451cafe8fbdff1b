// Checks every page in every state with axe-core (WCAG 2.2, A and AA) and takes screenshots.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { componentSheet } from './components.mjs'
import { pictureFonts } from './fonts.mjs'
import { Fixture, expect } from './fixture.mjs'
import { essential, look, visitStates } from './states.mjs'

const options = JSON.parse(process.argv[2])
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const fixture = await Fixture.open(options, await pictureFonts(options.scratch))
const shots = {}
const forSheet = {
  light: { width: 540, height: 920, scheme: 'light', scale: 1 },
  dark: { width: 540, height: 920, scheme: 'dark', scale: 1 },
  phone: { width: 390, height: 844, scheme: 'light', scale: 1 },
}

if (options.pictures) await mkdir(options.pictures, { recursive: true })
await scenario('all states', async () => {
  await visitStates(fixture, async (state, user) => {
    await scenario(state, async () => {
      // axe can't judge what is under the buttons that stay at the bottom of the consent page until it is scrolled.
      await user.page.evaluate(() => {
        const sheet = new CSSStyleSheet()
        sheet.replaceSync('.consent .decision { position: static }')
        document.adoptedStyleSheets = [sheet]
      })
      await user.page.evaluate(axe) // which the pages' own policy would not let in
      const found = []
      await look(user, async (way) => {
        const { violations, incomplete, passes } = await user.page.evaluate(() => globalThis.axe.run(document, {
          runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations', 'incomplete', 'passes'],
        }))
        // A page on which nothing was judged proves nothing.
        expect(passes.length >= 5, `${way}: only ${passes.length} rules were looked at`)
        // The contrast of a date can only be judged when there is one.
        const judged = incomplete.map((one) => ({ ...one, nodes: one.nodes.filter(({ html }) => !/type="date" value=""/.test(html)) })).filter(({ nodes }) => nodes.length > 0)
        for (const { id, help, nodes } of [...violations, ...judged]) found.push(`${way}: ${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)}`)
        if (options.pictures) await user.page.screenshot({ fullPage: true, path: join(options.pictures, `${state}-${way}.png`) })
      })
      await user.page.evaluate(() => { document.adoptedStyleSheets = [] })
      if (essential.includes(state)) await look(user, async (way) => { shots[`${state}-${way}`] = await user.page.screenshot() }, forSheet)
      expect(found.length === 0, found.join('\n'))
    })
  })
})
await scenario('the picture of the library', async () => {
  const mia = await fixture.newUser({ address: fixture.galleries.shift(), javascript: true })
  const { access_token: token } = await mia.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'), { scope: 'media:read media:write' })
  const folder = join(options.files, 'library')
  for (const name of (await readdir(folder)).sort()) await fixture.add(token, name, await readFile(join(folder, name)), { access: name.startsWith('T') ? 'public' : 'private' })
  await mia.logIn('/account/files')
  await look(mia, async () => {
    expect((await mia.names()).length >= 18, 'the library has too few pictures')
    await mia.page.evaluate(() => Promise.all([...document.images].map((image) => image.decode())))
    await writeFile(join(options.scratch, 'files.png'), await mia.page.screenshot())
  }, { light: { width: 1120, height: 600, scheme: 'light', scale: 1 } })
  await mia.close()
})
await scenario('the sheet of components', async () => {
  await writeFile(join(options.scratch, 'components.png'), await componentSheet(fixture))
})
await scenario('the sheet of pictures', async () => {
  const png = await sheet()
  expect(png.length > 50 << 10, `it has ${png.length} bytes`)
  await writeFile(join(options.scratch, 'login.png'), png)
})
await fixture.close()

// scenario prints the result of a check as a line of JSON.
async function scenario(name, act) {
  const began = performance.now()
  const problem = await act().then(() => '', (error) => error.stack)
  console.log(JSON.stringify({ scenario: name, problem, took: (performance.now() - began) / 1000 }))
}

// sheet shows the pages of a login side by side: light, dark, and on a phone.
async function sheet() {
  const page = await fixture.browser.newPage()
  await page.setViewport({ width: 4 * 540, height: 800 })
  await page.setContent(`<!doctype html><style>
    body { margin: 0; display: grid; }
    div { display: grid; grid-template-columns: repeat(4, 540px); justify-items: center; }
    img { display: block; }
    .phone { background: #dfe3e8; padding: 24px 0; }
    .phone img { border-radius: 28px; }
  </style>${Object.keys(forSheet).map((way) => `<div class="${way}">${essential.map((state) => `<img src="data:image/png;base64,${Buffer.from(shots[`${state}-${way}`]).toString('base64')}">`).join('')}</div>`).join('')}`)
  const png = await page.screenshot({ fullPage: true })
  await page.close()
  return png
}

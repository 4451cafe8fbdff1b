// Draws the sheet of the components of all pages, in light and dark, with the style sheet that the service serves.
import { expect } from './fixture.mjs'

const note = (kind, text, drawing) => `<p class="note ${kind}"><svg viewBox="0 0 20 20" width="20" height="20"><circle cx="10" cy="10" r="8.5"/><path d="${drawing}"/></svg><span>${text}</span></p>`
const [alarm, tick] = ['M10 5.5v5.5M10 14.2v.1', 'M6.2 10.3l2.6 2.6 5-5.4']

// parts are the components: the title of each, and its HTML as in the templates of the pages.
const parts = {
  'Titles and texts': '<h1>Title of a page</h1><p class="lead">What <strong>the page</strong> is about.</p><h2>Title of a part</h2><p>Text with <a href="#">a link</a>.</p><p class="hint">A hint beside it.</p>',
  Buttons: '<div class="actions"><button class="main">Main</button><button>Other</button><button class="destructive">Delete</button><a class="button" href="#">A link</a></div>',
  Fields: '<div class="entry"><label>Name</label><input type="text" value="Alpine morning.png"></div><div class="entry"><label>Order</label><select><option>Newest first</option></select></div><div class="entry"><label>Code</label><input class="code" type="text" value="12345678"></div>',
  'A field that is wrong': `<div class="entry"><label>Name</label><input type="text" value="2026/05 Alps.png" aria-invalid="true">${note('error', 'A name cannot have the characters / and \\.', alarm)}</div>`,
  Choices: '<fieldset><legend>Account</legend><div class="choice"><input type="radio" name="a" checked><label>Studio</label><span class="detail">team-a/studio</span></div><div class="choice"><input type="radio" name="a"><label>Archive</label><span class="detail">team-a/archive</span></div></fieldset>',
  Notes: note('success', 'The file was changed.', tick) + '<div class="note warning"><span>Your login ends in two minutes.</span></div>' + note('error', 'The file is too large.', alarm),
  'Tabs and links': '<nav class="page-links"><ul><li><a href="#" aria-current="page">Files</a></li><li><a href="#">Activity</a></li></ul></nav><nav class="tabs"><ul><li><a href="#" aria-current="page">Files</a></li><li><a href="#">Not kept yet</a></li><li><a href="#">Deleted</a></li></ul></nav>',
  'Tags and the meter': '<p><span class="tag">Not kept yet</span> <span class="tag plain">Public</span></p><div class="usage"><meter min="0" max="100" optimum="0" low="80" high="95" value="40"></meter><p class="hint">4 GiB of 10 GiB used</p></div><div class="usage"><meter min="0" max="100" optimum="0" low="80" high="95" value="90"></meter><p class="hint">nearly full</p></div>',
  Panels: '<details class="panel" open><summary>Sort and filter</summary><p>Folded until it is needed.</p></details>',
  Facts: '<dl class="facts"><div><dt>Type</dt><dd>image/png</dd></div><div><dt>Taken</dt><dd>1 May 2024, 23:30</dd></div></dl>',
}

// componentSheet returns the sheet as a PNG file.
export async function componentSheet(fixture) {
  const login = await (await fetch(`${fixture.options.api}/account/files`)).text()
  const address = /<link rel="stylesheet" href="([^"]+)"/.exec(login)
  expect(address, `the page of a login has no style sheet: ${login}`)
  const style = await (await fetch(new URL(address[1].replaceAll('&amp;', '&'), fixture.options.api))).text()
  const page = await fixture.browser.newPage()
  const shots = []
  for (const scheme of ['light', 'dark']) {
    await page.setViewport({ width: 760, height: 600 })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
    await page.setContent(`<!doctype html><html lang="en"><meta name="color-scheme" content="light dark"><style>${style}
      body { display: block; min-height: 0; padding: 1rem; }
      .sheet { columns: 2; column-gap: 1rem; }
      .sheet section { break-inside: avoid; margin-bottom: 1rem; padding: 1rem; background: var(--surface); border: 1px solid var(--divider); border-radius: 0.75rem; }
      .sheet section > * + * { margin-top: 0.75rem; }
      .sheet .of { font-size: 0.75rem; color: var(--muted); }
    </style><div class="sheet">${Object.entries(parts).map(([title, html]) => `<section><p class="of">${title}</p>${html}</section>`).join('')}</div>`)
    shots.push(await page.screenshot({ fullPage: true }))
  }
  await page.setViewport({ width: 1520, height: 600 })
  await page.setContent(`<!doctype html><style>body { margin: 0; display: flex; align-items: flex-start; } img { display: block; }</style>${shots.map((png) => `<img src="data:image/png;base64,${Buffer.from(png).toString('base64')}">`).join('')}`)
  const sheet = await page.screenshot({ fullPage: true })
  await page.close()
  return sheet
}

// Every page of a login, and the files page, in every state.
import { expect, same, waitFor } from './fixture.mjs'

// essential are the states that show a login from its beginning to its end.
export const essential = ['address', 'code', 'consent', 'connections']

// visitStates brings a user to every state and calls visit(name, user) in each.
export async function visitStates(fixture, visit) {
  const [one, both] = ['ana.lopez@example.org', 'bo.winter@example.org']
  const ana = await fixture.newUser({ address: one, javascript: true })
  const known = await fixture.register('Claude', 'https://claude.ai/api/mcp/auth_callback')
  const unknown = await fixture.register('Claude Desktop Helper', 'https://claude-desktop.example/callback')
  const cursor = await fixture.register('Cursor', 'cursor://anysphere.cursor-mcp/oauth/callback')
  const bench = await fixture.program('Workbench')
  const wrong = async (user) => {
    const right = Number(await user.code())
    await user.sendCode(String((right + 1) % 100_000_000).padStart(8, '0'))
    return String(right).padStart(8, '0')
  }

  await ana.go(fixture.link(known))
  await visit('address', ana)
  await ana.sendAddress('ana..lopez@example.org')
  await visit('address-wrong', ana)
  await ana.sendAddress()
  await visit('code', ana)
  await ana.press('.aside button')
  await visit('code-too-early', ana)
  const right = await wrong(ana)
  await visit('code-wrong', ana)
  await ana.sendCode(right)
  await visit('consent', ana)
  await ana.press('button[value="allow"]')
  await fixture.redeem(known, new URL(ana.page.url()).searchParams.get('code'))

  await ana.go(fixture.link(unknown, { prompt: 'none' }))
  await visit('turned-back', ana)
  await ana.go(fixture.link(unknown))
  await visit('address-unverified', ana)
  await ana.logIn(fixture.link(unknown))
  await visit('consent-unverified', ana)
  await ana.press('button[value="allow"]')
  await fixture.redeem(unknown, new URL(ana.page.url()).searchParams.get('code'))

  await ana.logIn(fixture.link(cursor))
  await ana.press('button[value="allow"]')
  await waitFor(() => ana.opened.length === 1, 'the program to be opened')
  await visit('return', ana)
  await ana.tab() // where the browser does not ask whether to open the program
  await ana.logIn(fixture.link(cursor))
  await ana.press('button[value="deny"]')
  await waitFor(() => ana.opened.length === 2, 'the program to be opened')
  await visit('return-denied', ana)
  await ana.tab()

  const bo = await fixture.newUser({ address: both, javascript: true })
  await bo.logIn(fixture.link(bench))
  await visit('consent-choice', bo)
  await bo.page.$eval('form', (form) => { form.noValidate = true })
  await bo.press('button[value="allow"]')
  await bo.expectText('Choose an account.')
  await visit('consent-choice-wrong', bo)
  await bo.close()

  await ana.go('/account/connections')
  await visit('address-alone', ana)
  await ana.logIn('/account/connections')
  await visit('connections', ana)
  await ana.page.click('summary')
  await visit('connections-open', ana)
  await ana.press('.apps button')
  await visit('connections-ended', ana)
  await ana.press('.apps button')
  await visit('connections-none', ana)
  await ana.press('form[action="/account/connections/logout"] button')
  await visit('address-logged-out', ana)
  await ana.go('/oauth/login')
  await visit('over', ana)
  await ana.close()

  const owner = await fixture.newUser({ address: both, javascript: true })
  await owner.logIn('/account/files')
  await visit('files-accounts', owner)
  await owner.close()

  const lea = await fixture.newUser({ address: 'lea.moreau@example.org', javascript: true })
  await lea.go('/account/files')
  await visit('files-address', lea)
  await lea.logIn('/account/files')
  await visit('files-none', lea)
  await lea.upload('Price list 2026.pdf', { caption: 'For the trade fair' })
  await lea.upload('Desert road.png')
  await lea.upload('Alpine morning.png', { caption: 'Before the ascent' })
  await lea.upload('Beach at dusk.png', { caption: 'The last evening of the trip' })
  await visit('files-uploaded', lea)
  await lea.go('/account/files')
  await visit('files', lea)
  await lea.open('.filter')
  await lea.open('.menu')
  await visit('files-controls', lea)
  await lea.go('/account/files')
  await lea.page.click('.file:nth-child(2) .pick')
  await visit('files-selected', lea)
  await lea.view(1)
  await visit('file', lea)
  await lea.open('.edit')
  await visit('file-edit', lea)
  await lea.fill('#edit-name', ' ')
  await lea.press('.edit button')
  await visit('file-edit-wrong', lea)
  await lea.open('.share')
  await lea.press('.share form button')
  await visit('file-shared', lea)
  await lea.go('/account/files?sort=time')
  await lea.view(1) // a document
  await visit('file-document', lea)
  await lea.go('/account/files')
  await lea.open('.upload')
  await visit('files-upload', lea)
  await lea.upload('too-large.bin', { caption: 'Drawings of the stand, "north" & south', group: 'fair', access: 'public', plain: true })
  await visit('files-upload-wrong', lea)
  await lea.go('/account/files')
  await lea.fill('#words', 'nothing')
  await lea.press('.search button')
  await visit('files-no-match', lea)
  await lea.go('/account/files')
  await lea.upload('Desert road.png', { draft: true })
  await visit('files-drafts', lea)
  await lea.remove()
  await visit('files-question', lea)
  await lea.press('.decision a')
  await lea.go('/account/files')
  await lea.remove()
  await visit('files-deleted-now', lea)
  await lea.press('.tabs li:last-child a')
  await visit('files-deleted', lea)
  await lea.go('/account/files')
  await lea.remove()
  const stale = new URL(lea.page.url()).searchParams
  await lea.go(`/account/files?${new URLSearchParams({ request: stale.get('request'), account: stale.get('account'), sort: 'color' })}`)
  await visit('files-wrong', lea)
  await lea.close()

  await visitApps(fixture, visit)
  await visitRunning(fixture, visit)
  await visitFull(fixture, visit)
  await visitEnds(fixture, visit)
  await visitDeletes(fixture, visit)

  const again = await fixture.newUser({ address: one, javascript: true })
  await again.go(fixture.link(bench))
  await again.sendAddress()
  await waitFor(async () => (await again.press('.aside button')).status() === 200, 'another code')
  await visit('code-resent', again)
  await again.close()
}

// allScopes are those of an application that wants everything.
const allScopes = { scope: 'media:read media:write media:delete' }

// hostileNames are names of files that may break a page.
export const hostileNames = [
  `${'Rhabarberbarbara_'.repeat(14)}with the end.txt`, // 255 characters
  '\u202egpj.\u05ea\u05de\u05d5\u05e0\u05d4 \u05e9\u05dc\u05d9.txt',
  '\u0635\u0648\u0631\u0629 \u0627\u0644\u0639\u0627\u0626\u0644\u0629 2026 (1).txt',
  '<img src=x onerror="document.title=1"><b>bold</b>&amp;.txt',
  'Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e a\u0300\u0301\u0302\u0303\u0304.txt',
  '\u5199\u771f\u306e\u4e00\u89a7\u3068\u3068\u3066\u3082\u9577\u3044\u540d\u524d'.repeat(8) + '.txt',
]

// visitApps visits the files of an account with several apps.
async function visitApps(fixture, visit) {
  const ines = await fixture.newUser({ address: 'ines.prado@example.org', javascript: true })
  await ines.logIn('/account/files')
  await ines.open('.choice-of-app')
  await visit('files-apps', ines)
  await ines.press('.choice-of-app li:nth-child(3) a')
  await ines.expectText('App trailers')
  await ines.upload('Beach at dusk.png')
  await ines.expectText('App trailers')
  same(await ines.names(), ['Beach at dusk.png'], 'the files of the app')
  await visit('files-of-an-app', ines)
  await ines.open('.choice-of-app')
  await ines.press('.choice-of-app li:nth-child(1) a')
  same(await ines.names(), [], 'the files of the Default App')
  await ines.close()
}

// visitRunning visits the files page with uploads that are running.
async function visitRunning(fixture, visit) {
  const noa = await fixture.newUser({ address: 'noa.meyer@example.org', javascript: true })
  const { access_token: token } = await noa.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'), allScopes)
  await fixture.set(token, { useWebP: true })
  await fixture.hasRun(token, 'Interview, first part.wav', 400_000, 250_000)
  await noa.logIn('/account/files')
  await visit('files-running', noa) // and no file yet
  await fixture.hasRun(token, 'Live from the stage.webm', null, 120_000)
  await fixture.hasRun(token, 'Nothing arrived.mov', 300_000)
  await noa.upload('Beach at dusk.png', { caption: 'The last evening' })
  await visit('files-original', noa)
  for (const name of hostileNames) {
    await fixture.hasRun(token, name, 10, 4)
    await fixture.add(token, name, name, { caption: name, group: name.slice(0, 60) })
  }
  await noa.go('/account/files')
  await noa.page.click('.running summary') // the list of many is folded
  await visit('files-hostile-names', noa)
  await noa.press('.running button')
  await visit('files-cancelled', noa)
  await noa.press('.page-links li:nth-child(2) a')
  await visit('activity', noa)
  await noa.press('.activity a.detail')
  await visit('activity-of-a-file', noa)
  await noa.go('/account/activity?type=media.purged')
  await visit('activity-no-match', noa)
  await noa.go('/account/activity?item=x')
  await visit('activity-wrong', noa)
  for (let n = 0; n < 21; n++) await fixture.hasRun(token, `Part ${n}.bin`, 1000, n)
  await noa.go('/account/files?state=draft')
  await visit('files-running-folded', noa)
  await noa.page.click('.running summary')
  await visit('files-running-many', noa)
  await noa.close()
}

// visitFull visits the meter, from empty to full.
async function visitFull(fixture, visit) {
  const max = await fixture.newUser({ address: 'max.full@example.org', javascript: true })
  const { access_token: token } = await max.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'), allScopes)
  await max.logIn('/account/files')
  let used = 0
  for (const percent of [10, 60, 90, 100]) {
    for (let more = Math.floor((4 << 20) * percent / 100) - used; more > 0;) {
      const part = Math.min(more, 2 << 20)
      await fixture.hasRun(token, `${percent}.bin`, part)
      more -= part
      used += part
    }
    await max.go('/account/files')
    await visit(`files-meter-${percent}`, max)
  }
  await max.upload('Desert road.png', { caption: 'One more', plain: true })
  await visit('files-full', max)
  await max.close()
}

// visitEnds visits what a user meets whose login ended, and one who logs in a second time.
async function visitEnds(fixture, visit) {
  const [address, other] = [fixture.galleries.shift(), fixture.galleries.shift()]
  const user = await fixture.newUser({ address, javascript: true })
  await user.logIn('/account/files')
  await user.upload('Alpine morning.png')
  await fixture.hooks('/expire', { request: await user.request() }, 'POST')
  await user.page.click('.pick')
  await user.press('.selection [value="public"]')
  await visit('files-ended', user)
  await user.press('.actions a')
  await visit('files-login-ended', user)
  await user.close()

  // Nobody gets another code of the other runtime within a test.
  const { plain } = fixture
  const twice = await plain.newUser({ address: other, javascript: true })
  await twice.go('/account/connections')
  await twice.sendAddress()
  await twice.go('/account/files')
  await twice.sendAddress()
  await visit('code-continued', twice)
  await twice.close()
  const elsewhere = await plain.newUser({ address: other, javascript: true })
  await elsewhere.go('/account/files')
  await elsewhere.fill('#email', other)
  await elsewhere.press('button.main')
  await visit('address-code-sent', elsewhere)
  await elsewhere.close()
}

// visitDeletes visits what is said about deletes: to who allows them, and before one that nobody can undo.
async function visitDeletes(fixture, visit) {
  const claude = await fixture.register('Claude', 'https://claude.ai/api/mcp/auth_callback')
  const user = await fixture.newUser({ javascript: true })
  await user.logIn(fixture.link(claude, allScopes))
  await visit('consent-delete', user)
  await user.logIn('/account/files')
  await user.go('/account/activity') // the account has no journal
  await visit('activity-off', user)
  await user.go('/account/files')
  await user.upload('Desert road.png')
  await user.remove()
  await visit('files-question-sealed', user)
  await fixture.hooks('/age', { request: await user.request() }, 'POST')
  await user.page.reload()
  await visit('files-question-login', user)
  await user.press('.decision form button')
  await visit('files-question-address', user)
  await user.close()

  const both = await fixture.newUser({ address: fixture.owners.shift(), javascript: true })
  await both.logIn(fixture.link(claude, allScopes))
  await visit('consent-delete-choice', both)
  await both.close()
}

// viewports are the screens that each page is checked on.
export const viewports = {
  light: { width: 1280, height: 900, scheme: 'light', scale: 1.5 },
  dark: { width: 1280, height: 900, scheme: 'dark', scale: 1.5 },
  phone: { width: 390, height: 844, scheme: 'light', scale: 1.5 },
  'phone-dark': { width: 390, height: 844, scheme: 'dark', scale: 1.5 },
}

// look shows the page on each viewport, one after the other.
export async function look(user, act, ways = viewports) {
  for (const [name, { width, height, scheme, scale }] of Object.entries(ways)) {
    await user.page.setViewport({ width, height, deviceScaleFactor: scale })
    await user.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
    expect(await user.page.evaluate((width) => document.documentElement.scrollWidth <= width, width), `${user.page.url()} is wider than ${name}`)
    same(await cutChoices(user.page), [], `the choices at ${user.page.url()} that are cut off on ${name}`)
    await act(name)
  }
}

// cutChoices returns the ids of the lists whose longest choice does not fit: a browser cuts it off without a sign.
function cutChoices(page) {
  return page.$$eval('select', (lists) => lists.filter((list) => list.checkVisibility({ contentVisibilityAuto: true })).filter((list) => { // those that are not folded
    const free = list.cloneNode(true)
    free.style.cssText = 'width: max-content; max-width: none; position: absolute'
    list.after(free)
    const needed = free.getBoundingClientRect().width
    free.remove()
    return needed > Math.ceil(list.getBoundingClientRect().width)
  }).map((list) => list.id))
}

// Every page of a login, and the files page, in every state.
import { expect, waitFor } from './fixture.mjs'

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
  await lea.page.click('.upload summary')
  await visit('files-upload', lea)
  await lea.upload('too-large.bin')
  await visit('files-upload-wrong', lea)
  await lea.go('/account/files')
  await lea.fill('#name', 'nothing')
  await lea.press('.filter button')
  await visit('files-no-match', lea)
  await lea.go('/account/files')
  await lea.upload('Desert road.png', { draft: true })
  await visit('files-drafts', lea)
  await lea.press('.file a.button')
  await visit('files-question', lea)
  await lea.press('.decision a')
  await lea.go('/account/files')
  await lea.press('.file form[action*="/delete"] button')
  await visit('files-deleted-now', lea)
  await lea.press('.tabs li:last-child a')
  await visit('files-deleted', lea)
  await lea.go('/account/files')
  await lea.press('.file form[action*="/delete"] button')
  const stale = new URL(lea.page.url()).searchParams
  await lea.go(`/account/files?${new URLSearchParams({ request: stale.get('request'), account: stale.get('account'), sort: 'color' })}`)
  await visit('files-wrong', lea)
  await lea.close()

  const again = await fixture.newUser({ address: one, javascript: true })
  await again.go(fixture.link(bench))
  await again.sendAddress()
  await waitFor(async () => (await again.press('.aside button')).status() === 200, 'another code')
  await visit('code-resent', again)
  await again.close()
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
    await act(name)
  }
}

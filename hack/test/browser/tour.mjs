// Every page of a login in every state, shown to whoever wants to look at it.
import { expect, until } from './world.mjs'

// tour has a person visit all of them. visit(name, person) looks at each; essential are
// those that show a login from its beginning to its end.
export const essential = ['address', 'code', 'consent', 'connections']

export async function tour(world, visit) {
  const [one, both] = ['ana.lopez@example.org', 'bo.winter@example.org']
  const ana = await world.come({ address: one, javascript: true })
  const plain = world.plain
  const known = await world.register('Claude', 'https://claude.ai/api/mcp/auth_callback')
  const unknown = await world.register('Claude Desktop Helper', 'https://claude-desktop.example/callback')
  const cursor = await world.register('Cursor', 'cursor://anysphere.cursor-mcp/oauth/callback')
  const bench = await world.program('Workbench')
  const wrong = async (person) => {
    const right = Number(await person.code())
    await person.sendCode(String((right + 1) % 100_000_000).padStart(8, '0'))
    return String(right).padStart(8, '0')
  }

  await ana.go(world.link(known))
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
  await world.redeem(known, new URL(ana.page.url()).searchParams.get('code'))

  await ana.go(world.link(unknown, { prompt: 'none' }))
  await visit('turned-back', ana)
  await ana.go(world.link(unknown))
  await visit('address-unverified', ana)
  await ana.logIn(world.link(unknown))
  await visit('consent-unverified', ana)
  await ana.press('button[value="allow"]')
  await world.redeem(unknown, new URL(ana.page.url()).searchParams.get('code'))

  await ana.logIn(world.link(cursor))
  await ana.press('button[value="allow"]')
  await until(() => ana.opened.length === 1, 'the program to be opened')
  await visit('return', ana)
  await ana.tab() // where the browser does not ask whether to open the program
  await ana.logIn(world.link(cursor))
  await ana.press('button[value="deny"]')
  await until(() => ana.opened.length === 2, 'the program to be opened')
  await visit('return-denied', ana)
  await ana.tab()

  const bo = await world.come({ address: both, javascript: true })
  await bo.logIn(world.link(bench))
  await visit('consent-choice', bo)
  await bo.page.$eval('form', (form) => { form.noValidate = true })
  await bo.press('button[value="allow"]')
  await bo.sees('Choose an account.')
  await visit('consent-choice-wrong', bo)
  await bo.leave()

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
  await ana.leave()

  const again = await plain.come({ address: one, javascript: true })
  await again.go(plain.link(await plain.program('Workbench')))
  await again.sendAddress()
  await until(async () => (await again.press('.aside button')).status() === 200, 'another code')
  await visit('code-resent', again)
  await again.leave()
}

// looks are what each page is looked at with.
export const looks = {
  light: { width: 1280, height: 900, scheme: 'light', scale: 1.5 },
  dark: { width: 1280, height: 900, scheme: 'dark', scale: 1.5 },
  phone: { width: 390, height: 844, scheme: 'light', scale: 1.5 },
  'phone-dark': { width: 390, height: 844, scheme: 'dark', scale: 1.5 },
}

// look has a person look at their page in each way, one after the other.
export async function look(person, act, ways = looks) {
  for (const [name, { width, height, scheme, scale }] of Object.entries(ways)) {
    await person.page.setViewport({ width, height, deviceScaleFactor: scale })
    await person.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
    expect(await person.page.evaluate((width) => document.documentElement.scrollWidth <= width, width), `${person.page.url()} is wider than ${name}`)
    await act(name)
  }
}

// Scenarios of logins and connections, most of them in a browser without JavaScript.
import { Fixture, expect, same, report, waitFor } from './fixture.mjs'
import { tabOrder, noOverflow } from './a11y.mjs'
import { hostileNames } from './states.mjs'

const fixture = await Fixture.open(JSON.parse(process.argv[2]))
const { base } = fixture.options
const cursorCallback = 'cursor://anysphere.cursor-mcp/oauth/callback'
const allow = 'button[value="allow"]'
const deny = 'button[value="deny"]'

// as returns a scenario that runs with a new user. The browser must not have blocked anything.
const as = (options, act) => async () => {
  const user = await (options.plain ? fixture.plain : fixture).newUser(options)
  try {
    await act(user, user.fixture)
    same(user.problems, [], 'the browser complains')
  } finally {
    await user.close()
  }
}
const scenario = (act) => as({}, act)

// answered returns the parameters that a program received at its callback, once.
function answered(app, issuer) {
  same(app.received.map(({ method, url }) => `${method} ${url.pathname}`), ['GET /callback'], 'the program received')
  const { searchParams: response } = app.received[0].url
  same([response.get('state'), response.get('iss')], ['s t&te', issuer], 'state and issuer')
  return response
}

const scenarios = {}
for (const [name, options, host] of [
  ['a program on this computer', {}, '127.0.0.1'],
  ['a program on this computer, by its name', {}, 'localhost'],
  ['a program, at a service without TLS', { plain: true }, '127.0.0.1'],
]) {
  scenarios[`a user connects ${name}`] = as(options, async (user, fixture) => {
    const app = await fixture.program('Workbench', host)
    await user.go(fixture.link(app))
    await user.expectText('Log in', 'Workbench', 'unverified', 'an application on this computer')
    await user.sendAddress()
    await user.expectText('Check your mail', user.address, 'It works for 10 minutes')
    const code = await user.code()
    await user.sendCode(` ${code.slice(0, 4)} ${code.slice(4)} `)
    await user.expectText('Allow Workbench to use your files?', user.address, 'Studio López', 'See your files', 'Add and change your files, and make files public')
    same(await user.page.cookies().then((all) => all.map(({ name, httpOnly, secure, sameSite }) => [name.replace(/-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, ''), httpOnly, secure, sameSite])),
      [[options.plain ? 'login' : '__Host-login', true, !options.plain, 'Lax']], 'the cookies')
    await user.press(allow)
    same(user.page.url().split('?')[0], app.redirect, 'the browser is at')
    await user.expectText('You are back.')
    const tokens = await fixture.redeem(app, answered(app, fixture.options.base).get('code'))
    same(tokens.scope, 'media:read media:write', 'the scopes')
  })
}

scenarios['a user connects a program with a URL scheme of its own'] = scenario(async (user) => {
  const app = await fixture.register('Cursor', cursorCallback)
  await user.logIn(fixture.link(app))
  await user.expectNoText('nverified')
  await user.expectText('the application on this device that opens cursor: links')
  const response = await user.press(allow)
  same(response.status(), 200, 'the answer')
  await user.expectText('You can close this tab', 'You allowed Cursor')
  await waitFor(() => user.opened.length === 1, 'the program to be opened')
  const callback = new URL(user.opened[0])
  same([callback.href.split('?')[0], callback.searchParams.get('state'), callback.searchParams.get('iss')], [cursorCallback, 's t&te', base], 'the program receives')
  await fixture.redeem(app, callback.searchParams.get('code'))
  // The browser's question, whether to open it, is in front of the page by now.
  await user.page.$eval('a.main', (link) => link.click())
  await waitFor(() => user.opened.length === 2, 'the program to be opened again')
  same(user.opened[1], user.opened[0], 'the program receives the second time')
  await user.expectText('You can close this tab')
})

scenarios['a user denies access to a program with a URL scheme of its own'] = scenario(async (user) => {
  const app = await fixture.register('Cursor', cursorCallback)
  await user.logIn(fixture.link(app))
  await user.press(deny)
  await user.expectText('You can close this tab', 'Cursor was not allowed')
  await waitFor(() => user.opened.length === 1, 'the program to be opened')
  const response = new URL(user.opened[0]).searchParams
  same([response.get('error'), response.get('code'), response.get('state')], ['access_denied', null, 's t&te'], 'the program receives')
})

scenarios['an application on a known host comes without a warning'] = scenario(async (user) => {
  const app = await fixture.register('Claude', 'https://claude.ai/api/mcp/auth_callback?tenant=a')
  await user.go(fixture.link(app))
  await user.expectNoText('nverified')
  await user.sendAddress()
  await user.sendCode(await user.code())
  await user.expectText('Allow Claude to use your files?', 'Sends you to claude.ai')
  await user.expectNoText('nverified')
  await user.press(allow)
  const at = new URL(user.page.url())
  same([at.origin + at.pathname, at.searchParams.get('tenant'), at.searchParams.get('state'), at.searchParams.get('iss')],
    ['https://claude.ai/api/mcp/auth_callback', 'a', 's t&te', base], 'the browser is at')
  await user.expectText('asked for GET /api/mcp/auth_callback?tenant=a&code=')
  await fixture.redeem(app, at.searchParams.get('code'))
})

scenarios['an application on an unknown host comes with a warning'] = scenario(async (user) => {
  const app = await fixture.register('Claude', 'https://claude.ai.unknown.example/callback')
  await user.go(fixture.link(app))
  await user.expectText('Claude unverified', 'claude.ai.unknown.example')
  await user.sendAddress()
  await user.sendCode(await user.code())
  await user.expectText('Unverified application. Anyone can choose this name.', 'It sends you to claude.ai.unknown.example.')
  await user.press(allow)
  await user.expectText('asked for GET /callback?code=')
})

scenarios['a user denies access'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  await user.logIn(fixture.link(app))
  await user.press(deny)
  await user.expectText('You are back.')
  const response = answered(app, base)
  same([response.get('error'), response.get('code')], ['access_denied', null], 'the program receives')
  await over(user)
  answered(app, base)
})

// over goes back to a page that was answered. The browser may have kept it, and then its
// buttons lead nowhere.
async function over(user) {
  await user.page.goBack()
  if (await user.has(allow)) await user.press(allow)
  await user.expectText('Login expired')
}

scenarios['a mistyped address is reported beside the field'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app))
  await user.fill('#email', 'ana')
  await user.page.click('button.main')
  expect(await user.has('#email:invalid:focus'), 'the browser takes no address for one')
  same((await user.sendAddress('ana..lopez@example.org')).status(), 400, 'the answer')
  await tied(user, '#email', 'Enter an e-mail address, such as ana@example.org.')
  same(await user.page.$eval('#email', (field) => field.value), 'ana..lopez@example.org', 'what was typed')
  await user.sendAddress()
  await user.expectText('Check your mail')
})

scenarios['five wrong codes end a login'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app))
  await user.sendAddress()
  const right = await user.code()
  for (let tries = 1; tries < 5; tries++) {
    const response = await user.sendCode(wrong(right, tries))
    same(response.status(), 400, 'the answer to a wrong code')
    await tied(user, '#code', 'Incorrect code. Use the code from the most recent e-mail.')
  }
  await user.sendCode(wrong(right, 5))
  await user.expectText('Login expired', 'If an application sent you here, start again there.')
  await user.go(`/oauth/login?request=${new URL(app.redirect).port}`)
  await user.expectText('Login expired')
  same(app.received, [], 'the program received')
})

const wrong = (right, n) => String((Number(right) + n) % 100_000_000).padStart(8, '0')

// tied checks that a problem belongs to a field, for eyes and for screen readers.
async function tied(user, selector, problem) {
  await user.waitForFocus()
  const field = await user.page.$eval(selector, (field) => ({
    invalid: field.getAttribute('aria-invalid'), focused: field === document.activeElement,
    described: field.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id)).filter((one) => one.getAttribute('role') === 'alert').map((one) => one.innerText.trim()),
    above: document.querySelector('[role="alert"]').getBoundingClientRect().bottom <= field.getBoundingClientRect().top, title: document.title,
  }))
  same({ ...field, title: field.title.split(':')[0] }, { invalid: 'true', focused: true, described: [problem], above: true, title: 'Error' }, 'the field')
}

scenarios['a code that was mistyped can be typed again'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app))
  await user.sendAddress()
  const right = await user.code()
  await user.fill('#code', '1234567')
  await user.page.click('form[action^="/oauth/login/code"] button.main') // the browser blocks it
  expect(await user.has('#code:invalid'), 'seven digits are taken')
  await user.sendCode(wrong(right, 1))
  await tied(user, '#code', 'Incorrect code. Use the code from the most recent e-mail.')
  same(await user.page.$eval('#code', (field) => field.value), '', 'the wrong code stays')
  await user.sendCode(right)
  await user.expectText('Allow Workbench to use your files?')
})

scenarios['another code comes, but not at once'] = as({ plain: true }, async (user, fixture) => {
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app))
  await user.sendAddress()
  const first = await user.code()
  await user.expectText('You can ask for a new code in')
  const response = await user.press('.aside button')
  same(response.status(), 429, 'the answer')
  await user.expectText('Try again in', 'minute')
  expect(!(await user.has('#code[aria-invalid]')), 'the code is called wrong')
  await user.sendCode(first) // which is still good
  await user.expectText('Allow Workbench to use your files?')
})

scenarios['a new code replaces the one before'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app))
  await user.sendAddress()
  const first = await user.code()
  await waitFor(async () => (await user.press('.aside button')).status() === 200, 'another code')
  await user.expectText('You asked for a new code. The one before no longer works.')
  const second = await user.code()
  if (first !== second) { // one time in a hundred million
    await user.sendCode(first)
    await tied(user, '#code', 'Incorrect code. Use the code from the most recent e-mail.')
  }
  await user.sendCode(second)
  await user.expectText('Allow Workbench to use your files?')
})

scenarios['another address can be taken before the code and after it'] = as({ plain: true }, async (user, fixture) => {
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app, { login_hint: 'another.user@people.example' }))
  same(await user.page.$eval('#email', (field) => field.value), 'another.user@people.example', 'the address that the application knows')
  await user.sendAddress('another.user@people.example') // who owns nothing here
  await user.expectText('Check your mail', 'another.user@people.example')
  await user.press('.aside a')
  await user.expectText('Log in', 'Workbench')
  await waitFor(async () => (await user.sendAddress()).status() === 200, 'a code for the other address')
  await user.sendCode(await user.code())
  await user.expectText('Allow Workbench to use your files?', user.address)
  await user.press('.facts button.link')
  await user.expectText('Log in', 'Workbench')
  const other = fixture.people.shift()
  await user.sendAddress(other)
  await user.sendCode(await user.code(other))
  await user.expectText('Allow Workbench to use your files?', other)
  await user.press(allow)
  await fixture.redeem(app, answered(app, fixture.options.base).get('code'))
})

// allScopes are those of an application that wants everything.
const allScopes = { scope: 'media:read media:write media:delete' }

// inSight returns what of an element can be seen without scrolling: none, a part, or whole; and what covers it.
const inSight = (page, selector) => page.$eval(selector, (element) => {
  const box = element.getBoundingClientRect()
  const points = [[0.5, 0.5], [0.1, 0.2], [0.9, 0.8]].map(([x, y]) => document.elementFromPoint(box.left + x * box.width, box.top + y * box.height))
  return { top: box.top, bottom: box.bottom, whole: box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth, covered: points.filter((one) => !element.contains(one)).length }
})

// The buttons were below the first screen: users of small screens took the page for a notice.
for (const [what, options, name, more] of [
  ['of one account', {}, 'Workbench', {}],
  ['with all scopes', {}, 'Workbench', allScopes],
  ['of an application with a long name', {}, 'The assistant for pictures, films, sounds and all that has a name of eighty letters or more', allScopes],
  ['of an application with a long name without a space', {}, 'Rhabarberbarbarabarbarbarenbartbarbierbierbarbaerbelrhabarberbarbarabarbarbarenbartbarbier', allScopes],
  ['of many accounts', { address: 'mia.many@example.org' }, 'Workbench', allScopes],
]) {
  scenarios[`the decision is in sight, ${what}`] = as(options, async (user, fixture) => {
    for (const app of [await fixture.program(name), await fixture.register(name, 'https://claude.ai/api/mcp/auth_callback'), await fixture.register(name, `https://${'a-long-name-of-a-host.'.repeat(5)}example/callback`)]) {
      await user.logIn(fixture.link(app, more))
      for (const [width, height] of [[360, 640], [900, 760], [1280, 800]]) {
        for (const size of [100, 200]) {
          await user.page.setViewport({ width, height })
          await user.page.evaluate((size) => {
            const sheet = new CSSStyleSheet()
            sheet.replaceSync(`html { font-size: ${size}% }`)
            document.adoptedStyleSheets = [sheet]
            scrollTo(0, 0)
          }, size)
          const at = `${width} x ${height}, text of ${size} %, to ${app.redirect.slice(0, 40)}`
          for (const button of [allow, deny]) {
            const seen = await inSight(user.page, button)
            expect(seen.whole && seen.covered === 0, `${button} at ${at}: ${JSON.stringify(seen)}`)
          }
          expect((await inSight(user.page, 'h1')).top < height / 2, `the question is too far down at ${at}`)
          expect(await user.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `the page is too wide at ${at}`)
          if (size === 100) expect((await inSight(user.page, '.permissions > li')).bottom < height, `no permission is in sight at ${at}`)
        }
      }
      // Nothing that has the focus is under the buttons, which stay at the bottom.
      await user.page.setViewport({ width: 360, height: 640 })
      await user.page.evaluate(() => { document.adoptedStyleSheets = []; document.activeElement.blur(); scrollTo(0, 0) })
      for (let presses = 0; presses < 9; presses++) {
        await user.page.keyboard.press(presses === 4 && what === 'of many accounts' ? 'ArrowDown' : 'Tab')
        const hidden = await user.page.evaluate(() => {
          const focused = document.activeElement.closest('.choice') ?? document.activeElement
          const box = focused.getBoundingClientRect()
          const bar = document.querySelector('.decision')
          return focused !== document.body && !bar.contains(focused) && box.bottom > bar.getBoundingClientRect().top && box.top < bar.getBoundingClientRect().bottom ? focused.outerHTML : ''
        })
        same(hidden, '', 'what has the focus, and is under the buttons')
      }
    }
  })
}

scenarios['the limits of accounts are said where they are chosen'] = as({ address: 'mia.many@example.org' }, async (user) => {
  const app = await fixture.program('Workbench')
  await user.logIn(fixture.link(app, allScopes))
  await user.expectText('Delete your files, in some accounts for good', 'Add and change your files, and make files public')
  const choice = (n) => user.page.$$eval('.choice', (all, n) => all.find((one) => new RegExp(`Collection ${n}(\\s|$)`).test(one.innerText)).innerText.replace(/\s+/g, ' '), n)
  expect((await choice(3)).includes('The administrator of this account permits no changes: only to look.'), await choice(3))
  expect((await choice(4)).includes('permits only to keep drafts, list files, read single files, search files and upload files.'), await choice(4))
  expect(!(await choice(5)).includes('administrator'), await choice(5))
})

scenarios['an owner of two accounts has to choose'] = as({ address: fixture.owners.shift() }, async (user) => {
  const app = await fixture.program('Workbench')
  await user.logIn(fixture.link(app))
  await user.expectText('Which account?', 'Studio López', 'Family archive')
  expect(!(await user.page.$eval('fieldset', (one) => one.innerText)).includes('team-a/'), 'an account with a name is shown by that of its resource')
  expect(!(await user.has('input[name="account"]:checked')), 'an account is chosen already')
  await user.page.click(allow) // the browser blocks it
  expect(await user.has('input[name="account"]:invalid'), 'no account has to be chosen')
  same([user.path(), app.received], ['/oauth/login', []], 'without a choice the browser is at')
  await user.page.click('.choice:nth-of-type(1)') // anywhere on it
  expect(await user.has('.choice:nth-of-type(1) input:checked'), 'a click beside the words chooses nothing')
  const label = await user.page.$$eval('label', (labels) => labels.findIndex((label) => label.innerText.includes('Family archive')))
  await user.page.click(`#account-${label}`)
  await user.press(allow)
  await fixture.redeem(app, answered(app, base).get('code'))
  await user.logIn(base + '/account/connections')
  await user.expectText('Workbench', 'Account Family archive')
})

scenarios['an owner of two accounts can deny without choosing one'] = as({ address: fixture.owners.shift() }, async (user) => {
  const app = await fixture.program('Workbench')
  await user.logIn(fixture.link(app))
  await user.press(deny)
  same(answered(app, base).get('error'), 'access_denied', 'the program receives')
})

scenarios['a login that is unknown, of another browser, or too old is over'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  for (const path of ['/oauth/login', '/oauth/login?request=x', '/oauth/login?request=01a1ff60-8ea3-74ce-870f-19f43b3e004d']) {
    same((await user.go(path)).status(), 404, path)
    await user.expectText('Login expired', 'If an application sent you here, start again there.')
  }
  await user.go(fixture.link(app))
  const other = await fixture.newUser()
  await other.go(user.page.url())
  await other.expectText('Login expired')
  await other.close()
  await user.sendAddress()
  const code = await user.code()
  same(await fixture.hooks('/expire', { request: await user.request() }, 'POST'), '1', 'logins that are too old now')
  same((await user.sendCode(code)).status(), 404, 'the answer to a late code')
  await user.expectText('Login expired')
  same(app.received, [], 'the program received')
})

scenarios['an application that is not what it says stays where it is'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  for (const [more, words] of [
    [{ client_id: 'mcl_unknown' }, 'does not know the application'],
    [{ redirect_uri: 'https://evil.example/' }, 'not registered for this application'],
    [{ redirect_uri: 'javascript:alert(1)' }, 'not registered for this application'],
  ]) {
    same((await user.go(fixture.link(app, more))).status(), 400, words)
    await user.expectText('Request failed', words)
  }
})

scenarios['an invalid request reaches an unknown host by a link only'] = scenario(async (user) => {
  const unknown = await fixture.register('Claude', 'https://claude.ai.unknown.example/callback')
  same((await user.go(fixture.link(unknown, { prompt: 'none' }))).status(), 400, 'the answer')
  same(user.path(), '/oauth/authorize', 'the browser is at')
  await user.expectText('Request failed', 'claude.ai.unknown.example, which this service does not know')
  await user.press('main a')
  const at = new URL(user.page.url())
  same([at.host, at.searchParams.get('error'), at.searchParams.get('state'), at.searchParams.get('iss')], ['claude.ai.unknown.example', 'login_required', 's t&te', base], 'the browser is at')
  const known = await fixture.register('Claude', 'https://claude.ai/api/mcp/auth_callback')
  await user.go(fixture.link(known, { prompt: 'none' }))
  same(new URL(user.page.url()).host, 'claude.ai', 'the browser is at')
})

scenarios['a user ends connections'] = scenario(async (user) => {
  const apps = [await fixture.program('Workbench'), await fixture.program('Notebook')]
  const tokens = []
  for (const app of apps) tokens.push(await user.connect(app))
  // Whether a token works is remembered for a moment.
  const work = (...wanted) => waitFor(async () => {
    for (const [n, want] of wanted.entries()) {
      const { status } = await fetch(fixture.options.api + '/media/get/count', { headers: { Authorization: `Bearer ${tokens[n].access_token}` } })
      if ((status !== 401) !== want) return false
    }
    return true
  }, `tokens that work: ${wanted}`)
  await work(true, true)

  await user.go('/account/connections')
  await user.expectText('Log in', 'See which applications can access')
  await user.sendAddress()
  await user.sendCode(await user.code())
  same(user.path(), '/account/connections', 'the browser is at')
  await user.expectText('Authorized applications', user.address, 'Workbench', 'Notebook', 'Studio López', 'see files, add and change files, make files public', 'Revoke all access')
  const names = await user.page.$$eval('.app h2 bdi', (found) => found.map((one) => one.innerText))
  same([...names].sort(), ['Notebook', 'Workbench'], 'the connections')
  const form = await user.page.$$eval('.apps form', (forms) => forms.findIndex((form) => form.closest('li').innerText.includes('Workbench')))
  await user.press(`.apps > li:nth-child(${form + 1}) button`)
  await user.expectText('Access revoked.', 'Notebook')
  await user.expectNoText('Workbench', 'Revoke all')
  await work(false, true)

  await user.page.goBack() // to the page that has both
  await user.page.reload()
  await user.expectNoText('Workbench')

  tokens[0] = await user.connect(apps[0]) // a login of its own
  await user.go('/account/connections') // where the login of before is still good
  await user.page.click('summary')
  await user.expectText('All 2 applications lose access')
  await user.press('button.destructive')
  await user.expectText('Access of 2 applications revoked.', 'No authorized applications yet', `${base}/mcp`)
  await work(false, false)

  await user.logOut()
  await user.expectText('You are logged out.', 'Log in')
  await user.page.goBack()
  await user.expectText('Log in')
  await user.expectNoText(user.address)
})

scenarios['two tabs do not disturb each other'] = scenario(async (user) => {
  const [one, two] = [await fixture.program('Workbench'), await fixture.program('Notebook')]
  await user.go(fixture.link(one))
  await user.sendAddress()
  const first = user.page
  const code = await user.code()
  await user.tab()
  await user.go(fixture.link(two))
  await user.sendAddress()
  const second = user.page
  const other = await user.code()
  user.page = first
  await user.sendCode(code)
  await user.expectText('Allow Workbench to use your files?')
  user.page = second
  await user.sendCode(other)
  await user.expectText('Allow Notebook to use your files?')
  await user.press(allow)
  user.page = first
  await user.press(deny)
  same([answered(one, base).get('error'), answered(two, base).has('code')], ['access_denied', true], 'the programs receive')
})

scenarios['the same login in two tabs is answered once'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  await user.logIn(fixture.link(app))
  const first = user.page
  const address = first.url()
  await user.tab()
  await user.go(address)
  await user.expectText('Allow Workbench to use your files?')
  await user.press(allow)
  user.page = first
  await user.press(allow)
  await user.expectText('Login expired')
  answered(app, base)
})

scenarios['back and forward show where the login really is'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app))
  await user.sendAddress()
  await user.page.goBack()
  await user.expectText('Check your mail') // the address of the page is the same all the way
  await user.sendCode(await user.code())
  await user.expectText('Allow Workbench to use your files?')
  await user.page.goBack()
  await user.expectText('Allow Workbench to use your files?')
  await user.press(allow)
  await user.expectText('You are back.')
  const response = answered(app, base)
  await over(user)
  await fixture.redeem(app, response.get('code'))
})

scenarios['every page can be reloaded'] = scenario(async (user) => {
  const app = await fixture.program('Workbench')
  const stays = async (...words) => {
    await user.expectText(...words)
    await user.page.reload()
    await user.expectText(...words)
  }
  await user.go(fixture.link(app))
  await stays('Log in', 'Workbench')
  await user.sendAddress()
  await stays('Check your mail', user.address)
  const code = await user.code()
  await user.sendCode(wrong(code, 1))
  await stays('Incorrect code.') // which is another try
  await user.go(user.page.url()) // as one does in the field of the address
  await user.expectText('Check your mail')
  await user.expectNoText('Incorrect code.')
  await user.sendCode(code)
  await stays('Allow Workbench to use your files?')
  await user.press(allow)
  await stays('You are back.')
  await user.connect(app)
  await user.logIn(base + '/account/connections')
  await stays('Authorized applications', 'Workbench')
  await user.press('.apps button')
  await stays('Access revoked.', 'No authorized applications yet')
})

scenarios['the whole login works by keyboard'] = as({ address: fixture.owners.shift() }, async (user) => {
  const keyboard = (key) => user.page.keyboard.press(key)
  const enter = async () => {
    const at = await user.text()
    await Promise.all([user.page.waitForNavigation(), keyboard('Enter')]).catch((error) => { throw new Error(`Enter leads nowhere from ${at}`, { cause: error }) })
  }
  const to = async (selector) => {
    for (let presses = 0; !(await user.has(`${selector}:focus`)); presses++) {
      expect(presses < 30, `Tab does not lead to ${selector}`)
      await keyboard('Tab')
    }
  }
  const app = await fixture.program('Workbench')
  await user.go(fixture.link(app))
  user.read = Number(await fixture.hooks('/emails', { address: user.address }))
  same(await tabOrder(user), ['email', 'Send me a code'], 'Tab leads to')
  await user.page.reload()
  await user.waitForFocus()
  await user.page.keyboard.type(user.address)
  await enter()
  same(await tabOrder(user), ['code', 'Continue', 'Send a new code', 'Use another address'], 'Tab leads to')
  await user.page.reload()
  await user.waitForFocus()
  await user.page.keyboard.type(await user.code())
  await enter()
  same(await tabOrder(user), ['What this means in detail', 'Use another address', 'account', 'Allow', 'Deny', 'Authorized applications (opens a new tab)'], 'Tab leads to')
  await to('input[name="account"]')
  await keyboard('Space')
  expect(await user.has('#account-0:checked'), 'the space bar does not choose')
  await keyboard('ArrowDown')
  expect(await user.has('#account-1:checked'), 'the arrow does not choose')
  await to(allow)
  await enter()
  await user.expectText('You are back.')
  await fixture.redeem(app, answered(app, base).get('code'))

  await user.connect(await fixture.program('Notebook'))
  await user.logIn(base + '/account/connections')
  same(await tabOrder(user), ['Files', 'Activity', 'Authorized applications', 'Log out', 'Revoke access', 'Revoke access', 'Revoke all access'], 'Tab leads to')
  await to('.apps button')
  await enter()
  await user.expectText('Access revoked.')
  await user.connect(await fixture.program('Toolbox'))
  await user.go('/account/connections')
  await to('summary')
  await keyboard('Enter')
  await to('button.destructive')
  await enter()
  await user.expectText('Access of 2 applications revoked.')
  await to('form[action="/account/connections/logout"] button')
  await enter()
  await user.expectText('You are logged out.')
})

scenarios['every page noOverflow a narrow screen'] = async () => {
  const narrow = as({ address: fixture.owners.shift(), width: 320, height: 568 }, async (user) => {
    const name = 'Rhabarberbarbarabarbarbarenbartbarbierbierbarbärbel '.repeat(2)
    const app = await fixture.register(name, `https://${'long-label-of-a-host.'.repeat(8)}example/callback`)
    await user.go(fixture.link(app))
    await noOverflow(user)
    await user.sendAddress('a'.repeat(64) + '@' + 'long-label-of-a-host.'.repeat(8) + 'example')
    await noOverflow(user)
    await user.press('.aside button')
    await noOverflow(user)
    await user.sendCode('00000000')
    await noOverflow(user)
    await user.logIn(fixture.link(app))
    await noOverflow(user)
    await user.page.click('#account-0')
    await user.press(allow)
    await fixture.redeem(app, new URL(user.page.url()).searchParams.get('code'))
    await user.connect(await fixture.program('Workbench'))
    await user.logIn(base + '/account/connections')
    await user.page.click('summary')
    await noOverflow(user)
    await user.press('button.destructive')
    await noOverflow(user)
    await user.go('/oauth/login')
    await noOverflow(user)
    await user.logIn(fixture.link(await fixture.register(name, cursorCallback)))
    await noOverflow(user)
    await user.page.click('#account-0')
    await user.press(allow)
    await noOverflow(user)
  })
  await narrow()
}

scenarios['an owner looks up who did what'] = as({ address: fixture.galleries.shift() }, async (user) => {
  await user.go('/account/activity')
  await user.sendAddress()
  await user.sendCode(await user.code())
  same(user.path(), '/account/activity', 'the browser is at')
  await user.expectText('Activity of Atelier Moreau')
  await user.press('.page-links li:first-child a')
  await user.upload('Beach at dusk.png')
  await user.upload('Desert road.png', { draft: true })
  await user.press('.page-links li:nth-child(2) a')
  await user.expectText('Desert road.png', 'Uploaded, not kept yet', 'Kept', 'Owner', '***@people.example')
  await user.page.select('#type', 'media.sealed')
  await user.press('.filter button')
  await user.expectText('Events that match', 'Beach at dusk.png')
  await user.expectNoText('Desert road.png')
  await user.press('.activity a')
  same(await user.names(), ['Beach at dusk.png'], 'the files')
})

scenarios['an owner uploads, seals, deletes and restores files'] = as({ address: fixture.galleries.shift() }, async (user) => {
  await user.go('/account/files')
  await user.expectText('Log in', 'See, add and delete the files of your account.')
  await user.sendAddress()
  await user.sendCode(await user.code())
  same(user.path(), '/account/files', 'the browser is at')
  await user.expectText('Files of Atelier Moreau', user.address, '0 bytes of 4 MiB used, 4 MiB free', 'No files yet')
  await user.upload('Beach at dusk.png', { caption: 'The last evening' })
  await user.expectText('The file was uploaded.', 'Beach at dusk.png', 'The last evening', '1 file')
  same(new URL(user.page.url()).searchParams.get('done'), 'uploaded', 'a reload does not upload again')
  await user.page.reload()
  await user.expectText('1 file')
  await waitFor(() => user.page.$eval('.preview img', (image) => image.complete && image.naturalWidth > 0), 'the thumbnail')
  await user.upload('Price list 2026.pdf', { draft: true })
  await user.expectText('The file was uploaded. It is not kept yet.', 'Price list 2026.pdf', 'Not kept yet', 'Until', 'PDF')
  await user.press('.file form[action*="/seal"] button')
  await user.expectText('The file is kept.', 'All files are kept')
  await user.press('.tabs li:first-child a')
  same(await user.names(), ['Price list 2026.pdf', 'Beach at dusk.png'], 'the files')

  await user.fill('#words', 'beach')
  await user.open('.filter')
  await user.page.select('#type', 'image/*')
  await user.press('.filter button')
  same(await user.names(), ['Beach at dusk.png'], 'the files that match')
  same(await user.page.$eval('#words', (field) => field.value), 'beach', 'the filter')
  await user.press('.list-head a')
  await user.open('.filter')
  await user.page.select('#sort', 'name')
  await user.press('.filter button')
  same(await user.names(), ['Beach at dusk.png', 'Price list 2026.pdf'], 'the files by name')

  await user.remove()
  await user.expectText('The file was deleted.', 'Undo')
  same(await user.names(), ['Price list 2026.pdf'], 'the files after the delete, by name')
  await user.press('.undo button')
  await user.expectText('1 file is restored.')
  same(await user.names(), ['Beach at dusk.png', 'Price list 2026.pdf'], 'the files after the undo, by name')
  await user.remove()
  await user.press('.tabs li:last-child a')
  await user.expectText('Deleted files', 'Beach at dusk.png', 'Can be restored until')
  await user.press('.file form[action*="/restore"] button')
  await user.expectText('The file was restored.', 'No deleted files')

  same((await user.upload('too-large.bin', { caption: 'Typed "once" & kept' })).status(), 413, 'the answer to a file that is too large')
  await tied(user, '#file', 'The file is too large. A file may have 2 MiB.')
  same(await user.page.$eval('#caption', (field) => field.value), 'Typed "once" & kept', 'the caption')
  await user.page.reload() // which sends the file again
  await user.expectText('The file is too large.')
  await user.go(user.page.url()) // as one does in the field of the address
  same(user.path(), '/account/files', 'the browser is at')
  same(await user.names(), ['Price list 2026.pdf', 'Beach at dusk.png'], 'the files')
  await user.upload('Alpine morning.png', { draft: true })
  await user.remove()
  await user.expectText('Delete this file permanently?', 'Alpine morning.png', 'This cannot be undone.')
  await user.press('.decision a')
  await user.expectText('Alpine morning.png')
  await user.remove()
  await user.press('button.destructive')
  await user.expectText('The file was deleted permanently.', 'All files are kept')
  await user.press('.page-links li:last-child a')
  await user.expectText('No authorized applications yet')
  await user.press('.page-links li:first-child a')
  await user.expectText('Files of Atelier Moreau')
  await user.logOut()
  await user.expectText('You are logged out.', 'See, add and delete')
  await user.page.goBack()
  await user.expectNoText('Price list')
})

scenarios['a new user needs nothing but the pages, from the first login to the last'] = as({ address: 'nora.berg@example.org' }, async (user) => {
  await user.logIn('/account/files')
  await user.expectText('Files of Town library', 'No files yet', '0 bytes of 128 MiB used')
  await user.upload('Reading of the year.mp4', { caption: 'All evenings', group: '2026' })
  await user.expectText('The file was uploaded.', 'Reading of the year.mp4', 'All evenings', '40 MiB of 128 MiB used', '1 file')
  await user.view()
  const shown = new URL(await user.page.$eval('.side a.button', (link) => link.href))
  const response = await fetch(fixture.options.api + shown.pathname + shown.search)
  same([response.status, Number(response.headers.get('content-length')) > 40 << 20], [200, true], 'the file')
  await response.body.cancel()
  await user.press('a.back')
  await user.remove()
  await user.expectText('The file was deleted.', 'No files yet')
  await user.press('.undo button')
  await user.expectText('1 file is restored.', 'Reading of the year.mp4')
  await user.remove()
  await user.press('.tabs li:last-child a')
  await user.expectText('Deleted files', 'Reading of the year.mp4', 'Can be restored until')
  await user.upload('Price list 2026.pdf', { draft: true })
  await user.remove()
  await user.expectText('Delete this file permanently?', 'This cannot be undone.')
  await user.press('button.destructive')
  await user.expectText('The file was deleted permanently.', 'All files are kept')
  await user.expectNoText('Undo')

  // The session ends while a form is open: nothing happens, and the login leads back to the list.
  const ended = async (act) => {
    await user.upload('Alpine morning.png', { draft: true })
    await fixture.hooks('/expire', { request: await user.request() }, 'POST')
    await act()
  }
  await ended(() => user.press('.file form[action*="/seal"] button'))
  await user.expectText('Login expired', 'Nothing was changed.')
  await user.press('.actions a')
  await user.sendAddress()
  await user.sendCode(await user.code())
  await user.expectText('These files are deleted after a time.', 'Alpine morning.png')
  await ended(() => user.press('.tabs li:first-child a'))
  await user.expectText('Log in', 'Your login has ended.')
  await user.sendAddress()
  await user.sendCode(await user.code())
  await user.expectText('Files of Town library')
  await ended(() => user.logOut())
  await user.expectText('You are logged out.', 'See, add and delete')

  await user.logIn('/account/files')
  await user.logOut()
  await user.expectText('You are logged out.')
  await user.page.goBack()
  await user.expectNoText('Town library')
})

scenarios['the meter is filled from top to bottom'] = as({ address: fixture.galleries.shift() }, async (user) => {
  await user.logIn('/account/files')
  await user.upload('archive.bin')
  await user.expectText('1 MiB of 4 MiB used')
  const png = await (await user.page.$('#usage')).screenshot({ encoding: 'base64' })
  const blank = await fixture.browser.newPage()
  const [colors, empty] = await blank.evaluate(async (source) => {
    const image = new Image()
    image.src = source
    await image.decode()
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height }).getContext('2d')
    canvas.drawImage(image, 0, 0)
    const at = (x, share) => canvas.getImageData(x, Math.round(image.height * share), 1, 1).data.join()
    return [[0.25, 0.4, 0.5, 0.6, 0.75].map((share) => at(20, share)), at(image.width - 20, 0.5)]
  }, `data:image/png;base64,${png}`)
  await blank.close()
  expect(new Set(colors).size === 1 && colors[0] !== empty, `from top to bottom the meter has ${colors.join(' and ')}, and ${empty} where it is empty`)
})

scenarios['the files page works by keyboard'] = as({ address: fixture.galleries.shift() }, async (user) => {
  const keyboard = (key) => user.page.keyboard.press(key)
  const enter = () => Promise.all([user.page.waitForNavigation(), keyboard('Enter')])
  const to = async (selector) => {
    for (let presses = 0; !(await user.has(`${selector}:focus`)); presses++) {
      expect(presses < 40, `Tab does not lead to ${selector}`)
      await keyboard('Tab')
    }
  }
  await user.logIn('/account/files')
  await user.upload('Desert road.png')
  await user.upload('Price list 2026.pdf', { draft: true })
  await user.go('/account/files')
  const before = ['Files', 'Activity', 'Authorized applications', `Logged in as ${user.address}`, 'Files', 'Not kept yet', 'Deleted', 'Upload']
  const search = ['q', 'Search', 'Sort and filter', 'Select all of this page (1)']
  same(await tabOrder(user), [...before, ...search, 'item0', 'Desert road.png'], 'Tab leads to')
  await to('.upload summary')
  await keyboard('Enter')
  same(await tabOrder(user), [...before, 'caption', 'group', 'access', 'file', 'Upload', 'Upload, and keep it later', ...search, 'item0', 'Desert road.png'], 'Tab leads to')
  await to('.tabs li:nth-child(2) a')
  await enter()
  same(await tabOrder(user), [...before, ...search, 'item0', 'Price list 2026.pdf', 'Keep'], 'Tab leads to')
  await to('.file h3 a')
  await enter()
  same(await tabOrder(user), ['Back to the list', 'Keep', 'Open', 'Download', 'Delete', 'Edit'], 'Tab leads to')
  await to('.side a[href*="/delete"]')
  await enter()
  same(await tabOrder(user), ['Delete permanently', 'Cancel'], 'Tab leads to')
  await to('.decision a')
  await enter()
  await to('.file button')
  await enter()
  await user.expectText('The file is kept.')
  await to('.tabs li:first-child a')
  await enter()
  await to('#words')
  await user.page.keyboard.type('desert')
  await enter()
  same(await user.names(), ['Desert road.png'], 'the files that match')
  await to('.file h3 a')
  await enter()
  same(await tabOrder(user), ['Back to the list', 'Open', 'Download', 'Delete', 'Share a link', 'Edit'], 'Tab leads to')
  await to('.edit summary')
  await keyboard('Enter')
  await to('#edit-caption')
  await user.page.keyboard.type('By keyboard')
  await to('.edit button')
  await enter()
  await user.expectText('The file was changed.', 'By keyboard')
  await to('.side form[action*="/delete"] button')
  await enter()
  await user.expectText('The file was deleted.')
  await to('.undo button')
  await enter()
  await user.expectText('1 file is restored.')
})

scenarios['a file is shown, changed and shared without a script'] = as({ address: fixture.galleries.shift() }, async (user) => {
  await user.logIn('/account/files')
  for (const name of ['Desert road.png', 'Alpine morning.png', 'Beach at dusk.png']) await user.upload(name, { caption: `Caption of ${name}` })
  await user.go('/account/files')
  await user.view(2)
  await user.expectText('Alpine morning.png', 'Caption of Alpine morning.png', '640 × 480 pixels', 'UTC')
  await waitFor(() => user.page.$eval('img.large', (image) => image.complete && image.naturalWidth === 640), 'the picture')
  await user.press('.stage a[rel="next"]')
  await user.expectText('Desert road.png')
  expect(!(await user.has('.stage a[rel="next"]')), 'there is a file after the last one')
  await user.press('.stage a[rel="prev"]')
  await user.open('.edit')
  await user.fill('#edit-name', 'Morning "in" <b>the Alps.png')
  await user.fill('#edit-group', 'Trips')
  await user.fill('[name="key0"]', 'place')
  await user.fill('[name="value0"]', 'Zermatt')
  await user.press('.edit button')
  await user.expectText('The file was changed.', 'Morning "in" <b>the Alps.png', 'Trips', 'Zermatt')
  await user.open('.edit')
  await user.fill('#edit-caption', 'Typed and kept')
  await user.fill('[name="key1"]', 'Not A Key')
  same((await user.press('.edit button')).status(), 400, 'the answer to a wrong key')
  same(await user.page.$eval('#edit-caption', (field) => field.value), 'Typed and kept', 'what was typed')
  await fixture.hooks('/expire', { request: await user.request() }, 'POST')
  await user.press('.edit button')
  await user.expectText('Login expired', 'Nothing was changed.', 'What you typed')
  same(await user.page.$eval('.typed textarea:not([id="typed-0"])', (field) => field.value), 'Typed and kept', 'what was typed')
  await user.press('.actions a')
  await user.sendAddress()
  await user.sendCode(await user.code())
  await user.expectText('Morning "in" <b>the Alps.png', 'Back to the list')
  await user.open('.share')
  await user.press('.share form button')
  const link = new URL(await user.page.$eval('#link', (field) => field.value))
  const shared = await fetch(fixture.options.api + link.pathname + link.search)
  same([shared.status, shared.headers.get('content-type'), Number(link.searchParams.get('expires')) * 1000 > Date.now() + 6 * 86_400_000], [200, 'image/png', true], 'the file at the link')
  await user.press('a.back')
  same(await user.names(), ['Beach at dusk.png', 'Morning "in" <b>the Alps.png', 'Desert road.png'], 'the files')
})

scenarios['keys and swipes lead from file to file, and typed text survives the end of a session'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  await user.logIn('/account/files')
  for (const name of ['Desert road.png', 'Alpine morning.png', 'Beach at dusk.png']) await user.upload(name)
  await user.go('/account/files')
  await user.view(1)
  const led = async (act, name) => {
    await Promise.all([user.page.waitForNavigation(), act()])
    await user.expectText(name)
    await user.expectNoText('UTC') // local times
  }
  await led(() => user.page.keyboard.press('ArrowRight'), 'Alpine morning.png')
  await led(() => user.page.keyboard.press('ArrowRight'), 'Desert road.png')
  await user.page.keyboard.press('ArrowRight') // the last one
  await led(() => user.page.keyboard.press('ArrowLeft'), 'Alpine morning.png')
  const swipe = async (from, to) => {
    const touch = await user.page.touchscreen.touchStart(from, 400)
    await touch.move(to, 405)
    await touch.end()
  }
  await led(() => swipe(500, 200), 'Desert road.png')
  await led(() => swipe(200, 500), 'Alpine morning.png')
  await user.open('.edit')
  await user.fill('#edit-caption', 'A long text that nobody wants to type twice')
  await user.page.keyboard.press('ArrowLeft') // which moves in the text
  await fixture.hooks('/expire', { request: await user.request() }, 'POST')
  await user.press('.edit button')
  await user.press('.actions a')
  await user.sendAddress()
  await user.sendCode(await user.code())
  same(await user.page.$eval('.edit[open] #edit-caption', (field) => field.value), 'A long text that nobody wants to type twice', 'what was typed')
  await user.press('.edit button')
  await user.expectText('The file was changed.', 'A long text that nobody wants to type twice')
  await led(() => user.page.keyboard.press('Escape'), 'Alpine morning.png')
  same(user.path(), '/account/files', 'Escape leads to')
})

scenarios['several files are kept, moved, shared out, deleted and restored together'] = as({ address: fixture.galleries.shift() }, async (user) => {
  await user.logIn('/account/files')
  const names = ['Desert road.png', 'Alpine morning.png', 'Beach at dusk.png']
  for (const name of names) await user.upload(name, { draft: true })
  const select = async (...which) => {
    for (const n of which) await user.page.click(`.file:nth-child(${n}) .pick`)
  }
  await select(1, 2, 3)
  await user.press('.selection [value="keep"]')
  await user.expectText('3 files are kept.', 'All files are kept')
  await user.go('/account/files')
  await select(1, 3)
  await user.open('.selection details')
  await user.fill('#to-group', 'Trips')
  await Promise.all([user.page.waitForNavigation(), user.page.keyboard.press('Enter')])
  await user.expectText('2 files are moved.')
  await select(2)
  await user.press('.selection [value="public"]')
  await user.expectText('1 file is made public.', 'Public')
  await select(1, 2)
  await user.press('.selection [value="delete"]')
  await user.expectText('2 files are deleted.', 'Undo')
  same(await user.names(), ['Desert road.png'], 'the files after the delete')
  await user.press('.undo button')
  await user.expectText('2 files are restored.')
  same(await user.names(), [...names].reverse(), 'the files after the undo')
})

scenarios['several files are uploaded at once, and go on after the connection was lost'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  const { files } = fixture.options
  await user.logIn('/account/files')
  await user.open('.upload')
  await user.page.setOfflineMode(true)
  const names = ['Desert road.png', 'Alpine morning.png', 'Beach at dusk.png', 'archive.bin']
  await (await user.page.$('#file')).uploadFile(...names.map((name) => `${files}/${name}`))
  await user.page.click('.upload button.main')
  await waitFor(async () => (await user.text('.transfers')).includes('It goes on by itself.'), 'the uploads to notice that the connection is lost')
  const paused = await user.page.$('.transfers li:nth-child(4) button')
  await paused.click()
  await user.expectText('Paused at')
  await user.page.setOfflineMode(false)
  await waitFor(async () => (await user.text('.transfers')).includes('3 of 4 uploaded'), 'three uploads')
  await Promise.all([user.page.waitForNavigation(), paused.click()])
  await waitFor(async () => (await user.names()).length === 4, 'the list of the files')
  same((await user.names()).sort(), [...names].sort(), 'the files')
})

// traffic counts the requests of the uploads of a page by method and status: "POST 201".
function traffic(user) {
  const counts = {}
  user.page.on('response', (response) => {
    const path = new URL(response.url()).pathname
    if (!path.startsWith('/media/create/resumable') && path !== '/account/files/signature') return
    const kind = `${path === '/account/files/signature' ? 'signature' : response.request().method()} ${response.status()}`
    counts[kind] = (counts[kind] ?? 0) + 1
  })
  return counts
}

scenarios['files that begin at once are sent once, and leave no upload behind'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  const { files } = fixture.options
  await user.logIn('/account/files')
  const counts = traffic(user)
  await user.open('.upload')
  const names = ['Desert road.png', 'Alpine morning.png', 'Beach at dusk.png', 'Price list 2026.pdf']
  await (await user.page.$('#file')).uploadFile(...names.map((name) => `${files}/${name}`))
  await Promise.all([user.page.waitForNavigation(), user.page.click('.upload button.main')])
  await waitFor(async () => (await user.names()).length === 4, 'the list of the files')
  same(counts, { 'signature 200': 1, 'POST 201': 4, 'PATCH 204': 4 }, 'the requests')
  await user.expectNoText('Running uploads')
})

scenarios['an upload goes on after a reload of the page'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  const { files } = fixture.options
  await user.logIn('/account/files')
  user.page.on('dialog', (dialog) => dialog.accept()) // the page asks whether to leave
  const counts = traffic(user)
  const slow = await user.page.createCDPSession()
  const begin = async () => {
    await user.open('.upload')
    await (await user.page.$('#file')).uploadFile(`${files}/archive.bin`)
  }
  await begin()
  await slow.send('Network.enable')
  await slow.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 20_000 })
  await user.page.click('.upload button.main')
  await waitFor(() => user.page.evaluate(() => Object.keys(localStorage).length === 1), 'the upload to begin')
  await user.page.reload()
  await slow.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 })
  await begin()
  await Promise.all([user.page.waitForNavigation(), user.page.click('.upload button.main')])
  await waitFor(async () => (await user.names()).length === 1, 'the list of the files')
  expect(counts['POST 201'] === 1 && counts['HEAD 200'] >= 1 && !counts['HEAD 404'], `the requests are ${JSON.stringify(counts)}`)
  await user.expectNoText('Running uploads')
})

scenarios['keys lead from a selected file to the actions, and days are those of the reader'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  const { page } = user
  await page.emulateTimezone('Pacific/Kiritimati') // where most days begin before those of UTC
  await user.logIn('/account/files')
  await user.go('/account/files')
  for (const name of ['one.txt', 'two.txt']) {
    await page.evaluate((name) => {
      const data = new DataTransfer()
      data.items.add(new File([`the text of ${name}`], name))
      document.querySelector('h1').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data }))
    }, name)
    await waitFor(async () => (await user.names().catch(() => [])).includes(name), `the upload of ${name}`)
  }
  await page.focus('.file:nth-child(2) .pick')
  await page.keyboard.press('Space')
  await user.expectText('1 file selected')
  await page.keyboard.press('Enter')
  expect(await user.has('.selection summary:focus'), 'Enter does not lead to the actions')
  await page.keyboard.press('Escape')
  expect(await user.has('.file:nth-child(2) .pick:focus') && !(await user.has('.pick:checked')), 'Escape does not clear the selection')
  const today = await page.evaluate(() => new Date(Date.now() + 14 * 3_600_000).toISOString().slice(0, 10))
  const tomorrow = await page.evaluate(() => new Date(Date.now() + 38 * 3_600_000).toISOString().slice(0, 10))
  for (const [from, found] of [[today, 2], [tomorrow, 0]]) {
    await user.go('/account/files')
    await user.open('.filter')
    await page.$eval('#from', (field, value) => { field.value = value }, from)
    await user.press('.filter .actions button')
    same((await user.names()).length, found, `files from ${from} on`)
    same(new URL(page.url()).searchParams.get('fromAt'), new Date(Date.parse(from) - 14 * 3_600_000).toISOString(), 'when the day begins')
    same(await page.$eval('#from', (field) => field.value), from, 'the day in the form')
  }
})

scenarios['files that are dropped on the page are uploaded, and one is cancelled'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  await user.logIn('/account/files')
  await user.page.setOfflineMode(true)
  await user.page.evaluate(() => {
    const data = new DataTransfer()
    for (const name of ['one.txt', 'two.txt']) data.items.add(new File([`the text of ${name}`], name))
    for (const type of ['dragenter', 'dragover', 'drop']) document.querySelector('h1').dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data }))
  })
  await user.expectText('0 of 2 uploaded', 'one.txt', 'two.txt')
  await user.page.click('.transfers li:nth-child(1) button:nth-of-type(2)')
  await user.expectText('Cancelled')
  await Promise.all([user.page.waitForNavigation(), user.page.setOfflineMode(false)])
  await waitFor(async () => (await user.names()).length === 1, 'the list of the files')
  same(await user.names(), ['two.txt'], 'the files')
})

scenarios['eighteen pictures are seen at once, and two columns on a phone'] = as({ address: fixture.galleries.shift() }, async (user) => {
  const { access_token: token } = await user.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'))
  for (let n = 0; n < 24; n++) await fixture.add(token, `Note ${n}.txt`, `${n}`)
  await user.page.setViewport({ width: 1280, height: 800 })
  await user.logIn('/account/files')
  const shown = () => user.page.$$eval('.preview', (all) => all.map((one) => one.getBoundingClientRect()).filter((box) => box.bottom <= innerHeight && box.top >= 0).length)
  expect(await shown() >= 18, `${await shown()} files are seen on 1280 x 800`)
  await user.page.setViewport({ width: 390, height: 844 })
  same(await user.page.$eval('.grid', (grid) => getComputedStyle(grid).gridTemplateColumns.split(' ').length), 2, 'columns on a phone')
})

scenarios['two rows of pictures are seen on a small phone'] = as({ address: fixture.galleries.shift(), width: 360, height: 640 }, async (user) => {
  await user.logIn('/account/files')
  for (const name of ['Desert road.png', 'Alpine morning.png', 'Beach at dusk.png']) await user.upload(name, { caption: `Caption of ${name}`, group: 'Trips' })
  await user.go('/account/files')
  const second = await user.page.$$eval('.preview', (all) => all.map((one) => one.getBoundingClientRect()).map(({ top, bottom }) => ({ top, bottom }))[2])
  expect(second.bottom <= 640, `the second row of pictures is from ${second.top} to ${second.bottom}`)
  // The account is beside its sign, also with large text.
  await user.page.evaluate(() => {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync('html { font-size: 200% }')
    document.adoptedStyleSheets = [sheet]
  })
  const { summary, line, height } = await user.page.$eval('.who summary', (summary) => ({ summary: summary.getBoundingClientRect().top + parseFloat(getComputedStyle(summary).paddingTop), line: summary.querySelector('bdi').getClientRects()[0].top, height: parseFloat(getComputedStyle(summary).lineHeight) }))
  expect(Math.abs(line - summary) < height / 2, `the address begins ${line - summary} below its sign`)
})

scenarios['all files of a page are selected, and the list is where a file was'] = as({ address: fixture.galleries.shift(), javascript: true, width: 1280, height: 500 }, async (user) => {
  const { page } = user
  const { access_token: token } = await user.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'))
  for (let n = 0; n < 40; n++) await fixture.add(token, `Note ${n}.txt`, `${n}`)
  await user.logIn('/account/files')
  const [all, bar] = ['[data-select]', '[data-count]']
  same(await user.text(all), 'Select all of this page (40)', 'the link')
  const at = page.url()
  await page.click(all)
  same([page.url(), await user.text(all), (await user.text(bar)).slice(0, 17)], [at, 'Select none', '40 files selected'], 'after it')
  expect((await user.text(bar)).includes('Shift+click: a range'), 'nothing says how a range is selected')
  await page.click('.file:nth-child(1) .pick')
  same([await user.text(all), (await user.text(bar)).slice(0, 17)], ['Select all of this page (40)', '39 files selected'], 'without one')
  await page.click(all)
  await page.click(all)
  expect(!(await user.has('.pick:checked')), 'a second click selects none')

  // Esc and the link lead back to the file.
  const name = (await user.names())[34]
  for (const back of [() => page.keyboard.press('Escape'), () => page.click('a.back')]) {
    await user.view(35)
    await Promise.all([page.waitForNavigation(), back()])
    await waitFor(() => page.evaluate(() => document.activeElement.matches('h3 a')), 'the focus on the file')
    same(await page.evaluate(() => document.activeElement.innerText), name, 'the focus is on')
    for (const part of ['h3 a', '.preview']) {
      const box = await inSight(page, `.file:has(h3 a:focus) ${part}`)
      expect(box.whole, `${part} is at ${box.top} to ${box.bottom}`)
    }
  }
})

scenarios['a file that fails beside others says why, and the list has the others'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  const { files } = fixture.options
  const { page } = user
  await user.logIn('/account/files')
  const choose = async (...names) => {
    await user.open('.upload')
    await (await page.$('#file')).uploadFile(...names.map((name) => `${files}/${name}`))
    await page.click('.upload button.main')
  }
  await choose('Desert road.png', 'too-large.bin', 'Price list 2026.pdf')
  await waitFor(async () => (await user.names()).length === 2, 'the others in the list')
  await user.expectText('2 of 3 uploaded', 'The file is too large. A file may have 2 MiB.')
  const buttons = () => page.$$eval('.transfers .failed button', (all) => all.filter((one) => one.checkVisibility()).map((one) => one.textContent))
  same(await buttons(), ['Cancel'], 'what can be done with the file that is too large')
  // What the script has loaded works as what the page had.
  await page.click('.file:nth-child(1) .pick')
  await user.expectText('1 file selected')
  await user.expectNoText('UTC')
  await page.click('.transfers .failed button:nth-of-type(2)')
})

scenarios['a file that does not fit can be resumed'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  const { files } = fixture.options
  const { page } = user
  const { access_token: token } = await user.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'), allScopes)
  for (let n = 0; n < 2; n++) await fixture.hasRun(token, `held-${n}.bin`, (2 << 20) - (n ? 1000 : 0))
  await user.logIn('/account/files')
  await user.open('.upload')
  await (await page.$('#file')).uploadFile(`${files}/archive.bin`)
  await page.click('.upload button.main')
  await waitFor(async () => (await user.text()).includes('The file does not fit: the account may store 4 MiB in all.'), 'the reason')
  await user.expectText('cancel running uploads, to make room. Then resume.')
  same(await page.$$eval('.transfers .failed button', (all) => all.filter((one) => one.checkVisibility()).map((one) => one.textContent)), ['Resume', 'Cancel'], 'what can be done')
})

scenarios['the list of deleted files says until when, and times are local'] = as({ address: fixture.galleries.shift(), javascript: true }, async (user) => {
  const { page } = user
  await page.setViewport({ width: 1280, height: 800 })
  await page.emulateTimezone('America/Los_Angeles')
  await user.connect(await fixture.register('Claude', 'https://claude.ai/api/mcp/auth_callback'))
  await user.logIn('/account/connections')
  await user.expectText('Since')
  await user.expectNoText('UTC')
  await user.go('/account/files')
  await user.upload('Desert road.png')
  await user.remove()
  await user.press('.tabs li:last-child a')
  await user.expectText('Can be restored until')
  await user.expectNoText('UTC')
  const cut = await page.$$eval('.file .whole', (all) => all.map((one) => [one.scrollHeight - one.clientHeight, one.scrollWidth - one.clientWidth]))
  same(cut, [[0, 0], [0, 0]], 'what is cut off of the dates')
})

scenarios['the files page fits a narrow screen, and large text'] = as({ address: fixture.galleries.shift(), width: 320, height: 568 }, async (user) => {
  await user.logIn('/account/files')
  await noOverflow(user)
  await user.open('.upload')
  await noOverflow(user)
  await user.upload('too-large.bin')
  await noOverflow(user)
  const long = 'Rhabarberbarbarabarbarbarenbartbarbierbierbarbärbel_und_noch_viel_länger_ohne_ein_Leerzeichen.txt'
  await user.upload(long, { caption: long.repeat(5) })
  await noOverflow(user)
  await user.view()
  await user.open('.edit')
  await user.open('.share')
  await noOverflow(user)
  await user.go('/account/files')
  await user.open('.menu')
  await user.open('.filter')
  await noOverflow(user)
  await user.go('/account/files')
  await user.upload('Beach at dusk.png', { draft: true })
  await noOverflow(user)
  await user.remove()
  await noOverflow(user)
  await user.go('/account/files')
  await user.remove()
  await noOverflow(user)
  await user.press('.tabs li:last-child a')
  await noOverflow(user)
  await user.go('/account/connections')
  await noOverflow(user)
  const { access_token: token } = await user.connect(await fixture.register('Uploader', 'https://claude.ai/api/mcp/auth_callback'))
  for (const name of hostileNames) {
    await fixture.hasRun(token, name, 100, 40)
    await fixture.add(token, name, name, { caption: name, group: name.slice(0, 60) })
  }
  await user.go('/account/files')
  await user.page.click('.running summary')
  same(await user.page.title(), 'Files of Atelier Moreau · Media storage', 'a name changes the title')
  await noOverflow(user)
  await user.remove()
  await noOverflow(user)
  await user.go('/account/activity')
  await noOverflow(user)
  await user.go('/account/activity?item=x')
  await noOverflow(user)
  // Twice the text on a screen of 1280 pixels at a zoom of 200 %.
  await user.page.setViewport({ width: 640, height: 480 })
  await user.go('/account/files')
  const file = await user.page.$eval('.file h3 a', (link) => link.href)
  for (const address of ['/account/files', file, '/account/files?state=draft', '/account/activity', '/account/connections']) {
    await user.go(address)
    const wide = await user.page.evaluate(() => {
      document.documentElement.style.fontSize = '200%'
      return [document.documentElement.scrollWidth, document.documentElement.clientWidth]
    })
    expect(wide[0] <= wide[1], `${address} is ${wide[0]} wide on a screen of ${wide[1]} with large text`)
  }
})

scenarios['files of a service without TLS'] = as({ address: fixture.galleries.shift(), plain: true }, async (user) => {
  await user.logIn('/account/files')
  await user.upload('Alpine morning.png')
  await user.expectText('The file was uploaded.', 'Alpine morning.png')
  await waitFor(() => user.page.$eval('.preview img', (image) => image.complete && image.naturalWidth > 0), 'the thumbnail')
})

// hostile returns the URL of a page of another site.
const hostile = (origin, page) => `${origin}/?${new URLSearchParams({ show: '<title>hostile</title>' + page })}`

// A site of another name, and one that counts as the same site, so that cookies go with
// what it sends.
for (const origin of ['https://evil.example', `https://evil.${new URL(base).host}`]) {
  scenarios[`pages of ${origin} can't act for the user`] = as({ javascript: true }, async (user) => {
    const app = await fixture.program('Workbench')
    await user.logIn(fixture.link(app))
    const consent = user.page.url()
    const known = await user.page.$eval('form', (form) => Object.fromEntries(new FormData(form)))
    const connections = await user.tab() && base + '/account/connections'

    for (const address of [consent, connections, base + '/account/files', fixture.link(app)]) {
      await user.go(hostile(origin, `<iframe src="${escape(address)}"></iframe>`))
      const [frame] = user.page.mainFrame().childFrames()
      const shown = await frame.evaluate(() => document.body.innerText)
      expect(!frame.url().startsWith(base) && !/Log in|Allow|Authorized|Files/.test(shown), `${address} is shown within ${origin}: ${shown}`)
    }
    expect(user.problems.length >= 3 && user.problems.every((one) => /frame-ancestors|X-Frame-Options/.test(one)), `the browser complains: ${user.problems}`)
    user.problems = []

    // The worst case: it knows all that the right form holds.
    for (const [path, fields] of [
      ['/oauth/consent', { ...known, decision: 'allow' }],
      ['/oauth/consent', { ...known, decision: 'deny' }],
      ['/oauth/login/email', { ...known, email: 'eve@people.example' }],
      ['/oauth/login/code', { ...known, code: '00000000' }],
      ['/account/connections/revoke', { ...known, all: '1' }],
      ['/account/connections/logout', known],
      ['/account/files/seal', { ...known, item: known.request }],
      ['/account/files/edit', { ...known, item: known.request, name: 'hostile' }],
      ['/account/files/share', { ...known, item: known.request, lifetime: '1h' }],
      ['/account/files/delete', { ...known, item: known.request, permanent: '1' }],
      [`/account/files/upload?${new URLSearchParams(known)}`, known],
    ]) {
      const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${value}">`).join('')
      await user.go(hostile(origin, `<form method="post" action="${base}${path}">${inputs}<button>Win a prize</button></form>`))
      const response = await user.press('button')
      same(response.status(), 403, `${path} answers`)
      await user.expectText('The form came from another site.')
    }

    await user.go(hostile(origin, ''))
    const read = await user.page.evaluate((address) => fetch(address, { credentials: 'include' }).then((response) => response.text(), String), consent)
    expect(/Failed to fetch/.test(read), `a script reads ${read}`)
    user.problems = user.problems.filter((one) => !/CORS policy/.test(one))

    await user.go(consent)
    await user.press(allow)
    await fixture.redeem(app, answered(app, base).get('code'))
  })
}

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;')

await report(scenarios)
await fixture.close()

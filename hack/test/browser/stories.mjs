// People log in, without JavaScript, and change their minds in every way there is.
import { World, expect, same, tell, until } from './world.mjs'
import { walk, fits } from './senses.mjs'

const world = await World.open(JSON.parse(process.argv[2]))
const { base } = world.options
const cursorCallback = 'cursor://anysphere.cursor-mcp/oauth/callback'
const allow = 'button[value="allow"]'
const deny = 'button[value="deny"]'

// with has a person come, act, and leave. Nothing may have been refused by their browser.
const as = (options, act) => async () => {
  const person = await (options.plain ? world.plain : world).come(options)
  try {
    await act(person, person.world)
    same(person.complaints, [], 'the browser complains')
  } finally {
    await person.leave()
  }
}
const story = (act) => as({}, act)

// answered reads what a program was sent, once.
function answered(app, issuer) {
  same(app.heard.map(({ method, url }) => `${method} ${url.pathname}`), ['GET /callback'], 'the program heard')
  const { searchParams: told } = app.heard[0].url
  same([told.get('state'), told.get('iss')], ['s t&te', issuer], 'state and issuer')
  return told
}

// request is the login that a page is of.
const request = (person) => person.page.$eval('input[name="request"]', (field) => field.value)

const stories = {}
for (const [name, options, host] of [
  ['a program on this computer', {}, '127.0.0.1'],
  ['a program on this computer, by its name', {}, 'localhost'],
  ['a program, at a service without TLS', { plain: true }, '127.0.0.1'],
]) {
  stories[`a person connects ${name}`] = as(options, async (person, world) => {
    const app = await world.program('Workbench', host)
    await person.go(world.link(app))
    await person.sees('Log in', 'Workbench', 'unverified', 'a program on this computer')
    await person.sendAddress()
    await person.sees('Check your mail', person.address, 'It works for 10 minutes')
    const code = await person.code()
    await person.sendCode(` ${code.slice(0, 4)} ${code.slice(4)} `)
    await person.sees('Allow Workbench to use your files?', person.address, 'Studio López', 'See your files', 'Change your files')
    same(await person.page.cookies().then((all) => all.map(({ name, httpOnly, secure, sameSite }) => [name.replace(/-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, ''), httpOnly, secure, sameSite])),
      [[options.plain ? 'login' : '__Host-login', true, !options.plain, 'Lax']], 'the cookies')
    await person.press(allow)
    same(person.page.url().split('?')[0], app.redirect, 'the browser is at')
    await person.sees('You are back.')
    const tokens = await world.redeem(app, answered(app, world.options.base).get('code'))
    same(tokens.scope, 'media:read media:write', 'the scopes')
  })
}

stories['a person connects a program that has a scheme of its own'] = story(async (person) => {
  const app = await world.register('Cursor', cursorCallback)
  await person.logIn(world.link(app))
  await person.seesNot('nverified')
  await person.sees('the program on this device that opens cursor: links')
  const response = await person.press(allow)
  same(response.status(), 200, 'the answer')
  await person.sees('You can close this tab', 'You allowed Cursor')
  await until(() => person.opened.length === 1, 'the program to be opened')
  const told = new URL(person.opened[0])
  same([told.href.split('?')[0], told.searchParams.get('state'), told.searchParams.get('iss')], [cursorCallback, 's t&te', base], 'the program is told')
  await world.redeem(app, told.searchParams.get('code'))
  // The browser's question, whether to open it, is in front of the page by now.
  await person.page.$eval('a.main', (link) => link.click())
  await until(() => person.opened.length === 2, 'the program to be opened again')
  same(person.opened[1], person.opened[0], 'the program is told again')
  await person.sees('You can close this tab')
})

stories['a person refuses a program that has a scheme of its own'] = story(async (person) => {
  const app = await world.register('Cursor', cursorCallback)
  await person.logIn(world.link(app))
  await person.press(deny)
  await person.sees('You can close this tab', 'Cursor was not connected')
  await until(() => person.opened.length === 1, 'the program to be opened')
  const told = new URL(person.opened[0]).searchParams
  same([told.get('error'), told.get('code'), told.get('state')], ['access_denied', null, 's t&te'], 'the program is told')
})

stories['an application on a known host comes without a warning'] = story(async (person) => {
  const app = await world.register('Claude', 'https://claude.ai/api/mcp/auth_callback?tenant=a')
  await person.go(world.link(app))
  await person.seesNot('nverified')
  await person.sendAddress()
  await person.sendCode(await person.code())
  await person.sees('Allow Claude to use your files?', 'Sends you to claude.ai')
  await person.seesNot('nverified')
  await person.press(allow)
  const at = new URL(person.page.url())
  same([at.origin + at.pathname, at.searchParams.get('tenant'), at.searchParams.get('state'), at.searchParams.get('iss')],
    ['https://claude.ai/api/mcp/auth_callback', 'a', 's t&te', base], 'the browser is at')
  await person.sees('asked for GET /api/mcp/auth_callback?tenant=a&code=')
  await world.redeem(app, at.searchParams.get('code'))
})

stories['an application on an unknown host comes with a warning'] = story(async (person) => {
  const app = await world.register('Claude', 'https://claude.ai.unknown.example/callback')
  await person.go(world.link(app))
  await person.sees('Claude unverified', 'claude.ai.unknown.example')
  await person.sendAddress()
  await person.sendCode(await person.code())
  await person.sees('Unverified application. Anybody can choose this name.', 'It sends you to claude.ai.unknown.example.')
  await person.press(allow)
  await person.sees('asked for GET /callback?code=')
})

stories['a person refuses'] = story(async (person) => {
  const app = await world.program('Workbench')
  await person.logIn(world.link(app))
  await person.press(deny)
  await person.sees('You are back.')
  const told = answered(app, base)
  same([told.get('error'), told.get('code')], ['access_denied', null], 'the program is told')
  await over(person)
  answered(app, base)
})

// over goes back to a page that was answered. The browser may have kept it, and then its
// buttons lead nowhere.
async function over(person) {
  await person.page.goBack()
  if (await person.has(allow)) await person.press(allow)
  await person.sees('This login is over')
}

stories['a mistyped address is told beside the field'] = story(async (person) => {
  const app = await world.program('Workbench')
  await person.go(world.link(app))
  await person.fill('#email', 'ana')
  await person.page.click('button.main')
  expect(await person.has('#email:invalid:focus'), 'the browser takes no address for one')
  same((await person.sendAddress('ana..lopez@example.org')).status(), 400, 'the answer')
  await tied(person, '#email', 'Enter an e-mail address, such as ana@example.org.')
  same(await person.page.$eval('#email', (field) => field.value), 'ana..lopez@example.org', 'what was typed')
  await person.sendAddress()
  await person.sees('Check your mail')
})

stories['five wrong codes end a login'] = story(async (person) => {
  const app = await world.program('Workbench')
  await person.go(world.link(app))
  await person.sendAddress()
  const right = await person.code()
  for (let tries = 1; tries < 5; tries++) {
    const response = await person.sendCode(wrong(right, tries))
    same(response.status(), 400, 'the answer to a wrong code')
    await tied(person, '#code', 'Incorrect code. Use the code from the most recent e-mail.')
  }
  await person.sendCode(wrong(right, 5))
  await person.sees('This login is over', 'Begin again where you came from')
  await person.go(`/oauth/login?request=${new URL(app.redirect).port}`)
  await person.sees('This login is over')
  same(app.heard, [], 'the program heard')
})

const wrong = (right, n) => String((Number(right) + n) % 100_000_000).padStart(8, '0')

// tied checks that a problem belongs to a field, for eyes and for screen readers.
async function tied(person, selector, problem) {
  await person.settled()
  const field = await person.page.$eval(selector, (field) => ({
    invalid: field.getAttribute('aria-invalid'), focused: field === document.activeElement,
    described: field.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id)).filter((one) => one.getAttribute('role') === 'alert').map((one) => one.innerText.trim()),
    above: document.querySelector('[role="alert"]').getBoundingClientRect().bottom <= field.getBoundingClientRect().top, title: document.title,
  }))
  same({ ...field, title: field.title.split(':')[0] }, { invalid: 'true', focused: true, described: [problem], above: true, title: 'Error' }, 'the field')
}

stories['a code that was mistyped can be typed again'] = story(async (person) => {
  const app = await world.program('Workbench')
  await person.go(world.link(app))
  await person.sendAddress()
  const right = await person.code()
  await person.fill('#code', '1234567')
  await person.page.click('form[action^="/oauth/login/code"] button.main') // the browser itself refuses
  expect(await person.has('#code:invalid'), 'seven digits are taken')
  await person.sendCode(wrong(right, 1))
  await tied(person, '#code', 'Incorrect code. Use the code from the most recent e-mail.')
  same(await person.page.$eval('#code', (field) => field.value), '', 'the wrong code stays')
  await person.sendCode(right)
  await person.sees('Allow Workbench to use your files?')
})

stories['another code comes, but not at once'] = as({ plain: true }, async (person, world) => {
  const app = await world.program('Workbench')
  await person.go(world.link(app))
  await person.sendAddress()
  const first = await person.code()
  await person.sees('You can ask for a new code in')
  const response = await person.press('.aside button')
  same(response.status(), 429, 'the answer')
  await person.sees('Try again in', 'second')
  expect(!(await person.has('#code[aria-invalid]')), 'the code is called wrong')
  await person.sendCode(first) // which is still good
  await person.sees('Allow Workbench to use your files?')
})

stories['another code takes the place of the one before'] = story(async (person) => {
  const app = await world.program('Workbench')
  await person.go(world.link(app))
  await person.sendAddress()
  const first = await person.code()
  await until(async () => (await person.press('.aside button')).status() === 200, 'another code')
  await person.sees('A new code is on its way. The one before no longer works.')
  const second = await person.code()
  if (first !== second) { // one time in a hundred million
    await person.sendCode(first)
    await tied(person, '#code', 'Incorrect code. Use the code from the most recent e-mail.')
  }
  await person.sendCode(second)
  await person.sees('Allow Workbench to use your files?')
})

stories['another address can be taken before the code and after it'] = as({ plain: true }, async (person, world) => {
  const app = await world.program('Workbench')
  await person.go(world.link(app, { login_hint: 'somebody.else@people.example' }))
  same(await person.page.$eval('#email', (field) => field.value), 'somebody.else@people.example', 'the address that the application knows')
  await person.sendAddress('somebody.else@people.example') // who owns nothing here
  await person.sees('Check your mail', 'somebody.else@people.example')
  await person.press('.aside a')
  await person.sees('Log in', 'Workbench')
  await until(async () => (await person.sendAddress()).status() === 200, 'a code for the other address')
  await person.sendCode(await person.code())
  await person.sees('Allow Workbench to use your files?', person.address)
  await person.press('.facts a[href*="change"]')
  await person.sees('Log in', 'Workbench')
  const other = world.people.shift()
  await person.sendAddress(other)
  await person.sendCode(await person.code(other))
  await person.sees('Allow Workbench to use your files?', other)
  await person.press(allow)
  await world.redeem(app, answered(app, world.options.base).get('code'))
})

stories['an owner of two accounts has to choose'] = as({ address: world.owners.shift() }, async (person) => {
  const app = await world.program('Workbench')
  await person.logIn(world.link(app))
  await person.sees('Which account?', 'Studio López team-a/studio', 'Family archive team-a/archive')
  expect(!(await person.has('input[name="account"]:checked')), 'an account is chosen already')
  await person.page.click(allow) // the browser itself refuses
  expect(await person.has('input[name="account"]:invalid'), 'no account has to be chosen')
  same([person.path(), app.heard], ['/oauth/login', []], 'without a choice the browser is at')
  await person.page.click('.choice:nth-of-type(1)') // anywhere on it
  expect(await person.has('.choice:nth-of-type(1) input:checked'), 'a click beside the words chooses nothing')
  const label = await person.page.$$eval('label', (labels) => labels.findIndex((label) => label.innerText.includes('Family archive')))
  await person.page.click(`#account-${label}`)
  await person.press(allow)
  await world.redeem(app, answered(app, base).get('code'))
  await person.logIn(base + '/account/connections')
  await person.sees('Workbench', 'Account Family archive')
})

stories['an owner of two accounts can refuse without a choice'] = as({ address: world.owners.shift() }, async (person) => {
  const app = await world.program('Workbench')
  await person.logIn(world.link(app))
  await person.press(deny)
  same(answered(app, base).get('error'), 'access_denied', 'the program is told')
})

stories['a login that is unknown, of another browser, or too old is over'] = story(async (person) => {
  const app = await world.program('Workbench')
  for (const path of ['/oauth/login', '/oauth/login?request=x', '/oauth/login?request=01a1ff60-8ea3-74ce-870f-19f43b3e004d']) {
    same((await person.go(path)).status(), 404, path)
    await person.sees('This login is over', 'Begin again where you came from')
  }
  await person.go(world.link(app))
  const other = await world.come()
  await other.go(person.page.url())
  await other.sees('This login is over')
  await other.leave()
  await person.sendAddress()
  const code = await person.code()
  same(await world.backstage('/expire', { request: await request(person) }, 'POST'), '1', 'logins that are too old now')
  same((await person.sendCode(code)).status(), 404, 'the answer to a late code')
  await person.sees('This login is over')
  same(app.heard, [], 'the program heard')
})

stories['an application that is not what it says stays where it is'] = story(async (person) => {
  const app = await world.program('Workbench')
  for (const [more, words] of [
    [{ client_id: 'mcl_unknown' }, 'does not know the application'],
    [{ redirect_uri: 'https://evil.example/' }, 'not one of its own'],
    [{ redirect_uri: 'javascript:alert(1)' }, 'not one of its own'],
  ]) {
    same((await person.go(world.link(app, more))).status(), 400, words)
    await person.sees('That did not work', words)
  }
})

stories['a request that is wrong leads to a stranger by a link alone'] = story(async (person) => {
  const stranger = await world.register('Claude', 'https://claude.ai.unknown.example/callback')
  same((await person.go(world.link(stranger, { prompt: 'none' }))).status(), 400, 'the answer')
  same(person.path(), '/oauth/authorize', 'the browser is at')
  await person.sees('That did not work', 'claude.ai.unknown.example, which this service does not know')
  await person.press('main a')
  const at = new URL(person.page.url())
  same([at.host, at.searchParams.get('error'), at.searchParams.get('state'), at.searchParams.get('iss')], ['claude.ai.unknown.example', 'login_required', 's t&te', base], 'the browser is at')
  const known = await world.register('Claude', 'https://claude.ai/api/mcp/auth_callback')
  await person.go(world.link(known, { prompt: 'none' }))
  same(new URL(person.page.url()).host, 'claude.ai', 'the browser is at')
})

stories['a person ends connections'] = story(async (person) => {
  const apps = [await world.program('Workbench'), await world.program('Notebook')]
  const tokens = []
  for (const app of apps) tokens.push(await person.connect(app))
  // Whether a token works is remembered for a moment.
  const work = (...wanted) => until(async () => {
    for (const [n, want] of wanted.entries()) {
      const { status } = await fetch(world.options.api + '/media/get/count', { headers: { Authorization: `Bearer ${tokens[n].access_token}` } })
      if ((status !== 401) !== want) return false
    }
    return true
  }, `tokens that work: ${wanted}`)
  await work(true, true)

  await person.go('/account/connections')
  await person.sees('Log in', 'See which applications are connected')
  await person.sendAddress()
  await person.sendCode(await person.code())
  same(person.path(), '/account/connections', 'the browser is at')
  await person.sees('Authorized applications', person.address, 'Workbench', 'Notebook', 'Studio López', 'see files, change files', 'Revoke all access')
  const names = await person.page.$$eval('.app h2 bdi', (found) => found.map((one) => one.innerText))
  same([...names].sort(), ['Notebook', 'Workbench'], 'the connections')
  const form = await person.page.$$eval('.apps form', (forms) => forms.findIndex((form) => form.closest('li').innerText.includes('Workbench')))
  await person.press(`.apps > li:nth-child(${form + 1}) button`)
  await person.sees('Access revoked.', 'Notebook')
  await person.seesNot('Workbench', 'End all')
  await work(false, true)

  await person.page.goBack() // to the page that has both
  await person.page.reload()
  await person.seesNot('Workbench')

  tokens[0] = await person.connect(apps[0]) // a login of its own
  await person.go('/account/connections') // where the login of before is still good
  await person.page.click('summary')
  await person.sees('All 2 applications stop working')
  await person.press('button.grave')
  await person.sees('Access of 2 applications revoked.', 'No authorized applications yet', `${base}/mcp`)
  await work(false, false)

  await person.press('form[action="/account/connections/logout"] button')
  await person.sees('You are logged out.', 'Log in')
  await person.page.goBack()
  await person.sees('Log in')
  await person.seesNot(person.address)
})

stories['two tabs do not disturb each other'] = story(async (person) => {
  const [one, two] = [await world.program('Workbench'), await world.program('Notebook')]
  await person.go(world.link(one))
  await person.sendAddress()
  const first = person.page
  const code = await person.code()
  await person.tab()
  await person.go(world.link(two))
  await person.sendAddress()
  const second = person.page
  const other = await person.code()
  person.page = first
  await person.sendCode(code)
  await person.sees('Allow Workbench to use your files?')
  person.page = second
  await person.sendCode(other)
  await person.sees('Allow Notebook to use your files?')
  await person.press(allow)
  person.page = first
  await person.press(deny)
  same([answered(one, base).get('error'), answered(two, base).has('code')], ['access_denied', true], 'the programs are told')
})

stories['the same login in two tabs is answered once'] = story(async (person) => {
  const app = await world.program('Workbench')
  await person.logIn(world.link(app))
  const first = person.page
  const address = first.url()
  await person.tab()
  await person.go(address)
  await person.sees('Allow Workbench to use your files?')
  await person.press(allow)
  person.page = first
  await person.press(allow)
  await person.sees('This login is over')
  answered(app, base)
})

stories['back and forward show where the login really is'] = story(async (person) => {
  const app = await world.program('Workbench')
  await person.go(world.link(app))
  await person.sendAddress()
  await person.page.goBack()
  await person.sees('Check your mail') // the address of the page is the same all the way
  await person.sendCode(await person.code())
  await person.sees('Allow Workbench to use your files?')
  await person.page.goBack()
  await person.sees('Allow Workbench to use your files?')
  await person.press(allow)
  await person.sees('You are back.')
  const told = answered(app, base)
  await over(person)
  await world.redeem(app, told.get('code'))
})

stories['every page can be reloaded'] = story(async (person) => {
  const app = await world.program('Workbench')
  const stays = async (...words) => {
    await person.sees(...words)
    await person.page.reload()
    await person.sees(...words)
  }
  await person.go(world.link(app))
  await stays('Log in', 'Workbench')
  await person.sendAddress()
  await stays('Check your mail', person.address)
  const code = await person.code()
  await person.sendCode(wrong(code, 1))
  await stays('That is not the code.') // which is another try
  await person.go(person.page.url()) // as one does in the field of the address
  await person.sees('Check your mail')
  await person.seesNot('That is not the code.')
  await person.sendCode(code)
  await stays('Allow Workbench to use your files?')
  await person.press(allow)
  await stays('You are back.')
  await person.connect(app)
  await person.logIn(base + '/account/connections')
  await stays('Authorized applications', 'Workbench')
  await person.press('.apps button')
  await stays('Access revoked.', 'No authorized applications yet')
})

stories['the whole way goes by keyboard'] = as({ address: world.owners.shift() }, async (person) => {
  const keyboard = (key) => person.page.keyboard.press(key)
  const enter = async () => {
    const at = await person.text()
    await Promise.all([person.page.waitForNavigation(), keyboard('Enter')]).catch((error) => { throw new Error(`Enter leads nowhere from ${at}`, { cause: error }) })
  }
  const to = async (selector) => {
    for (let presses = 0; !(await person.has(`${selector}:focus`)); presses++) {
      expect(presses < 30, `Tab does not lead to ${selector}`)
      await keyboard('Tab')
    }
  }
  const app = await world.program('Workbench')
  await person.go(world.link(app))
  person.read = Number(await world.backstage('/letters', { address: person.address }))
  same(await walk(person), ['email', 'Send me a code'], 'Tab leads to')
  await person.page.reload()
  await person.settled()
  await person.page.keyboard.type(person.address)
  await enter()
  same(await walk(person), ['code', 'Continue', 'Send a new code', 'Use another address'], 'Tab leads to')
  await person.page.reload()
  await person.settled()
  await person.page.keyboard.type(await person.code())
  await enter()
  same(await walk(person), ['Use another address', 'account', 'Allow', 'Deny', '/account/connections (opens a new tab)'], 'Tab leads to')
  await to('input[name="account"]')
  await keyboard('Space')
  expect(await person.has('#account-0:checked'), 'the space bar does not choose')
  await keyboard('ArrowDown')
  expect(await person.has('#account-1:checked'), 'the arrow does not choose')
  await to(allow)
  await enter()
  await person.sees('You are back.')
  await world.redeem(app, answered(app, base).get('code'))

  await person.connect(await world.program('Notebook'))
  await person.logIn(base + '/account/connections')
  same(await walk(person), ['Log out', 'Revoke access', 'Revoke access', 'Revoke all access'], 'Tab leads to')
  await to('.apps button')
  await enter()
  await person.sees('Access revoked.')
  await person.connect(await world.program('Toolbox'))
  await person.go('/account/connections')
  await to('summary')
  await keyboard('Enter')
  await to('button.grave')
  await enter()
  await person.sees('Access of 2 applications revoked.')
  await to('form[action="/account/connections/logout"] button')
  await enter()
  await person.sees('You are logged out.')
})

stories['every page fits a narrow screen'] = async () => {
  const narrow = as({ address: world.owners.shift(), width: 320, height: 568 }, async (person) => {
    const name = 'Rhabarberbarbarabarbarbarenbartbarbierbierbarbärbel '.repeat(2)
    const app = await world.register(name, `https://${'long-label-of-a-host.'.repeat(8)}example/callback`)
    await person.go(world.link(app))
    await fits(person)
    await person.sendAddress('a'.repeat(64) + '@' + 'long-label-of-a-host.'.repeat(8) + 'example')
    await fits(person)
    await person.press('.aside button')
    await fits(person)
    await person.sendCode('00000000')
    await fits(person)
    await person.logIn(world.link(app))
    await fits(person)
    await person.page.click('#account-0')
    await person.press(allow)
    await world.redeem(app, new URL(person.page.url()).searchParams.get('code'))
    await person.connect(await world.program('Workbench'))
    await person.logIn(base + '/account/connections')
    await person.page.click('summary')
    await fits(person)
    await person.press('button.grave')
    await fits(person)
    await person.go('/oauth/login')
    await fits(person)
    await person.logIn(world.link(await world.register(name, cursorCallback)))
    await fits(person)
    await person.page.click('#account-0')
    await person.press(allow)
    await fits(person)
  })
  await narrow()
}

// hostile is a page of somebody else's.
const hostile = (origin, page) => `${origin}/?${new URLSearchParams({ show: '<title>hostile</title>' + page })}`

// A site of another name, and one that counts as the same site, so that cookies go with
// what it sends.
for (const origin of ['https://evil.example', `https://evil.${new URL(base).host}`]) {
  stories[`pages of ${origin} get nowhere`] = as({ javascript: true }, async (person) => {
    const app = await world.program('Workbench')
    await person.logIn(world.link(app))
    const consent = person.page.url()
    const known = await person.page.$eval('form', (form) => Object.fromEntries(new FormData(form)))
    const connections = await person.tab() && base + '/account/connections'

    for (const address of [consent, connections, world.link(app)]) {
      await person.go(hostile(origin, `<iframe src="${escape(address)}"></iframe>`))
      const [frame] = person.page.mainFrame().childFrames()
      const shown = await frame.evaluate(() => document.body.innerText)
      expect(!frame.url().startsWith(base) && !/Log in|Allow|Authorized/.test(shown), `${address} is shown within ${origin}: ${shown}`)
    }
    expect(person.complaints.length >= 3 && person.complaints.every((one) => /frame-ancestors|X-Frame-Options/.test(one)), `the browser complains: ${person.complaints}`)
    person.complaints = []

    // The worst case: it knows all that the right form holds.
    for (const [path, fields] of [
      ['/oauth/consent', { ...known, decision: 'allow' }],
      ['/oauth/consent', { ...known, decision: 'deny' }],
      ['/oauth/login/email', { ...known, email: 'eve@people.example' }],
      ['/oauth/login/code', { ...known, code: '00000000' }],
      ['/account/connections/revoke', { ...known, all: '1' }],
      ['/account/connections/logout', known],
    ]) {
      const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${value}">`).join('')
      await person.go(hostile(origin, `<form method="post" action="${base}${path}">${inputs}<button>Win a prize</button></form>`))
      const response = await person.press('button')
      same(response.status(), 403, `${path} answers`)
      await person.sees('The form came from another site.')
    }

    await person.go(hostile(origin, ''))
    const read = await person.page.evaluate((address) => fetch(address, { credentials: 'include' }).then((response) => response.text(), String), consent)
    expect(/Failed to fetch/.test(read), `a script reads ${read}`)
    person.complaints = person.complaints.filter((one) => !/CORS policy/.test(one))

    await person.go(consent)
    await person.press(allow)
    await world.redeem(app, answered(app, base).get('code'))
  })
}

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;')

await tell(stories)
await world.close()

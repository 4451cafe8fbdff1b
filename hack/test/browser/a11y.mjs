// Accessibility checks for every page: keyboard order, visible focus, narrow screens.
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { expect, same } from './fixture.mjs'
import { look } from './states.mjs'

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

// tabOrder presses Tab until every control had the focus, and returns their names in order. Each
// control must show that it has the focus.
export async function tabOrder(user) {
  await user.waitForFocus()
  const controls = await user.page.evaluateHandle(() => {
    document.activeElement.blur()
    const look = (element) => {
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element.closest('.choice') ?? element)
      return outlineStyle === 'none' ? boxShadow : `${outlineStyle} ${outlineWidth} ${boxShadow}`
    }
    const all = [...document.querySelectorAll('a[href], button, summary, input:not([type="hidden"]), select, textarea')]
      .filter((element) => element.checkVisibility() && (element.type !== 'radio' || element === element.form.querySelector(`[name="${element.name}"]`)))
    return { all, look, before: all.map(look) }
  })
  const seen = new Set()
  const count = await controls.evaluate(({ all }) => all.length)
  for (let presses = 0; presses < count + 3; presses++) {
    await user.page.keyboard.press('Tab')
    const { index, shows } = await controls.evaluate(({ all, look, before }) => {
      const index = all.findIndex((element) => element === document.activeElement || element.type === 'radio' && element.name === document.activeElement.name)
      return { index, shows: index >= 0 && look(document.activeElement) !== before[index] && parseFloat(getComputedStyle(document.activeElement.closest('.choice') ?? document.activeElement).outlineWidth) >= 2 }
    })
    if (index < 0) continue // the browser's own
    const name = await controls.evaluate(({ all }, index) => all[index].outerHTML, index)
    expect(shows, `nobody expectText that the focus is at ${name}`)
    seen.add(index)
  }
  const names = await controls.evaluate(({ all }) => all.map((element) => element.name && element.type !== 'submit' ? element.name : element.textContent.replace(/\s+/g, ' ').trim()))
  same([...seen].sort((a, b) => a - b).length, count, `Tab leads to ${[...seen].map((n) => names[n])} of ${names}; how many`)
  return names
}

// noOverflow checks that nothing has to be scrolled sideways or is cut off, also with the text
// spacing of WCAG 1.4.12.
export async function noOverflow(user) {
  for (const spacing of ['', '* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important } p { margin-bottom: 2em !important }']) {
    const { width, wide, outside } = await user.page.evaluate((spacing) => {
      const sheet = new CSSStyleSheet()
      sheet.replaceSync(spacing)
      document.adoptedStyleSheets = [sheet]
      const width = document.documentElement.clientWidth
      const outside = [...document.querySelectorAll('body *:not(.visually-hidden, svg *)')].filter((element) => {
        const box = element.getBoundingClientRect()
        return box.width > 0 && (box.left < 0 || box.right > width + 0.5 || element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline' && element.tagName !== 'INPUT')
      })
      const result = { width, wide: document.documentElement.scrollWidth, outside: outside.map((element) => element.outerHTML.slice(0, 200)) }
      document.adoptedStyleSheets = []
      return result
    }, spacing)
    expect(width <= 320 && wide <= width && outside.length === 0, `${user.page.url()} is ${wide} wide on a screen of ${width} (${spacing}): ${outside}`)
  }
}

// accessible checks a page with axe-core in light and dark, on a phone and on a desk, with text of twice the size, and by its keyboard.
export async function accessible(user) {
  await user.page.evaluate(axe)
  const found = []
  const ways = { phone: [360, 640, 'light'], 'phone in the dark': [360, 640, 'dark'], desk: [1280, 800, 'light'], 'desk in the dark': [1280, 800, 'dark'] }
  await look(user, async (way) => {
    const { violations, incomplete, passes } = await user.page.evaluate(() => globalThis.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations', 'incomplete', 'passes'],
    }))
    expect(passes.length >= 5, `${way}: only ${passes.length} rules were looked at`)
    for (const { id, help, nodes } of [...violations, ...incomplete]) found.push(`${way}: ${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)}`)
  }, Object.fromEntries(Object.entries(ways).map(([way, [width, height, scheme]]) => [way, { width, height, scheme, scale: 1 }])))
  same(found, [], 'what axe-core finds')
  await user.page.setViewport({ width: 640, height: 800 }) // twice the size of 320
  const wide = await user.page.evaluate(() => {
    document.documentElement.style.fontSize = '200%'
    const { scrollWidth, clientWidth } = document.documentElement
    document.documentElement.style.fontSize = ''
    return scrollWidth - clientWidth
  })
  same(wide, 0, 'pixels to scroll sideways with text of twice the size')
  await user.page.setViewport({ width: 320, height: 640 })
  await noOverflow(user)
  same(user.problems, [], 'problems of the page')
}

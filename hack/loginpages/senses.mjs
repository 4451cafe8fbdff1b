// What people need of every page, whichever way they use it.
import { expect, same } from './world.mjs'

// walk presses Tab until it has been everywhere and gives what it led to. Each control
// shows that it has the focus.
export async function walk(person) {
  const controls = await person.page.evaluateHandle(() => {
    document.activeElement.blur()
    const look = (element) => {
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element.closest('.choice') ?? element)
      return outlineStyle === 'none' ? boxShadow : `${outlineStyle} ${outlineWidth} ${boxShadow}`
    }
    const all = [...document.querySelectorAll('a[href], button, summary, input:not([type="hidden"])')]
      .filter((element) => element.checkVisibility() && (element.type !== 'radio' || element === element.form.querySelector(`[name="${element.name}"]`)))
    return { all, look, before: all.map(look) }
  })
  const seen = new Set()
  const count = await controls.evaluate(({ all }) => all.length)
  for (let presses = 0; presses < count + 3; presses++) {
    await person.page.keyboard.press('Tab')
    const { index, shows } = await controls.evaluate(({ all, look, before }) => {
      const index = all.findIndex((element) => element === document.activeElement || element.type === 'radio' && element.name === document.activeElement.name)
      return { index, shows: index >= 0 && look(document.activeElement) !== before[index] && parseFloat(getComputedStyle(document.activeElement.closest('.choice') ?? document.activeElement).outlineWidth) >= 2 }
    })
    if (index < 0) continue // the browser's own
    const name = await controls.evaluate(({ all }, index) => all[index].outerHTML, index)
    expect(shows, `nobody sees that the focus is at ${name}`)
    seen.add(index)
  }
  const names = await controls.evaluate(({ all }) => all.map((element) => element.name && element.type !== 'submit' ? element.name : element.textContent.replace(/\s+/g, ' ').trim()))
  same([...seen].sort((a, b) => a - b).length, count, `Tab leads to ${[...seen].map((n) => names[n])} of ${names}; how many`)
  return names
}

// fits checks that nothing has to be scrolled sideways.
export async function fits(person) {
  const { width, wide, outside } = await person.page.evaluate(() => {
    const width = document.documentElement.clientWidth
    return { width, wide: document.documentElement.scrollWidth, outside: [...document.querySelectorAll('body *:not(.unseen)')].filter((element) => {
      const box = element.getBoundingClientRect()
      return box.width > 0 && (box.left < 0 || box.right > width + 0.5)
    }).map((element) => element.outerHTML.slice(0, 200)) }
  })
  expect(width <= 320 && wide <= width && outside.length === 0, `${person.page.url()} is ${wide} wide on a screen of ${width}: ${outside}`)
}

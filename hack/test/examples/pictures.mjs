// Looks at the sample pages of docs/examples/pictures in Chromium: which picture the browser takes on which screen.
import { setTimeout as sleep } from 'node:timers/promises'
import puppeteer from 'puppeteer-core'

const { browser: executablePath, pages, expiring } = JSON.parse(process.argv[2])
const timeout = 240_000
const expect = (condition, what) => { if (!condition) throw new Error(what) }

// The pixels of each variant of the photo, which is twice as wide as high.
const sizes = {
  phone: [400, 200], 'phone@2x': [800, 400], hero: [1200, 600], 'hero@2x': [2400, 1200], card: [400, 300], 'card@2x': [800, 600],
}
const screens = {
  narrow: { width: 390, height: 800, deviceScaleFactor: 1 },
  'narrow, 2x': { width: 390, height: 800, deviceScaleFactor: 2 },
  wide: { width: 1100, height: 800, deviceScaleFactor: 1 },
  'wide, 2x': { width: 1100, height: 800, deviceScaleFactor: 2 },
}
const fixed = (name) => ({ narrow: name, 'narrow, 2x': `${name}@2x`, wide: name, 'wide, 2x': `${name}@2x` })
const fluid = { narrow: 'phone', 'narrow, 2x': 'phone@2x', wide: 'hero', 'wide, 2x': 'hero@2x' }
const shaped = { narrow: 'card', 'narrow, 2x': 'card@2x', wide: 'hero', 'wide, 2x': 'hero@2x' }

// By page: how many of which pictures it has, of a public and a private item, and what each shows.
const wanted = {
  html: { card: [2, fixed('card')], fluid: [2, fluid], shaped: [2, shaped] },
  next: { fixed: [1, fixed('phone')], fluid: [1, fluid], card: [1, fixed('card')] },
  unpic: { fixed: [1, fixed('phone')], fluid: [1, fluid] },
}

const browser = await puppeteer.launch({ executablePath, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })

// open shows a page in a browser that has nothing in its cache. accept replaces what the browser accepts for images.
async function open(show, screen, accept) {
  const context = await browser.createBrowserContext()
  const page = await context.newPage()
  page.setDefaultTimeout(timeout)
  await page.setViewport(screens[screen])
  const types = new Map()
  page.on('response', (response) => types.set(response.url(), response.headers()['content-type']))
  if (accept) {
    await page.setRequestInterception(true)
    page.on('request', (request) => request.continue(request.resourceType() === 'image' ? { headers: { ...request.headers(), accept } } : {}))
  }
  await show(page)
  // Images that are far below are loaded when they are shown.
  await page.evaluate(async () => {
    for (const image of document.images) {
      image.scrollIntoView()
      if (!image.complete) await new Promise((done) => { image.onload = image.onerror = done })
    }
  })
  const images = await page.$$eval('img', (all) => all.map((image) => ({ kind: image.className, url: image.currentSrc, width: image.naturalWidth })))
  return { images: images.map((image) => ({ ...image, type: types.get(image.url) })), page, close: () => context.close() }
}

const variantOf = (url) => decodeURIComponent(new URL(url).pathname.split('/')[4])

// warm lets the service make what the page may ask for: it makes few at a time, and answers 429 to the others.
async function warm(address, accept) {
  // Next.js repeats the page in its scripts, with other escapes.
  const html = (await (await fetch(address)).text()).replace(/<script[\s\S]*?<\/script>/g, '')
  for (const url of new Set(html.replaceAll('&#38;', '&').replaceAll('&amp;', '&').match(/http[^"\s,]*\/media\/file\/[^"\s,]*/g))) {
    for (const end = Date.now() + timeout; ; await sleep(200)) {
      const { status } = await fetch(url, { headers: { accept } })
      if (status === 200) break
      expect([429, 503].includes(status) && Date.now() < end, `${url}: ${status}`)
    }
  }
}

try {
  for (const [name, address] of Object.entries(pages)) {
    await warm(address, 'image/avif')
    for (const screen of Object.keys(screens)) {
      const { images, page, close } = await open((page) => page.goto(address), screen)
      for (const [kind, [count, variants]] of Object.entries(wanted[name])) {
        const found = images.filter((image) => image.kind === kind)
        expect(found.length === count, `${name}, ${screen}: ${found.length} pictures ${kind}, want ${count}`)
        for (const image of found) {
          const [width, height] = sizes[variants[screen]]
          // Without `srcset` and `sizes`: what the file really has.
          const real = await page.evaluate(async (url) => {
            const bitmap = await createImageBitmap(await (await fetch(url)).blob())
            return `${bitmap.width} x ${bitmap.height}`
          }, image.url)
          expect(variantOf(image.url) === variants[screen] && real === `${width} x ${height}` && image.type === 'image/avif' && image.width > 0,
            `${name}, ${screen}, ${kind}: ${JSON.stringify(image)} has ${real}, want ${variants[screen]}, ${width} x ${height}`)
          if (kind !== 'fluid') {
            const density = screens[screen].deviceScaleFactor
            expect(image.width === width / density, `${name}, ${screen}, ${kind}: it is ${image.width} wide on the page, want ${width / density}`)
          }
        }
      }
      expect(images.length === Object.values(wanted[name]).reduce((sum, [count]) => sum + count, 0), `${name} has ${images.length} pictures`)
      await close()
    }
    console.log(name)
  }

  for (const [accept, type] of [['image/webp,*/*', 'image/webp'], ['*/*', 'image/jpeg']]) {
    await warm(pages.html, accept)
    const { images, close } = await open((page) => page.goto(pages.html), 'narrow', accept)
    expect(images.length === 6 && images.every((image) => image.type === type && image.width > 0), `${accept}: ${JSON.stringify(images)}`)
    await close()
    console.log(type)
  }

  // A page that was kept for too long: its private pictures are gone, the public ones are not. Loading it again helps.
  const kept = await (await fetch(expiring)).text()
  const signed = kept.replaceAll('&#38;', '&').match(/http[^"\s,]*\/card\/[^"\s,]*signature=[^"\s,]*/)[0]
  for (const end = Date.now() + timeout; (await fetch(signed)).ok; await sleep(100)) expect(Date.now() < end, `${signed} does not expire`)
  for (const [show, shown, what] of [
    [(page) => page.setContent(kept), 3, 'an expired page'],
    [(page) => page.goto(pages.html), 6, 'the page that is loaded again'],
  ]) {
    const { images, close } = await open(show, 'narrow')
    const loaded = images.filter((image) => image.width > 0)
    expect(images.length === 6 && loaded.length === shown, `${what} shows ${loaded.length} of ${images.length} pictures, want ${shown}: ${JSON.stringify(images)}`)
    expect(shown === 6 || loaded.every((image) => !image.url.includes('signature=')), `an expired picture is shown: ${JSON.stringify(images)}`)
    await close()
  }
  console.log('expiry')
} finally {
  await browser.close()
}

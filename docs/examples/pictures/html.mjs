// Plain HTML, from the document of each image.
import { images } from './media.mjs'
import { serve } from './serve.mjs'

const escape = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`)

// One width on every screen: the browser chooses the density.
function card({ presets: { card }, originalFileName }) {
  return `<img class="card" src="${escape(card.url)}" srcset="${escape(card.srcset)}" width="${card.width}" height="${card.height}" alt="${escape(originalFileName)}">`
}

// As wide as the page: the browser chooses among the widths of several presets.
function fluid({ presets: { phone, hero }, originalFileName }) {
  const srcset = [...phone.densities, ...hero.densities].map(({ url, width }) => `${url} ${width}w`).join(', ')
  return `<img class="fluid" src="${escape(hero.url)}" srcset="${escape(srcset)}" sizes="100vw" width="${hero.width}" height="${hero.height}" style="width: 100%; height: auto" alt="${escape(originalFileName)}">`
}

// Another shape on narrow screens.
function shaped({ presets: { card, hero }, originalFileName }) {
  return `<picture>
    <source media="(max-width: 600px)" srcset="${escape(card.srcset)}" width="${card.width}" height="${card.height}">
    <img class="shaped" src="${escape(hero.url)}" srcset="${escape(hero.srcset)}" width="${hero.width}" height="${hero.height}" style="max-width: 100%; height: auto" alt="${escape(originalFileName)}">
  </picture>`
}

serve(async () => (await images()).map((item) => `<p>${card(item)}<p>${fluid(item)}<p>${shaped(item)}`).join('\n'))

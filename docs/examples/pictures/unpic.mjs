// React components of unpic, rendered on the server.
import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { Image } from '@unpic/react/base'
import { widths } from './image-loader.mjs'
import { images } from './media.mjs'
import { serve } from './serve.mjs'
import { transformer } from './unpic-transformer.mjs'

// The loader writes the name of a preset into an address. That of a private item is signed, and must stay as it is.
const isPublic = ({ access }) => access === 'public'

serve(async () => renderToStaticMarkup((await images()).filter(isPublic).map(({ mediaId, presets: { hero, phone }, originalFileName }) => [
  createElement(Image, {
    key: `${mediaId}-fixed`, className: 'fixed', src: hero.url, transformer, layout: 'fixed', width: phone.width, height: phone.height, alt: originalFileName,
  }),
  createElement(Image, {
    key: mediaId, className: 'fluid', src: hero.url, transformer, breakpoints: Object.values(widths), layout: 'fullWidth', aspectRatio: hero.width / hero.height, alt: originalFileName,
  }),
])))

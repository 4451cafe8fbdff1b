import { widths } from './image-loader.mjs'

export default {
  images: { loader: 'custom', loaderFile: './image-loader.mjs', deviceSizes: Object.values(widths), imageSizes: [] },
}

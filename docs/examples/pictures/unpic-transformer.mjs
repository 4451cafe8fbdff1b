import mediastackLoader from './image-loader.mjs'

export const transformer = (src, { width }) => mediastackLoader({ src: String(src), width: width ?? 400 })

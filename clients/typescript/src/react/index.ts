/** React components and hooks of the mediastack client. Hooks and the Dropzone are client components; the Picture is none. */
export { Dropzone, type DropzoneProps } from './dropzone.js'
export { Picture, type PictureItem, type PictureProps } from './picture.js'
export { defaultTexts, type DropzoneTexts } from './texts.js'
export { type Media, type MediaOptions, type MediaSource, useMedia } from './use-media.js'
export { type Uploads, useUpload } from './use-upload.js'

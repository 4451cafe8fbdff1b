// The script of the page that uploads by the recipe of the reference, which the test writes to recipe.mjs.
import { newUppy } from './recipe.mjs'

// start begins an upload of the file that the user chooses, and returns when Uppy has it.
window.start = async ({ endpoint, filename, chunkSize, retryDelays }) => {
  const bytes = await (await fetch('/file')).blob()
  const newSignature = async () => (await fetch('/signature', { method: 'POST' })).text()
  const uppy = newUppy(endpoint, newSignature)
  uppy.getPlugin('Tus').setOptions({ chunkSize, retryDelays })
  window.ended = new Promise((resolve) => {
    uppy.on('upload-success', (_, { uploadURL, body }) => resolve({ url: uploadURL, id: body.xhr.getResponseHeader('x-service-media-id'), document: body.xhr.getResponseHeader('x-service-media') }))
    uppy.on('upload-error', (_, error) => resolve({ error: error.message }))
  })
  uppy.addFile({ name: filename, type: 'application/octet-stream', data: new File([bytes], filename, { type: 'application/octet-stream', lastModified: 1_700_000_000_000 }) })
  void uppy.upload()
}
window.kept = () => Object.keys(localStorage)

// rejected uploads a file that the signature does not permit, and returns what Uppy shows.
window.rejected = async ({ endpoint, filename }) => {
  const uppy = newUppy(endpoint, async () => (await fetch('/signature?of=100', { method: 'POST' })).text())
  const failed = new Promise((resolve) => uppy.on('upload-error', resolve))
  uppy.addFile({ name: filename, type: 'text/plain', data: new File(['x'.repeat(101)], filename) })
  void uppy.upload()
  await failed
  return uppy.getState().info.map(({ message, type }) => ({ message, type }))
}

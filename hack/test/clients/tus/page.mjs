// The script of the page that uploads: with tus-js-client, and with Uppy.
import Uppy from '@uppy/core'
import Tus from '@uppy/tus'
import { Upload } from 'tus-js-client'

const result = (url, header) => ({ url, id: header('x-service-media-id'), document: header('x-service-media') })

window.withTus = async (options) => {
  const file = await (await fetch('/file')).blob()
  return new Promise((resolve, reject) => {
    const upload = new Upload(file, {
      endpoint: options.endpoint,
      chunkSize: options.chunkSize || Number.POSITIVE_INFINITY,
      headers: options.headers,
      metadata: { filename: options.filename, filetype: 'application/octet-stream' },
      retryDelays: options.retryDelays,
      onError: (error) => reject(new Error(error.message)),
      onSuccess: ({ lastResponse }) => resolve(result(upload.url, (name) => lastResponse.getHeader(name))),
    })
    upload.start()
  })
}

window.withUppy = async (options) => {
  const file = await (await fetch('/file')).blob()
  const uppy = new Uppy().use(Tus, {
    endpoint: options.endpoint,
    chunkSize: options.chunkSize || Number.POSITIVE_INFINITY,
    headers: options.headers,
    retryDelays: options.retryDelays,
  })
  uppy.addFile({ name: options.filename, type: 'application/octet-stream', data: file })
  return new Promise((resolve, reject) => {
    uppy.on('upload-error', (_, error) => reject(new Error(error.message)))
    uppy.on('upload-success', (_, response) => resolve(result(response.uploadURL, (name) => response.body.xhr.getResponseHeader(name))))
    uppy.upload()
  })
}

// A client in Node: uploads the file of its options, and prints what it was answered.
import { createReadStream, statSync } from 'node:fs'
import { Upload } from 'tus-js-client'

const options = JSON.parse(process.argv[2])
const size = statSync(options.file).size

// begin uploads, or goes on with the upload at url. It ends early after so many bytes.
function begin(url, giveUpAfter) {
  return new Promise((resolve, reject) => {
    const upload = new Upload(createReadStream(options.file), {
      endpoint: options.endpoint,
      uploadUrl: url,
      uploadSize: size,
      chunkSize: options.chunkSize || Number.POSITIVE_INFINITY,
      headers: options.headers,
      metadata: { filename: options.filename, filetype: 'application/octet-stream' },
      retryDelays: options.retryDelays,
      onError: reject,
      onProgress(sent) {
        if (giveUpAfter && sent > giveUpAfter) {
          giveUpAfter = 0
          upload.abort().then(() => resolve(upload.url), reject)
        }
      },
      onSuccess: ({ lastResponse }) =>
        resolve({ url: upload.url, id: lastResponse.getHeader('x-service-media-id'), document: lastResponse.getHeader('x-service-media') }),
    })
    upload.start()
  })
}

let url = null
if (options.giveUpAfter) url = await begin(null, options.giveUpAfter)
console.log(JSON.stringify(await begin(url, 0)))

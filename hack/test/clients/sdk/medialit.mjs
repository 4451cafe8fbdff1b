// Calls every method of the SDK, and prints what each returned or threw.
import { MediaLit } from 'medialit'

const { endpoint, apiKey, file } = JSON.parse(process.argv[2])
const client = new MediaLit({ endpoint, apiKey })

// draft uploads by a form of Node itself.
async function draft() {
  const form = new FormData()
  form.append('file', new Blob(['text']), 'one.txt')
  form.append('group', 'sdk')
  const response = await fetch(`${endpoint}/media/create`, { method: 'POST', headers: { 'x-medialit-apikey': apiKey }, body: form })
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()).mediaId
}

const id = await draft()
const calls = {
  upload: () => client.upload(file),
  seal: () => client.seal(id),
  get: () => client.get(id),
  list: () => client.list(1, 10, { group: 'sdk', access: 'private' }),
  getCount: () => client.getCount(),
  getStats: () => client.getStats(),
  getSettings: () => client.getSettings(),
  updateSettings: async () => {
    await client.updateSettings({ webpOutputQuality: 61 })
    return client.getSettings()
  },
  getSignature: () => client.getSignature({ group: 'sdk' }),
  delete: async () => {
    await client.delete(id)
    return client.get(id).then(() => 'it is there', (error) => error.message)
  },
}
const results = {}
for (const [name, call] of Object.entries(calls)) results[name] = await call().then((result) => ({ result }), (error) => ({ error: error.message }))
const methods = Object.getOwnPropertyNames(MediaLit.prototype).filter((name) => !['constructor', 'checkBrowserEnvironment', 'createFormData'].includes(name))
console.log(JSON.stringify({ id, methods, results }))

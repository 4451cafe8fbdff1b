// Reads the images of the account. Only the server has the API key.
export async function images() {
  const { URL: service, API_KEY: apiKey } = process.env
  if (!service || !apiKey) throw new Error('Set URL to the base URL of the service, and API_KEY to the key of an app.')
  const fields = 'mediaId,originalFileName,access,presets'
  const response = await fetch(`${service}/media/get?state=sealed&limit=20&fields=${fields}`, { headers: { 'x-service-apikey': apiKey } })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return (await response.json()).filter((item) => item.presets.hero)
}

// What every client does: store, seal, find and delete a file. It prints what it was answered.
import { readFileSync } from 'node:fs'

export async function scenario(client, options) {
  const { tools } = await client.listTools()
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args })
    if (result.isError) throw new Error(`${name}: ${result.content[0].text}`)
    if (JSON.stringify(JSON.parse(result.content[0].text)) !== JSON.stringify(result.structuredContent)) throw new Error(`${name}: text and structure differ`)
    return result.structuredContent
  }
  const { mediaId } = await call('upload_media', {
    fileBase64: readFileSync(options.file).toString('base64'),
    fileName: options.fileName,
    mimeType: 'application/octet-stream',
    group: options.group,
  })
  const sealed = await call('seal_media', { mediaId })
  const list = await call('list_media', { group: options.group })
  const file = await (await fetch(list.mediaItems[0].file)).arrayBuffer()
  const rejected = await client.callTool({ name: 'get_media', arguments: { mediaId: 'nonsense' } })
  const deleted = await call('delete_media', { mediaId })
  const left = await call('list_media', { group: options.group })
  console.log(
    JSON.stringify({
      tools: tools.map((tool) => tool.name),
      mediaId,
      sealed,
      listed: list.mediaItems.map((item) => item.mediaId),
      bytes: file.byteLength,
      rejected: rejected.isError === true && rejected.content[0].text,
      deleted,
      left: left.total,
      version: options.version?.(),
    }),
  )
}

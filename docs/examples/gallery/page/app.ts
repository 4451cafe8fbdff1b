// The page of the gallery. It uploads directly to the service with a signature; everything else it asks of its server.
import { announce, element, textOf } from './dom.js'
import { show } from './items.js'
import { add, showLeft } from './uploads.js'

const choose = (files: FileList | null | undefined) => add(files, () => show())

const drop = element('drop')
for (const [event, over] of [['dragover', true], ['dragleave', false], ['drop', false]] as const) {
  drop.addEventListener(event, (at) => {
    at.preventDefault()
    drop.classList.toggle('over', over)
  })
}
drop.addEventListener('drop', (event) => choose(event.dataTransfer?.files))
element<HTMLInputElement>('files').addEventListener('change', (event) => {
  const input = event.target as HTMLInputElement
  choose(input.files)
  input.value = '' // so that the same file can be chosen again
})
await Promise.all([show(), showLeft(() => show()).catch((error: unknown) => announce(`Earlier uploads cannot be shown: ${textOf(error)}`))])

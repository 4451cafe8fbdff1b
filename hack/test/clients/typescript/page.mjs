// The script of the page on which the scenarios run.
import { run } from './scenarios.mjs'

const control = async (path, body) => (await fetch(path, { method: 'POST', body: JSON.stringify(body ?? {}) })).text()
window.run = (options) => run({
  ...options,
  where: 'on a page',
  plan: (fault) => control('/plan', fault),
  seen: async () => JSON.parse(await control('/seen')),
  reset: () => control('/reset'),
})

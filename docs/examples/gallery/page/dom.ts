// What the parts of the page share: elements, messages, and the server of this page.
import { ConnectionError, MediastackError } from '@mediastack/client'

export const element = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T
export const copyOf = (id: string) => element<HTMLTemplateElement>(id).content.firstElementChild!.cloneNode(true) as HTMLElement
export const within = <T extends HTMLElement = HTMLElement>(parent: HTMLElement, selector: string) => parent.querySelector<T>(selector)!

/** What can be done with something: the names of buttons, and what they do. */
export type Actions = Record<string, () => unknown>

/** Returns the buttons of actions on something that has a name. */
export function buttons(name: string, actions: Actions): HTMLButtonElement[] {
  return Object.entries(actions).map(([action, act]) => {
    const button = document.createElement('button')
    button.type = 'button'
    button.textContent = action
    button.setAttribute('aria-label', `${action} ${name}`)
    button.addEventListener('click', () => void act())
    return button
  })
}

const messageTime = 8_000
const messagesShown = 3

/** Shows a message, which screen readers read: for some seconds, or with actions on what has this name until one is used. */
export function announce(text: string, name = '', actions: Actions = {}): HTMLElement {
  const message = copyOf('message')
  within(message, '.text').textContent = text
  const remove = () => message.remove()
  const all = Object.entries(actions).map(([action, act]) => [action, () => { remove(); return act() }] as const)
  if (all.length > 0) within(message, '.actions').append(...buttons(name, Object.fromEntries(all)), ...buttons('message', { Dismiss: remove }))
  else setTimeout(remove, messageTime)
  const messages = element('status')
  messages.append(message)
  while (messages.children.length > messagesShown) messages.firstElementChild!.remove()
  return message
}

let asked = new AbortController()

/** Asks a question. The answer is yes only if the user says so. */
export function ask(question: string, yes: string): Promise<boolean> {
  const dialog = element<HTMLDialogElement>('confirm')
  asked.abort()
  const { signal } = (asked = new AbortController())
  element('confirm-text').textContent = question
  element('confirm-yes').textContent = yes
  dialog.showModal()
  return new Promise((answer) => {
    // The event "close" comes later than the answer. By then the dialog may ask the next question, whose answer is not for this one.
    within<HTMLFormElement>(dialog, 'form').addEventListener('submit', ({ submitter }) => answer(submitter === element('confirm-yes')), { signal })
    dialog.addEventListener('close', () => { if (!dialog.open) answer(false) }, { signal }) // by the Escape key
    signal.addEventListener('abort', () => answer(false))
  })
}

/** Sends a request to the server of this page. */
export async function request<T>(path: string, method = 'GET'): Promise<T> {
  const response = await fetch('/api' + path, { method })
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.detail)
  return answer
}

/** What people on the page read. Details of permissions and failures are for those who run the gallery: they are in the console. */
export function textOf(error: unknown): string {
  console.error(error)
  if (error instanceof ConnectionError) return 'the connection failed'
  if (error instanceof MediastackError) {
    if ([401, 403].includes(error.status) || error.status >= 500) return 'the gallery cannot store files at the moment'
    return error.detail || error.code
  }
  return error instanceof Error ? error.message : String(error)
}

export function bytes(size: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const unit = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, size)) / 3))
  return `${(size / 1000 ** unit).toLocaleString(undefined, { maximumFractionDigits: 1 })} ${units[unit]}`
}

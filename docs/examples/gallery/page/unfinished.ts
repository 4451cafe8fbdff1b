// Uploads that are not complete are remembered in this browser, so that they continue after a reload of the page.
import type { Signature } from '@mediastack/client'

export interface Unfinished {
  /** The fingerprint of the file. */
  key: string
  name: string
  size: number
  /** Bytes that were sent, for display: the service knows how many it has. */
  sent: number
  uploadUrl: string
  /** Every request of an upload needs the signature that it began with. */
  signature: Signature
  /** When bytes were last sent. */
  at: number
}

const prefix = 'upload '
// The service removes an upload that makes no progress for 24 hours, by default.
const lifetime = 24 * 3600 * 1000

/** Returns what recognizes a file when the user chooses it again: a page has no access to it after a reload. */
export function fingerprint(file: File): string {
  return JSON.stringify([file.name, file.size, file.lastModified, file.type])
}

export function remember(upload: Unfinished): void {
  try {
    localStorage.setItem(prefix + upload.key, JSON.stringify(upload))
  } catch {
    // Without a storage the upload continues after a broken connection, but not after a reload.
  }
}

export function forget(key: string): void {
  try {
    localStorage.removeItem(prefix + key)
  } catch {
    // As above.
  }
}

/** Returns the uploads that are not complete, and that no other tab is sending. */
export async function unfinished(): Promise<Unfinished[]> {
  const sending = new Set((await navigator.locks?.query())?.held?.map(({ name }) => name))
  const found: Unfinished[] = []
  for (const key of storedKeys()) {
    const upload = JSON.parse(localStorage.getItem(prefix + key)!) as Unfinished
    if (Date.now() - upload.at > lifetime) forget(key)
    else if (!sending.has(prefix + key)) found.push(upload)
  }
  return found.sort((one, other) => one.at - other.at)
}

/** Runs an upload unless another tab, or this one, is sending the same file: then it returns false. */
export async function exclusively(key: string, send: () => Promise<void>): Promise<boolean> {
  if (!navigator.locks) return send().then(() => true) // without HTTPS
  return navigator.locks.request(prefix + key, { ifAvailable: true }, async (lock) => {
    if (lock) await send()
    return lock !== null
  })
}

function storedKeys(): string[] {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length))
  } catch {
    return []
  }
}

/** Whether a file is of the types that the attribute `accept` of an input lists. Without it, every file is. */
export function accepts(accept: string | undefined, { name, type }: { name: string; type: string }): boolean {
  const patterns = (accept ?? '').split(',').map((pattern) => pattern.trim().toLowerCase()).filter((pattern) => pattern !== '')
  if (patterns.length === 0) return true
  const [lower, kind] = [name.toLowerCase(), type.toLowerCase()]
  return patterns.some((pattern) => {
    if (pattern.startsWith('.')) return lower.endsWith(pattern)
    return pattern.endsWith('/*') ? kind.startsWith(pattern.slice(0, -1)) : kind === pattern
  })
}

/** Returns the files that were dropped, and the names of folders, which a browser gives as files that cannot be read. */
export function filesOf({ items, files }: DataTransfer): { files: File[]; folders: string[] } {
  const found: { files: File[]; folders: string[] } = { files: [], folders: [] }
  const entries = [...items].filter(({ kind }) => kind === 'file')
  if (entries.length === 0) return { files: [...files], folders: [] }
  for (const entry of entries) {
    const file = entry.getAsFile()
    if (!file) continue
    if (entry.webkitGetAsEntry?.()?.isDirectory) found.folders.push(file.name)
    else found.files.push(file)
  }
  return found
}

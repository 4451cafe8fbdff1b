'use client'

import { type CSSProperties, type DragEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { MediastackError } from '../errors.js'
import type { Metadata } from '../item.js'
import type { QueuedUpload } from '../queue.js'
import { accepts, filesOf } from './files.js'
import { defaultTexts, type DropzoneTexts } from './texts.js'
import type { Uploads } from './use-upload.js'

export interface DropzoneProps<Pairs extends Metadata<Pairs>> {
  /** What useUpload has returned. */
  uploads: Uploads<Pairs>
  /** The name of the group of controls. */
  label?: ReactNode
  /** Types of files, as in the attribute `accept`: `image/*,.pdf`. Dropped files are checked, too. */
  accept?: string
  /** Whether several files can be chosen at once. Default true. */
  multiple?: boolean
  disabled?: boolean
  /** Whether the uploads are listed with their progress and buttons. Default true. */
  list?: boolean
  /** Other words, or another language. */
  texts?: Partial<DropzoneTexts>
  className?: string
  style?: CSSProperties
}

const hidden: CSSProperties = { position: 'absolute', width: 1, height: 1, margin: -1, overflow: 'hidden', clipPath: 'inset(50%)', whiteSpace: 'nowrap' }

/**
 * Takes files by a button and by drag and drop, and lists their uploads. It can be used with the keyboard alone, and says to
 * screen readers what happens. For styles, the root has `data-dragging` while files are dragged over it, and an upload `data-state`.
 */
export function Dropzone<Pairs extends Metadata<Pairs>>({ uploads, accept, multiple = true, disabled = false, list = true, label, texts: given, className, style }: DropzoneProps<Pairs>) {
  const texts = { ...defaultTexts, ...given }
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const [depth, setDepth] = useState(0) // of elements that the pointer has entered while it drags
  const [rejected, setRejected] = useState('')
  const status = useStatus(uploads.uploads, texts)

  function take(files: readonly File[], folders: readonly string[]) {
    const good = files.filter((file) => accepts(accept, file))
    const taken = multiple ? good : good.slice(0, 1)
    const names = [...files.filter((file) => !taken.includes(file)).map(({ name }) => name), ...folders]
    setRejected(names.length > 0 ? texts.rejected(names) : '')
    if (taken.length > 0) uploads.add(taken)
  }

  function dragged(event: DragEvent, change: number) {
    if (!event.dataTransfer.types.includes('Files')) return
    event.preventDefault() // otherwise the browser takes the drop, and leaves the page
    if (disabled) event.dataTransfer.dropEffect = 'none'
    else setDepth((before) => Math.max(0, before + change))
  }

  function dropped(event: DragEvent) {
    if (!event.dataTransfer.types.includes('Files')) return
    event.preventDefault()
    setDepth(0)
    if (disabled) return
    const { files, folders } = filesOf(event.dataTransfer)
    take(files, folders)
  }

  return (
    <div
      role="group" aria-labelledby={id} className={className} style={style} data-dragging={depth > 0 || undefined}
      onDragEnter={(event) => dragged(event, 1)} onDragOver={(event) => dragged(event, 0)} onDragLeave={(event) => dragged(event, -1)} onDrop={dropped}
    >
      <p id={id}>{label ?? texts.label(multiple)}</p>
      <button ref={button} type="button" disabled={disabled} aria-describedby={id} onClick={() => input.current?.click()}>{texts.choose(multiple)}</button>
      <input
        ref={input} type="file" hidden accept={accept} multiple={multiple} disabled={disabled}
        onChange={(event) => {
          take([...(event.target.files ?? [])], [])
          event.target.value = '' // so that the same file can be chosen again
        }}
      />
      {rejected !== '' && <p role="alert">{rejected}</p>}
      {list && uploads.uploads.length > 0 && (
        <ul>
          {uploads.uploads.map((upload) => (
            <Row key={upload.id} upload={upload} uploads={uploads} texts={texts} onRemoved={() => button.current?.focus()} />
          ))}
        </ul>
      )}
      <p role="status" style={hidden}>{status}</p>
    </div>
  )
}

function Row<Pairs extends Metadata<Pairs>>({ upload, uploads, texts, onRemoved }: { upload: QueuedUpload<Pairs>; uploads: Uploads<Pairs>; texts: DropzoneTexts; onRemoved: () => void }) {
  const { id, file, state, sent, pausable, retryable } = upload
  const remove = useRef<HTMLButtonElement>(null)
  const focused = useRef(false)
  const action = state === 'paused' ? ([texts.resume, uploads.resume] as const) : retryable ? ([texts.retry, uploads.retry] as const) : pausable ? ([texts.pause, uploads.pause] as const) : undefined
  const has = action !== undefined
  useEffect(() => {
    if (!has && focused.current) remove.current?.focus() // the button with the focus is gone
    focused.current = focused.current && has
  }, [has])
  return (
    <li data-state={state}>
      <span>{file.name}</span>{' '}
      {state !== 'done' && state !== 'failed' && <progress aria-label={file.name} max={Math.max(file.size, 1)} value={sent} />}{' '}
      <span>{textOf(upload, texts)}</span>{' '}
      {action && (
        <button type="button" aria-label={`${action[0]} ${file.name}`} onFocus={() => (focused.current = true)} onBlur={() => (focused.current = false)} onClick={() => action[1](id)}>{action[0]}</button>
      )}{' '}
      <button
        ref={remove} type="button" aria-label={`${texts.remove} ${file.name}`}
        onClick={() => {
          uploads.remove(id)
          onRemoved()
        }}
      >{texts.remove}</button>
    </li>
  )
}

/** Returns what a screen reader says: the end of each upload, and each quarter of all that run. */
function useStatus<Pairs extends Metadata<Pairs>>(uploads: readonly QueuedUpload<Pairs>[], texts: DropzoneTexts): string {
  const [status, setStatus] = useState('')
  const said = useRef({ states: new Map<string, string>(), quarter: 0 })
  useEffect(() => {
    const { states, quarter } = said.current
    const changed = uploads.filter(({ id, state }) => states.get(id) !== state && ['paused', 'done', 'failed'].includes(state))
    const running = uploads.filter(({ state }) => state === 'sending' || state === 'waiting')
    const [sent, size] = [running.reduce((sum, one) => sum + one.sent, 0), running.reduce((sum, one) => sum + one.file.size, 0)]
    const now = size > 0 ? Math.floor((4 * sent) / size) : 0
    const begun = running.some(({ id }) => !states.has(id))
    const lines = changed.map((upload) => `${upload.file.name}: ${textOf(upload, texts)}`)
    if (running.length > 0 && (begun || now > quarter)) lines.push(texts.progress(running.length, 25 * now))
    said.current = { states: new Map(uploads.map(({ id, state }) => [id, state])), quarter: now }
    if (lines.length > 0) setStatus(lines.join(' '))
  }, [uploads, texts])
  return status
}

function textOf<Pairs extends Metadata<Pairs>>({ state, error, sent, file }: QueuedUpload<Pairs>, texts: DropzoneTexts): string {
  if (state === 'sending') return texts.sending(file.size > 0 ? Math.floor((100 * sent) / file.size) : 0)
  if (state === 'failed') return texts.failed(error instanceof MediastackError && error.detail ? error.detail : error?.message ?? '')
  return texts[state]
}

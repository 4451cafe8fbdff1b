'use client'

import { useEffect, useMemo, useState, useSyncExternalStore } from 'react'
import type { AnyPairs, Metadata } from '../item.js'
import { type QueuedUpload, type QueueOptions, UploadQueue } from '../queue.js'

/** The uploads of a component, and what can be done with them. The functions stay the same. */
export interface Uploads<Pairs extends Metadata<Pairs> = AnyPairs> extends Pick<UploadQueue<Pairs>, 'add' | 'pause' | 'resume' | 'retry' | 'remove' | 'clear'> {
  uploads: readonly QueuedUpload<Pairs>[]
}

const none: readonly never[] = []

/** Uploads files, some at once. When the component is unmounted, what is not done is ended and removed from the service. */
export function useUpload<Pairs extends Metadata<Pairs> = AnyPairs>(options: QueueOptions<Pairs>): Uploads<Pairs> {
  const [queue] = useState(() => new UploadQueue<Pairs>(options))
  useEffect(() => {
    queue.options = options
  })
  useEffect(() => queue.close, [queue])
  const uploads = useSyncExternalStore(queue.subscribe, queue.uploads, () => none)
  return useMemo(() => {
    const { add, pause, resume, retry, remove, clear } = queue
    return { uploads, add, pause, resume, retry, remove, clear }
  }, [queue, uploads])
}

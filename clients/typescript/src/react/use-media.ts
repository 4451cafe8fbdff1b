'use client'

import { useCallback, useEffect, useRef, useState } from 'react'
import type { MediastackClient } from '../client.js'
import type { AnyPairs, Field, Metadata, Selected } from '../item.js'
import type { ListOptions, Page, Selection } from '../list.js'

/** Where pages of a list come from: a client, or a function of the application that asks its own server. */
export interface MediaSource<Item, Query extends object = object> {
  /** What a client has: its queries have the types of lists. */
  api?: never
  list(options: Query & { after?: string; signal: AbortSignal }): Promise<Page<Item>>
}

export interface MediaOptions<Item> {
  /** The first page, which a server has read: it is shown at once, and is not read again. */
  initial?: Page<Item>
}

/** A list that is read page by page. */
export interface Media<Item> {
  items: readonly Item[]
  /** The number of all matching items, where the service counts them. */
  total: number | undefined
  /** Whether a page is being read. */
  loading: boolean
  /** Why the last page could not be read. `reload` or `loadMore` tries again. */
  error: Error | undefined
  /** Whether there is another page. */
  hasMore: boolean
  /** Reads the next page, unless one is being read. */
  loadMore: () => void
  /** Reads the list again from its beginning. What is shown stays until it is there. */
  reload: () => void
  /** Changes what is shown, such as after a delete. Nothing is sent. */
  change: (update: (items: readonly Item[]) => readonly Item[]) => void
}

interface State<Item> {
  items: readonly Item[]
  next: string | undefined
  total: number | undefined
  loading: boolean
  error: Error | undefined
}

/** Reads a list page by page, and from its beginning when the query changes. An own source can be another object each time. */
export function useMedia<Names extends Field = '*', Pairs extends Metadata<Pairs> = AnyPairs>(
  source: MediastackClient<Pairs>, query?: Omit<ListOptions<Pairs>, 'after' | 'page'> & Selection<Names>, options?: MediaOptions<Selected<Names, Pairs>>): Media<Selected<Names, Pairs>>
export function useMedia<Item extends { mediaId: string }, Query extends object = object>(source: MediaSource<Item, Query>, query?: Query, options?: MediaOptions<Item>): Media<Item>
export function useMedia<Item extends { mediaId: string }>(source: Pick<MediaSource<Item>, 'list'>, query: object = {}, { initial }: MediaOptions<Item> = {}): Media<Item> {
  const [state, setState] = useState<State<Item>>({ items: initial?.items ?? [], next: initial?.next, total: initial?.total, loading: !initial, error: undefined })
  const latest = useRef({ source, query, state })
  useEffect(() => {
    latest.current = { source, query, state }
  })
  const running = useRef<AbortController | undefined>(undefined)

  const load = useCallback(async (after: string | undefined) => {
    running.current?.abort()
    const attempt = running.current = new AbortController()
    setState((before) => ({ ...before, loading: true, error: undefined }))
    const { source, query } = latest.current
    try {
      const { items, next, total } = await source.list({ ...query, ...(after !== undefined && { after }), signal: attempt.signal })
      if (running.current !== attempt) return
      setState((before) => {
        const shown = after === undefined ? [] : before.items
        const known = new Set(shown.map(({ mediaId }) => mediaId))
        return { items: [...shown, ...items.filter(({ mediaId }) => mediaId === undefined || !known.has(mediaId))], next, total, loading: false, error: undefined }
      })
    } catch (error) {
      if (running.current !== attempt) return
      setState((before) => ({ ...before, loading: false, error: error instanceof Error ? error : new Error(String(error)) }))
    } finally {
      if (running.current === attempt) running.current = undefined
    }
  }, [])

  const key = JSON.stringify(query)
  const initialKey = useRef(initial && key)
  useEffect(() => {
    if (initialKey.current === key) return
    initialKey.current = undefined
    void load(undefined)
  }, [key, load])
  useEffect(() => () => {
    running.current?.abort()
    running.current = undefined
  }, [])

  return {
    items: state.items, total: state.total, loading: state.loading, error: state.error, hasMore: state.next !== undefined,
    loadMore: useCallback(() => {
      const { next } = latest.current.state
      if (next !== undefined && !running.current) void load(next)
    }, [load]),
    reload: useCallback(() => void load(undefined), [load]),
    change: useCallback((update) => setState((before) => ({ ...before, items: update(before.items) })), []),
  }
}

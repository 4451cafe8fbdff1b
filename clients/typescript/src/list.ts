import type { AnyPairs, Field, Metadata } from './item.js'
import type { components } from './schema.js'

type Schemas = components['schemas']

/** Selects items. Without a field it does not filter. */
export interface Filter<Pairs extends Metadata<Pairs> = AnyPairs> {
  access?: Schemas['Access']
  /** Exactly this group. */
  group?: string
  /** This `mimeType`, or this kind, such as `image/*`. */
  type?: string
  /** A part of `originalFileName`. The case of ASCII letters does not matter. */
  name?: string
  /** Uploads that began at this time or later. A string is as in RFC 3339. */
  from?: string | Date
  /** Uploads that began before this time. */
  to?: string | Date
  /** Files that were made at this time or later, by `capturedAt`. */
  capturedFrom?: string | Date
  /** Files that were made before this time. */
  capturedTo?: string | Date
  /** Files that were made within a radius in metres of a place, in accounts that keep places. */
  near?: { latitude: number; longitude: number; radius: number }
  /** Words in the file name, the caption, the group or the metadata, in any order, or beginnings of them. `"quotation marks"` for words that follow each other, `-word` for items without it. */
  q?: string
  /** Items that have these. */
  has?: Schemas['Traits']
  /** Items that have none of these. */
  lacks?: Schemas['Traits']
  /** Bounds of `size`. */
  minBytes?: number
  maxBytes?: number
  /** Bounds of `width` and `height`, of items of which they are known. */
  minWidth?: number
  maxWidth?: number
  minHeight?: number
  maxHeight?: number
  orientation?: Schemas['Orientation']
  /** Images whose `dominantColor` is close to this one, such as `#1e6fb9`. */
  color?: string
  /** Exactly these pairs of `metadata`. */
  meta?: { [Key in keyof Pairs]?: Pairs[Key] }
}

/** Select the items and one page of them. */
export interface ListOptions<Pairs extends Metadata<Pairs> = AnyPairs> extends Filter<Pairs> {
  /** Default `-time`, newest first. */
  sort?: Schemas['Sort']
  /** `draft` lists the drafts of the app instead of the sealed items. */
  state?: Schemas['State']
  /** `next` of the page before, with the same filters and `sort`. */
  after?: string
  /** Number of the page, from 1. Not together with `after`. */
  page?: number
  limit?: number
}

/** Select the groups and one page of them. */
export interface GroupOptions {
  /** Count only items of this access. Groups without one are left out. */
  access?: Schemas['Access']
  /** `next` of the page before. */
  after?: string
  limit?: number
}

/** Selects members of the documents. */
export interface Selection<Names extends Field> {
  /** The members that the documents have. Without it they have all but `presets`, as with `['*']`. */
  fields?: readonly Names[]
}

/** One page of a list. */
export interface Page<Item = Schemas['MediaItem']> {
  items: Item[]
  /** For `after` of the next page. Absent on the last page. */
  next?: string
  /** Number of matching items on all pages. Absent for drafts and with filters other than `access` and `group`: use `count`. */
  total?: number
}

/** Returns the filters and options as parameters of a query. */
export function queryOf<Options extends Omit<Filter, 'meta'> & { meta?: object; fields?: readonly string[] }>({ meta, from, to, capturedFrom, capturedTo, near, fields, ...query }: Options) {
  const pairs = Object.entries(meta ?? {}).filter(([, value]) => value !== undefined).map(([key, value]) => [`meta.${key}`, value as string] as const)
  return { ...query, ...fieldsQuery(fields), ...(from !== undefined && { from: timeOf(from) }), ...(to !== undefined && { to: timeOf(to) }),
    ...(capturedFrom !== undefined && { capturedFrom: timeOf(capturedFrom) }), ...(capturedTo !== undefined && { capturedTo: timeOf(capturedTo) }),
    ...(near && { near: `${near.latitude},${near.longitude},${near.radius}` }), ...Object.fromEntries(pairs) }
}

/** Returns the parameter for the members of the documents. */
export function fieldsQuery(fields: readonly string[] | undefined): { fields?: string } {
  return fields === undefined ? {} : { fields: fields.join(',') }
}

/** Returns a page from its items and the header of the answer. */
export function pageOf<Item>(items: Item[], header: Headers): Page<Item> {
  const [next, total] = [header.get('x-next-cursor'), header.get('x-total-count')]
  return { items, ...(next && { next }), ...(total && { total: Number(total) }) }
}

function timeOf(time: string | Date): string {
  return typeof time === 'string' ? time : time.toISOString()
}

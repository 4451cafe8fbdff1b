import type { components } from './schema.js'

type Schemas = components['schemas']

/** Pairs of the application, as `metadata` of items has them. An application can name its keys: the service does not check them. */
export type Metadata<Pairs> = { [Key in keyof Pairs]: string | undefined }

/** The metadata of a client that names no keys. */
export type AnyPairs = Record<string, string>

/** The document of an item or a draft. */
export type MediaItem<Pairs extends Metadata<Pairs> = AnyPairs> = Omit<Schemas['MediaItem'], 'metadata'> & { metadata: Pairs }

/** The members to change. `null` removes a value; members that are absent stay as they are. */
export type MediaPatch<Pairs extends Metadata<Pairs> = AnyPairs> = Omit<Schemas['MediaPatch'], 'metadata'> & { metadata?: { [Key in keyof Pairs]?: Pairs[Key] | null } | null }

export type DeletedItem = Schemas['DeletedItem']
export type BatchResult<Pairs extends Metadata<Pairs> = AnyPairs> = Omit<Schemas['BatchResult'], 'item'> & { item?: MediaItem<Pairs> }

/** The name of a member of the documents, and `*` for all but `presets`. */
export type Field = keyof Schemas['MediaItem'] | '*'

/** The document that has the members which `fields` names. */
export type Selected<Names extends Field, Pairs extends Metadata<Pairs> = AnyPairs> =
  & ('*' extends Names ? Omit<MediaItem<Pairs>, 'presets'> : Pick<MediaItem<Pairs>, Exclude<Names, '*' | 'presets'>>)
  & ('presets' extends Names ? Required<Pick<MediaItem<Pairs>, 'presets'>> : unknown)

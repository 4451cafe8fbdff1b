import type { ComponentPropsWithoutRef, ReactNode } from 'react'
import type { components } from '../schema.js'

type Preset = components['schemas']['Picture']

/** What a picture needs of an item: read it with `fields: ['*', 'presets']`, or with those of these members. */
export interface PictureItem {
  presets: Record<string, Preset>
  dominantColor?: string
}

export interface PictureProps extends Omit<ComponentPropsWithoutRef<'img'>, 'src' | 'srcSet' | 'width' | 'height' | 'alt'> {
  item: PictureItem
  /** The name of a preset, whose densities the browser chooses from. Several names are pictures of the same shape, whose widths it chooses from by `sizes`. */
  preset: string | readonly string[]
  /** The text for those who do not see the picture. Empty for a decoration. */
  alt: string
  /** Presets of other shapes for some screens, the first that matches is used: `[{ media: '(max-width: 600px)', preset: 'square' }]`. */
  sources?: readonly { media: string; preset: string | readonly string[]; sizes?: string }[]
  /** `color` shows the dominant color until the picture is there. It stays behind transparent pictures. */
  placeholder?: 'color'
  /** Instead of an item without the preset, such as one that is no image. */
  fallback?: ReactNode
}

/** A picture of an item in the sizes that the screen needs. It needs no script, so it can be part of a server component. */
export function Picture({ item, preset, sources = [], alt, sizes, placeholder, fallback = null, style, loading = 'lazy', decoding = 'async', ...rest }: PictureProps) {
  if (!item.presets) throw new TypeError("the item has no presets: read it with fields: ['*', 'presets']")
  const shown = attributesOf(item.presets, preset, sizes)
  if (!shown) return <>{fallback}</>
  const image = (
    <img
      {...rest} {...shown} alt={alt} loading={loading} decoding={decoding}
      style={{ ...(placeholder === 'color' && item.dominantColor && { backgroundColor: item.dominantColor }), ...style }}
    />
  )
  const others = sources.map((source) => ({ media: source.media, attributes: attributesOf(item.presets, source.preset, source.sizes ?? (typeof source.preset === 'string' ? undefined : sizes)) }))
  if (others.length === 0) return image
  return (
    <picture>
      {others.map(({ media, attributes }) => {
        if (!attributes) return null
        const { src: _, ...source } = attributes
        return <source key={media} media={media} {...source} />
      })}
      {image}
    </picture>
  )
}

/** Returns the attributes of the image of presets; undefined if the item has none of them. */
function attributesOf(presets: Record<string, Preset>, names: string | readonly string[], sizes: string | undefined) {
  const found = (typeof names === 'string' ? [names] : names).flatMap((name) => presets[name] ?? [])
  const largest = found.reduce<Preset | undefined>((one, other) => (one && (one.width ?? 0) >= (other.width ?? 0) ? one : other), undefined)
  if (!largest) return undefined
  const box = { src: largest.url, ...(largest.width !== undefined && { width: largest.width }), ...(largest.height !== undefined && { height: largest.height }) }
  const widths = new Map(found.flatMap(({ densities }) => densities).flatMap(({ url, width }) => (width === undefined ? [] : [[width, url] as const])))
  // Without the widths of all, the browser could not choose among presets.
  if (found.length === 1 && sizes === undefined || widths.size === 0) return { ...box, srcSet: largest.srcset }
  return { ...box, srcSet: [...widths].map(([width, url]) => `${url} ${width}w`).join(', '), sizes: sizes ?? '100vw' }
}

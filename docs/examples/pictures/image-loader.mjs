// The widths of presets that show the whole image, in ascending order.
export const widths = { phone: 400, 'phone@2x': 800, hero: 1200, 'hero@2x': 2400 }

export default function mediastackLoader({ src, width }) {
  const names = Object.keys(widths)
  const variant = names.find((name) => widths[name] >= width) ?? names.at(-1)
  return src.replace(/(\/media\/file\/[^/]+\/)[^/]+(\/)/, `$1${variant}$2`)
}

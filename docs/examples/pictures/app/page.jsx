import Image from 'next/image'
import { images } from '../media.mjs'

// Addresses of private items expire: the page is made for each request.
export const dynamic = 'force-dynamic'

export default async function Page() {
  const items = await images()
  return <main>{items.map((item) => item.access === 'public' ? <Public key={item.mediaId} {...item} /> : <Private key={item.mediaId} {...item} />)}</main>
}

// The loader writes the name of a preset into the address.
function Public({ presets: { phone, hero }, originalFileName }) {
  return <>
    <Image className="fixed" src={hero.url} width={phone.width} height={phone.height} alt={originalFileName} />
    <Image className="fluid" src={hero.url} width={hero.width} height={hero.height} sizes="100vw" style={{ width: '100%', height: 'auto' }} alt={originalFileName} />
  </>
}

// A signed address must stay as it is: those of the document are used.
function Private({ presets: { card }, originalFileName }) {
  return <img className="card" src={card.url} srcSet={card.srcset} width={card.width} height={card.height} loading="lazy" alt={originalFileName} />
}

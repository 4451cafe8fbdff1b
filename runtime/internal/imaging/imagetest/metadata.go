package imagetest

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Secret is in every piece of metadata and in every polyglot; no derivative may hold it.
const Secret = "mediastack-corpus-secret"

// EXIF returns the data of an EXIF block: an orientation, a maker's name and a GPS position.
func EXIF(orientation int) []byte {
	order := binary.LittleEndian
	block := []byte("II*\x00\x08\x00\x00\x00")
	entry := func(b []byte, tag, kind uint16, count, value uint32) []byte {
		b = order.AppendUint16(order.AppendUint16(b, tag), kind)
		return order.AppendUint32(order.AppendUint32(b, count), value)
	}
	maker := append([]byte(Secret), 0)
	const entries, gpsEntries = 3, 4
	afterFirst := uint32(8 + 2 + entries*12 + 4)
	gps := afterFirst + uint32(len(maker)+len(maker)%2)
	offset := gps + 2 + gpsEntries*12 + 4

	block = order.AppendUint16(block, entries)
	block = entry(block, 0x010f, 2, uint32(len(maker)), afterFirst)
	block = entry(block, 0x0112, 3, 1, uint32(orientation))
	block = entry(block, 0x8825, 4, 1, gps)
	block = order.AppendUint32(block, 0)
	block = append(block, maker...)
	if len(maker)%2 == 1 {
		block = append(block, 0)
	}
	block = order.AppendUint16(block, gpsEntries)
	block = entry(block, 1, 2, 2, 'N')
	block = entry(block, 2, 5, 3, offset)
	block = entry(block, 3, 2, 2, 'E')
	block = entry(block, 4, 5, 3, offset)
	block = order.AppendUint32(block, 0)
	for _, part := range []uint32{48, 12, 34} {
		block = order.AppendUint32(order.AppendUint32(block, part), 1)
	}
	return block
}

// XMP returns an XMP packet of at least the given size.
func XMP(size int) []byte {
	head := `<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" dc:creator="` + Secret
	tail := `"/></rdf:RDF></x:xmpmeta><?xpacket end="w"?>`
	return []byte(head + string(bytes.Repeat([]byte("x"), max(size-len(head)-len(tail), 0))) + tail)
}

// ICC returns a color profile that swaps red and green: under it, what
// is stored as red is green.
func ICC() []byte {
	return profile([9]float64{0.3851, 0.7169, 0.0971, 0.4361, 0.2225, 0.0139, 0.1431, 0.0606, 0.7139})
}

// AdobeRGB returns the color profile of Adobe RGB (1998).
func AdobeRGB() []byte { return profile(adobeRGB) }

// profile returns a color profile with these primaries, each as X, Y and Z under D50, and a gamma of 2.2.
func profile(primaries [9]float64) []byte {
	fixed := func(b []byte, values ...float64) []byte {
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, uint32(int32(math.Round(v*65536))))
		}
		return b
	}
	xyz := func(x, y, z float64) []byte { return fixed([]byte("XYZ \x00\x00\x00\x00"), x, y, z) }
	text := append(append([]byte("text\x00\x00\x00\x00"), Secret...), 0)
	description := append([]byte("desc\x00\x00\x00\x00"), 0, 0, 0, byte(len(Secret)+1))
	description = append(append(description, Secret...), make([]byte, 1+4+4+2+1+67)...)
	curve := []byte("curv\x00\x00\x00\x00\x00\x00\x00\x01\x02\x33\x00\x00") // gamma 2.2
	tags := []struct {
		name string
		data []byte
	}{
		{"desc", description},
		{"cprt", text},
		{"wtpt", xyz(0.9642, 1, 0.8249)},
		{"rXYZ", xyz(primaries[0], primaries[1], primaries[2])},
		{"gXYZ", xyz(primaries[3], primaries[4], primaries[5])},
		{"bXYZ", xyz(primaries[6], primaries[7], primaries[8])},
		{"rTRC", curve},
		{"gTRC", curve},
		{"bTRC", curve},
	}
	table := binary.BigEndian.AppendUint32(nil, uint32(len(tags)))
	var body []byte
	for _, tag := range tags {
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
		table = append(table, tag.name...)
		table = binary.BigEndian.AppendUint32(table, uint32(128+4+12*len(tags)+len(body)))
		table = binary.BigEndian.AppendUint32(table, uint32(len(tag.data)))
		body = append(body, tag.data...)
	}
	header := make([]byte, 128)
	copy(header[8:], "\x02\x40\x00\x00mntrRGB XYZ ")
	copy(header[24:], "\x07\xea\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00acsp")
	copy(header[68:], fixed(nil, 0.9642, 1, 0.8249))
	profile := append(append(header, table...), body...)
	binary.BigEndian.PutUint32(profile, uint32(len(profile)))
	return profile
}

// WithSegment inserts marker segments at a JPEG's start, as many as the data needs.
func WithSegment(jpeg []byte, marker byte, prefix string, data []byte) []byte {
	const most = 65533
	file := append([]byte{}, jpeg[:2]...)
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), most-len(prefix))
		file = append(file, 0xff, marker)
		file = binary.BigEndian.AppendUint16(file, uint16(2+len(prefix)+n))
		file = append(append(file, prefix...), data[:n]...)
		data = data[n:]
	}
	return append(file, jpeg[2:]...)
}

// WithEXIF inserts an EXIF block into a JPEG.
func WithEXIF(jpeg []byte, orientation int) []byte {
	return WithSegment(jpeg, 0xe1, "Exif\x00\x00", EXIF(orientation))
}

// Chunk returns a PNG chunk.
func Chunk(name string, data []byte) []byte {
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	chunk = append(append(chunk, name...), data...)
	return binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
}

// WithChunks inserts chunks after a PNG's header.
func WithChunks(png []byte, chunks ...[]byte) []byte {
	const header = 8 + 25
	file := append([]byte{}, png[:header]...)
	return append(append(file, bytes.Join(chunks, nil)...), png[header:]...)
}

// Deflated compresses n equal bytes without holding them in memory.
func Deflated(value byte, n int) []byte {
	var out bytes.Buffer
	w, _ := zlib.NewWriterLevel(&out, zlib.BestSpeed)
	block := bytes.Repeat([]byte{value}, 1<<16)
	for n > 0 {
		_, _ = w.Write(block[:min(n, len(block))])
		n -= len(block)
	}
	_ = w.Close()
	return out.Bytes()
}

// BlankPNG returns a PNG of one color, a small file at any image size.
func BlankPNG(width, height, depth int, color byte, interlaced bool) []byte {
	samples := map[byte]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
	row := 1 + (width*samples*depth+7)/8
	total := row * height
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	header = append(header, byte(depth), color, 0, 0, 0)
	if interlaced {
		header[12] = 1
		total += 8 * height * 2 // filter bytes and rounding of the seven passes; more than enough
	}
	file := append([]byte("\x89PNG\r\n\x1a\n"), Chunk("IHDR", header)...)
	file = append(file, Chunk("IDAT", Deflated(0, total))...)
	return append(file, Chunk("IEND", nil)...)
}

// animate returns an APNG of PNGs of one size.
func animate(frames ...[]byte) []byte {
	var sequence uint32
	control := func(png []byte) []byte {
		data := binary.BigEndian.AppendUint32(nil, sequence)
		sequence++
		data = append(data, png[16:24]...) // width and height
		data = append(data, make([]byte, 8)...)
		return Chunk("fcTL", append(data, 0, 1, 0, 10, 0, 0))
	}
	const headerEnd = 8 + 25
	file := append([]byte{}, frames[0][:headerEnd]...)
	file = append(file, Chunk("acTL", binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(frames))), 0))...)
	for n, png := range frames {
		file = append(file, control(png)...)
		for rest := png[headerEnd:]; len(rest) >= 12; {
			length := binary.BigEndian.Uint32(rest)
			if string(rest[4:8]) == "IDAT" {
				if n == 0 {
					file = append(file, rest[:12+length]...)
				} else {
					file = append(file, Chunk("fdAT", append(binary.BigEndian.AppendUint32(nil, sequence), rest[8:8+length]...))...)
					sequence++
				}
			}
			rest = rest[12+length:]
		}
	}
	return append(file, Chunk("IEND", nil)...)
}

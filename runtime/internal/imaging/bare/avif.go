package bare

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// alphaType is the type of the item that is an alpha plane.
const alphaType = "\x00\x00\x00\x00urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\x00"

// AVIF returns an AVIF file unchanged, which has a picture and perhaps its alpha plane, and nothing else: no other item, no
// name, no property beside size, depth, coding and enumerated color space, no metadata within the AV1 data, and no byte
// that belongs to none of them. Any other input is rejected. Stripping would change the offsets of the items, and libvips
// writes none of it.
func AVIF(file []byte) (Image, error) {
	var a avif
	rest := file
	for _, name := range []string{"ftyp", "meta", "mdat"} {
		data, err := nextBox(&rest, name)
		if err == nil {
			switch name {
			case "ftyp":
				err = checkBrands(data)
			case "meta":
				err = a.meta(data)
			case "mdat":
				err = a.items(file, len(file)-len(rest)-len(data), len(data))
			}
		}
		if err != nil {
			return Image{}, err
		}
	}
	if len(rest) > 0 {
		return Image{}, invalid("%d bytes after the end", len(rest))
	}
	return Image{File: file, Width: a.width, Height: a.height}, nil
}

// avif is what the boxes of a file say.
type avif struct {
	width, height int
	extents       []extent
}

// extent is the place of an item in the file.
type extent struct{ offset, length int }

// nextBox removes the first box from rest and returns its content. It has the given name.
func nextBox(rest *[]byte, name string) ([]byte, error) {
	found, data, err := anyBox(rest)
	if err == nil && found != name {
		err = invalid("%q instead of %s", found, name)
	}
	return data, err
}

// anyBox removes the first box from rest.
func anyBox(rest *[]byte) (name string, data []byte, err error) {
	const header = 8
	b := *rest
	if len(b) < header {
		return "", nil, invalid("%d bytes instead of a box", len(b))
	}
	size := int64(binary.BigEndian.Uint32(b))
	if size < header || size > int64(len(b)) {
		return "", nil, invalid("a box of %d bytes with %d remaining", size, len(b))
	}
	*rest = b[size:]
	return string(b[4:header]), b[header:size], nil
}

func checkBrands(data []byte) error {
	if len(data) < 8 || len(data)%4 != 0 || string(data[:8]) != "avif\x00\x00\x00\x00" {
		return invalid("an unexpected ftyp")
	}
	for brand := range slices.Chunk(data[8:], 4) {
		switch string(brand) {
		case "avif", "mif1", "miaf", "MA1A", "MA1B":
		default:
			return invalid("the brand %q", brand)
		}
	}
	return nil
}

// meta reads the description of the items.
func (a *avif) meta(data []byte) error {
	if len(data) < 4 || string(data[:4]) != "\x00\x00\x00\x00" {
		return invalid("an unexpected meta")
	}
	items := 0
	seen := map[string]bool{}
	for rest := data[4:]; len(rest) > 0; {
		name, content, err := anyBox(&rest)
		if err != nil {
			return err
		}
		if seen[name] {
			return invalid("two of %s", name)
		}
		seen[name] = true
		switch name {
		case "hdlr":
			err = exactly(name, content, "\x00\x00\x00\x00\x00\x00\x00\x00pict\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
		case "pitm":
			err = exactly(name, content, "\x00\x00\x00\x00\x00\x01")
		case "iref":
			err = exactly(name, content, "\x00\x00\x00\x00\x00\x00\x00\x0eauxl\x00\x02\x00\x01\x00\x01")
		case "iinf":
			items, err = countItems(content)
		case "iloc":
			err = a.locations(content)
		case "iprp":
			err = a.properties(content)
		default:
			err = invalid("a box %q", name)
		}
		if err != nil {
			return err
		}
	}
	if !seen["hdlr"] || !seen["pitm"] || items == 0 || items != len(a.extents) || (items == 2) != seen["iref"] || a.width == 0 {
		return invalid("%d items at %d offsets, boxes %v", items, len(a.extents), seen)
	}
	return nil
}

func exactly(name string, content []byte, want string) error {
	if string(content) != want {
		return invalid("an unexpected %s", name)
	}
	return nil
}

// countItems returns how many items there are: one or two of AV1, without names.
func countItems(data []byte) (int, error) {
	if len(data) < 6 || string(data[:5]) != "\x00\x00\x00\x00\x00" || data[5] < 1 || data[5] > 2 {
		return 0, invalid("an unexpected iinf")
	}
	rest := data[6:]
	for item := byte(1); item <= data[5]; item++ {
		entry, err := nextBox(&rest, "infe")
		if err == nil {
			err = exactly("infe", entry, "\x02\x00\x00\x00\x00"+string(rune(item))+"\x00\x00av01\x00")
		}
		if err != nil {
			return 0, err
		}
	}
	if len(rest) > 0 {
		return 0, invalid("%d bytes after the items", len(rest))
	}
	return int(data[5]), nil
}

// locations reads where the items are: each in one piece, at 4 bytes of offset from a base of 4 bytes.
func (a *avif) locations(data []byte) error {
	const fixed, perItem = 8, 18
	if len(data) < fixed || string(data[:6]) != "\x00\x00\x00\x00\x44\x40" {
		return invalid("an unexpected iloc")
	}
	count := int(binary.BigEndian.Uint16(data[6:]))
	if len(data) != fixed+count*perItem {
		return invalid("an iloc of %d items with %d bytes", count, len(data))
	}
	for item := range slices.Chunk(data[fixed:], perItem) {
		// Item, data reference, base, one extent: offset and length.
		if binary.BigEndian.Uint16(item[2:]) != 0 || binary.BigEndian.Uint16(item[8:]) != 1 {
			return invalid("an item in several extents")
		}
		offset := int64(binary.BigEndian.Uint32(item[4:])) + int64(binary.BigEndian.Uint32(item[10:]))
		a.extents = append(a.extents, extent{int(offset), int(binary.BigEndian.Uint32(item[14:]))})
	}
	return nil
}

// properties reads the size of the items, which is the same for all, and checks that there is nothing else to know.
func (a *avif) properties(data []byte) error {
	container, err := nextBox(&data, "ipco")
	if err != nil {
		return err
	}
	count := byte(0)
	for len(container) > 0 {
		name, content, err := anyBox(&container)
		if err != nil {
			return err
		}
		count++
		known := false
		switch name {
		case "ispe":
			known = len(content) == 12
			if known {
				width, height := binary.BigEndian.Uint32(content[4:]), binary.BigEndian.Uint32(content[8:])
				known = width > 0 && height > 0 && width <= maxSide && height <= maxSide && (a.width == 0 || a.width == int(width) && a.height == int(height))
				a.width, a.height = int(width), int(height)
			}
		case "colr":
			known = len(content) == 11 && string(content[:4]) == "nclx"
		case "av1C":
			known = len(content) == 4
		case "pixi":
			known = len(content) >= 5 && len(content) == 5+int(content[4]) && content[4] <= 3
		case "auxC":
			known = string(content) == alphaType
		}
		if !known {
			return invalid("the property %q", name)
		}
	}
	return checkAssociations(data, count)
}

// checkAssociations checks that the last box of the properties says nothing but which property belongs to which item.
func checkAssociations(data []byte, properties byte) error {
	content, err := nextBox(&data, "ipma")
	if err != nil || len(data) > 0 || len(content) < 8 || string(content[:7]) != "\x00\x00\x00\x00\x00\x00\x00" {
		return invalid("an unexpected ipma")
	}
	items := content[7]
	rest := content[8:]
	for item := byte(1); item <= items; item++ {
		if len(rest) < 3 || rest[0] != 0 || rest[1] != item || len(rest) < 3+int(rest[2]) {
			return invalid("an unexpected ipma of item %d", item)
		}
		for _, property := range rest[3 : 3+rest[2]] {
			if property&0x7f == 0 || property&0x7f > properties {
				return invalid("the property number %d", property)
			}
		}
		rest = rest[3+rest[2]:]
	}
	if len(rest) > 0 {
		return invalid("%d bytes after the associations", len(rest))
	}
	return nil
}

// items checks that the items fill the data of the file, and have pixels only.
func (a *avif) items(file []byte, begin, length int) error {
	extents := slices.SortedFunc(slices.Values(a.extents), func(x, y extent) int { return cmp.Compare(x.offset, y.offset) })
	at := begin
	for _, e := range extents {
		if e.offset != at || e.length < 1 || e.length > begin+length-at {
			return invalid("an item of %d bytes at %d", e.length, e.offset)
		}
		at += e.length
		if err := checkUnits(file[e.offset:at]); err != nil {
			return err
		}
	}
	if at != begin+length {
		return invalid("%d bytes of no item", begin+length-at)
	}
	return nil
}

// checkUnits checks the types of the open bitstream units of AV1: sequence header, temporal delimiter, frame and its
// parts. Metadata and padding are rejected.
func checkUnits(data []byte) error {
	for len(data) > 0 {
		header := data[0]
		switch kind := header >> 3 & 15; kind {
		case 1, 2, 3, 4, 6:
		default:
			return invalid("an AV1 unit of type %d", kind)
		}
		const hasSize, reserved = 2, 0x80 | 4 | 1 // with the extension
		if header&hasSize == 0 || header&reserved != 0 {
			return invalid("an AV1 unit %#x", header)
		}
		size, n := binary.Uvarint(data[1:])
		if n <= 0 {
			return invalid("the size of an AV1 unit in %d bytes", len(data)-1)
		}
		data = data[1+n:]
		if size > uint64(len(data)) {
			return invalid("an AV1 unit of %d bytes with %d remaining", size, len(data))
		}
		data = data[size:]
	}
	return nil
}

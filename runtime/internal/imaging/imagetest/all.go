package imagetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
)

// All returns the whole corpus.
func All(ctx context.Context) ([]File, error) {
	c := corpus{ctx: ctx}
	c.upright()
	c.colors()
	c.animations()
	c.bombs()
	c.broken()
	c.mismatched()
	return c.files, c.err
}

type corpus struct {
	ctx   context.Context
	files []File
	err   error
}

func (c *corpus) add(name, mimeType string, data []byte) {
	c.files = append(c.files, File{name, mimeType, data})
}

// vips adds a file that the vips command line makes.
func (c *corpus) vips(name, mimeType string, in []byte, suffix, load, out string, operation ...string) []byte {
	made, err := vips(c.ctx, in, suffix, load, out, operation...)
	if err != nil {
		if c.err == nil {
			c.err = fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	c.add(name, mimeType, made)
	return made
}

const (
	typeJPEG = "image/jpeg"
	typePNG  = "image/png"
	typeGIF  = "image/gif"
	typeWebP = "image/webp"
	typeHEIC = "image/heic"
	typeAVIF = "image/avif"
)

// upright adds valid files of every EXIF orientation.
func (c *corpus) upright() {
	picture := Picture(Width, Height)
	for orientation := 1; orientation <= 8; orientation++ {
		c.add(fmt.Sprintf("jpeg, orientation %d, with GPS", orientation), typeJPEG, WithEXIF(JPEG(Stored(picture, orientation)), orientation))
	}
	c.add("jpeg, orientation 0", typeJPEG, WithEXIF(JPEG(picture), 0))
	c.add("jpeg, orientation 77", typeJPEG, WithEXIF(JPEG(picture), 77))
	c.add("png, orientation 6 in eXIf", typePNG, WithChunks(PNG(Stored(picture, 6)), Chunk("eXIf", EXIF(6))))
	c.add("jpeg of 1 x 1", typeJPEG, JPEG(Picture(1, 1)))
	c.add("png of 1 x 1", typePNG, PNG(Picture(1, 1)))
	c.add("jpeg of 5000 x 1", typeJPEG, JPEG(Picture(5000, 1)))
	c.add("jpeg of 1 x 5000", typeJPEG, JPEG(Picture(1, 5000)))
	c.add("jpeg of 20000 x 10, wider than WebP can be", typeJPEG, JPEG(Picture(20000, 10)))
	c.add("png smaller than the box", typePNG, PNG(Picture(60, 40)))
	c.vips("jpeg, progressive", typeJPEG, PNG(picture), ".png", "", ".jpg[interlace]")
	c.vips("png, interlaced", typePNG, PNG(picture), ".png", "", ".png[interlace]")
	c.vips("webp, still", typeWebP, PNG(picture), ".png", "", ".webp")
	c.vips("avif", typeAVIF, PNG(picture), ".png", "", ".avif")
	c.vips("heic", typeHEIC, PNG(picture), ".png", "", ".heic")
	c.vips("heic, with GPS", typeHEIC, WithEXIF(JPEG(picture), 1), ".jpg", "", ".heic")
	c.vips("webp, orientation 6, with GPS", typeWebP, WithEXIF(JPEG(Stored(picture, 6)), 6), ".jpg", "", ".webp")
	c.add("gif, still", typeGIF, GIF(Width, Height, 1))
}

// colors adds whole files with other samples than 8-bit sRGB.
func (c *corpus) colors() {
	picture := Picture(Width, Height)
	deep := image.NewNRGBA64(picture.Bounds())
	seeThrough := image.NewNRGBA(picture.Bounds())
	grey, deepGrey := image.NewGray(picture.Bounds()), image.NewGray16(picture.Bounds())
	palette := image.NewPaletted(picture.Bounds(), color.Palette{color.NRGBA{}, Corners[0], Corners[1], Corners[2], Corners[3]})
	for y := range Height {
		for x := range Width {
			full := picture.NRGBAAt(x, y)
			deep.Set(x, y, full)
			grey.Set(x, y, full)
			deepGrey.Set(x, y, full)
			if x < Width/2 && y < Height/2 { // the red quarter
				full.A = 0
			}
			seeThrough.SetNRGBA(x, y, full)
			palette.Set(x, y, full)
		}
	}
	c.add("png, 16 bits", typePNG, PNG(deep))
	c.add("png, grey", typePNG, PNG(grey))
	c.add("png, grey of 16 bits", typePNG, PNG(deepGrey))
	c.add("png, alpha", typePNG, PNG(seeThrough))
	c.add("png, palette with alpha", typePNG, PNG(palette))
	c.add("jpeg, grey", typeJPEG, JPEG(grey))
	c.vips("webp, alpha", typeWebP, PNG(seeThrough), ".png", "", ".webp")
	c.vips("avif, alpha", typeAVIF, PNG(seeThrough), ".png", "", ".avif")
	c.vips("jpeg, CMYK", typeJPEG, PNG(picture), ".png", "", ".jpg", "colourspace", "cmyk")

	// This profile swaps red and green: with color management, the picture is the usual one.
	swapped := image.NewNRGBA(picture.Bounds())
	for y := range Height {
		for x := range Width {
			p := picture.NRGBAAt(x, y)
			swapped.SetNRGBA(x, y, color.NRGBA{p.G, p.R, p.B, 255})
		}
	}
	profile := ICC()
	c.add("jpeg, a profile with red and green swapped", typeJPEG, WithSegment(JPEG(swapped), 0xe2, "ICC_PROFILE\x00\x01\x01", profile))
	c.add("jpeg, a swapped profile and orientation 8", typeJPEG, WithSegment(WithEXIF(JPEG(Stored(swapped, 8)), 8), 0xe2, "ICC_PROFILE\x00\x01\x01", profile))
	c.add("png, a profile with red and green swapped", typePNG, WithChunks(PNG(swapped), Chunk("iCCP", append([]byte("p\x00\x00"), compressed(profile)...))))
	c.add("jpeg, a broken profile", typeJPEG, WithSegment(JPEG(picture), 0xe2, "ICC_PROFILE\x00\x01\x01", profile[:200]))
}

func compressed(data []byte) []byte {
	// A stored block keeps it simple: zlib header, one block, and the checksum of Adler.
	out := []byte{0x78, 0x01, 1}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(data)))
	out = binary.LittleEndian.AppendUint16(out, ^uint16(len(data)))
	out = append(out, data...)
	a, b := uint32(1), uint32(0)
	for _, v := range data {
		a = (a + uint32(v)) % 65521
		b = (b + a) % 65521
	}
	return binary.BigEndian.AppendUint32(out, b<<16|a)
}

// animations adds files with several frames.
func (c *corpus) animations() {
	moving := GIF(Width, Height, 5)
	c.add("gif, 5 frames", typeGIF, moving)
	c.vips("webp, 5 frames", typeWebP, moving, ".gif", "[n=-1]", ".webp")
	second := Picture(Width, Height)
	second.SetNRGBA(0, 0, color.NRGBA{A: 255})
	c.add("png, 2 frames", "image/vnd.mozilla.apng", animate(PNG(Picture(Width, Height)), PNG(second)))
	c.add("png, 2 frames, taken for a plain one", typePNG, animate(PNG(Picture(Width, Height)), PNG(second)))
	c.add("gif, 1100 frames", typeGIF, GIF(4, 4, 1100))
}

// bombs adds decompression bombs: small files that are large in memory.
func (c *corpus) bombs() {
	c.add("png bomb of 30000 x 30000", typePNG, BlankPNG(30000, 30000, 1, 0, false))
	c.add("png bomb of 2 billion x 2 billion", typePNG, setDimensions(BlankPNG(1, 1, 8, 2, false), 1<<31-1, 1<<31-1))
	huge := GIF(2, 2, 1)
	for _, at := range []int{6, 8, bytes.IndexByte(huge, ',') + 5, bytes.IndexByte(huge, ',') + 7} { // canvas and frame
		binary.LittleEndian.PutUint16(huge[at:], 60000)
	}
	c.add("gif bomb of 60000 x 60000", typeGIF, huge)
	c.add("webp bomb of 16383 x 16383", typeWebP, append([]byte("RIFF\x18\x00\x00\x00WEBPVP8L\x0c\x00\x00\x00\x2f\xfe\xbf\xff\x0f"), make([]byte, 7)...))
	jpegBomb := JPEG(Picture(16, 16))
	frame := bytes.Index(jpegBomb, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(jpegBomb[frame+5:], 65500)
	binary.BigEndian.PutUint16(jpegBomb[frame+7:], 65500)
	c.add("jpeg bomb of 65500 x 65500", typeJPEG, jpegBomb)
	text := append([]byte("k\x00\x00"), Deflated('x', 200<<20)...)
	c.add("png with 20 texts that deflate to 200 MB each", typePNG, WithChunks(PNG(Picture(60, 40)), bytes.Repeat(Chunk("zTXt", text), 20)))
	c.add("png with a profile that deflates to 200 MB", typePNG, WithChunks(PNG(Picture(60, 40)), Chunk("iCCP", append([]byte("p\x00\x00"), Deflated('x', 200<<20)...))))
	c.add("jpeg with 20 MB of XMP", typeJPEG, WithSegment(JPEG(Picture(Width, Height)), 0xe1, "http://ns.adobe.com/xap/1.0/\x00", XMP(20<<20)))
	c.add("jpeg with 2 MB of EXIF entries", typeJPEG, WithSegment(JPEG(Picture(Width, Height)), 0xe1, "Exif\x00\x00", oversized(5400, 30)))
	c.add("jpeg with EXIF that points at itself", typeJPEG, WithSegment(JPEG(Picture(Width, Height)), 0xe1, "Exif\x00\x00", cyclic()))
}

// setDimensions changes the size in a PNG's header.
func setDimensions(png []byte, width, height uint32) []byte {
	header := append([]byte{}, png[16:29]...)
	binary.BigEndian.PutUint32(header, width)
	binary.BigEndian.PutUint32(header[4:], height)
	file := append([]byte{}, png[:8]...)
	return append(append(file, Chunk("IHDR", header)...), png[33:]...)
}

// oversized returns EXIF blocks with as many entries as fit, repeated.
func oversized(entries, times int) []byte {
	block := binary.LittleEndian.AppendUint16([]byte("II*\x00\x08\x00\x00\x00"), uint16(entries))
	for n := range entries {
		block = binary.LittleEndian.AppendUint16(block, uint16(0x9000+n))
		block = append(block, 2, 0, 0xff, 0xff, 0xff, 0x7f, 8, 0, 0, 0)
	}
	return bytes.Repeat(append(block, 0, 0, 0, 0), times)
}

// cyclic returns an EXIF block whose next directory is itself.
func cyclic() []byte {
	block := []byte("II*\x00\x08\x00\x00\x00\x01\x00\x69\x87\x04\x00\x01\x00\x00\x00\x08\x00\x00\x00\x08\x00\x00\x00")
	return block
}

// broken adds files that are truncated or damaged.
func (c *corpus) broken() {
	picture := Picture(Width, Height)
	noisy := Photo(Width, Height)
	whole := map[string][]byte{"jpeg": JPEG(noisy), "png": PNG(noisy), "gif": GIF(Width, Height, 1)}
	types := map[string]string{"jpeg": typeJPEG, "png": typePNG, "gif": typeGIF, "webp": typeWebP, "avif": typeAVIF, "heic": typeHEIC}
	for _, kind := range []string{"webp", "avif", "heic"} {
		made, err := vips(c.ctx, PNG(noisy), ".png", "", "."+kind)
		if err != nil {
			c.err = err
			return
		}
		whole[kind] = made
	}
	for _, kind := range []string{"jpeg", "png", "gif", "webp", "avif", "heic"} {
		file := whole[kind]
		for _, percent := range []int{10, 50, 90} {
			c.add(fmt.Sprintf("%s, the first %d percent", kind, percent), types[kind], file[:len(file)*percent/100])
		}
		random := rand.New(rand.NewPCG(3, 4))
		garbage := append([]byte{}, file[:40]...)
		for range 4096 {
			garbage = append(garbage, byte(random.Uint32()))
		}
		c.add(kind+", 40 bytes and then noise", types[kind], garbage)
	}
	wrong := PNG(picture)
	wrong[len(wrong)-20] ^= 0xff
	c.add("png, a wrong checksum", typePNG, wrong)
	c.add("png, no pixels", typePNG, append(append([]byte{}, PNG(picture)[:33]...), Chunk("IEND", nil)...))
	c.add("jpeg, nothing but a start", typeJPEG, []byte{0xff, 0xd8, 0xff})
	c.add("one byte", typeJPEG, []byte{0xff})
}

// mismatched adds files whose content is not, or not only, of their type.
func (c *corpus) mismatched() {
	script := "<html><script>" + Secret + "</script>"
	picture := Picture(Width, Height)
	c.add("jpeg and html", typeJPEG, append(WithSegment(JPEG(picture), 0xfe, "", []byte(script)), script...))
	c.add("jpeg and pdf", typeJPEG, append(WithSegment(JPEG(picture), 0xfe, "", []byte("\n%PDF-1.4\n"+Secret)), "\n%%EOF"...))
	c.add("pdf and jpeg", typeJPEG, append([]byte("%PDF-1.4\n"+Secret+"\n"), JPEG(picture)...))
	c.add("png and html", typePNG, append(WithChunks(PNG(picture), Chunk("tEXt", []byte("Comment\x00"+script))), script...))
	// A GIF whose width is the beginning of a comment, and whose rest is a script.
	gif := GIF(64, 64, 1)
	copy(gif[6:], "/*")
	c.add("gif and javascript", typeGIF, append(gif, "*/="+Secret+";"...))
	c.add("a png that is called jpeg", typeJPEG, PNG(picture))
	c.add("a jpeg that is called heic", typeHEIC, JPEG(picture))
	c.add("a gif that is called png", typePNG, GIF(Width, Height, 2))
	c.add("svg that is called png", typePNG, []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="30000" height="30000"><image href="file:///etc/passwd" width="9" height="9"/></svg>`))
	c.add("text that is called jpeg", typeJPEG, []byte("this is no image at all"))
	c.add("tiff that is called jpeg", typeJPEG, append([]byte("II*\x00\x08\x00\x00\x00"), make([]byte, 200)...))
	c.add("ppm that is called png", typePNG, append([]byte("P6 2 2 255\n"), make([]byte, 12)...))
	c.add("pdf that is called jpeg", typeJPEG, []byte("%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"))
	c.add("a vips file that is called png", typePNG, append([]byte{0x08, 0xf2, 0xa6, 0xb6}, make([]byte, 200)...))
}

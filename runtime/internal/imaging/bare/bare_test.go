package bare_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/imaging/bare"
	"mediastack.dev/runtime/internal/imaging/imagetest"
)

// avifFile is a picture of libvips: testdata has one, and one with an alpha plane.
func avifFile(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.ReadFile("testdata/" + name + ".avif")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func jpegFile() []byte { return imagetest.JPEG(imagetest.Picture(24, 16)) }

func TestJPEG_KeepsPixelsOnly(t *testing.T) {
	t.Parallel()
	plain, err := bare.JPEG(jpegFile())
	if err != nil || plain.Width != 24 || plain.Height != 16 {
		t.Fatalf("%d x %d, %v", plain.Width, plain.Height, err)
	}
	for name, in := range map[string][]byte{
		"EXIF":      imagetest.WithEXIF(jpegFile(), 3),
		"XMP":       imagetest.WithSegment(jpegFile(), 0xe1, "http://ns.adobe.com/xap/1.0/\x00", imagetest.XMP(1000)),
		"a profile": imagetest.WithSegment(jpegFile(), 0xe2, "ICC_PROFILE\x00\x01\x01", imagetest.ICC()),
		"a comment": imagetest.WithSegment(jpegFile(), 0xfe, "", []byte(imagetest.Secret)),
		"APP15":     imagetest.WithSegment(jpegFile(), 0xef, "", []byte(imagetest.Secret)),
		"itself":    plain.File,
		"a thumbnail in JFIF": imagetest.WithSegment(jpegFile(), 0xe0, "JFIF\x00\x01\x02\x00\x00\x01\x00\x01\x01\x01",
			[]byte("rgb")),
		"a comment between the scan and the end": append(bytes.Clone(jpegFile()[:len(jpegFile())-2]), "\xff\xfe\x00\x08secret\xff\xd9"...),
	} {
		got, err := bare.JPEG(bytes.Clone(in))
		if err != nil || !bytes.Equal(got.File, plain.File) {
			t.Errorf("%s: %d bytes instead of %d, %v", name, len(got.File), len(plain.File), err)
		}
	}
	if decoded, err := jpeg.Decode(bytes.NewReader(plain.File)); err != nil || decoded.Bounds() != image.Rect(0, 0, 24, 16) {
		t.Errorf("the result can't be decoded: %v", err)
	}
}

func TestJPEG_RejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	file := jpegFile()
	frame := bytes.Index(file, []byte{0xff, 0xc0})
	four := bytes.Clone(file)
	four[frame+9] = 4
	arithmetic := bytes.Clone(file)
	arithmetic[frame+1] = 0xc9
	for name, in := range map[string][]byte{
		"nothing":             nil,
		"a start":             file[:2],
		"no end":              file[:len(file)-2],
		"half":                file[:len(file)/2],
		"bytes after the end": append(bytes.Clone(file), "<script>"...),
		"two frames":          append(append(bytes.Clone(file[:frame]), file[frame:frame+19]...), file[frame:]...),
		"four components":     four,
		"arithmetic coding":   arithmetic,
		"no scan":             append(bytes.Clone(file[:frame+19]), 0xff, 0xd9),
		"no marker":           append(bytes.Clone(file[:2]), "hello"...),
		"another format":      imagetest.PNG(imagetest.Picture(2, 2)),
	} {
		if got, err := bare.JPEG(in); !errors.Is(err, bare.ErrInvalid) || got.File != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPNG_KeepsPixelsOnly(t *testing.T) {
	t.Parallel()
	plain := imagetest.PNG(imagetest.Picture(24, 16))
	chunks := [][]byte{
		imagetest.Chunk("tEXt", []byte("k\x00"+imagetest.Secret)), imagetest.Chunk("eXIf", imagetest.EXIF(1)), imagetest.Chunk("iTXt", []byte("XML:com.adobe.xmp\x00")),
		imagetest.Chunk("iCCP", []byte("p\x00\x00")), imagetest.Chunk("pHYs", make([]byte, 9)), imagetest.Chunk("tIME", make([]byte, 7)), imagetest.Chunk("acTL", make([]byte, 8)),
	}
	got, err := bare.PNG(imagetest.WithChunks(plain, chunks...))
	if err != nil || !bytes.Equal(got.File, plain) || got.Width != 24 || got.Height != 16 {
		t.Errorf("%d bytes instead of %d, %d x %d, %v", len(got.File), len(plain), got.Width, got.Height, err)
	}
	// A chunk that is dropped may have any checksum.
	text := bytes.Clone(chunks[0])
	text[len(text)-1]++
	if again, err := bare.PNG(imagetest.WithChunks(plain, text)); err != nil || !bytes.Equal(again.File, plain) {
		t.Errorf("with a broken text: %v", err)
	}
	if _, err := png.Decode(bytes.NewReader(got.File)); err != nil {
		t.Errorf("the result can't be decoded: %v", err)
	}
}

func TestPNG_RejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	plain := imagetest.PNG(imagetest.Picture(24, 16))
	wrong := bytes.Clone(plain)
	wrong[40]++
	empty := bytes.Clone(plain)
	binary.BigEndian.PutUint32(empty[16:], 0)
	binary.BigEndian.PutUint32(empty[29:], crc32.ChecksumIEEE(empty[12:29]))
	for name, in := range map[string][]byte{
		"nothing":             nil,
		"no header":           plain[:8],
		"no pixels":           append(bytes.Clone(plain[:33]), imagetest.Chunk("IEND", nil)...),
		"no end":              plain[:len(plain)-12],
		"bytes after the end": append(bytes.Clone(plain), "<script>"...),
		"a wrong checksum":    wrong,
		"no width":            empty,
		"two headers":         imagetest.WithChunks(plain, plain[8:33]),
		"a chunk before it":   append(append(bytes.Clone(plain[:8]), imagetest.Chunk("tEXt", nil)...), plain[8:]...),
		"a palette at last":   append(bytes.Clone(plain[:len(plain)-12]), append(imagetest.Chunk("PLTE", []byte("rgb")), plain[len(plain)-12:]...)...),
		"an end that says it": append(bytes.Clone(plain[:len(plain)-12]), imagetest.Chunk("IEND", []byte("secret"))...),
		"another format":      jpegFile(),
	} {
		if got, err := bare.PNG(in); !errors.Is(err, bare.ErrInvalid) || got.File != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAVIF_AcceptsPicturesOfLibvips(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]image.Point{"opaque": image.Pt(24, 16), "transparent": image.Pt(24, 16)} {
		file := avifFile(t, name)
		got, err := bare.AVIF(file)
		if err != nil || !bytes.Equal(got.File, file) || image.Pt(got.Width, got.Height) != want {
			t.Errorf("%s: %d x %d, %v", name, got.Width, got.Height, err)
		}
	}
}

func box(name, data string) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(8+len(data))), name...), data...)
}

func TestAVIF_RejectsEverythingElse(t *testing.T) {
	t.Parallel()
	file := avifFile(t, "transparent")
	replaced := func(old, replacement string) []byte {
		if !strings.Contains(string(file), old) || len(old) != len(replacement) {
			t.Fatalf("no %q to replace by %q", old, replacement)
		}
		return []byte(strings.Replace(string(file), old, replacement, 1))
	}
	// An item or a property more moves all that follows; what names them is enough here.
	unit := bytes.LastIndex(file, []byte("mdat")) + 4
	padding, metadata, sizeless := bytes.Clone(file), bytes.Clone(file), bytes.Clone(file)
	padding[unit], metadata[unit], sizeless[unit] = 15<<3|2, 5<<3|2, 2<<3
	gap := append(bytes.Clone(file), "secret"...)
	binary.BigEndian.PutUint32(gap[unit-8:], binary.BigEndian.Uint32(gap[unit-8:])+6)
	for name, in := range map[string][]byte{
		"nothing":                     nil,
		"half":                        file[:len(file)/2],
		"a box after the end":         append(bytes.Clone(file), box("free", "secret")...),
		"bytes after the end":         append(bytes.Clone(file), "secret"...),
		"bytes of no item":            gap,
		"another handler":             replaced("pict", "text"),
		"a handler with a name":       replaced("pict\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "pict\x00\x00\x00\x00\x00\x00\x00\x00secr"),
		"an item of EXIF":             replaced("av01\x00\x00\x00\x00\x15infe", "Exif\x00\x00\x00\x00\x15infe"),
		"an item that describes":      replaced("auxl\x00\x02", "cdsc\x00\x02"),
		"a color profile":             replaced("nclx", "prof"),
		"a location":                  replaced("pixi", "udes"),
		"another auxiliary item":      replaced("auxiliary:alpha", "auxiliary:depth"),
		"a second primary item":       replaced("pitm\x00\x00\x00\x00\x00\x01", "pitm\x00\x00\x00\x00\x00\x02"),
		"an image sequence":           replaced("avif\x00\x00\x00\x00", "avis\x00\x00\x00\x00"),
		"an unknown brand":            replaced("miaf", "heic"),
		"an AV1 unit of padding":      padding,
		"an AV1 unit of metadata":     metadata,
		"an AV1 unit without a size":  sizeless,
		"a property of no item":       replaced("ipma\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01", "ipma\x00\x00\x00\x00\x00\x00\x00\x02\x00\x09"),
		"a free box before the image": append(box("free", "secret"), file...),
		"another format":              jpegFile(),
	} {
		if got, err := bare.AVIF(in); !errors.Is(err, bare.ErrInvalid) || got.File != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzBare: no parser panics or changes its input; what it returns is accepted again, unchanged, and is at most a header
// longer.
func FuzzBare(f *testing.F) {
	f.Add(imagetest.WithEXIF(jpegFile(), 3))
	f.Add(imagetest.WithChunks(imagetest.PNG(imagetest.Picture(24, 16)), imagetest.Chunk("tEXt", []byte("k\x00v"))))
	f.Add(avifFile(f, "opaque"))
	f.Add(avifFile(f, "transparent"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for name, parse := range map[string]func([]byte) (bare.Image, error){"JPEG": bare.JPEG, "PNG": bare.PNG, "AVIF": bare.AVIF} {
			before := bytes.Clone(in)
			got, err := parse(in)
			if !bytes.Equal(in, before) {
				t.Fatalf("%s changed its input", name)
			}
			if err != nil {
				if !errors.Is(err, bare.ErrInvalid) || got.File != nil {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			again, err := parse(got.File)
			if err != nil || !bytes.Equal(again.File, got.File) || again.Width != got.Width || len(got.File) > len(in)+18 || got.Width < 1 || got.Height < 1 {
				t.Fatalf("%s again: %v", name, err)
			}
		}
	})
}

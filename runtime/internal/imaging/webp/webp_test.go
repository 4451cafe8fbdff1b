package webp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"mediastack.dev/runtime/internal/imaging/webp"
)

func chunk(name string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(name), uint32(len(data)))
	b = append(b, data...)
	if len(data)%2 == 1 {
		b = append(b, 0)
	}
	return b
}

func file(chunks ...[]byte) []byte {
	body := append([]byte("WEBP"), bytes.Join(chunks, nil)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

var (
	lossy    = chunk("VP8 ", 0x10, 0, 0, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00, 1, 2, 3) // 320 x 240
	lossless = chunk("VP8L", 0x2f, 0x3f, 0xc1, 0x3b, 0x00, 7)                               // 320 x 240
	alpha    = chunk("ALPH", 0, 1, 2)
	extended = chunk("VP8X", 0x3c, 0, 0, 0, 0x3f, 1, 0, 0xef, 0, 0) // ICC, alpha, EXIF and XMP
	bare     = chunk("VP8X", 0x10, 0, 0, 0, 0x3f, 1, 0, 0xef, 0, 0) // alpha alone
	icc      = chunk("ICCP", 's', 'e', 'c')
	exif     = chunk("EXIF", 's', 'e', 'c', 'r')
	xmp      = chunk("XMP ", 's')
	unknown  = chunk("GPS!", 's', 'e', 'c', 'r', 'e', 't')
)

func TestStripMetadata_KeepsPixelsOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want []byte }{
		"a simple lossy file":               {file(lossy), file(lossy)},
		"a simple lossless file":            {file(lossless), file(lossless)},
		"lossy with everything":             {file(extended, icc, lossy, exif, xmp, unknown), file(lossy)},
		"lossless with everything":          {file(extended, icc, lossless, exif, xmp, unknown), file(lossless)},
		"an alpha plane":                    {file(bare, alpha, lossy), file(bare, alpha, lossy)},
		"an alpha plane and everything":     {file(extended, icc, unknown, alpha, lossy, exif, xmp), file(bare, alpha, lossy)},
		"an alpha plane without VP8X":       {file(alpha, lossy), file(bare, alpha, lossy)},
		"a VP8X that lies about the canvas": {file(chunk("VP8X", 0x10, 0, 0, 0, 9, 9, 9, 9, 9, 9), alpha, lossy), file(bare, alpha, lossy)},
	} {
		got, err := webp.StripMetadata(bytes.Clone(c.in))
		if err != nil || !bytes.Equal(got.File, c.want) || got.Width != 320 || got.Height != 240 {
			t.Errorf("%s: %q %d x %d, %v", name, got.File, got.Width, got.Height, err)
		}
	}
}

func TestStripMetadata_RejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]byte{
		"nothing":                    nil,
		"no chunks":                  file(),
		"no bitmap":                  file(extended, exif),
		"two bitmaps":                file(lossy, lossless),
		"two alpha planes":           file(extended, alpha, alpha, lossy),
		"alpha after the bitmap":     file(extended, lossy, alpha),
		"alpha of a lossless bitmap": file(extended, alpha, lossless),
		"an animation":               file(extended, chunk("ANIM", 0, 0, 0, 0, 0, 0), chunk("ANMF", lossy...)),
		"a still and an animation":   file(extended, chunk("ANIM", 0, 0, 0, 0, 0, 0), lossy),
		"VP8X in the middle":         file(lossy, extended),
		"bytes after the end":        append(file(lossy), "<script>"...),
		"an odd rest":                file(lossy, []byte("abc")),
		"a chunk that is too long":   file(chunk("EXIF", 1, 2)[:9], lossy),
		"a length that is wrong":     append([]byte("RIFF\xff\xff\xff\xffWEBP"), lossy...),
		"another format":             append([]byte("RIFF\x04\x00\x00\x00WAVE"), lossy...),
		"an inter frame":             file(chunk("VP8 ", 0x11, 0, 0, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00)),
		"a bitmap without pixels":    file(chunk("VP8 ", 0x10, 0, 0, 0x9d, 0x01, 0x2a, 0, 0, 0xf0, 0x00)),
		"a bitmap without a header":  file(chunk("VP8L", 0x2f)),
	} {
		if got, err := webp.StripMetadata(in); !errors.Is(err, webp.ErrInvalid) {
			t.Errorf("%s: %q, %v", name, got.File, err)
		}
	}
}

// FuzzStripMetadata: the output has bitmaps and alpha planes of the input only, is longer
// by a header at most, and is not changed by a second call.
func FuzzStripMetadata(f *testing.F) {
	for _, seed := range [][]byte{
		file(lossy), file(lossless), file(extended, icc, lossy, exif, xmp, unknown), file(bare, alpha, lossy), file(alpha, lossy),
		file(extended, icc, unknown, alpha, lossy, exif, xmp), file(extended, lossless, exif), file(lossy, lossless),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		got, err := webp.StripMetadata(in)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if !errors.Is(err, webp.ErrInvalid) || got.File != nil {
				t.Fatalf("%v, %q", err, got.File)
			}
			return
		}
		if got.Width < 1 || got.Height < 1 || got.Width > 1<<14 || got.Height > 1<<14 || len(got.File) > len(in)+18 {
			t.Fatalf("%d x %d, %d bytes of %d", got.Width, got.Height, len(got.File), len(in))
		}
		if size := binary.LittleEndian.Uint32(got.File[4:]); int(size) != len(got.File)-8 {
			t.Fatalf("RIFF says %d of %d", size, len(got.File))
		}
		for rest := got.File[12:]; len(rest) > 0; {
			name, size := string(rest[:4]), int(binary.LittleEndian.Uint32(rest[4:]))
			switch name {
			case "VP8 ", "VP8L", "ALPH":
				if !bytes.Contains(in, rest[:8+size]) {
					t.Fatalf("%s is not the input's", name)
				}
			case "VP8X":
				if size != 10 || rest[8] != 0x10 {
					t.Fatalf("VP8X has %d bytes, flags %#x", size, rest[8])
				}
			default:
				t.Fatalf("a chunk %q", name)
			}
			rest = rest[8+size+size%2:]
		}
		again, err := webp.StripMetadata(got.File)
		if err != nil || !bytes.Equal(again.File, got.File) || again.Width != got.Width || again.Height != got.Height {
			t.Fatalf("again: %v", err)
		}
	})
}

// still24 returns a number of 24 bits.
func still24(n int) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16)} }

// anmf returns a frame at a place.
func anmf(left, top, width, height int, parts ...[]byte) []byte {
	data := bytes.Join([][]byte{still24(left / 2), still24(top / 2), still24(width - 1), still24(height - 1), still24(100), {0xff}}, nil)
	return chunk("ANMF", append(data, bytes.Join(parts, nil)...)...)
}

var (
	canvas   = chunk("VP8X", 0x3e, 0, 0, 0, 0x3f, 1, 0, 0xef, 0, 0) // with metadata
	animated = chunk("VP8X", 0x12, 0, 0, 0, 0x3f, 1, 0, 0xef, 0, 0)
	loop     = chunk("ANIM", 1, 2, 3, 4, 5, 0)
)

// kept is a frame whose reserved bits are zero.
func kept(frame []byte) []byte {
	frame = bytes.Clone(frame)
	frame[8+15] = 3
	return frame
}

func TestStripAnimation_KeepsPixelsAndTimesOnly(t *testing.T) {
	t.Parallel()
	first, second := anmf(0, 0, 320, 240, alpha, lossy), anmf(0, 0, 320, 240, lossless)
	want := file(animated, loop, kept(first), kept(second))
	for name, in := range map[string][]byte{
		"without metadata":     want,
		"with everything":      file(canvas, icc, loop, first, unknown, second, exif, xmp),
		"metadata in a frame":  file(canvas, loop, anmf(0, 0, 320, 240, unknown, alpha, lossy, exif), second),
		"metadata at the end":  file(canvas, loop, first, second, unknown),
		"a profile after ANIM": file(canvas, loop, icc, first, second),
	} {
		got, err := webp.StripAnimation(bytes.Clone(in))
		if err != nil || !bytes.Equal(got.File, want) || got.Width != 320 || got.Height != 240 || got.Frames != 2 {
			t.Errorf("%s: %q %d x %d, %d frames, %v", name, got.File, got.Width, got.Height, got.Frames, err)
		}
	}
}

func TestStripAnimation_RejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	frame := anmf(0, 0, 320, 240, lossy)
	for name, in := range map[string][]byte{
		"nothing":                  nil,
		"no chunks":                file(),
		"a still image":            file(lossy),
		"an extended still image":  file(extended, lossy),
		"no frames":                file(canvas, loop),
		"no loop":                  file(canvas, frame),
		"two loops":                file(canvas, loop, loop, frame),
		"a bitmap beside frames":   file(canvas, loop, frame, lossy),
		"a second canvas":          file(canvas, loop, frame, canvas),
		"a frame beside":           file(canvas, loop, anmf(2, 0, 320, 240, lossy)),
		"a frame of another size":  file(canvas, loop, anmf(0, 0, 318, 240, lossy)),
		"a frame without a bitmap": file(canvas, loop, anmf(0, 0, 320, 240, alpha)),
		"two bitmaps in a frame":   file(canvas, loop, anmf(0, 0, 320, 240, lossy, lossy)),
		"a short frame":            file(canvas, loop, chunk("ANMF", 1, 2, 3)),
		"bytes after the end":      append(file(canvas, loop, frame), "<script>"...),
		"a rest in a frame":        file(canvas, loop, anmf(0, 0, 320, 240, lossy, []byte("abc"))),
	} {
		if got, err := webp.StripAnimation(in); !errors.Is(err, webp.ErrInvalid) {
			t.Errorf("%s: %q, %v", name, got.File, err)
		}
	}
}

// FuzzStripAnimation: nothing but bitmaps, alpha planes, places and times of the input is in the output, which a second
// call does not change.
func FuzzStripAnimation(f *testing.F) {
	f.Add(file(canvas, icc, loop, anmf(0, 0, 320, 240, alpha, lossy), unknown, anmf(0, 0, 320, 240, lossless), exif))
	f.Add(file(animated, loop, anmf(0, 0, 320, 240, unknown, lossy)))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		got, err := webp.StripAnimation(in)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if !errors.Is(err, webp.ErrInvalid) || got.File != nil {
				t.Fatalf("%v, %q", err, got.File)
			}
			return
		}
		again, err := webp.StripAnimation(got.File)
		if err != nil || !bytes.Equal(again.File, got.File) || again.Frames != got.Frames || len(got.File) > len(in) {
			t.Fatalf("again: %v", err)
		}
		if size := binary.LittleEndian.Uint32(got.File[4:]); int(size) != len(got.File)-8 {
			t.Fatalf("RIFF says %d of %d", size, len(got.File))
		}
		for rest := got.File[12:]; len(rest) > 0; {
			name, size := string(rest[:4]), int(binary.LittleEndian.Uint32(rest[4:]))
			switch name {
			case "VP8X", "ANIM":
			case "ANMF":
				for frame := rest[8+16 : 8+size]; len(frame) > 0; {
					part, length := string(frame[:4]), int(binary.LittleEndian.Uint32(frame[4:]))
					if part != "VP8 " && part != "VP8L" && part != "ALPH" || !bytes.Contains(in, frame[:8+length]) {
						t.Fatalf("a chunk %q in a frame", part)
					}
					frame = frame[8+length+length%2:]
				}
			default:
				t.Fatalf("a chunk %q", name)
			}
			rest = rest[8+size+size%2:]
		}
	})
}

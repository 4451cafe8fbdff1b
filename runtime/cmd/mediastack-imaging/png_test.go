//go:build cgo

package main

import (
	"bytes"
	"encoding/binary"
	"testing"

	"mediastack.dev/hack/imagecorpus"
)

func TestTextsAreTakenOutOfPNGs(t *testing.T) {
	t.Parallel()
	plain := imagecorpus.PNG(imagecorpus.Picture(9, 9))
	text := imagecorpus.Chunk("tEXt", []byte("k\x00v"))
	profile := imagecorpus.Chunk("iCCP", []byte("p\x00\x00"))
	control := imagecorpus.Chunk("acTL", make([]byte, 8))
	frame := imagecorpus.Chunk("fdAT", []byte("...."))
	for name, c := range map[string]struct {
		in, want []byte
		animated bool
	}{
		"a plain one":                      {plain, plain, false},
		"texts of all kinds":               {imagecorpus.WithChunks(plain, text, imagecorpus.Chunk("zTXt", nil), profile, imagecorpus.Chunk("iTXt", []byte("x"))), imagecorpus.WithChunks(plain, profile), false},
		"an animation":                     {imagecorpus.WithChunks(plain, control, text, frame), imagecorpus.WithChunks(plain, control, frame), true},
		"a control chunk after the pixels": {append(plain[:len(plain):len(plain)], control...), append(plain[:len(plain):len(plain)], control...), false},
		"a text that breaks off":           {append(plain[:33:33], text[:10]...), append(plain[:33:33], text[:10]...), false},
		"another file":                     {[]byte("GIF89a, and a tEXt in it"), []byte("GIF89a, and a tEXt in it"), false},
		"nothing":                          {nil, nil, false},
	} {
		got, animated := withoutTexts(bytes.Clone(c.in))
		if !bytes.Equal(got, c.want) || animated != c.animated {
			t.Errorf("%s: %q, %t", name, got, animated)
		}
	}
}

// FuzzWithoutTexts: nothing but whole text chunks is missing, and none is left before
// the first chunk that does not fit.
func FuzzWithoutTexts(f *testing.F) {
	plain := imagecorpus.PNG(imagecorpus.Picture(3, 3))
	f.Add(plain)
	f.Add(imagecorpus.WithChunks(plain, imagecorpus.Chunk("tEXt", []byte("k\x00v")), imagecorpus.Chunk("acTL", make([]byte, 8))))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, _ := withoutTexts(bytes.Clone(in))
		if len(in) < minimalPNGSize || string(in[:8]) != pngSignature {
			if !bytes.Equal(got, in) {
				t.Fatal("a file that is no PNG was changed")
			}
			return
		}
		want := append([]byte{}, in[:8]...)
		rest := in[8:]
		for len(rest) >= 12 {
			length := uint64(binary.BigEndian.Uint32(rest)) + 12
			if length > uint64(len(rest)) {
				break
			}
			if name := string(rest[4:8]); name != "tEXt" && name != "zTXt" && name != "iTXt" {
				want = append(want, rest[:length]...)
			}
			rest = rest[length:]
		}
		if want = append(want, rest...); !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

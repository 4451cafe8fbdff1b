//go:build cgo

package main

import (
	"bytes"
	"encoding/binary"
	"testing"

	"mediastack.dev/runtime/internal/imaging/imagetest"
)

func TestStripTextChunks_KeepsAllOtherChunks(t *testing.T) {
	t.Parallel()
	plain := imagetest.PNG(imagetest.Picture(9, 9))
	text := imagetest.Chunk("tEXt", []byte("k\x00v"))
	profile := imagetest.Chunk("iCCP", []byte("p\x00\x00"))
	control := imagetest.Chunk("acTL", make([]byte, 8))
	frame := imagetest.Chunk("fdAT", []byte("...."))
	for name, c := range map[string]struct {
		in, want []byte
		animated bool
	}{
		"a plain one":                      {plain, plain, false},
		"texts of all kinds":               {imagetest.WithChunks(plain, text, imagetest.Chunk("zTXt", nil), profile, imagetest.Chunk("iTXt", []byte("x"))), imagetest.WithChunks(plain, profile), false},
		"an animation":                     {imagetest.WithChunks(plain, control, text, frame), imagetest.WithChunks(plain, control, frame), true},
		"a control chunk after the pixels": {append(plain[:len(plain):len(plain)], control...), append(plain[:len(plain):len(plain)], control...), false},
		"a text that breaks off":           {append(plain[:33:33], text[:10]...), append(plain[:33:33], text[:10]...), false},
		"another file":                     {[]byte("GIF89a, and a tEXt in it"), []byte("GIF89a, and a tEXt in it"), false},
		"nothing":                          {nil, nil, false},
	} {
		got, animated := stripTextChunks(bytes.Clone(c.in))
		if !bytes.Equal(got, c.want) || animated != c.animated {
			t.Errorf("%s: %q, %t", name, got, animated)
		}
	}
}

// FuzzStripTextChunks: nothing but whole text chunks is missing, and none is left before
// the first chunk that does not fit.
func FuzzStripTextChunks(f *testing.F) {
	plain := imagetest.PNG(imagetest.Picture(3, 3))
	f.Add(plain)
	f.Add(imagetest.WithChunks(plain, imagetest.Chunk("tEXt", []byte("k\x00v")), imagetest.Chunk("acTL", make([]byte, 8))))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, _ := stripTextChunks(bytes.Clone(in))
		if len(in) < minPNGSize || string(in[:8]) != pngSignature {
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

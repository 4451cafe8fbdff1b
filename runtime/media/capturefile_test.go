package media

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"testing"
)

// bytesOf is an object store with one object, which counts its reads.
type bytesOf struct {
	data  []byte
	reads *int
}

func (b bytesOf) Open(_ context.Context, _, _ string, offset, length int64) (io.ReadCloser, error) {
	*b.reads++
	return io.NopCloser(bytes.NewReader(b.data[offset : offset+length])), nil
}

func boxOf(kind string, size int) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(size)), kind...), make([]byte, max(0, size-8))...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestRanges_OfAMovie finds the box moov wherever it is, with a bounded number of reads.
func TestRanges_OfAMovie(t *testing.T) {
	t.Parallel()
	large := append([]byte("\x00\x00\x00\x01mdat\x00\x00\x00\x00\x00\x20\x00\x00"), make([]byte, 2<<20-16)...)
	many := boxOf("ftyp", 16)
	for range 100 {
		many = append(many, boxOf("free", 20_000)...)
	}
	for name, c := range map[string]struct {
		file []byte
		want byteRanges
	}{
		"moov at the end":          {join(boxOf("ftyp", 24), boxOf("mdat", 2<<20), boxOf("moov", 500)), byteRanges{{0, 24}, {24 + 2<<20, 500}}},
		"after a large box":        {join(boxOf("ftyp", 24), large, boxOf("moov", 500)), byteRanges{{0, 24}, {24 + 2<<20, 500}}},
		"moov first":               {join(boxOf("ftyp", 24), boxOf("moov", 500), boxOf("mdat", 2<<20)), byteRanges{{0, 24}, {24, 500}}},
		"without ftyp":             {join(boxOf("moov", 500), boxOf("mdat", 2<<20)), byteRanges{{0, 500}}},
		"moov is cut off":          {join(boxOf("ftyp", 24), boxOf("mdat", 2<<20), boxOf("moov", 500)[:300]), byteRanges{{0, 24}, {24 + 2<<20, 300}}},
		"moov is very large":       {join(boxOf("ftyp", 24), boxOf("mdat", 2<<20), boxOf("moov", 20<<20)), byteRanges{{0, 24}, {24 + 2<<20, captureMoov}}},
		"no moov":                  {join(boxOf("ftyp", 24), boxOf("mdat", 2<<20)), byteRanges{{0, captureHead}}},
		"too many boxes before it": {join(many, boxOf("moov", 500)), byteRanges{{0, captureHead}}},
		"a box of seven bytes":     {join(boxOf("ftyp", 24), []byte("\x00\x00\x00\x07free"), make([]byte, 2<<20)), byteRanges{{0, captureHead}}},
		"small":                    {join(boxOf("ftyp", 24), boxOf("moov", 500)), byteRanges{{0, 524}}},
	} {
		reads := 0
		file := captureFile{objects: bytesOf{c.file, &reads}, size: int64(len(c.file))}
		got, err := file.ranges(t.Context(), "video/mp4")
		if err != nil || len(got) != len(c.want) || got.bytes() != c.want.bytes() || got[len(got)-1] != c.want[len(c.want)-1] || reads > captureSteps {
			t.Errorf("%s: got %v, %v after %d reads, want %v", name, got, err, reads, c.want)
			continue
		}
		opened, err := file.open(t.Context(), got)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(opened)
		var want []byte
		for _, part := range c.want {
			want = append(want, c.file[part.offset:part.offset+part.length]...)
		}
		if err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

func TestRanges_OfOtherFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mimeType string
		size     int64
		want     byteRange
	}{
		{"image/jpeg", 20 << 20, byteRange{0, captureHead}}, {"image/webp", 20 << 20, byteRange{0, 20 << 20}}, {"image/tiff", 65 << 20, byteRange{0, captureHead}},
		{"audio/mpeg", 20 << 20, byteRange{0, captureHead}}, {"image/png", 5, byteRange{0, 5}},
	} {
		got, err := captureFile{size: c.size}.ranges(t.Context(), c.mimeType)
		if err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s of %d bytes: got %v, %v", c.mimeType, c.size, got, err)
		}
	}
}

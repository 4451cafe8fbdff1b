package capturefile_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/imaging/capturefile"
	"mediastack.dev/runtime/internal/imaging/imagetest"
)

// manifest is the beginning of a manifest store of C2PA.
func manifest() []byte {
	description := box("jumd", []byte("c2pa\x00\x11\x00\x10\x80\x00\x00\xaa\x00\x38\x9b\x71"), []byte("\x03c2pa\x00"))
	return box("jumb", description)
}

func TestRead_SaysThatThereIsAManifest(t *testing.T) {
	t.Parallel()
	segment := slices.Concat([]byte("JP\x00\x01\x00\x00\x00\x01"), manifest())
	other := []byte(strings.ReplaceAll(string(segment), "c2pa", "json"))
	uuid := []byte("\xd8\xfe\xc3\xd6\x1b\x0e\x48\x3c\x92\x97\x58\x28\x87\x7e\xc4\x81\x00\x00\x00\x00")
	chunk := func(name string, data []byte) []byte {
		return slices.Concat([]byte(name), binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data, make([]byte, len(data)%2))
	}
	webp, heic, avif := sample("sample.webp")(t), sample("sample.heic")(t), sample("sample.avif")(t)
	for name, c := range map[string]struct {
		file []byte
		want bool
	}{
		"JPEG":                     {imagetest.WithSegment(jpegFile(t), 0xeb, "", segment), true},
		"JPEG with another store":  {imagetest.WithSegment(jpegFile(t), 0xeb, "", other), false},
		"JPEG without":             {jpegFile(t), false},
		"JPEG with it in the scan": {append(jpegFile(t), segment...), false},
		"PNG":                      {imagetest.WithChunks(pngFile(t), imagetest.Chunk("caBX", manifest())), true},
		"PNG without":              {pngFile(t), false},
		"WebP":                     {append(webp, chunk("C2PA", manifest())...), true},
		"WebP without":             {webp, false},
		"HEIC":                     {append(heic, box("uuid", uuid, []byte("manifest\x00"), make([]byte, 8), manifest())...), true},
		"HEIC with another use":    {append(heic, box("uuid", uuid, []byte("merkle\x00"), make([]byte, 16))...), false},
		"HEIC without":             {heic, false},
		"AVIF":                     {append(avif, box("uuid", uuid, []byte("manifest\x00"), make([]byte, 8), manifest())...), true},
		"MP4":                      {append(movieFile("mp42", true)(t), box("uuid", uuid, []byte("manifest\x00"), make([]byte, 8), manifest())...), true},
		"MP4 without":              {movieFile("mp42", true)(t), false},
		"TIFF":                     {[]byte("II*\x00\x08\x00\x00\x00\x01\x00\x41\xcd\x07\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), true},
		"TIFF without":             {tiffFile(t), false},
	} {
		if got := capturefile.Read(c.file).ContentCredentials; got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestRead_MoviePoints(t *testing.T) {
	t.Parallel()
	point := func(text string) []byte {
		length := binary.BigEndian.AppendUint16(nil, uint16(len(text)))
		return slices.Concat(box("ftyp", []byte("mp42\x00\x00\x00\x00")), box("moov", box("udta", box("\xa9xyz", length, []byte{0x15, 0xc7}, []byte(text)))))
	}
	for text, want := range map[string]*capture.Location{
		"+48.8584+002.2945/":            {Latitude: 48.8584, Longitude: 2.2945},
		"-33.8568+151.2153+035.000/":    {Latitude: -33.8568, Longitude: 151.2153},
		"+4851.504+00217.67/":           {Latitude: 48.8584, Longitude: 2.2945},
		"+485130.24-0021740.2CRSWGS_84": {Latitude: 48.8584, Longitude: -2.2945},
		"+48+002/":                      {Latitude: 48, Longitude: 2},
		"+48.8584":                      nil,
		"48.8584+002.2945/":             nil,
		"+488584+0022945/":              nil, // 85 minutes
		"+4.8+002/":                     nil,
		"+48..5+002/":                   nil,
		"":                              nil,
	} {
		got := capturefile.Read(point(text)).Location
		if (got == nil) != (want == nil) || got != nil && got.Distance(*want) > 20 {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestRead_MovieTimes reads a box mvhd of version 1, and one that says nothing.
func TestRead_MovieTimes(t *testing.T) {
	t.Parallel()
	movie := func(header []byte) []byte {
		return slices.Concat(box("ftyp", []byte("mp42\x00\x00\x00\x00")), box("moov", box("mvhd", header)))
	}
	long := append([]byte{1, 0, 0, 0}, binary.BigEndian.AppendUint64(nil, 3_800_000_000)...)
	for name, c := range map[string]struct {
		header []byte
		want   string
	}{
		"version 1": {long, "2024-05-31T11:33:20Z"},
		"version 0": {append([]byte{0, 0, 0, 0}, binary.BigEndian.AppendUint32(nil, 3_800_000_000)...), "2024-05-31T11:33:20Z"},
		"a far one": {append([]byte{1, 0, 0, 0}, binary.BigEndian.AppendUint64(nil, 1<<34)...), "2448-05-28T01:53:04Z"},
		"zero":      {make([]byte, 100), ""},
		"absurd":    {append([]byte{1, 0, 0, 0}, binary.BigEndian.AppendUint64(nil, 1<<63)...), ""},
		"cut off":   {long[:9], ""},
	} {
		if got := capturefile.Read(movie(c.header)).At; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// checkClean fails for what may not be stored, whatever the file is.
func checkClean(t *testing.T, file []byte) {
	t.Helper()
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	c := capturefile.Read(file).Clean(now)
	for text, most := range map[string]int{c.Camera: capture.MaxCamera, c.Lens: capture.MaxLens, c.Title: capture.MaxTitle} {
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > most || strings.TrimSpace(text) != text {
			t.Errorf("the text %q", text)
		}
		for _, r := range text {
			if !unicode.IsGraphic(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("the text %q has %U", text, r)
			}
		}
	}
	if c.At != "" {
		if at, ok := c.Time(); !ok || at.Year() < 1800 || at.After(now.Add(24*time.Hour)) {
			t.Errorf("the time %q", c.At)
		}
	}
	if c.Rating < 0 || c.Rating > capture.MaxRating {
		t.Errorf("the rating %d", c.Rating)
	}
	if p := c.Location; p != nil && !(p.Latitude >= -90 && p.Latitude <= 90 && p.Longitude >= -180 && p.Longitude <= 180) {
		t.Errorf("the location %v", *p)
	}
	if again := c.Clean(now); !same(again, c) {
		t.Errorf("%s is %s when it is cleaned again", show(c), show(again))
	}
}

// FuzzRead reads files that are broken. It fails for a panic, for what takes long, and for what may not be stored.
func FuzzRead(f *testing.F) {
	paths, err := filepath.Glob("testdata/seeds/*")
	if err != nil || len(paths) == 0 {
		f.Fatalf("the seeds of testdata: %v", err)
	}
	for _, path := range paths {
		seed, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add(mp3(2, frame{"TT2", []byte("\x00Title")}, frame{"TYE", []byte("\x001997")}))
	f.Add(mp3(3, frame{"TIT2", text16("Title")}))
	f.Add(mp3(4, frame{"TDRC", []byte("\x032021-03-04T05:06:07")}))
	f.Fuzz(checkClean)
}

// A PNG can have as many texts as it has room for, and each of a few bytes can be inflated to a megabyte: the first of each keyword counts.
func TestRead_InflatesFewTextsOfAPNG(t *testing.T) {
	text := func(keyword, content string) []byte {
		var b bytes.Buffer
		b.WriteString(keyword + "\x00\x01\x00\x00\x00")
		w := zlib.NewWriter(&b)
		_, _ = io.WriteString(w, content)
		_ = w.Close()
		return imagetest.Chunk("iTXt", b.Bytes())
	}
	large := strings.Repeat(" ", 1<<20-64)
	chunks := [][]byte{text("Title", "The first"), text("XML:com.adobe.xmp", `<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Rating="4"/></rdf:RDF></x:xmpmeta>`)}
	for _, keyword := range []string{"Title", "XML:com.adobe.xmp", "Comment"} {
		chunks = append(chunks, slices.Repeat([][]byte{text(keyword, "RDF"+large)}, 300)...)
	}
	file := imagetest.WithChunks(pngFile(t), chunks...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := capturefile.Read(file)
	runtime.ReadMemStats(&after)
	if c.Title != "The first" || c.Rating != 4 {
		t.Errorf("read %+v", c)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("reading a file of %d bytes has allocated %d", len(file), got)
	}
}

// FuzzRead_Packet reads packets of XMP in a PNG, and texts.
func FuzzRead_Packet(f *testing.F) {
	f.Add([]byte(`<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:exif="http://ns.adobe.com/exif/1.0/" xmp:Rating="4" xmp:CreateDate="2020-01-01T00:00:00Z" exif:GPSLatitude="54,48.114S" exif:GPSLongitude="68,18.18W"><dc:title><rdf:Alt><rdf:li xml:lang="x-default">Title</rdf:li></rdf:Alt></dc:title></rdf:Description></rdf:RDF></x:xmpmeta>`))
	var blank []byte
	f.Fuzz(func(t *testing.T, packet []byte) {
		if blank == nil {
			blank = pngFile(t)
		}
		checkClean(t, imagetest.WithChunks(blank, imagetest.Chunk("iTXt", append([]byte("XML:com.adobe.xmp\x00\x00\x00\x00\x00"), packet...)), imagetest.Chunk("tEXt", append([]byte("Title\x00"), packet...))))
	})
}

// TestSeeds_AreMadeAgain writes the seeds of the fuzz targets with SEEDS=1: one file of each kind, with its tags.
func TestSeeds_AreMadeAgain(t *testing.T) {
	if os.Getenv("SEEDS") == "" {
		t.Skip("SEEDS=1 writes them")
	}
	for _, name := range []string{"iphone-heic", "pixel-webp", "pixel-8", "xmp-png", "lightroom-xmp", "tiff-with-xmp", "avif", "iphone-mov", "android-mp4", "m4a"} {
		at := slices.IndexFunc(forms, func(f form) bool { return f.name == name })
		path := filepath.Join("testdata", "seeds", name)
		if err := os.WriteFile(path, forms[at].file(t), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "exiftool", append(append([]string{"-q", "-overwrite_original", "-n"}, forms[at].tags...), path)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

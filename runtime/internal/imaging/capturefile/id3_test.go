package capturefile_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/imaging/capturefile"
)

// frame is a frame of ID3.
type frame struct {
	id   string
	body []byte
}

func sevenBits(n int) []byte {
	return []byte{byte(n >> 21 & 0x7f), byte(n >> 14 & 0x7f), byte(n >> 7 & 0x7f), byte(n & 0x7f)}
}

// mp3 returns an MP3 file with a tag of a version.
func mp3(version byte, frames ...frame) []byte {
	var tag []byte
	for _, f := range frames {
		switch tag = append(tag, f.id...); version {
		case 2:
			tag = append(tag, byte(len(f.body)>>16), byte(len(f.body)>>8), byte(len(f.body)))
		case 3:
			tag = append(binary.BigEndian.AppendUint32(tag, uint32(len(f.body))), 0, 0)
		default:
			tag = append(append(tag, sevenBits(len(f.body))...), 0, 0)
		}
		tag = append(tag, f.body...)
	}
	tag = append(tag, make([]byte, 32)...)
	audio := append([]byte{0xff, 0xfb, 0x90, 0x64}, make([]byte, 413)...)
	return slices.Concat([]byte("ID3"), []byte{version, 0, 0}, sevenBits(len(tag)), tag, audio, audio)
}

func text16(text string) []byte {
	b := []byte{1, 0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return b
}

func TestRead_ID3AgreesWithExiftool(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][]byte{
		"2.2 in Latin 1":        mp3(2, frame{"TT2", []byte("\x00Caf\xe9")}, frame{"TYE", []byte("\x001997")}),
		"2.3 in UTF-16":         mp3(3, frame{"TIT2", text16("Übung ε")}, frame{"TYER", text16("2003")}),
		"2.4 with a time":       mp3(4, frame{"TIT2", []byte("\x03Field recording")}, frame{"TDRC", []byte("\x032021-03-04T05:06:07")}),
		"2.4 with a month":      mp3(4, frame{"TDRC", []byte("\x002021-03")}),
		"a picture comes first": mp3(3, frame{"APIC", make([]byte, 5000)}, frame{"TIT2", []byte("\x00After it")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.mp3")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			var says []said
			if err := json.Unmarshal([]byte(strings.ReplaceAll(exiftool(t, []string{"-j", "-n", "-G1", path}), "{ready}", "")), &says); err != nil {
				t.Fatal(err)
			}
			want := says[0].capture()
			if name == "2.4 with a month" {
				want.At = "2021-03" // exiftool has 2021:03
			}
			if got := capturefile.Read(file).Clean(time.Now()); !same(got, want) || !want.Known() {
				t.Errorf("got %s, want %s: %v", show(got), show(want), says[0])
			}
		})
	}
}

// TestRead_ID3Details reads what exiftool shows in another form, or not at all.
func TestRead_ID3Details(t *testing.T) {
	t.Parallel()
	unsynchronised := mp3(4, frame{"TIT2", []byte("\x00\xff\x00\xe0")})
	unsynchronised[5] = 0x80
	extended := mp3(3, frame{"\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00TIT2", nil})
	extended[5] = 0x40
	for name, c := range map[string]struct {
		file []byte
		want capture.Capture
	}{
		"a year and a day":             {mp3(3, frame{"TYER", []byte("\x002003")}, frame{"TDAT", []byte("\x002405")}), capture.Capture{At: "2003-05-24"}},
		"a year that is none":          {mp3(3, frame{"TYER", []byte("\x00nine")}), capture.Capture{}},
		"zeros after 0xff are removed": {unsynchronised, capture.Capture{Title: "\u00ff\u00e0"}},
		"an extended header":           {extended, capture.Capture{}},
		"a frame that is cut off":      {mp3(4, frame{"TIT2", []byte("\x03Title")})[:24], capture.Capture{}},
		"a manifest of C2PA":           {mp3(4, frame{"GEOB", []byte("\x00application/x-c2pa-manifest-store\x00")}), capture.Capture{ContentCredentials: true}},
		"another object":               {mp3(4, frame{"GEOB", []byte("\x00application/json\x00")}), capture.Capture{}},
	} {
		if got := capturefile.Read(c.file); !same(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, show(got), show(c.want))
		}
	}
}

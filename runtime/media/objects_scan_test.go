package media_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"mediastack.dev/runtime/media"
)

// printed is what PostgreSQL prints of the objects of an image: names by length, and a space after each
// colon and comma.
const printed = `[{"key": "media/01900000-0000-7000-8000-000000000001/original", "bytes": 3145728, "sha256": "` + hexHash + `", "variant": "original", "mimeType": "image/jpeg"}, ` +
	`{"key": "media/01900000-0000-7000-8000-000000000001/webp", "bytes": 0, "sha256": "` + hexHash + `", "variant": "webp", "mimeType": "image/webp"}, ` +
	`{"key": "media/01900000-0000-7000-8000-000000000001/thumbnail", "bytes": 999999999999999999, "sha256": "` + hexHash + `", "variant": "thumbnail", "mimeType": "image/webp"}]`

const hexHash = "00ff3456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcde"

// Whatever the text is, the result is that of encoding/json.
func FuzzObjectsScanBytes(f *testing.F) {
	for _, seed := range []string{
		printed, `[]`, `[{}]`, `null`, ``, `[{"bytes": 01}]`, `[{"bytes": 00}]`, `[{"bytes": -1}]`, `[{"bytes": 1e3}]`, `[{"bytes": 9223372036854775808}]`, `[{"bytes": 1, "bytes": 2}]`,
		`[{"sha256": "0"}]`, `[{"sha256": ""}]`, `[{"sha256": null}]`, `[{"sha256": "zz"}]`, `[{"key": "\u0041"}]`, "[{\"key\": \"a\tb\"}]", "[{\"key\": \"\xff\"}]", `[{"key": "é"}]`, `[{"KEY": "a"}]`,
		`[{"other": "a"}]`, `[{"key": 1}]`, `[{"key": "a"},{"key": "b"}]`, `[{"key": "a"}, ]`, `[, {"key": "a"}]`, `[{, "key": "a"}]`, `[{"key": "a", }]`, `[{"key": "a"}`, `[{"key": "a"}]]`, `[{"key": "a"}] `,
		`{"key": "a"}`, `[[]]`, `[{"key": ["a"]}]`, `[{"bytes": 1}` + strings.Repeat(`, {"sha256": "`+hexHash+`"}`, 5) + `]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		text := bytes.Clone(input) // a fuzz target must not change its input
		var want []media.Object
		wanted := json.Unmarshal(text, &want)
		got := media.Objects{{Key: "of another row"}}
		err := got.ScanBytes(text)
		switch {
		case (err == nil) != (wanted == nil):
			t.Fatalf("%q: %v, but encoding/json: %v", text, err, wanted)
		case err == nil && !reflect.DeepEqual([]media.Object(got), want):
			t.Fatalf("%q: %#v, but encoding/json: %#v", text, got, want)
		case !bytes.Equal(text, input):
			t.Fatalf("%q became %q", input, text)
		}
		clear(text) // the driver uses its memory again
		if err == nil && !reflect.DeepEqual([]media.Object(got), want) {
			t.Fatalf("%q: the objects change with the memory of the driver: %#v", input, got)
		}
	})
}

// The usual form is read without encoding/json: one allocation for the objects, one for the hashes, and
// one for each key.
func TestObjectsScanBytes_AllocatesForItsResultOnly(t *testing.T) {
	var objects media.Objects
	text := []byte(printed)
	allocations := testing.AllocsPerRun(100, func() {
		if err := objects.ScanBytes(text); err != nil {
			t.Error(err)
		}
	})
	if len(objects) != 3 || objects[2].Bytes != 999999999999999999 {
		t.Errorf("the objects are %+v", objects)
	}
	if allocations != 5 {
		t.Errorf("%v allocations for three objects, not 5", allocations)
	}
}

func TestObjectsScanBytes_ReadsNull(t *testing.T) {
	t.Parallel()
	objects := media.Objects{{Key: "of another row"}}
	if err := objects.ScanBytes(nil); err != nil || objects != nil {
		t.Errorf("NULL is read as %v, %v", objects, err)
	}
}

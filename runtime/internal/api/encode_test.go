package api_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/api"
)

// A list is encoded as encoding/json does it without escapes for HTML, whatever the texts are.
func FuzzItemListAppendJSON(f *testing.F) {
	f.Add("photo.jpg", "image/jpeg", "http://media.test/media/file/1?a=b&c=d", "A caption", "album", int64(1), int64(1_700_000_000_123), true)
	f.Add("\"\\/\b\f\n\r\t\x00\x7f", "<script>&", "\u2028\u2029", "é 漢 🙂", "\xff\xfe", int64(-1), int64(-62_135_596_800_000), false)
	f.Fuzz(func(t *testing.T, name, kind, address, caption, group string, size, milliseconds int64, draft bool) {
		at := time.UnixMilli(milliseconds % 253_402_300_000_000).UTC()
		if at.Year() < 0 {
			return // encoding/json does not encode it
		}
		item := api.MediaItem{MediaId: uuid.NewSHA1(uuid.Nil, []byte(name)), OriginalFileName: name, MimeType: kind, Size: size, Access: api.Access(group), File: address, Thumbnail: caption,
			Caption: caption, Group: group, Temp: draft, Original: address, CreatedAt: at, Sha256: kind}
		if draft {
			item.ExpiresAt = &at
		} else {
			item.SealedAt = &at
		}
		for _, items := range []api.ItemList{{}, {item}, {item, api.MediaItem{}}} {
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(items); err != nil {
				t.Fatal(err)
			}
			if got := append(items.AppendJSON([]byte{}), '\n'); !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("%+v is encoded as\n%s\nbut by encoding/json as\n%s", items, got, want.Bytes())
			}
		}
	})
}

func TestMediaItemAppendJSON_HasAllFields(t *testing.T) {
	t.Parallel()
	if n := reflect.TypeFor[api.MediaItem]().NumField(); n != 15 {
		t.Errorf("MediaItem has %d fields, and AppendJSON appends 15", n)
	}
}

func TestItemListAppendJSON_AllocatesNothing(t *testing.T) {
	items := api.ItemList{{OriginalFileName: "photo.jpg", CreatedAt: time.Unix(1_700_000_000, 0).UTC()}, {}}
	buffer := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buffer = items.AppendJSON(buffer[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

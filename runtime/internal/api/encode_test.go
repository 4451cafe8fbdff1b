package api_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
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
			Caption: caption, Group: group, Temp: draft, Original: address, CreatedAt: at, Sha256: kind, Ref: name,
			Width: int(size), Height: int(milliseconds), Placeholder: []byte(caption), DominantColor: group, Duration: float64(milliseconds%3_600_000_000_000) / 1000, Pages: int(size), Metadata: api.Metadata{name: caption, group: kind}}
		if draft {
			item.Focus = &api.Focus{X: float64(uint64(size)%1001) / 1000, Y: float64(uint64(milliseconds)%1001) / 1000}
			item.ExpiresAt, item.State = &at, api.StateChecking
			item.CapturedAt, item.Capture = group, &api.Capture{Camera: name, Lens: kind, Title: caption, Rating: int(size), Location: &api.Location{Latitude: float64(uint64(size)%1001) / 10, Longitude: -float64(uint64(milliseconds)%1001) / 10}, ContentCredentials: group}
		} else {
			item.SealedAt = &at
		}
		for _, items := range []api.ItemList{{}, {item}, {item, api.MediaItem{}}, {{Metadata: api.Metadata{}}}} {
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetEscapeHTML(false)
			must(t, encoder.Encode(items))
			if got := append(items.AppendJSON([]byte{}), '\n'); !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("%+v is encoded as\n%s\nbut by encoding/json as\n%s", items, got, want.Bytes())
			}
		}
	})
}

func TestMediaItemAppendJSON_HasAllFields(t *testing.T) {
	t.Parallel()
	if n := reflect.TypeFor[api.MediaItem]().NumField(); n != len(api.FieldNames()) {
		t.Errorf("MediaItem has %d fields, and AppendJSON appends %d", n, len(api.FieldNames()))
	}
}

func TestItemListAppendJSON_AllocatesNothing(t *testing.T) {
	items := api.ItemList{{OriginalFileName: "photo.jpg", CreatedAt: time.Unix(1_700_000_000, 0).UTC()}, {}}
	buffer := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buffer = items.AppendJSON(buffer[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseSelection_SelectsMembers(t *testing.T) {
	t.Parallel()
	item := api.MediaItem{Caption: "c", Size: 3, Temp: true}
	for text, want := range map[string]string{
		"caption": `{"caption":"c"}`, "size,caption": `{"size":3,"caption":"c"}`, "temp,temp": `{"temp":true}`, "sealedAt": `{}`, "width,size": `{"size":3}`,
	} {
		fields, err := api.ParseSelection(text)
		if got := (api.SelectedItem{Item: &item, Fields: fields}).AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	all := api.MediaItem{Temp: true}
	whole := string(all.AppendJSON(nil))
	for text, want := range map[string]string{"*": whole, "*,size": whole, "mediaId,*": whole, "*,presets": strings.TrimSuffix(whole, "}") + `,"presets":{}}`} {
		fields, err := api.ParseSelection(text)
		if got := (api.SelectedItem{Item: &all, Fields: fields}).AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"Caption", "caption,", ",", "caption, size", "x", "**", "* ", "*,x"} {
		if _, err := api.ParseSelection(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Each name selects the member of that name.
func TestParseSelection_NamesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0).UTC()
	item := api.MediaItem{Temp: true, Original: "o", SealedAt: &now, ExpiresAt: &now, Width: 1, Height: 1, Placeholder: []byte{1}, DominantColor: "#0102ff", Duration: 1.5, Pages: 1, Metadata: api.Metadata{}, CapturedAt: "2024", Capture: &api.Capture{Camera: "a"}, Ref: "r", Focus: &api.Focus{X: 0.5}, State: api.StateChecking}
	for _, name := range api.FieldNames() {
		fields, err := api.ParseSelection(name)
		must(t, err)
		var members map[string]any
		if err := json.Unmarshal(api.SelectedItem{Item: &item, Fields: fields}.AppendJSON(nil), &members); err != nil || len(members) != 1 {
			t.Errorf("%s: %v, %v", name, members, err)
		}
		if _, ok := members[name]; !ok {
			t.Errorf("%s selects %v", name, members)
		}
	}
}

// FuzzParseSelection reads arbitrary texts. One that is accepted is a list of the members that the document
// then has, and no others.
func FuzzParseSelection(f *testing.F) {
	for _, text := range []string{"", "caption", "size,caption", "temp,temp", "Caption", "caption,", ",", "caption, size", "duration,pages", "presets,focus", "*,presets", "mediaId,x", "\x00", "size\xff"} {
		f.Add(text)
	}
	now := time.Unix(1, 0).UTC()
	item := api.MediaItem{Temp: true, Original: "o", SealedAt: &now, ExpiresAt: &now, Width: 1, Height: 1, Placeholder: []byte{1}, DominantColor: "#0102ff", Duration: 1.5, Pages: 1, Metadata: api.Metadata{}, CapturedAt: "2024", Capture: &api.Capture{Camera: "a", Lens: "b", Title: "c", Rating: 5, Location: &api.Location{Latitude: -1.5, Longitude: 180}, ContentCredentials: "present"}, Ref: "r", Focus: &api.Focus{Y: 0.25}, State: api.StateChecking}
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := api.ParseSelection(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		want := map[string]bool{}
		for _, name := range strings.Split(text, ",") {
			want[name] = true
		}
		if text == "" || want["*"] {
			named := want["presets"]
			clear(want)
			for _, name := range api.FieldNames() {
				want[name] = true
			}
			if !named {
				delete(want, "presets") // it is only in documents that name it
			}
		}
		var members map[string]any
		if err := json.Unmarshal(api.SelectedItem{Item: &item, Fields: fields}.AppendJSON(nil), &members); err != nil || len(members) != len(want) {
			t.Fatalf("%q selects %v, %v", text, members, err)
		}
		for name := range want {
			if _, ok := members[name]; !ok {
				t.Fatalf("%q selects %v", text, members)
			}
		}
	})
}

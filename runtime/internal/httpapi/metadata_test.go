package httpapi_test

import (
	"encoding/json"
	"maps"
	"testing"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

func FuzzReadMetadata(f *testing.F) {
	for _, text := range []string{"", "{}", `{"a":"b","c.d":"é"}`, `{"a":null}`, `{"a":1}`, `{"a":"b","a":"c"}`, "null", "[]", `{"a":"b"} x`, `{"a":{"b":"c"}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		metadata, err := httpapi.ReadMetadata(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if text == "" || !utf8.ValidString(text) {
			return
		}
		var want map[string]string
		if err := json.Unmarshal([]byte(text), &want); err != nil || !maps.Equal(want, metadata) {
			t.Fatalf("%q: %v, %v; want %v", text, metadata, err, want)
		}
	})
}

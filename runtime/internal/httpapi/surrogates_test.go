package httpapi_test

import (
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

func TestHasLoneSurrogate_IsHalfACharacter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`"\ud800"`: true, `"\uDFFF"`: true, `"\ud83d\n"`: true, `"\ud83dx\ude00"`: true, `"\ude00\ud83d"`: true, `"\ud83d\ud83d\ude00"`: true, `{"\udc00": 1}`: true, `"\\\ud800"`: true,
		`"\ud83d\ude00"`: false, `"\ufffd"`: false, "\"\ufffd\"": false, `"\\ud800"`: false, `"\n\u0041"`: false, `""`: false, `"\`: false, `"\u`: false, `"\ud8`: false, `"\ud83d\ude00\\`: false,
	} {
		if got := httpapi.HasLoneSurrogate([]byte(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func TestReadMetadata_RejectsHalfACharacter(t *testing.T) {
	t.Parallel()
	if metadata, err := httpapi.ReadMetadata(`{"a": "\ud800"}`); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v, %v", metadata, err)
	}
}

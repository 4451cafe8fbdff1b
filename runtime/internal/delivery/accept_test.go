package delivery

import (
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/settings"
)

func TestNegotiate_PrefersWhatTheClientNames(t *testing.T) {
	t.Parallel()
	auto := []settings.Format{settings.FormatAVIF, settings.FormatWebP, settings.FormatAuto}
	for accept, want := range map[string]string{
		"":    "auto",
		"*/*": "auto",
		"image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8":                                             "avif webp auto", // Chrome
		"image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5":                                        "avif webp auto", // Firefox
		"image/webp,image/avif,image/jxl,image/heic,image/heic-sequence,video/*;q=0.8,image/png,image/*;q=0.8,*/*;q=0": "avif webp auto", // Safari
		"image/webp,*/*":                                 "webp auto",
		"image/*":                                        "auto",
		"image/avif;q=0.5,image/webp":                    "webp avif auto",
		"image/avif;q=0,image/webp":                      "webp auto",
		"image/avif;q=0.5,*/*;q=0.8":                     "auto avif",
		"image/jpeg,image/webp;q=0.9":                    "auto webp",
		"IMAGE/AVIF ; Q=1.000 , text/plain":              "avif auto",
		"image/avif;q=2,image/webp;q=x":                  "auto",
		"image/avif;q=0.1234":                            "auto",
		"image/avif;level=1;q=0.5":                       "avif auto",
		"image/png;q=0.2,image/*;q=0.9,image/webp;q=0.5": "webp auto",
		"text/html":                                      "auto",
		",,;,=":                                          "auto",
		"image/avif,image/avif":                          "avif auto",
	} {
		var got []string
		for _, format := range negotiate([]string{accept}, auto) {
			got = append(got, string(format))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", accept, got, want)
		}
	}
	if got := negotiate([]string{"text/html", "image/webp"}, auto); got[0] != settings.FormatWebP {
		t.Errorf("two lines: %v", got)
	}
	if got := negotiate([]string{"image/avif"}, []settings.Format{settings.FormatPNG}); !slices.Equal(got, []settings.Format{settings.FormatPNG}) {
		t.Errorf("one format: %v", got)
	}
}

func FuzzNegotiate_AlwaysEndsWithAFormat(f *testing.F) {
	for _, seed := range []string{"*/*", "image/avif,image/webp;q=0.3", "a;q=", ";;,"} {
		f.Add(seed)
	}
	auto := []settings.Format{settings.FormatAVIF, settings.FormatWebP, settings.FormatAuto}
	f.Fuzz(func(t *testing.T, accept string) {
		got := negotiate([]string{accept}, auto)
		if len(got) == 0 || !slices.Contains(got, settings.FormatAuto) {
			t.Fatalf("%q: %v", accept, got)
		}
	})
}

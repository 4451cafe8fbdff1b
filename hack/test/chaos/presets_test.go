package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
)

func TestPreset_HasTheSizeOfItsPicture(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fit                     string
		boxWidth, boxHeight     int
		imageWidth, imageHeight int
		density                 int
		width, height           int
		otherWidth, otherHeight int // of which the picture is not
	}{
		{"inside", 300, 0, 109, 253, 1, 109, 253, 300, 696},
		{"inside", 200, 200, 109, 253, 1, 86, 200, 109, 253},
		{"inside", 200, 200, 600, 400, 2, 400, 267, 200, 133},
		{"cover", 120, 90, 600, 400, 1, 120, 90, 600, 450},
		{"cover", 120, 90, 100, 400, 2, 100, 75, 240, 180},
		{"pad", 64, 64, 600, 10, 2, 128, 128, 64, 64},
	} {
		p, of := preset{Width: c.boxWidth, Height: c.boxHeight, Fit: c.fit}, photo{width: c.imageWidth, height: c.imageHeight}
		if !p.hasSize(c.density, of, c.width, c.height) || p.hasSize(c.density, of, c.otherWidth, c.otherHeight) {
			w, h := p.size(c.density, of)
			t.Errorf("%+v: %g x %g", c, w, h)
		}
	}
}

func TestPicture_OnlyTheOneThatWasAskedFor(t *testing.T) {
	t.Parallel()
	shown, file := drawPhoto(newDraw(1, 1))
	for kind := ""; kind != "image/jpeg"; { // Go decodes it, and a preset has it
		shown, file = drawPhoto(newDraw(uint64(len(file)), 1))
		kind = http.DetectContentType(file)
	}
	other := shown
	other.shade[1] ^= 64
	right := pictureRequest{preset: "extra", density: 1}
	sum := sha256.Sum256(file)
	header := func(pairs ...string) http.Header {
		h := http.Header{"Content-Type": {"image/jpeg"}, "Etag": {`"` + hex.EncodeToString(sum[:]) + `"`}}
		for n := 0; n+1 < len(pairs); n += 2 {
			h.Set(pairs[n], pairs[n+1])
		}
		return h
	}
	broken := file[:len(file)/2]
	brokenSum := sha256.Sum256(broken)
	for name, c := range map[string]struct {
		got     answer
		preset  string
		of      photo
		resized bool
		expects expectation
		want    string
	}{
		"the picture":                         {got: answer{status: 200, body: file, header: header()}},
		"another type":                        {got: answer{status: 200, body: file, header: header("Content-Type", "image/webp")}, want: "not image/jpeg"},
		"another ETag":                        {got: answer{status: 200, body: file, header: header("ETag", `"other"`)}, want: "ETag"},
		"half of it":                          {got: answer{status: 200, body: broken, header: header("ETag", `"`+hex.EncodeToString(brokenSum[:])+`"`)}, want: "no picture"},
		"another size":                        {got: answer{status: 200, body: file, header: header()}, resized: true, want: "of an image of"},
		"that of another image":               {got: answer{status: 200, body: file, header: header()}, of: other, want: "another one"},
		"of a deleted item":                   {got: answer{status: 200, body: file, header: header()}, expects: gone, want: "but is there"},
		"not found, without its preset":       {got: answer{status: 404}, expects: there},
		"not found, and the preset was there": {got: answer{status: 404}, preset: "card", expects: there, want: "is gone"},
		"not found after a delete":            {got: answer{status: 404}, preset: "card", expects: gone},
		"a store that is away":                {got: answer{status: 503}, expects: there},
	} {
		r, of := right, shown
		if c.preset != "" {
			r.preset = c.preset
		}
		if c.of.width > 0 {
			of = c.of
		}
		got := r.judge(t.Context(), t.TempDir(), c.got, c.expects, &item{photo: &of}, func(int, int) bool { return !c.resized })
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

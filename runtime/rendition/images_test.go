package rendition_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// With the workers that serve, on two processes: 100 requests for a cold picture make one job, and the picture is right.
func TestGet_MakesOneJobOfTheImageWorkers(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	for _, w := range all {
		w.useImages(t)
	}
	first := all[0]
	one := first.tenant(t, 10<<20)
	photo := first.sealedBytes(t, one.Principal, photo(t, 800, 600))
	request := rendition.Request{Preset: "small", Recipe: media.Recipe{Width: 200, Height: 200, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatJPEG, Quality: 80}}
	concurrently(100, func(i int) {
		result, err := all[i%2].service.Get(t.Context(), photo, one.owner, request)
		if err != nil || !result.Stored() || result.Width != 200 || result.Height != 150 || result.Object.MimeType != "image/jpeg" {
			t.Errorf("%+v, %v", result, err)
		}
	})
	jobs(t, 1, all...)
	stored, err := first.service.Get(t.Context(), photo, one.owner, request)
	must(t, err)
	body, err := first.Objects.Open(t.Context(), one.owner.Bucket, stored.Object.Key, 0, -1)
	must(t, err)
	defer func() { _ = body.Close() }()
	picture, err := jpeg.Decode(body)
	must(t, err)
	if size := picture.Bounds().Size(); size != image.Pt(200, 150) {
		t.Errorf("the picture has %v", size)
	}
	if red, _, blue, _ := picture.At(10, 75).RGBA(); red < 0xc000 || blue > 0x4000 {
		t.Errorf("the left of the picture is %v", picture.At(10, 75))
	}
	// What is no image costs one attempt at most.
	broken := first.sealedBytes(t, one.Principal, append(photoHeader(t), make([]byte, 3000)...))
	for range 3 {
		if _, err := first.service.Get(t.Context(), broken, one.owner, request); !fault.Is(err, fault.UnsupportedType) {
			t.Errorf("a broken file: %v", err)
		}
	}
	text := first.sealedBytes(t, one.Principal, []byte("a text"))
	if _, err := first.service.Get(t.Context(), text, one.owner, request); !fault.Is(err, fault.UnsupportedType) {
		t.Errorf("a text: %v", err)
	}
	jobs(t, 2, all...)
	first.balanced(t, one)
}

// useImages makes renditions by an image worker of the process.
func (w *world) useImages(t *testing.T) {
	t.Helper()
	w.registry = prometheus.NewRegistry()
	pool := runtimetest.Images(t, w.registry, slog.New(slog.DiscardHandler))
	w.pool, w.service = pool, w.newService(t, pool)
}

// photo returns a JPEG file that is red at its left and blue at its right.
func photo(t *testing.T, width, height int) []byte {
	t.Helper()
	drawn := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			if x < width/2 {
				drawn.Set(x, y, color.RGBA{255, 0, 0, 255})
			} else {
				drawn.Set(x, y, color.RGBA{0, 0, 255, 255})
			}
		}
	}
	var file bytes.Buffer
	must(t, jpeg.Encode(&file, drawn, nil))
	return file.Bytes()
}

// photoHeader returns the beginning of a JPEG file.
func photoHeader(t *testing.T) []byte { t.Helper(); return photo(t, 64, 64)[:100] }

package imaging_test

import (
	"errors"
	"image"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

func TestRender_PicturesThatAreTooLargeAreNotOffered(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	file := imagetest.BlankPNG(2049, 2048, 8, 2, false)
	recipes := []media.Recipe{recipe(2049, 0, settings.Inside, settings.FormatAVIF), recipe(100, 0, settings.Inside, settings.FormatAVIF), recipe(2048, 0, settings.Inside, settings.FormatWebP)}
	pictures, err := pool.Render(t.Context(), renderJob("image/png", file, recipes...))
	must(t, err)
	for i, picture := range pictures {
		offered := recipes[i].Offered(2049, 2048)
		if offered != (i > 0) || offered != (picture.Err == nil) {
			t.Errorf("recipe %d: offered %t, %v", i, offered, picture.Err)
		}
	}
	if err := pictures[0].Err; !errors.Is(err, media.ErrNotOffered) || !fault.Is(err, fault.UnsupportedType) {
		t.Errorf("got %v", err)
	}
	tall := recipe(100, 0, settings.Inside, settings.FormatWebP)
	pictures, err = pool.Render(t.Context(), renderJob("image/png", imagetest.BlankPNG(100, 16384, 8, 2, false), tall))
	if err != nil || !errors.Is(pictures[0].Err, media.ErrNotOffered) || tall.Offered(100, 16384) {
		t.Errorf("a WebP of 16384 pixels: %v, %v", pictures, err)
	}
}

// What is offered can be encoded, and decoded by others. JPEGs of over 65500 pixels failed with another reason, AVIF of over 16384
// was made although most decoders reject it, and of over 65536 was a file without an image.
func TestRender_WhatIsOfferedCanBeDecoded(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	for _, c := range []struct {
		format settings.Format
		side   int // the largest; 0 = there is none
	}{{settings.FormatWebP, 16383}, {settings.FormatAVIF, 16384}, {settings.FormatJPEG, 65500}, {settings.FormatAuto, 65500}, {settings.FormatPNG, 0}} {
		for _, side := range []int{16383, 16384, 16385, 65500, 65501, 65536, 65537, 200_000} {
			tall, wide := recipe(8, 0, settings.Inside, c.format), recipe(0, 8, settings.Inside, c.format)
			for at, r := range map[image.Point]media.Recipe{{X: 8, Y: side}: tall, {X: side, Y: 8}: wide} {
				offered := r.Offered(at.X, at.Y)
				if want := c.side == 0 || side <= c.side; offered != want {
					t.Errorf("%s of %v: offered %t", c.format, at, offered)
				}
				pictures, err := pool.Render(t.Context(), renderJob("image/png", imagetest.BlankPNG(at.X, at.Y, 8, 2, false), r))
				switch {
				case err != nil:
					t.Errorf("%s of %v: %v", c.format, at, err)
				case !offered && !errors.Is(pictures[0].Err, media.ErrNotOffered), offered && pictures[0].Err != nil:
					t.Errorf("%s of %v: offered %t, %v", c.format, at, offered, pictures[0].Err)
				case offered:
					if got := pixels(t, pictures[0]).Rect.Size(); got != at {
						t.Errorf("%s of %v has %v", c.format, at, got)
					}
				}
			}
		}
	}
}

// The largest pictures fit into the memory that a worker has by default.
func TestRender_LargestPicturesFitIntoTheMemory(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	file := imagetest.BlankPNG(9990, 9990, 8, 6, false)
	recipes := []media.Recipe{
		recipe(2048, 2048, settings.Inside, settings.FormatAVIF), recipe(4096, 4096, settings.Cover, settings.FormatWebP),
		recipe(4096, 4096, settings.Pad, settings.FormatJPEG), recipe(4096, 4096, settings.Inside, settings.FormatAuto),
	}
	recipes[1].Focus = settings.Attention
	pictures, err := pool.Render(t.Context(), renderJob("image/png", file, recipes...))
	must(t, err)
	for i, picture := range pictures {
		if picture.Err != nil {
			t.Errorf("recipe %d: %v", i, picture.Err)
		}
	}
}

// A job may have a bound of its own on the bytes of its pictures, which the worker and the runtime check.
func TestRender_BoundsTheBytesOfPictures(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	job := renderJob("image/png", imagetest.PNG(imagetest.Picture(400, 300)), recipe(10, 10, settings.Inside, settings.FormatPNG), recipe(400, 300, settings.Inside, settings.FormatPNG))
	job.MaxBytes = 1000
	pictures, err := pool.Render(t.Context(), job)
	if err != nil || pictures[0].Err != nil || !fault.Is(pictures[1].Err, fault.UnsupportedType) || !strings.Contains(pictures[1].Err.Error(), "too many bytes") {
		t.Errorf("%v, %v", pictures, err)
	}
	lying := renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
	lying.MaxBytes = int64(len(pixel())) - 1
	if _, err := open(t, config(fakeWorker(t, "works"))).Render(t.Context(), lying); !errors.Is(err, media.ErrWorkerFailed) {
		t.Errorf("a worker that sends more: %v", err)
	}
}

// The chart gives a worker less memory than the default.
func TestRender_LargestAVIFFitsIntoTheMemoryOfTheChart(t *testing.T) {
	t.Parallel()
	values, err := os.ReadFile("../../../charts/mediastack/values.yaml")
	must(t, err)
	var memory int64
	for line := range strings.Lines(string(values)) {
		if bytes, found := strings.CutPrefix(strings.TrimSpace(line), "memory: "); found {
			if n, err := strconv.ParseInt(bytes, 10, 64); err == nil {
				memory = n
			}
		}
	}
	if memory < 256<<20 {
		t.Fatalf("the chart gives workers %d bytes", memory)
	}
	cfg := config(realWorker(t))
	cfg.Memory = memory
	pool := open(t, cfg)
	noise := image.NewNRGBA(image.Rect(0, 0, 2048, 2048))
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise.Pix)
	for name, file := range map[string]struct {
		mimeType string
		data     []byte
	}{"noise with transparency": {"image/png", imagetest.PNG(noise)}, "the largest image": {"image/png", imagetest.BlankPNG(9990, 9990, 8, 6, false)}} {
		picture := pool.rendered(file.mimeType, file.data, recipe(2048, 2048, settings.Inside, settings.FormatAVIF))
		if picture.MimeType != "image/avif" || picture.Width*picture.Height != 4<<20 {
			t.Errorf("%s: %s of %d x %d", name, picture.MimeType, picture.Width, picture.Height)
		}
	}
}

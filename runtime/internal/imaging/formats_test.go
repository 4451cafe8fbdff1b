package imaging_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/settings"
)

// withoutModules returns a program that runs the worker with a libvips that has none of its modules:
// HEIC and AVIF are in one of them.
func withoutModules(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker")
	script := fmt.Sprintf("#!/bin/sh\nVIPSHOME=/nonexistent exec %s \"$@\"\n", realWorker(t))
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// A runtime whose libvips could not read HEIC said that it was ready, and HEIC files silently had no
// thumbnail.
func TestNew_NamesFormatsWithoutADecoder(t *testing.T) {
	t.Parallel()
	heic, err := os.ReadFile("vips/samples/sample.heic")
	must(t, err)
	jpeg := imagetest.JPEG(imagetest.Picture(40, 30))

	whole := open(t, config(realWorker(t)))
	if err := whole.Check(); err != nil || strings.Contains(whole.log.String(), "cannot read") {
		t.Errorf("with all modules: %v, log: %s", err, whole.log)
	}
	for _, format := range []string{"jpeg", "png", "gif", "webp", "heic", "avif"} {
		if whole.metric("mediastack_image_format_supported", format) != 1 {
			t.Errorf("with all modules %s is not supported", format)
		}
	}
	if _, made, err := whole.Derive(t.Context(), request("image/heic", heic)); err != nil || len(made) != 1 {
		t.Errorf("with all modules: %d derivatives, %v", len(made), err)
	}

	lacking := open(t, config(withoutModules(t)))
	const want = "libvips cannot read AVIF, HEIC: such images are stored without thumbnail and conversion"
	if err := lacking.Check(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("without modules: %v", err)
	}
	if log := lacking.log.String(); !strings.Contains(log, "level=WARN msg=\""+want) {
		t.Errorf("the log does not name the formats: %s", log)
	}
	if !whole.Encodes(settings.FormatAVIF) || strings.Contains(whole.log.String(), "cannot make AVIF") {
		t.Errorf("with all modules AVIF is not made: %s", whole.log)
	}
	if lacking.Encodes(settings.FormatAVIF) || !lacking.Encodes(settings.FormatWebP) || strings.Count(lacking.log.String(), "libvips cannot make AVIF") != 1 {
		t.Errorf("without modules: AVIF %t, WebP %t, log %s", lacking.Encodes(settings.FormatAVIF), lacking.Encodes(settings.FormatWebP), lacking.log)
	}
	if lacking.metric("mediastack_image_format_supported", "heic") != 0 || lacking.metric("mediastack_image_format_supported", "jpeg") != 1 {
		t.Error("the metric does not say which formats are supported")
	}
	if _, made, err := lacking.Derive(t.Context(), request("image/jpeg", jpeg)); err != nil || len(made) != 2 {
		t.Errorf("without modules JPEG has %d derivatives, %v", len(made), err)
	}
	var rejected *imaging.RejectedError
	if _, _, err := lacking.Derive(t.Context(), request("image/heic", heic)); !errors.As(err, &rejected) || rejected.Reason != "unsupported_format" {
		t.Errorf("without modules HEIC: %v", err)
	}
}

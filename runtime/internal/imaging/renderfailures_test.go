package imaging_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// The failure of an encoder is not the file's.
func TestRender_SaysThatAnotherFormatMaySucceed(t *testing.T) {
	t.Parallel()
	avif, webp := recipe(1, 1, settings.Inside, settings.FormatAVIF), recipe(1, 1, settings.Inside, settings.FormatWebP)
	for name, c := range map[string]struct {
		role    string
		recipes []media.Recipe
		other   bool
		kind    fault.Kind
	}{
		"workers that die of AVIF":    {"crashes", []media.Recipe{avif}, true, fault.Unavailable},
		"workers that die of a file":  {"crashes", []media.Recipe{webp}, false, fault.Unavailable},
		"workers that die of several": {"crashes", []media.Recipe{avif, webp}, false, fault.Unavailable},
		"workers that hang":           {"hangs", []media.Recipe{avif}, false, fault.Unavailable},
		"an encoder that fails":       {"fails-both", []media.Recipe{avif, avif}, true, fault.UnsupportedType},
		"a broken file":               {"rejects", []media.Recipe{avif}, false, fault.UnsupportedType},
	} {
		cfg := config(fakeWorker(t, c.role))
		if c.role == "hangs" {
			cfg.Timeout = time.Second
		}
		pictures, err := open(t, cfg).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), c.recipes...))
		if err == nil {
			err = pictures[0].Err
		}
		if errors.Is(err, media.ErrOtherFormat) != c.other || !fault.Is(err, c.kind) || errors.Is(err, media.ErrWorkerFailed) != (c.kind == fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRender_ErrorKinds(t *testing.T) {
	t.Parallel()
	r := recipe(1, 1, settings.Inside, settings.FormatWebP)
	for role, want := range map[string]fault.Kind{"rejects": fault.UnsupportedType, "crashes": fault.Unavailable, "works": fault.Internal} {
		pictures, err := open(t, config(fakeWorker(t, role))).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), r))
		if (err == nil) != (role == "works") || err != nil && !fault.Is(err, want) {
			t.Errorf("%s: %v, %v", role, pictures, err)
		}
	}
	pictures, err := open(t, config(fakeWorker(t, "crashes-after-the-first"))).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), r, r))
	if err != nil || pictures[0].Err != nil || !fault.Is(pictures[1].Err, fault.Unavailable) {
		t.Errorf("a worker that crashes after the first: %v, %v", pictures, err)
	}
	pictures, err = open(t, config(fakeWorker(t, "fails-the-second"))).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), r, r))
	if err != nil || pictures[0].Err != nil || !fault.Is(pictures[1].Err, fault.UnsupportedType) || errors.Is(pictures[1].Err, media.ErrNotOffered) {
		t.Errorf("a worker that fails the second: %v, %v", pictures, err)
	}
	pool := open(t, config(fakeWorker(t, "works")))
	for name, job := range map[string]media.RenderJob{
		"no recipes":             renderJob("image/jpeg", []byte("ignored")),
		"nine recipes":           renderJob("image/jpeg", []byte("ignored"), r, r, r, r, r, r, r, r, r),
		"no box":                 renderJob("image/jpeg", []byte("ignored"), recipe(0, 0, settings.Inside, settings.FormatPNG)),
		"a wide box":             renderJob("image/jpeg", []byte("ignored"), recipe(1<<14, 1, settings.Inside, settings.FormatPNG)),
		"no fit":                 renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, "", settings.FormatPNG)),
		"no format":              renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Pad, "tiff")),
		"a PNG that must fit":    renderJob("image/jpeg", []byte("ignored"), media.Recipe{Width: 1, Fit: settings.Inside, Format: settings.FormatPNG, MaxBytes: 5000}),
		"a JPEG of a few bytes":  renderJob("image/jpeg", []byte("ignored"), media.Recipe{Width: 1, Fit: settings.Inside, Format: settings.FormatJPEG, MaxBytes: 100}),
		"a bound below no bytes": renderJob("image/jpeg", []byte("ignored"), media.Recipe{Width: 1, Fit: settings.Inside, Format: settings.FormatJPEG, MaxBytes: -1}),
		"another focus":          renderJob("image/jpeg", []byte("ignored"), media.Recipe{Width: 1, Fit: settings.Cover, Focus: "left", Format: settings.FormatPNG}),
	} {
		if _, err := pool.Render(t.Context(), job); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pool.Render(t.Context(), renderJob("application/pdf", []byte("ignored"), r)); !fault.Is(err, fault.UnsupportedType) {
		t.Errorf("a PDF: %v", err)
	}
	away := renderJob("image/jpeg", []byte("ignored"), r)
	away.Source = func(context.Context) (io.ReadCloser, error) { return nil, fault.New(fault.FileLost, "it is gone") }
	if _, err := pool.Render(t.Context(), away); !fault.Is(err, fault.FileLost) {
		t.Errorf("a file that is lost: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pool.Render(gone, renderJob("image/jpeg", []byte("ignored"), r)); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has left: %v", err)
	}
}

// A file on which workers die, or that takes them too long, is told from workers that do not start. What took too long for a
// client that waits is not tried again.
func TestRender_SaysThatTheWorkersFailedOnTheFile(t *testing.T) {
	t.Parallel()
	for role, c := range map[string]struct {
		purpose media.Purpose
		opened  int
	}{"crashes": {media.OnDemand, 2}, "hangs": {media.OnDemand, 1}, "hangs ": {media.Eager, 2}} {
		cfg := config(fakeWorker(t, strings.TrimSpace(role)))
		if role != "crashes" {
			cfg.Timeout = time.Second
		}
		job := renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
		job.Purpose = c.purpose
		opened, source := 0, job.Source
		job.Source = func(ctx context.Context) (io.ReadCloser, error) { opened++; return source(ctx) }
		if _, err := open(t, cfg).Render(t.Context(), job); !errors.Is(err, media.ErrWorkerFailed) || !fault.Is(err, fault.Unavailable) || opened != c.opened {
			t.Errorf("%s: %v, the file was read %d times", role, err, opened)
		}
	}
	pool := open(t, config(fakeWorker(t, "starts-once")))
	if _, err := pool.Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))); errors.Is(err, media.ErrWorkerFailed) || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a worker that does not start: %v", err)
	}
}

// A client that left in the moment in which a worker took its job killed the worker.
func TestRender_EndedWhenItIsTakenKillsNoWorker(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	job := renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
	ctx, cancel := context.WithCancel(t.Context())
	job.Taken = cancel
	if _, err := pool.Render(ctx, job); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "canceled"); n != 0 {
		t.Errorf("%v workers were killed", n)
	}
	job.Taken = nil
	if _, err := pool.Render(t.Context(), job); err != nil {
		t.Errorf("the next job: %v", err)
	}
}

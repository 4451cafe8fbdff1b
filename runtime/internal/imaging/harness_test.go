package imaging_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// harness is a pool with its metrics and its log.
type harness struct {
	*imaging.Pool
	t        testing.TB
	registry *prometheus.Registry
	log      *buffer
}

// buffer is written by the pool while the test reads it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// config returns the default configuration with one worker of a program, and the largest timeout: how long a busy machine needs
// for a job is not what the tests are about, and a worker that hangs ends with the timeout of the tests.
func config(program string) imaging.Config {
	return imaging.Config{
		Enabled: true, WorkerPath: program, Workers: 1, Queue: 8, RenderQueue: 8, Timeout: 10 * time.Minute,
		MaxBytes: 64 << 20, MaxPixels: 100_000_000, MaxFrames: 1000, MaxAnimationPixels: 50_000_000, Memory: 2 << 30,
	}
}

// realWorker returns the path of the program that make has built.
func realWorker(t testing.TB) string { t.Helper(); return testenv.Binary(t, imaging.ProgramName) }

// open returns a pool that is closed at the end of the test.
func open(t testing.TB, cfg imaging.Config) *harness {
	t.Helper()
	b := &harness{t: t, registry: prometheus.NewRegistry(), log: &buffer{}}
	pool, err := imaging.New(t.Context(), cfg, imaging.Deps{Registry: b.registry, Log: slog.New(slog.NewTextHandler(b.log, nil))})
	if err != nil {
		t.Fatalf("%v; log: %s", err, b.log)
	}
	t.Cleanup(pool.Close)
	b.Pool = pool
	return b
}

// metric returns the value of a metric with these label values, 0 if it is missing.
func (b *harness) metric(name string, labels ...string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			matches := len(metric.GetLabel()) == len(labels)
			for i, label := range metric.GetLabel() {
				matches = matches && label.GetValue() == labels[i]
			}
			if matches {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// request returns a job with the usual settings, conversion included.
func request(mimeType string, file []byte) media.ImageJob {
	return media.ImageJob{
		ItemID: uuid.New(), AccountID: uuid.New(), MimeType: mimeType, Bytes: int64(len(file)),
		Source: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil },
		Settings: settings.Effective{
			UseWebP: true, WebPOutputQuality: 80, ThumbnailWidth: 200, ThumbnailHeight: 200,
		},
	}
}

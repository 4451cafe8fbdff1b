package imaging_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

var must = check.NoError

// harness is a pool with its metrics and its log.
type harness struct {
	*imaging.Pool
	t        testing.TB
	registry *prometheus.Registry
	log      *buffer
}

// buffer is written by the pool while the test reads it.
type buffer = check.Buffer

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
	must(b.t, err)
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

// renderJob returns a job on demand.
func renderJob(mimeType string, file []byte, recipes ...media.Recipe) media.RenderJob {
	return media.RenderJob{
		ItemID: uuid.New(), AccountID: uuid.New(), MimeType: mimeType, Bytes: int64(len(file)), Recipes: recipes,
		Source: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil },
	}
}

// recipe returns a recipe with what is usual.
func recipe(width, height int, fit settings.Fit, format settings.Format) media.Recipe {
	return media.Recipe{Width: width, Height: height, Fit: fit, Focus: settings.Centre, Format: format, Quality: format.Spec().DefaultQuality(), Background: [3]byte{255, 255, 255}}
}

// rendered returns the only picture of a recipe.
func (b *harness) rendered(mimeType string, file []byte, r media.Recipe) media.Picture {
	b.t.Helper()
	pictures, err := b.Render(b.t.Context(), renderJob(mimeType, file, r))
	if err != nil || len(pictures) != 1 || pictures[0].Err != nil {
		b.t.Fatalf("%+v: %v, %v; log %s", r, pictures, err, b.log)
	}
	return pictures[0]
}

// pixels decodes a picture with the vips command line, which package imaging does not use.
func pixels(t testing.TB, picture media.Picture) *image.NRGBA {
	t.Helper()
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out.png")
	must(t, os.WriteFile(in, picture.Data, 0o600))
	tool(t, "vips", "copy", in, out)
	file, err := os.ReadFile(out)
	must(t, err)
	decoded, err := png.Decode(bytes.NewReader(file))
	must(t, err)
	if got := decoded.Bounds().Size(); got != image.Pt(picture.Width, picture.Height) {
		t.Errorf("the picture has %v pixels, its result says %d x %d", got, picture.Width, picture.Height)
	}
	plain := image.NewNRGBA(decoded.Bounds())
	for y := range plain.Rect.Dy() {
		for x := range plain.Rect.Dx() {
			plain.Set(x, y, decoded.At(x, y))
		}
	}
	return plain
}

// difference returns the mean and the largest difference of the channels of two pictures; what is transparent has no colour.
func difference(a, b *image.NRGBA) (mean, most float64) {
	if a.Rect != b.Rect {
		return math.Inf(1), math.Inf(1)
	}
	sum := 0.0
	for i := 0; i < len(a.Pix); i += 4 {
		for c := range 4 {
			x, y := float64(a.Pix[i+c]), float64(b.Pix[i+c])
			if c < 3 {
				x, y = x*float64(a.Pix[i+3])/255, y*float64(b.Pix[i+3])/255
			}
			d := math.Abs(x - y)
			sum, most = sum+d, max(most, d)
		}
	}
	return sum / float64(len(a.Pix)), most
}

// golden compares a picture with a stored one. UPDATE_GOLDEN=1 stores it instead.
func golden(t *testing.T, name string, got *image.NRGBA, mean float64) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".png")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		var file bytes.Buffer
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, got), os.WriteFile(path, file.Bytes(), 0o644)))
		return
	}
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	decoded, err := png.Decode(file)
	must(t, err)
	want := image.NewNRGBA(decoded.Bounds())
	for y := range want.Rect.Dy() {
		for x := range want.Rect.Dx() {
			want.Set(x, y, decoded.At(x, y))
		}
	}
	if d, most := difference(got, want); d > mean {
		t.Errorf("%s differs by %.2f, at most %.0f, of 255", name, d, most)
	}
}

// scene is a smooth picture with one bright, detailed spot away from its middle.
func scene() *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, imagetest.Width, imagetest.Height))
	for y := range imagetest.Height {
		for x := range imagetest.Width {
			c := color.NRGBA{uint8(40 + x/6), uint8(60 + y/6), 120, 255}
			if dx, dy := x-480, y-100; dx*dx+dy*dy < 60*60 {
				c = color.NRGBA{250, uint8(90 + 80*((x/8+y/8)%2)), 60, 255}
			}
			picture.SetNRGBA(x, y, c)
		}
	}
	return picture
}

// smallJob returns a job for fake workers, which ignore the file.
func smallJob() media.ImageJob {
	job := request("image/jpeg", []byte("ignored"))
	job.Settings.UseWebP = false
	return job
}

// children returns the processes that run a program.
func children(t testing.TB, program string) []int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var pids []int
	for _, path := range found {
		line, _ := os.ReadFile(path)
		if command, _, _ := bytes.Cut(line, []byte{0}); string(command) == program {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// held is a job whose file can't be read before release is called.
type held struct {
	media.ImageJob
	started chan struct{}
	release func()
}

func hold(account uuid.UUID, begin func()) held {
	h := held{ImageJob: smallJob(), started: make(chan struct{})}
	released := make(chan struct{})
	h.release = sync.OnceFunc(func() { close(released) })
	h.AccountID = account
	var started sync.Once
	source := h.Source
	h.Source = func(ctx context.Context) (io.ReadCloser, error) {
		started.Do(func() {
			if begin != nil {
				begin()
			}
			close(h.started)
		})
		select {
		case <-released:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return source(ctx)
	}
	return h
}

// derived is the result of a job that runs in the background.
type derived struct {
	made []media.Derivative
	err  error
}

func (b *harness) begin(ctx context.Context, job media.ImageJob) <-chan derived {
	done := make(chan derived, 1)
	go func() {
		_, made, err := b.Derive(ctx, job)
		done <- derived{made, err}
	}()
	return done
}

func (b *harness) waiting(n int) {
	b.t.Helper()
	wait.Until(b.t, fmt.Sprintf("%d jobs wait", n), func() bool { return b.metric("mediastack_image_queue_length") == float64(n) })
}

package imaging_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// photo is a file of the benchmark.
type photo struct {
	name, mimeType, extension string
	turned                    bool
	data                      []byte
}

func photos() []photo {
	large, huge := imagetest.Photo(4000, 3000), imagetest.Photo(6000, 4000)
	cut := imagetest.Photo(2560, 1920)
	for y := range 960 {
		for x := range 1280 {
			c := cut.NRGBAAt(x, y)
			cut.SetNRGBA(x, y, color.NRGBA{c.R, c.G, c.B, uint8(x / 5)})
		}
	}
	turned := imagetest.WithEXIF(imagetest.JPEG(imagetest.Stored(image.Image(large), 6)), 6)
	return []photo{
		{"jpeg of 12 MP", "image/jpeg", ".jpg", false, imagetest.JPEG(large)},
		{"jpeg of 24 MP", "image/jpeg", ".jpg", false, imagetest.JPEG(huge)},
		{"png of 5 MP with alpha", "image/png", ".png", false, imagetest.PNG(cut)},
		{"jpeg of 12 MP, turned", "image/jpeg", ".jpg", true, turned},
	}
}

// BenchmarkDerive_AgainstVipsthumbnail makes a thumbnail and a WebP conversion of each photo,
// two at a time on two cores, with the pool and with the vips command line, and
// reports the quotient of the medians: above 1, the pool is faster. Every round runs
// both, so that a drift of the machine's speed affects both; cpu-ratio is the quotient of
// the processor time, which other processes on the machine affect little.
func BenchmarkDerive_AgainstVipsthumbnail(b *testing.B) {
	program := renamedWorker(b)
	cfg := config(program)
	cfg.Workers = 2
	pool := open(b, cfg)
	folder := b.TempDir()
	for _, p := range photos() {
		path := filepath.Join(folder, "in"+p.extension)
		if err := os.WriteFile(path, p.data, 0o600); err != nil {
			b.Fatal(err)
		}
		ours := func(context.Context, string) error {
			job := request(p.mimeType, p.data)
			job.Source = func(context.Context) (io.ReadCloser, error) { return os.Open(path) }
			job.Settings = settings.Effective{UseWebP: true, WebPOutputQuality: 80, ThumbnailWidth: 320, ThumbnailHeight: 320}
			_, made, err := pool.Derive(b.Context(), job)
			if err == nil && (len(made) != 2 || made[1].Variant != media.WebP) {
				err = fmt.Errorf("%d derivatives", len(made))
			}
			return err
		}
		convert := []string{"webpsave"}
		if p.turned {
			convert = []string{"autorot"}
		}
		var spent atomic.Int64 // nanoseconds of processor time of the command line
		theirs := func(ctx context.Context, to string) error {
			thumbnail := exec.CommandContext(ctx, "vipsthumbnail", path, "--size", "320x320>", "-o", to+"-t.webp[Q=80,strip]")
			conversion := exec.CommandContext(ctx, "vips", append(convert, path, to+"-c.webp[Q=80,strip]")...)
			if !p.turned {
				conversion = exec.CommandContext(ctx, "vips", append(convert, path, to+"-c.webp", "--Q", "80", "--strip")...)
			}
			for _, cmd := range []*exec.Cmd{thumbnail, conversion} {
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
				}
				spent.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
			}
			return nil
		}
		b.Run(p.name, func(b *testing.B) { compare(b, program, folder, ours, theirs, &spent) })
	}
}

// BenchmarkRender_AgainstVipsthumbnail makes one picture of 640 pixels of a JPEG, in each format, as the benchmark of
// derivatives does.
func BenchmarkRender_AgainstVipsthumbnail(b *testing.B) {
	program := renamedWorker(b)
	cfg := config(program)
	cfg.Workers = 2
	pool := open(b, cfg)
	folder := b.TempDir()
	photo := photos()[0]
	path := filepath.Join(folder, "in"+photo.extension)
	if err := os.WriteFile(path, photo.data, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		format settings.Format
		output string
	}{
		{settings.FormatWebP, "webp[Q=80,strip]"}, {settings.FormatAVIF, "avif[Q=55,effort=2,bitdepth=8,strip]"}, {settings.FormatJPEG, "jpg[Q=80,optimize_coding,strip]"},
	} {
		ours := func(context.Context, string) error {
			job := renderJob(photo.mimeType, photo.data, recipe(640, 0, settings.Inside, c.format))
			job.Source = func(context.Context) (io.ReadCloser, error) { return os.Open(path) }
			pictures, err := pool.Render(b.Context(), job)
			if err == nil {
				err = pictures[0].Err
			}
			return err
		}
		var spent atomic.Int64
		theirs := func(ctx context.Context, to string) error {
			cmd := exec.CommandContext(ctx, "vipsthumbnail", path, "--size", "640x>", "-o", to+"."+c.output)
			cmd.Env = append(os.Environ(), "VIPS_CONCURRENCY=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
			}
			spent.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
			return nil
		}
		b.Run(string(c.format)+" of a "+photo.name, func(b *testing.B) { compare(b, program, folder, ours, theirs, &spent) })
	}
}

// compare runs both sides in every round and reports the quotients. spent is the processor time of the command line, in
// nanoseconds.
func compare(b *testing.B, program, folder string, ours, theirs func(ctx context.Context, to string) error, spent *atomic.Int64) {
	b.Helper()
	var own, other []time.Duration
	var worked time.Duration
	spent.Store(0)
	for b.Loop() {
		before := processorTime(b, program)
		own = append(own, twice(b, folder, ours))
		worked += processorTime(b, program) - before
		other = append(other, twice(b, folder, theirs))
	}
	slices.Sort(own)
	slices.Sort(other)
	mine, reference := own[len(own)/2], other[len(other)/2]
	b.ReportMetric(float64(mine.Milliseconds()), "ms/2files")
	b.ReportMetric(float64(reference.Milliseconds()), "cli-ms/2files")
	b.ReportMetric(float64(reference)/float64(mine), "ratio")
	b.ReportMetric(float64(spent.Load())/float64(worked), "cpu-ratio")
	b.ReportMetric(float64(worked.Milliseconds())/float64(len(own)), "cpu-ms/2files")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns what the running workers of a program have used.
func processorTime(b *testing.B, program string) time.Duration {
	b.Helper()
	const tick = 10 * time.Millisecond
	var total time.Duration
	for _, pid := range children(b, program) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))
		for _, field := range fields[12:14] { // user and system time
			n, _ := strconv.Atoi(field)
			total += time.Duration(n) * tick
		}
	}
	return total
}

// twice runs work two times concurrently and returns the time until both have ended.
func twice(b *testing.B, folder string, work func(ctx context.Context, to string) error) time.Duration {
	b.Helper()
	start := time.Now()
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			if err := work(b.Context(), filepath.Join(folder, fmt.Sprint("out", i))); err != nil {
				b.Error(err)
			}
		})
	}
	both.Wait()
	return time.Since(start)
}

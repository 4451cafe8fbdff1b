package imaging_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
)

func TestDerive_RetriesOnceOnAnotherWorker(t *testing.T) {
	t.Parallel()
	for role, why := range map[string]string{
		"crashes":                        "exit status 3",
		"hangs":                          "timed out",
		"does-not-read":                  "timed out",
		"closes-its-output":              "EOF",
		"writes-garbage":                 "protocol",
		"writes-forever":                 "unexpected Data",
		"announces-a-terabyte":           "more than",
		"answers-another-job":            "not requested",
		"sends-an-unrequested-picture":   "not requested",
		"sends-another-format":           "encoding 4 instead of 1",
		"sends-no-webp":                  "not a valid WebP",
		"announces-another-size":         "not that of its header",
		"sends-a-large-thumbnail":        "a thumbnail of 256",
		"sends-more-than-announced":      "unexpected Data in a picture",
		"sends-it-twice":                 "not requested",
		"is-done-without-pictures":       "unexpected Done",
		"rejects-another-job":            "unexpected Rejected",
		"sends-no-facts":                 "instead of Facts",
		"sends-facts-of-another-job":     "facts of another job",
		"sends-facts-over-the-limit":     "an image of 2147483648 x 2147483648",
		"sends-facts-twice":              "unexpected Facts",
		"sends-a-capture-twice":          "unexpected Capture",
		"sends-a-capture-late":           "unexpected Capture",
		"sends-a-capture-of-another-job": "a capture of another job",
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			program := fakeWorker(t, role)
			cfg := config(program)
			if why == "timed out" {
				cfg.Timeout = time.Second
			}
			pool := open(t, cfg)
			job := smallJob()
			if role == "does-not-read" {
				job = request("image/jpeg", make([]byte, 4<<20)) // more than a pipe holds
			}
			opened := 0
			source := job.Source
			job.Source = func(ctx context.Context) (io.ReadCloser, error) { opened++; return source(ctx) }
			_, derivatives, err := pool.Derive(t.Context(), job)
			if !errors.Is(err, imaging.ErrWorker) || !strings.Contains(err.Error(), why) || derivatives != nil {
				t.Errorf("got %d derivatives, %v; want %q", len(derivatives), err, why)
			}
			if opened != 2 {
				t.Errorf("the file was read %d times", opened)
			}
			if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 2 {
				t.Errorf("%g workers ended", n)
			}
			if strings.Contains(pool.log.String(), "<script>") || !strings.Contains(pool.log.String(), job.ItemID.String()) {
				t.Errorf("the log must name the item and hold nothing of it: %s", pool.log)
			}
			if left := children(t, program); len(left) != 0 {
				t.Errorf("worker %v still runs", left)
			}
		})
	}
}

func TestDerive_SucceedsOnTheSecondWorker(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"crashes-once", "hangs-once"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			cfg := config(fakeWorker(t, role))
			maximum := cfg.Timeout
			if role == "hangs-once" {
				cfg.Timeout = time.Second
			}
			pool, job := open(t, cfg), smallJob()
			source := job.Source
			job.Source = func(ctx context.Context) (io.ReadCloser, error) {
				pool.SetTimeout(maximum) // of the second worker: it is not the one that hangs
				return source(ctx)
			}
			_, derivatives, err := pool.Derive(t.Context(), job)
			if err != nil || len(derivatives) != 1 || derivatives[0].Variant != media.Thumbnail {
				t.Errorf("got %d derivatives, %v", len(derivatives), err)
			}
			if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 1 {
				t.Errorf("%g workers failed", n)
			}
		})
	}
}

func TestDerive_DoesNotRetryARejection(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "rejects")))
	_, _, err := pool.Derive(t.Context(), smallJob())
	var no *imaging.RejectedError
	if !errors.As(err, &no) || no.Reason != "corrupt" || no.Text != "it is ?[31mbroken?" {
		t.Errorf("got %v", err)
	}
	if n := pool.metric("mediastack_image_jobs_total", "corrupt"); n != 1 {
		t.Errorf("counted %g", n)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 0 {
		t.Errorf("%g workers failed", n)
	}
}

func TestDerive_StripsMetadataOfACompromisedWorker(t *testing.T) {
	t.Parallel()
	_, derivatives, err := open(t, config(fakeWorker(t, "adds-metadata"))).Derive(t.Context(), smallJob())
	if err != nil || len(derivatives) != 1 || !bytes.Equal(derivatives[0].Data, pixel()) {
		t.Errorf("got %q, %v", derivatives, err)
	}
}

func TestDerive_OutputAfterDoneFailsNoOtherJob(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "writes-after-done")))
	for range 5 {
		if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
			t.Error(err)
		}
	}
}

func TestDerive_BoundsAndSanitizesLoggedStderr(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "writes-to-stderr")))
	if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
		t.Error(err)
	}
	if said := pool.log.String(); len(said) > 20_000 || strings.Contains(said, "\x1b") || strings.Contains(said, `\x1b`) {
		t.Errorf("the log has %d bytes: %.300s", len(said), said)
	}
}

var errStore = errors.New("the object store is away")

func TestDerive_SourceErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	program := renamedWorker(t)
	pool := open(t, config(program))
	worker := children(t, program)
	file := imagetest.JPEG(imagetest.Picture(600, 400))
	read := func(r io.Reader, err error) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(r), err }
	}
	for name, source := range map[string]func(context.Context) (io.ReadCloser, error){
		"it can't be opened":          read(nil, errStore),
		"it breaks off":               read(io.MultiReader(bytes.NewReader(file[:1000]), failing{}), nil),
		"it is shorter than was said": read(bytes.NewReader(file[:1000]), nil),
		"it is longer than was said":  read(bytes.NewReader(append(file[:len(file):len(file)], 0)), nil),
	} {
		job := request("image/jpeg", file)
		job.Source = source
		if _, _, err := pool.Derive(t.Context(), job); !errors.Is(err, imaging.ErrSource) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := pool.Derive(t.Context(), request("image/jpeg", file)); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	if after := children(t, program); !slices.Equal(worker, after) {
		t.Errorf("the worker was replaced: %v, %v", worker, after)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errStore }

func TestDerive_SurvivesKilledWorkers(t *testing.T) {
	t.Parallel()
	program := renamedWorker(t)
	cfg := config(program)
	cfg.Workers = 2
	pool := open(t, cfg)
	file := imagetest.JPEG(imagetest.Picture(600, 400))
	// The first read blocks in the middle of the file until its worker is dead.
	half, killed := make(chan struct{}), make(chan struct{})
	job := request("image/jpeg", file)
	opened := 0
	job.Source = func(context.Context) (io.ReadCloser, error) {
		if opened++; opened > 1 {
			return io.NopCloser(bytes.NewReader(file)), nil
		}
		return io.NopCloser(io.MultiReader(bytes.NewReader(file[:len(file)/2]), &gate{half, killed}, bytes.NewReader(file[len(file)/2:]))), nil
	}
	done := pool.begin(t.Context(), job)
	<-half
	// The one running worker has the job: the second starts with its first job.
	victims := children(t, program)
	if len(victims) == 0 {
		t.Fatal("no worker runs")
	}
	other := pool.begin(t.Context(), request("image/jpeg", file))
	if d := <-other; d.err != nil {
		t.Errorf("the other job: %v", d.err)
	}
	for _, pid := range victims {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		wait.Until(t, "the worker is dead", func() bool { return !slices.Contains(children(t, program), pid) })
	}
	close(killed)
	if d := <-done; d.err != nil || len(d.made) != 2 {
		t.Errorf("got %d derivatives, %v", len(d.made), d.err)
	}
	if opened != 2 {
		t.Errorf("the file was read %d times", opened)
	}
}

// gate is a reader that closes reached at its first read, and blocks until opened is closed.
type gate struct{ reached, opened chan struct{} }

func (g *gate) Read([]byte) (int, error) {
	close(g.reached)
	<-g.opened
	return 0, io.EOF
}

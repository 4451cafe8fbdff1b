package imaging_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
)

func TestNew_FailsIfTheWorkerCannotStart(t *testing.T) {
	t.Parallel()
	notAProgram := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(notAProgram, nil, 0o600))
	for program, want := range map[string]string{
		fakeWorker(t, "fails-to-start"):          "exit status 7",
		fakeWorker(t, "other-version"):           "another build",
		fakeWorker(t, "handshakes-with-garbage"): "handshake of the image worker",
		"/nowhere/mediastack-imaging":            "SERVICE_IMAGE_WORKER_PATH: ",
		notAProgram:                              "permission denied",
		"":                                       "SERVICE_IMAGE_ENABLED",
	} {
		_, err := imaging.New(t.Context(), config(program), imaging.Deps{Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
}

func TestNew_RetriesAWorkerThatIsKilled(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "is-killed-once")))
	if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
		t.Error(err)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "start_failed"); n != 1 {
		t.Errorf("%g starts failed, want 1", n)
	}
}

func TestDerive_RestartsWorkersThatFailToStart(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "starts-once")
	pool := open(t, config(program))
	for range 2 {
		if _, _, err := pool.Derive(t.Context(), smallJob()); !errors.Is(err, imaging.ErrWorker) {
			t.Errorf("got %v", err)
		}
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "start_failed"); n != 3 {
		t.Errorf("%g starts failed, want 3: the retry of the first job and both tries of the second", n)
	}
	// The installation is repaired.
	must(t, errors.Join(os.Remove(program), os.Symlink(realWorker(t), program)))
	if _, _, err := pool.Derive(t.Context(), request("image/jpeg", imagetest.JPEG(imagetest.Picture(8, 8)))); err != nil {
		t.Error(err)
	}
}

func TestPool_HandlesNothingIfDisabled(t *testing.T) {
	t.Parallel()
	pool := open(t, imaging.Config{})
	if pool.Handles("image/jpeg", 1) || pool.CheckAdmission(uuid.New()) != nil {
		t.Error("a disabled pool handles files, or rejects uploads")
	}
	if _, derivatives, err := pool.Derive(t.Context(), smallJob()); err == nil || derivatives != nil {
		t.Errorf("got %v, %v", derivatives, err)
	}
}

func TestHandles_ByTypeAndSize(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	for _, c := range []struct {
		mimeType string
		bytes    int64
		want     bool
	}{
		{"image/jpeg", 1, true}, {"image/png", 64 << 20, true}, {"image/gif", 5, true}, {"image/webp", 5, true}, {"image/heic", 5, true},
		{"image/avif", 5, true}, {"image/vnd.mozilla.apng", 5, true},
		{"image/jpeg", 0, false}, {"image/jpeg", 64<<20 + 1, false}, {"image/svg+xml", 5, false}, {"application/pdf", 5, false}, {"image/tiff", 5, false}, {"", 5, false},
	} {
		if got := pool.Handles(c.mimeType, c.bytes); got != c.want {
			t.Errorf("Handles(%q, %d) = %t", c.mimeType, c.bytes, got)
		}
	}
}

type closing struct {
	io.Reader
	closed chan struct{}
}

func (c *closing) Close() error { close(c.closed); return nil }

func TestClose_EndsJobsAndWorkers(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "works")
	cfg := config(program)
	cfg.Workers = 2
	pool := open(t, cfg)
	pool.SetCloseGrace(time.Hour)
	blockers := []held{hold(uuid.New(), nil), hold(uuid.New(), nil)}
	running := []<-chan derived{pool.begin(t.Context(), blockers[0].ImageJob), pool.begin(t.Context(), blockers[1].ImageJob)}
	<-blockers[0].started
	<-blockers[1].started
	waiting := pool.begin(t.Context(), smallJob())
	pool.waiting(1)
	if n := len(children(t, program)); n != 2 {
		t.Errorf("%d workers", n)
	}
	closed := make(chan struct{})
	go func() { pool.Close(); close(closed) }()
	if d := <-waiting; !errors.Is(d.err, imaging.ErrClosed) {
		t.Errorf("the job that waited: %v", d.err)
	}
	blockers[0].release() // this one ends in time, the other does not
	if d := <-running[0]; d.err != nil || len(d.made) != 1 {
		t.Errorf("the job that ran: %v", d.err)
	}
	pool.EndCloseGrace()
	if d := <-running[1]; !errors.Is(d.err, imaging.ErrClosed) {
		t.Errorf("the job that hung: %v", d.err)
	}
	<-closed
	if left := children(t, program); len(left) != 0 {
		t.Errorf("worker %v still runs", left)
	}
	if _, _, err := pool.Derive(t.Context(), smallJob()); !errors.Is(err, imaging.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestClose_KillsWorkersAfterAGrace(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	pool.SetCloseGrace(time.Millisecond)
	hanging := hold(uuid.New(), nil)
	running := pool.begin(t.Context(), hanging.ImageJob)
	<-hanging.started
	pool.Close()
	if d := <-running; !errors.Is(d.err, imaging.ErrClosed) {
		t.Errorf("the job that hung: %v", d.err)
	}
}

func TestPool_RecyclesWorkers(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "works")
	pool := open(t, config(program))
	first := children(t, program)
	for range 301 {
		if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
			t.Fatal(err)
		}
	}
	if second := children(t, program); len(second) != 1 || slices.Equal(first, second) {
		t.Errorf("worker %v was not recycled: %v", first, second)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "recycled"); n != 1 {
		t.Errorf("%g workers were recycled", n)
	}
}

func TestDerive_BoundsWorkerMemory(t *testing.T) {
	t.Parallel()
	cfg := config(realWorker(t))
	cfg.Memory = 256 << 20
	pool := open(t, cfg)
	// An interlaced image needs all of its 288 MB in memory.
	_, _, err := pool.Derive(t.Context(), request("image/png", imagetest.BlankPNG(6000, 6000, 16, 6, true)))
	var no *imaging.RejectedError
	if !errors.As(err, &no) || no.Reason != "out_of_memory" {
		t.Errorf("got %v; log %s", err, pool.log)
	}
	if _, derivatives, err := pool.Derive(t.Context(), request("image/png", imagetest.PNG(imagetest.Picture(600, 400)))); err != nil || len(derivatives) != 2 {
		t.Errorf("the next job: %d derivatives, %v", len(derivatives), err)
	}
}

func TestWorker_IsSandboxedWithoutEnvironment(t *testing.T) {
	t.Setenv("SERVICE_SECRET", "this must not get out")
	program := renamedWorker(t)
	pool := open(t, config(program))
	if !strings.Contains(pool.log.String(), "sandboxed=true") {
		t.Errorf("the log says: %s", pool.log)
	}
	pids := children(t, program)
	if len(pids) != 1 {
		t.Fatalf("workers: %v", pids)
	}
	proc := func(name string) string {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pids[0], name))
		if err != nil && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		return string(content)
	}
	if environ := proc("environ"); strings.Contains(environ, "SERVICE_") || strings.Contains(environ, "PATH=") {
		t.Errorf("its environment is %q", environ)
	}
	status := proc("status")
	for _, want := range []string{"Seccomp:\t2", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("its status lacks %q", want)
		}
	}
	for what, want := range map[string]string{"Max core file size": "0", "Max file size": "0", "Max open files": "16"} {
		if limits := proc("limits"); !strings.Contains(strings.Join(strings.Fields(limits), " "), what+" "+want+" "+want+" ") {
			t.Errorf("%s is not %s: %s", what, want, limits)
		}
	}
}

func TestConfigValidate_RejectsInvalidBounds(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*imaging.Config){
		"SERVICE_IMAGE_WORKERS":              func(c *imaging.Config) { c.Workers = -1 },
		"SERVICE_IMAGE_QUEUE":                func(c *imaging.Config) { c.Queue = 0 },
		"SERVICE_IMAGE_RENDER_QUEUE":         func(c *imaging.Config) { c.RenderQueue = -1 },
		"SERVICE_IMAGE_MAX_ANIMATION_PIXELS": func(c *imaging.Config) { c.MaxAnimationPixels = -1 },
		"SERVICE_IMAGE_TIMEOUT":              func(c *imaging.Config) { c.Timeout = time.Millisecond },
		"SERVICE_IMAGE_MAX_BYTES":            func(c *imaging.Config) { c.MaxBytes = 1 << 40 },
		"SERVICE_IMAGE_MAX_PIXELS":           func(c *imaging.Config) { c.MaxPixels = 0 },
		"SERVICE_IMAGE_MAX_FRAMES":           func(c *imaging.Config) { c.MaxFrames = 0 },
		"SERVICE_IMAGE_MEMORY":               func(c *imaging.Config) { c.Memory = 1 },
	} {
		cfg := config("")
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), want+" must ") {
			t.Errorf("%s: %v", want, err)
		}
		cfg.Enabled = false
		if err := cfg.Validate(); err != nil {
			t.Errorf("other values of a disabled pool must not matter: %v", err)
		}
	}
}
